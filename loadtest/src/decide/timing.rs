//! Timing of single decisions.
//!
//! Each decision stands between two reads of the monotonic clock. What the reads themselves take is measured first
//! (the median of many empty pairs) and subtracted from every sample; a sample below it counts as 0. The clock is
//! the system's: reading the processor's counter directly would need its own calibration on every machine.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::Result;
use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::Serialize;

/// Longest time told apart, in nanoseconds.
const LONGEST_NS: u64 = 10_000_000_000;

/// Percentiles of what was timed.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Percentiles {
    /// Half of the decisions took at most this.
    pub(crate) p50_ns: u64,
    /// 99 % took at most this.
    pub(crate) p99_ns: u64,
    /// 99.9 % took at most this.
    pub(crate) p999_ns: u64,
    /// The longest.
    pub(crate) max_ns: u64,
    /// How many decisions were timed.
    pub(crate) decisions: u64,
    /// The clock's own cost, already subtracted.
    pub(crate) clock_ns: u64,
}

/// Times `step(0)`, `step(1)` ... for as long as given; `prepare` runs before each, untimed.
pub(crate) fn time(
    seconds: f64,
    prepare: impl Fn(usize),
    mut step: impl FnMut(usize),
) -> Result<Percentiles> {
    let clock_ns = clock_cost()?;
    let mut histogram = Histogram::<u64>::new_with_bounds(1, LONGEST_NS, 3)?;
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let mut at = 0;
    loop {
        prepare(at);
        let before = Instant::now();
        step(at);
        let after = Instant::now();
        histogram.saturating_record(nanos(after - before).saturating_sub(clock_ns));
        at = at.wrapping_add(1);
        if after >= end {
            break;
        }
    }
    Ok(Percentiles {
        p50_ns: histogram.value_at_quantile(0.5),
        p99_ns: histogram.value_at_quantile(0.99),
        p999_ns: histogram.value_at_quantile(0.999),
        max_ns: histogram.max(),
        decisions: histogram.len(),
        clock_ns,
    })
}

/// What it took in whole and broken milliseconds.
pub(crate) fn millis(taken: Duration) -> f64 {
    taken.as_secs_f64() * 1e3
}

fn clock_cost() -> Result<u64> {
    let mut histogram = Histogram::<u64>::new_with_bounds(1, LONGEST_NS, 3)?;
    for _ in 0..100_000 {
        let before = Instant::now();
        let after = black_box(Instant::now());
        histogram.saturating_record(nanos(after - before));
    }
    Ok(histogram.value_at_quantile(0.5))
}

fn nanos(taken: Duration) -> u64 {
    u64::try_from(taken.as_nanos()).unwrap_or(u64::MAX)
}
