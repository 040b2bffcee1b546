//! Endpoints and the connections to them.
//!
//! - [`Endpoints`]: state that all workers share and that outlives a snapshot.
//! - [`pool`]: one worker's idle connections.
//! - [`connect`]: new connections.
//! - [`tls`]: TLS to backends.

pub mod connect;
pub mod pool;
pub mod tls;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use routed_snapshot::index::{BackendEntry, EndpointEntry};

/// State of endpoints that outlives a snapshot: the turn of each backend, and TLS settings ready to use.
#[derive(Debug, Default)]
pub struct Endpoints {
    turns: Mutex<HashMap<Box<str>, Arc<AtomicU64>>>,
    /// TLS settings by what they are made of.
    pub tls: tls::Configs,
}

impl Endpoints {
    /// The endpoints of a backend in the order to try them: the one whose turn it is, then the others behind it.
    pub fn in_turn<'a>(
        &self,
        backend: &'a BackendEntry,
    ) -> impl Iterator<Item = &'a EndpointEntry> + use<'a> {
        let endpoints = &*backend.endpoints;
        let first = match endpoints.len() {
            0 | 1 => 0,
            _ => pick(endpoints, self.turn(&backend.name).fetch_add(1, Relaxed)),
        };
        let (before, from) = endpoints.split_at(first.min(endpoints.len()));
        from.iter().chain(before)
    }

    fn turn(&self, backend: &str) -> Arc<AtomicU64> {
        let mut turns = self.lock();
        if let Some(turn) = turns.get(backend) {
            return turn.clone();
        }
        let turn = Arc::<AtomicU64>::default();
        turns.insert(backend.into(), turn.clone());
        turn
    }

    /// Drops the state of backends that are no more.
    pub fn retain(&self, backends: &HashSet<&str>) {
        self.lock().retain(|backend, _| backends.contains(&**backend));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<AtomicU64>>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which endpoint the n-th request goes to. Equal weights: each in turn. Otherwise n is spread evenly over the sum
/// of weights by the golden ratio, so that a heavy endpoint is not hit in bursts.
fn pick(endpoints: &[EndpointEntry], n: u64) -> usize {
    let count = endpoints.len() as u64;
    let total: u64 = endpoints.iter().map(|endpoint| u64::from(endpoint.weight)).sum();
    let equal = endpoints
        .windows(2)
        .all(|pair| matches!(pair, [a, b] if a.weight == b.weight));
    if equal || total == 0 {
        return usize::try_from(n % count.max(1)).unwrap_or(0);
    }
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let spread = u128::from(n.wrapping_mul(GOLDEN)) * u128::from(total);
    let mut point = (spread >> 64) as u64;
    for (at, endpoint) in endpoints.iter().enumerate() {
        match point.checked_sub(u64::from(endpoint.weight)) {
            Some(rest) => point = rest,
            None => return at,
        }
    }
    0
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test may fail
mod tests {
    use super::*;

    fn shares(weights: &[u32], requests: u64) -> Vec<u64> {
        let endpoints: Vec<_> = weights
            .iter()
            .map(|weight| EndpointEntry {
                address: ([127, 0, 0, 1], 1).into(),
                weight: *weight,
            })
            .collect();
        let mut counts = vec![0; weights.len()];
        for n in 0..requests {
            counts[pick(&endpoints, n)] += 1;
        }
        counts
    }

    #[test]
    fn endpoints_are_taken_by_weight() {
        assert_eq!(shares(&[1, 1, 1], 9), [3, 3, 3]);
        assert_eq!(shares(&[0, 5], 10), [0, 10]);
        let counts = shares(&[3, 1], 1000);
        assert!((749..=751).contains(&counts[0]), "{counts:?}");
    }
}
