//! The decision: which rule a request meets, and where it goes.

use std::sync::Arc;

use crate::facts::{Availability, Facts};
use crate::index::{BackendEntry, HostTable, Index, RouteTable, RuleAction, RuleEntry, WeightedTarget};
use crate::ir;
use crate::matching::Match;
use crate::matching::host::visit_tables;

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
/// to the shortest, of `*`; within a table the first match in precedence order. A host whose table has no match for
/// the request falls through to the next. `draw` chooses among weighted shares: share i is taken where
/// `draw % total` falls into its range, shares in the order written.
pub fn decide<'i>(
    index: &'i Index,
    facts: &Facts<'_>,
    draw: u64,
    availability: &Availability<'_>,
) -> Decision<'i> {
    decide_recorded(index, facts, draw, availability, &mut NoRecord)
}

/// What is told of a decision while it is made. There is one implementation of the decision; who wants no record
/// pays for none.
pub(crate) trait Recorder<'i> {
    /// Whether less specific tables are visited after the match is found.
    const ALL: bool;

    /// A table of the request's host was searched; `taken` is the position of the match that decides, `decided` says
    /// that an earlier table had it.
    fn table(&mut self, tables: &'i RouteTable, table: &'i HostTable, state: TableState);
}

/// How the search of a table ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableState {
    /// This match decides.
    Taken(u32),
    /// No match of it fits the request.
    Nothing,
    /// A more specific table had decided already.
    Decided,
    /// It serves other listeners.
    OtherListener,
}

struct NoRecord;

impl Recorder<'_> for NoRecord {
    const ALL: bool = false;

    fn table(&mut self, _: &RouteTable, _: &HostTable, _: TableState) {}
}

/// The decision, see [`decide`].
pub(crate) fn decide_recorded<'i, R: Recorder<'i>>(
    index: &'i Index,
    facts: &Facts<'_>,
    draw: u64,
    _availability: &Availability<'_>,
    recorder: &mut R,
) -> Decision<'i> {
    if !facts.https
        && let Some(redirect) = index.redirect_to_https(facts.listener)
    {
        return Decision {
            matched: None,
            outcome: Outcome::RedirectToHttps(redirect),
        };
    }
    let mut matched = None;
    visit_tables(index, facts.host, |tables, of_host| {
        for table in of_host {
            let state = if !table.listeners.contains(&facts.listener) {
                TableState::OtherListener
            } else if matched.is_some() {
                TableState::Decided
            } else if let Some(at) = search(tables.matches(table), table, facts) {
                matched = Some((tables, table, at));
                TableState::Taken(at)
            } else {
                TableState::Nothing
            };
            recorder.table(tables, table, state);
        }
        (matched.is_some() && !R::ALL).then_some(())
    });
    let Some((tables, table, at)) = matched else {
        return Decision {
            matched: None,
            outcome: Outcome::NotFound,
        };
    };
    let entry = &tables.matches(table)[at as usize];
    let rule = &tables.rules()[entry.rule as usize];
    Decision {
        matched: Some(Matched {
            host: &table.host,
            rule,
            index: entry.index,
            prefix: entry.path.prefix(),
        }),
        outcome: outcome(index, rule, draw),
    }
}

/// The position of the first match of a table that the request fulfils.
fn search(matches: &[Match], table: &HostTable, facts: &Facts<'_>) -> Option<u32> {
    match &table.paths {
        Some(paths) => paths.find(matches, facts.path, |entry| {
            entry.difference_beside_path(facts).is_none()
        }),
        None => {
            let first = matches.iter().position(|entry| entry.difference(facts).is_none());
            first.map(|at| at as u32)
        }
    }
}

fn outcome<'i>(index: &'i Index, rule: &'i RuleEntry, draw: u64) -> Outcome<'i> {
    match &rule.action {
        RuleAction::Redirect(redirect) => Outcome::Redirect(redirect),
        RuleAction::DirectResponse(answer) => Outcome::DirectResponse(answer),
        RuleAction::Fail { status, reason } => Outcome::Fail {
            status: *status,
            reason,
        },
        RuleAction::Forward { targets, total } => {
            let target = share(targets, *total, draw).map(|at| &targets[at]);
            let backend = target.map(|target| (target, target.target.as_ref()));
            match backend {
                Some((target, Ok(id))) => match index.backend(*id) {
                    Some(backend) => Outcome::Forward { target, backend },
                    None => BACKEND_NOT_FOUND,
                },
                Some((_, Err(reason))) => Outcome::Fail { status: 500, reason },
                None => BACKEND_NOT_FOUND,
            }
        }
    }
}

/// The build refuses what would lead here.
const BACKEND_NOT_FOUND: Outcome<'static> = Outcome::Fail {
    status: 500,
    reason: "BackendNotFound",
};

/// The share that a draw falls on.
pub(crate) fn share(targets: &[WeightedTarget], total: u64, draw: u64) -> Option<usize> {
    let mut left = draw.checked_rem(total)?;
    targets.iter().position(|target| {
        let weight = u64::from(target.weight);
        let hit = left < weight;
        left = left.saturating_sub(weight);
        hit
    })
}
