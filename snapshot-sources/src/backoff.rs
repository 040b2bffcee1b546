//! How long to wait before the next try.
//!
//! # Decisions
//! - **Full jitter**: each pause is drawn evenly from zero to a ceiling that doubles. 200 routers that lose one
//!   control plane at one moment come back spread over the ceiling, from the first try on.
//! - **A stream must have lived** for [`STEADY`] before the ceiling falls back: a server that accepts and at once ends
//!   every stream is not to be asked at full speed for ever.
//! - **The draw is an argument**, so that a test can replay it.

use std::time::Duration;

/// The first ceiling.
pub const FIRST: Duration = Duration::from_secs(2);

/// The highest ceiling.
pub const CAP: Duration = Duration::from_secs(30);

/// A stream that lived this long is taken for a good one.
pub const STEADY: Duration = Duration::from_secs(60);

/// Counts tries.
#[derive(Debug, Clone, Default)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The pause before the next try, by a number drawn evenly from all.
    pub fn next(&mut self, draw: u64) -> Duration {
        let ceiling = FIRST.saturating_mul(1 << self.failures.min(16)).min(CAP);
        self.failures = self.failures.saturating_add(1);
        // The upper half of the product: draw / 2^64 of the ceiling.
        let nanos = (ceiling.as_nanos() * u128::from(draw)) >> 64;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// A stream ended that had lived so long.
    pub fn ended(&mut self, lived: Duration) {
        if lived >= STEADY {
            self.failures = 0;
        }
    }

    /// Nothing will be different soon: the next pauses are drawn below the highest ceiling.
    pub fn is_hopeless(&mut self) {
        self.failures = self.failures.max(16);
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    #[test]
    fn ceilings_double_up_to_the_cap() {
        let mut backoff = Backoff::default();
        let seconds: Vec<u64> = (0..7)
            .map(|_| backoff.next(u64::MAX).as_millis().div_ceil(1000) as u64)
            .collect();
        assert_eq!(seconds, [2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(Backoff::default().next(0), Duration::ZERO);
        backoff.failures = u32::MAX;
        assert!(backoff.next(u64::MAX) <= CAP);
    }

    #[test]
    fn only_a_stream_that_lived_brings_short_pauses_back() {
        let mut backoff = Backoff::default();
        for _ in 0..4 {
            backoff.next(0);
        }
        backoff.ended(STEADY - Duration::from_millis(1));
        assert!(backoff.next(u64::MAX) > Duration::from_secs(29));
        backoff.ended(STEADY);
        assert!(backoff.next(u64::MAX) <= FIRST);
    }

    /// C25, K5: 200 routers lose one control plane at one moment.
    #[test]
    fn two_hundred_routers_come_back_spread_out() {
        let mut random = SmallRng::seed_from_u64(25);
        let mut routers = vec![(Backoff::default(), Duration::ZERO); 200];
        for round in 0..6 {
            let ceiling = FIRST.saturating_mul(1 << round).min(CAP);
            let pauses: Vec<Duration> = routers
                .iter_mut()
                .map(|(backoff, _)| backoff.next(random.random()))
                .collect();
            // No twentieth of the time sees more than three times its share.
            let mut share = [0_u32; 20];
            for pause in &pauses {
                share[(pause.as_nanos() * 20 / ceiling.as_nanos()).min(19) as usize] += 1;
            }
            assert!(share.iter().all(|count| *count <= 30), "{share:?}");
            // Nor do those that fail again and again drift into step: what counts is when they come, not how long
            // they waited last.
            for ((_, at), pause) in routers.iter_mut().zip(pauses) {
                *at += pause;
            }
            let mut moments: Vec<Duration> = routers.iter().map(|(_, at)| *at).collect();
            moments.sort();
            let window = Duration::from_millis(100);
            let busiest = moments.iter().map(|from| {
                moments
                    .iter()
                    .filter(|at| **at >= *from && **at < *from + window)
                    .count()
            });
            assert!(busiest.max().unwrap() <= 30, "round {round}");
        }
    }
}
