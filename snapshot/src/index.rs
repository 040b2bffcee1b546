//! The index: what a router builds from a snapshot before it publishes it.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::ir;
use crate::snapshot::{Hash, Position, Snapshot};

/// A listener's number; stable along a chain of indexes built from one another, meaningless elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerId(pub u32);

/// A backend's number; stable along a chain of indexes built from one another, meaningless elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackendId(pub u32);

/// A backend with its endpoints.
#[derive(Debug)]
pub struct BackendEntry {
    /// Its number in this index.
    pub id: BackendId,
    /// Its name in the snapshot, for instance `Backend/shop/cart`.
    pub name: Box<str>,
    /// How to talk to it.
    pub config: Arc<ir::Backend>,
    /// Its endpoints; empty: 503.
    pub endpoints: Arc<[EndpointEntry]>,
}

/// One endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndpointEntry {
    /// Where to connect.
    pub address: SocketAddr,
    /// Its share among the backend's endpoints.
    pub weight: u32,
}

/// A rule, compact: what few rules have stands behind one pointer.
#[derive(Debug)]
pub struct RuleEntry {
    /// Its name in the snapshot, for instance `EdgeRoute/shop/cart/0`.
    pub name: Box<str>,
    /// Where requests go.
    pub action: RuleAction,
    /// Everything else, where there is anything else.
    pub extras: Option<Box<RuleExtras>>,
}

/// What only some rules have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleExtras {
    /// The rule's own name.
    pub rule_name: Option<String>,
    /// Edits of the request's headers.
    pub request_headers: ir::HeaderEdits,
    /// Edits of the response's headers.
    pub response_headers: ir::HeaderEdits,
    /// Rewrite of host and path.
    pub rewrite: Option<ir::Rewrite>,
    /// Cross-origin policy.
    pub cors: Option<ir::Cors>,
    /// Copies to other backends: the share, and the backend where it exists.
    pub mirrors: Vec<(ir::Mirror, BackendId)>,
    /// Time limits.
    pub timeouts: ir::RuleTimeouts,
    /// Retries.
    pub retry: Option<ir::Retry>,
}

/// Where a rule's requests go.
#[derive(Debug)]
pub enum RuleAction {
    /// To one of these by weight; `total` is the sum of weights, at least 1.
    Forward {
        /// The shares in the order written.
        targets: Box<[WeightedTarget]>,
        /// Sum of the weights.
        total: u64,
    },
    /// A redirect.
    Redirect(Box<ir::Redirect>),
    /// The router's own answer.
    DirectResponse(Box<ir::DirectResponse>),
    /// The rule is in error.
    Fail {
        /// 500 or 503.
        status: u16,
        /// One word.
        reason: Box<str>,
    },
}

/// One share of a rule's traffic.
#[derive(Debug)]
pub struct WeightedTarget {
    /// Its weight.
    pub weight: u32,
    /// Its backend, or why it has none.
    pub target: Result<BackendId, Box<str>>,
    /// Edits of request and response headers for this share only.
    pub edits: Option<Box<(ir::HeaderEdits, ir::HeaderEdits)>>,
}

/// The lookup tables of one snapshot.
#[derive(Debug)]
pub struct Index {
    hash: Hash,
    config_hash: Hash,
    position: Option<Position>,
    profiles: Arc<ir::ProfilesPart>,
    routes: usize,
}

impl Index {
    /// Builds the tables. Parts equal to the previous index's are reused, so the cost is that of what changed.
    ///
    /// # Errors
    /// Where the snapshot's content is inconsistent (a regular expression that doesn't compile, a rule that a table
    /// names but the part lacks): the snapshot is refused whole.
    pub fn build(snapshot: &Snapshot, previous: Option<&Index>) -> Result<Index, IndexError> {
        let _ = previous;
        Ok(Index {
            hash: snapshot.hash(),
            config_hash: snapshot.config_hash(),
            position: snapshot.position().cloned(),
            profiles: Arc::new(snapshot.profiles().cloned().unwrap_or_default()),
            routes: 0,
        })
    }

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

    /// A listener's number by `namespace/profile/listener`.
    pub fn listener(&self, name: &str) -> Option<ListenerId> {
        let _ = name;
        None
    }

    /// A backend by number.
    pub fn backend(&self, id: BackendId) -> Option<&Arc<BackendEntry>> {
        let _ = id;
        None
    }

    /// All backends.
    pub fn backends(&self) -> impl Iterator<Item = &Arc<BackendEntry>> {
        std::iter::empty()
    }

    /// How many routes it holds (one rule × one host × one path match).
    pub fn route_count(&self) -> usize {
        self.routes
    }

    /// All rules, each once per bucket it stands in.
    pub fn rules(&self) -> impl Iterator<Item = &Arc<RuleEntry>> {
        std::iter::empty()
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
