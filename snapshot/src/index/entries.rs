//! What the tables lead to: backends with their endpoints, and rules.

use std::net::SocketAddr;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::ir;

/// A listener's number; stable along a chain of indexes built from one another, meaningless elsewhere. A build that
/// finds far more dead numbers than live ones begins a new chain, so what outlives an index is keyed by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerId(pub u32);

/// A backend's number; stable along a chain of indexes built from one another, meaningless elsewhere. A build that
/// finds far more dead numbers than live ones begins a new chain, so what outlives an index is keyed by name.
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
        targets: SmallVec<[WeightedTarget; 1]>,
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

impl BackendId {
    /// The number of a slot in a bucket's table.
    pub(crate) fn new(bucket: u8, slot: u32) -> BackendId {
        BackendId(slot << 8 | u32::from(bucket))
    }

    /// The bucket and the slot in its table.
    pub(crate) fn place(self) -> (u8, u32) {
        ((self.0 & 0xff) as u8, self.0 >> 8)
    }
}
