//! Values with a unit, as they are typed.

use std::time::Duration;

/// Longest time that is taken.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// A time such as `500ms`, `1.5s` or `2m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let parsed = text.parse::<jiff::SignedDuration>().ok();
    match parsed.and_then(|duration| Duration::try_from(duration).ok()) {
        Some(duration) if duration <= LONGEST => Ok(duration),
        _ => Err("a time with its unit, such as 500ms, 1.5s or 2m, at most 24h".to_owned()),
    }
}

/// A share between 0 and 1.
pub(crate) fn ratio(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(ratio) if (0.0..=1.0).contains(&ratio) => Ok(ratio),
        _ => Err("a share between 0 and 1".to_owned()),
    }
}

/// A number of seconds for something that runs for a while.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 3600.0 => Ok(seconds),
        _ => Err("a number of seconds above 0, at most 3600".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_needs_its_unit() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("0s"), Ok(Duration::ZERO));
        for wrong in ["5", "", "-1s", "25h", "fast"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_share_is_no_percentage() {
        assert_eq!(ratio("0.25"), Ok(0.25));
        for wrong in ["25", "-0.1", "NaN", "1 %"] {
            assert!(ratio(wrong).is_err(), "{wrong}");
        }
    }
}
