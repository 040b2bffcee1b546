//! The index: what a router builds from a snapshot before it publishes it.
//!
//! # Shape
//! One table per part and bucket, each behind its own `Arc`. A build takes over from the previous index every table
//! whose part has the same hash, so it costs what changed: with 100,000 hosts one edit rebuilds some 400 of them.
//!
//! ```text
//! host ──xxh3──► bucket (low 8 bits) ──hash table──► host tables ──► matches in order of precedence ──► rule
//! ```
//!
//! # Decisions
//! - **Numbers that last.** A rule holds its backends as numbers, and a table of rules outlives many backend tables.
//!   So a backend keeps its number as long as it exists, and the number of one that went is not given to another.
//!   A number is made of the bucket and a slot in it, so a backend table stays a plain list that is found by the low
//!   byte. Where far more slots are dead than alive, everything is numbered anew and nothing is reused.
//! - **Content only.** No table holds a part or its JSON text.
//! - **Bounded memory.** No list keeps spare capacity; what few matches or rules have stands behind one pointer.
//! - **A hash per prefix instead of a radix tree** for hosts with many paths: see `matching::path`.

mod backends;
mod build;
mod entries;
mod listeners;
mod ranges;
mod routes;
mod rules;

use std::borrow::Cow;
use std::sync::Arc;

use crate::ir;
use crate::matching::host::Lengths;
use crate::snapshot::{Hash, Position};

pub use entries::{
    BackendEntry, BackendId, EndpointEntry, ListenerId, RuleAction, RuleEntry, RuleExtras, WeightedTarget,
};

use backends::BackendTable;
use listeners::Listeners;
pub(crate) use routes::{HostTable, RouteTable};

/// How many buckets there are of each kind.
const BUCKETS: usize = 256;

/// The lookup tables of one snapshot.
#[derive(Debug)]
pub struct Index {
    hash: Hash,
    config_hash: Hash,
    position: Option<Position>,
    profiles_hash: Option<Hash>,
    profiles: Arc<ir::ProfilesPart>,
    listeners: Arc<Listeners>,
    /// By bucket of the host.
    routes: Box<[Option<Arc<RouteTable>>]>,
    /// By bucket of the backend's name.
    backends: Box<[Option<Arc<BackendTable>>]>,
    /// Lengths that wildcard hosts have; none: no wildcard is looked for.
    wildcards: Lengths,
    /// By listener number: its redirect of plain HTTP.
    redirects: Box<[Option<ir::RedirectToHttps>]>,
    route_count: usize,
}

impl Index {
    /// The snapshot's hash.
    pub fn hash(&self) -> Hash {
        self.hash
    }

    /// The snapshot's hash, endpoints apart.
    pub fn config_hash(&self) -> Hash {
        self.config_hash
    }

    /// The snapshot's position.
    pub fn position(&self) -> Option<&Position> {
        self.position.as_ref()
    }

    /// A profile by `namespace/name`.
    pub fn profile(&self, name: &str) -> Option<&ir::Profile> {
        self.profiles.profiles.get(name)
    }

    /// The profile that a router of this name runs: the built-in one where the snapshot has none.
    pub fn profile_run(&self, name: &str) -> Cow<'_, ir::Profile> {
        match self.profile(name) {
            Some(profile) => Cow::Borrowed(profile),
            None => Cow::Owned(ir::Profile::built_in()),
        }
    }

    /// The names of all profiles, `namespace/name`.
    pub fn profile_names(&self) -> impl Iterator<Item = &str> {
        self.profiles.profiles.keys().map(String::as_str)
    }

    /// A listener's number by `namespace/profile/listener`, where a profile has it or a host table names it.
    pub fn listener(&self, name: &str) -> Option<ListenerId> {
        self.listeners.id(name)
    }

    /// A listener's name by its number.
    pub fn listener_name(&self, id: ListenerId) -> Option<&str> {
        self.listeners.name(id)
    }

    /// A backend by number.
    pub fn backend(&self, id: BackendId) -> Option<&Arc<BackendEntry>> {
        let (bucket, slot) = id.place();
        self.backends[usize::from(bucket)].as_ref()?.at(slot)
    }

    /// A backend by name, for instance `Backend/shop/cart`.
    pub fn backend_named(&self, name: &str) -> Option<&Arc<BackendEntry>> {
        let hash = xxhash_rust::xxh3::xxh3_64(name.as_bytes());
        self.backends[(hash & 0xff) as usize].as_ref()?.named(hash, name)
    }

    /// All backends.
    pub fn backends(&self) -> impl Iterator<Item = &Arc<BackendEntry>> {
        self.backends.iter().flatten().flat_map(|table| table.entries())
    }

    /// How many routes it holds (one rule × one host × one path match).
    pub fn route_count(&self) -> usize {
        self.route_count
    }

    /// All rules, each once per bucket it stands in.
    pub fn rules(&self) -> impl Iterator<Item = &Arc<RuleEntry>> {
        self.routes
            .iter()
            .flatten()
            .flat_map(|table| table.rules().iter())
    }

    /// The tables of the bucket of a host's hash.
    pub(crate) fn route_table(&self, hash: u64) -> Option<&RouteTable> {
        self.routes[(hash & 0xff) as usize].as_deref()
    }

    /// Lengths that wildcard hosts have.
    pub(crate) fn wildcards(&self) -> &Lengths {
        &self.wildcards
    }

    /// The listener's redirect of plain HTTP.
    pub(crate) fn redirect_to_https(&self, id: ListenerId) -> Option<&ir::RedirectToHttps> {
        self.redirects.get(id.0 as usize)?.as_ref()
    }
}

/// Why no index could be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{part}: {at}: {why}")]
pub struct IndexError {
    /// The part's name.
    pub part: String,
    /// Where in it.
    pub at: String,
    /// What is wrong.
    pub why: String,
}
