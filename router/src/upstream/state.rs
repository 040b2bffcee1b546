//! What all workers know of backends and endpoints, and what one worker keeps at hand of it.
//!
//! # Shape
//! ```text
//! Endpoints (shared)   name ──► BackendState: its entry, its turn, and per endpoint ──► EndpointState
//!                      (address, TLS settings) ──► EndpointState, held by the backends that name it
//! Upstreams (worker)   BackendId ──► Upstream: a handle to a BackendState, copied without atomics
//! ```
//!
//! # Decisions
//! - **A request takes no lock.** The shared maps are asked once per worker for each backend of a new index; a request
//!   finds its backend by number and sees, by the identity of the entry, that the state is the one made for it.
//! - **State is keyed by what it is about**, outside the snapshot: the turn by the backend's name, an endpoint's by its
//!   address and settings, so two backends that name one endpoint in the same way share what is known of it. Both
//!   live through swaps and end with the last backend that names them.
//! - **What belongs to all workers is an atomic in one of the two states**; what can be worked out from the entry (the
//!   sums of weights, the key of the pool) stands beside it, once per entry.
//! - A request that was decided on the table before a swap may bring back the state of that table's entry for a
//!   moment. The next request of the new table, or the next swap, puts that right; turn and endpoints are the same.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use routed_snapshot::index::{BackendEntry, BackendId, EndpointEntry};
use routed_snapshot::{Hash, Index};

use super::pool::PoolKey;
use super::tls::{Configs, Settings};

/// The state that all workers share.
#[derive(Debug, Default)]
pub struct Endpoints {
    known: Mutex<Known>,
    tls: Configs,
}

#[derive(Debug, Default)]
struct Known {
    backends: HashMap<Box<str>, Arc<BackendState>>,
    endpoints: HashMap<PoolKey, Weak<EndpointState>>,
}

/// One backend of a table.
#[derive(Debug)]
pub struct BackendState {
    /// What the table says of it.
    pub entry: Arc<BackendEntry>,
    /// Requests so far, whatever table decided them.
    turn: Arc<AtomicU64>,
    endpoints: Box<[Arc<EndpointState>]>,
    /// Where weights differ: for each endpoint the sum of weights up to and with it.
    sums: Option<Box<[u64]>>,
}

/// One endpoint, as it is connected to.
#[derive(Debug)]
pub struct EndpointState {
    /// What its connections may be exchanged for.
    pub key: PoolKey,
    /// Made for the first connection; none where the backend's CA or name is not usable.
    tls: OnceLock<Option<Settings>>,
}

impl Endpoints {
    /// The state of a backend.
    pub fn of(&self, entry: &Arc<BackendEntry>) -> Arc<BackendState> {
        let mut known = self.lock();
        let before = known.backends.get(&entry.name);
        if let Some(state) = before.filter(|state| Arc::ptr_eq(&state.entry, entry)) {
            return state.clone();
        }
        let turn = before.map(|state| state.turn.clone()).unwrap_or_default();
        let tls = self.tls.fingerprint(&entry.config);
        let addresses = entry.endpoints.iter().map(|endpoint| endpoint.address);
        let state = Arc::new(BackendState {
            entry: entry.clone(),
            turn,
            endpoints: addresses
                .map(|address| known.endpoint(PoolKey { address, tls }))
                .collect(),
            sums: sums(&entry.endpoints),
        });
        known.backends.insert(entry.name.clone(), state.clone());
        state
    }

    /// The TLS settings to connect to an endpoint with.
    pub fn settings<'e>(&self, backend: &BackendEntry, endpoint: &'e EndpointState) -> Option<&'e Settings> {
        let config = &backend.config;
        let make = || {
            self.tls
                .settings(config, config.tls.as_ref()?, endpoint.key.address.ip())
        };
        endpoint.tls.get_or_init(make).as_ref()
    }

    /// Drops the state of what the table no longer has.
    pub fn retain(&self, index: &Index) {
        let mut changed = Vec::new();
        self.lock().backends.retain(|name, state| {
            let Some(entry) = index.backend_named(name) else {
                return false;
            };
            if !Arc::ptr_eq(entry, &state.entry) {
                changed.push(entry.clone());
            }
            true
        });
        for entry in &changed {
            self.of(entry);
        }
        self.lock()
            .endpoints
            .retain(|_, endpoint| endpoint.strong_count() > 0);
        self.tls.retain_used();
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // Changed by whole entries: a panic while it was held left nothing half done.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn endpoint(&mut self, key: PoolKey) -> Arc<EndpointState> {
        if let Some(known) = self.endpoints.get(&key).and_then(Weak::upgrade) {
            return known;
        }
        let tls = OnceLock::new();
        let state = Arc::new(EndpointState { key, tls });
        self.endpoints.insert(key, Arc::downgrade(&state));
        state
    }
}

impl BackendState {
    /// The endpoints in the order to try them: the one whose turn it is, then the others behind it.
    pub fn in_turn(&self) -> impl Iterator<Item = &EndpointState> {
        let first = match self.endpoints.len() {
            0 | 1 => 0,
            _ => self.pick(self.turn.fetch_add(1, Relaxed)),
        };
        let (before, from) = self.endpoints.split_at(first.min(self.endpoints.len()));
        from.iter().chain(before).map(|endpoint| &**endpoint)
    }

    /// Which endpoint the n-th request goes to. Equal weights: each in turn. Otherwise n is spread evenly over the
    /// sum of weights by the golden ratio, so that a heavy endpoint is not hit in bursts.
    fn pick(&self, n: u64) -> usize {
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        let Some((sums, total)) = self.sums.as_ref().and_then(|sums| Some((sums, *sums.last()?))) else {
            let count = self.endpoints.len().max(1) as u64;
            return usize::try_from(n % count).unwrap_or(0);
        };
        let point = (u128::from(n.wrapping_mul(GOLDEN)) * u128::from(total)) >> 64;
        sums.partition_point(|sum| u128::from(*sum) <= point)
    }
}

/// None where all weights are equal, so that one turn is as long as another.
fn sums(endpoints: &[EndpointEntry]) -> Option<Box<[u64]>> {
    let equal = endpoints
        .windows(2)
        .all(|pair| matches!(pair, [a, b] if a.weight == b.weight));
    let sum = |sum: &mut u64, endpoint: &EndpointEntry| {
        *sum += u64::from(endpoint.weight);
        Some(*sum)
    };
    (!equal).then(|| endpoints.iter().scan(0, sum).collect())
}

/// A worker's handle to the state of a backend.
#[derive(Debug, Clone)]
#[expect(
    clippy::redundant_allocation,
    reason = "requests copy it: without the inner count, which all workers share"
)]
pub struct Upstream(Rc<Arc<BackendState>>);

impl Deref for Upstream {
    type Target = BackendState;

    fn deref(&self) -> &BackendState {
        &self.0
    }
}

/// The backends that one worker has had requests for.
#[derive(Debug, Default)]
pub struct Upstreams(RefCell<Held>);

#[derive(Debug, Default)]
struct Held {
    /// Hash of the table that `now` is of.
    of: Option<Hash>,
    now: HashMap<BackendId, Upstream, ByNumber>,
    /// Those of the table before: most are taken over at their next request. The rest goes with the next swap.
    before: HashMap<BackendId, Upstream, ByNumber>,
}

impl Upstreams {
    /// The handle to a backend of a table.
    pub fn of(&self, shared: &Endpoints, index: &Index, entry: &Arc<BackendEntry>) -> Upstream {
        let held = &mut *self.0.borrow_mut();
        if held.of != Some(index.hash()) {
            held.of = Some(index.hash());
            held.before = std::mem::take(&mut held.now);
        }
        // Numbers begin anew now and then, so the entry itself tells whether it is the same.
        let is_it = |upstream: &Upstream| Arc::ptr_eq(&upstream.entry, entry);
        if let Some(upstream) = held.now.get(&entry.id).filter(|upstream| is_it(upstream)) {
            return upstream.clone();
        }
        let known = held.before.remove(&entry.id).filter(is_it);
        let upstream = known.unwrap_or_else(|| Upstream(Rc::new(shared.of(entry))));
        held.now.insert(entry.id, upstream.clone());
        upstream
    }
}

type ByNumber = BuildHasherDefault<NumberHasher>;

/// Hashes a number that the router itself gave out.
#[derive(Debug, Default)]
struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        // The map takes the low bits for the place and the high ones for a tag.
        self.0.rotate_left(32)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test may fail
mod tests {
    use super::*;

    /// A table of these Backends (flow style YAML), built after another.
    fn index(backends: &[&str], before: Option<&Index>) -> Index {
        let document = |spec: &&str| {
            let (name, spec) = spec.split_once(' ').unwrap();
            format!("apiVersion: routed.io/v1\nkind: Backend\nmetadata: {{name: {name}}}\nspec: {spec}\n")
        };
        let documents: Vec<_> = backends.iter().map(document).collect();
        let file = ("a.yaml".to_owned(), documents.join("---\n").into_bytes());
        let report = routed_policy::compile(&routed_policy::Resources::from_files([file]));
        assert!(report.diags.is_empty(), "{:?}", report.diags);
        Index::build(&report.snapshot, before).unwrap()
    }

    fn addresses(ports: &[u16]) -> String {
        let each: Vec<_> = ports
            .iter()
            .map(|port| format!("{{address: 127.0.0.1, port: {port}}}"))
            .collect();
        format!("addresses: [{}]", each.join(", "))
    }

    fn entry<'i>(index: &'i Index, name: &str) -> &'i Arc<BackendEntry> {
        index
            .backend_named(&format!("Backend/default/{name}"))
            .expect(name)
    }

    fn ports(state: &BackendState) -> Vec<u16> {
        state
            .in_turn()
            .map(|endpoint| endpoint.key.address.port())
            .collect()
    }

    fn shares(weights: &[u32], requests: u64) -> Vec<usize> {
        let each = weights
            .iter()
            .zip(1..)
            .map(|(weight, port)| format!("{{address: 127.0.0.1, port: {port}, weight: {weight}}}"));
        let spec = format!("a {{addresses: [{}]}}", each.collect::<Vec<_>>().join(", "));
        let index = index(&[&spec], None);
        let state = Endpoints::default().of(entry(&index, "a"));
        let mut counts = vec![0; weights.len()];
        for n in 0..requests {
            counts[state.pick(n)] += 1;
        }
        counts
    }

    #[test]
    fn endpoints_are_taken_by_weight() {
        assert_eq!(shares(&[1, 1, 1], 9), [3, 3, 3]);
        assert_eq!(shares(&[0, 5], 10), [0, 10]);
        assert_eq!(shares(&[5, 0, 0], 10), [10, 0, 0]);
        let counts = shares(&[3, 1], 1000);
        assert!((749..=751).contains(&counts[0]), "{counts:?}");
        let counts = shares(&[1, 0, 4, 5], 1000);
        assert!(counts[1] == 0 && (399..=401).contains(&counts[2]), "{counts:?}");
    }

    #[test]
    fn the_turn_and_the_endpoints_live_through_swaps_and_end_with_the_backend() {
        let endpoints = Endpoints::default();
        let first = index(&[&format!("a {{{}}}", addresses(&[1, 2, 3]))], None);
        let state = endpoints.of(entry(&first, "a"));
        assert_eq!(ports(&state), [1, 2, 3]);
        assert_eq!(ports(&state), [2, 3, 1]);
        let second = index(&[&format!("a {{{}}}", addresses(&[2, 3, 4]))], Some(&first));
        endpoints.retain(&second);
        let next = endpoints.of(entry(&second, "a"));
        assert_eq!(ports(&next), [4, 2, 3], "the third turn");
        assert!(
            Arc::ptr_eq(&state.endpoints[1], &next.endpoints[0]),
            "2 is still 2"
        );
        drop(state);
        endpoints.retain(&second);
        assert_eq!(endpoints.lock().endpoints.len(), 3, "1 is forgotten");
        let third = index(&[&format!("b {{{}}}", addresses(&[2, 3, 4]))], Some(&second));
        endpoints.retain(&third);
        drop(next);
        endpoints.retain(&third);
        let known = endpoints.lock();
        assert!(
            known.backends.is_empty() && known.endpoints.is_empty(),
            "{known:?}"
        );
        drop(known);
        assert_eq!(
            ports(&endpoints.of(entry(&first, "a"))),
            [1, 2, 3],
            "from the beginning"
        );
    }

    #[test]
    fn backends_share_what_is_known_of_an_endpoint_that_they_connect_to_alike() {
        let with = |tls: &str| format!("{{{}{tls}}}", addresses(&[7]));
        let specs = [
            format!("a {}", with("")),
            format!("b {}", with("")),
            format!("c {}", with(", tls: {sni: x.example}")),
            format!("d {}", with(", tls: {sni: x.example}")),
            format!("e {}", with(", tls: {sni: y.example}")),
        ];
        let index = index(&specs.each_ref().map(String::as_str), None);
        let endpoints = Endpoints::default();
        let states = ["a", "b", "c", "d", "e"].map(|name| endpoints.of(entry(&index, name)));
        let same = |a: usize, b: usize| Arc::ptr_eq(&states[a].endpoints[0], &states[b].endpoints[0]);
        assert!(same(0, 1) && same(2, 3));
        assert!(!same(0, 2) && !same(2, 4));
        assert_eq!(endpoints.lock().endpoints.len(), 3);
    }

    #[test]
    fn a_worker_asks_for_a_backend_once_for_as_long_as_its_entry_lives() {
        let (endpoints, upstreams) = (Endpoints::default(), Upstreams::default());
        let stays = format!("stays {{{}}}", addresses(&[1]));
        let first = index(&[&stays, &format!("moves {{{}}}", addresses(&[2]))], None);
        let of = |index: &Index, name| upstreams.of(&endpoints, index, entry(index, name));
        let (a, b) = (of(&first, "stays"), of(&first, "moves"));
        assert!(Rc::ptr_eq(&a.0, &of(&first, "stays").0));
        let second = index(&[&stays, &format!("moves {{{}}}", addresses(&[3]))], Some(&first));
        assert!(Rc::ptr_eq(&a.0, &of(&second, "stays").0), "nothing of it changed");
        let moved = of(&second, "moves");
        assert!(!Rc::ptr_eq(&b.0, &moved.0));
        assert_eq!(ports(&moved), [3]);
        let third = index(&[&stays], Some(&second));
        of(&third, "stays");
        let fourth = index(&[&stays, &format!("new {{{}}}", addresses(&[4]))], Some(&third));
        of(&fourth, "stays");
        let held = upstreams.0.borrow();
        assert_eq!(
            (held.now.len(), held.before.len()),
            (1, 0),
            "what went is let go of"
        );
    }
}
