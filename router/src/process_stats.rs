//! Counters of the process side: what happens before a request exists.

use std::sync::atomic::{AtomicU64, Ordering};

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
    /// TLS handshakes that did not end in a connection.
    pub(crate) handshakes_failed: Counter,
    /// Listeners that could not be bound, each attempt.
    pub(crate) bind_errors: Counter,
}
