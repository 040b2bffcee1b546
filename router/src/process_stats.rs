//! Counters of the process side: what happens before a request exists.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`.
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The present value.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters.
#[derive(Debug, Default)]
pub(crate) struct ProcessStats {
    /// `accept` failed.
    pub(crate) accept_errors: Counter,
    /// What is said of that.
    accept_log: Throttle,
    /// TLS handshakes that did not end in a connection.
    pub(crate) handshakes_failed: Counter,
    /// Listeners that could not be bound, each attempt.
    pub(crate) bind_errors: Counter,
}

impl ProcessStats {
    /// Counts a failure to accept, and says that there are some.
    pub(crate) fn accept_failed(&self, error: &io::Error, listener: &str) {
        self.accept_errors.add(1);
        if let Some(more) = self.accept_log.pass() {
            tracing::warn!(%error, listener, more, "accept failed; going on");
        }
    }
}

/// Lets through one message per [`Throttle::INTERVAL`], whoever asks: under a flood of failures a log says that they
/// happen, the counter how many.
#[derive(Debug)]
struct Throttle {
    begun: Instant,
    /// In milliseconds since `begun`; 0: nothing was let through yet.
    next: AtomicU64,
    held_back: AtomicU64,
}

impl Throttle {
    /// Shortest time between two messages.
    const INTERVAL: Duration = Duration::from_secs(10);

    /// Whether this message may pass; then, how many were held back since the last one that did.
    fn pass(&self) -> Option<u64> {
        self.pass_at(self.begun.elapsed())
    }

    fn pass_at(&self, now: Duration) -> Option<u64> {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let (next, now) = (self.next.load(Ordering::Relaxed), millis(now));
        // Of several that ask at one moment one passes.
        let passes = now >= next
            && self
                .next
                .compare_exchange(
                    next,
                    now + millis(Throttle::INTERVAL),
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                )
                .is_ok();
        if passes {
            return Some(self.held_back.swap(0, Ordering::Relaxed));
        }
        self.held_back.fetch_add(1, Ordering::Relaxed);
        None
    }
}

impl Default for Throttle {
    fn default() -> Throttle {
        Throttle {
            begun: Instant::now(),
            next: AtomicU64::new(0),
            held_back: AtomicU64::new(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_passes_per_interval_and_says_how_many_were_held_back() {
        let throttle = Throttle::default();
        let start = Duration::from_millis(3);
        assert_eq!(throttle.pass_at(start), Some(0));
        for _ in 0..5 {
            assert_eq!(throttle.pass_at(start + Throttle::INTERVAL / 2), None);
        }
        assert_eq!(throttle.pass_at(start + Throttle::INTERVAL), Some(5));
        assert_eq!(throttle.pass_at(start + Throttle::INTERVAL), None);
    }
}
