//! Explains a decision: the same code as [`crate::decide`], with a recorder.
//!
//! The recorder looks at every match of the tables that may serve the request, also at those that the search passes
//! over, and says of each why it lost. It looks at most at [`MAX_CANDIDATES`]; the rest is counted.
//!
//! - [`question`]: a request as it is typed, and where it arrives.

pub mod question;

use serde::Serialize;

use crate::decision::{Decision, Outcome, Recorder, TableState, decide_recorded, share};
use crate::facts::{Availability, Facts};
use crate::index::{HostTable, Index, RouteTable, RuleAction, RuleEntry};
use crate::matching::path::PathCondition;
use crate::matching::{Difference, Match};
use crate::request::Refusal;

pub use question::Question;

/// Most candidates that are listed. The one taken is listed wherever it stands.
pub const MAX_CANDIDATES: usize = 1_000;

/// A decision with its reasons, as JSON shown to people and machines.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Hash of the snapshot that decided.
    pub snapshot: String,
    /// The listener, `namespace/profile/listener`; empty where the index has none of that number.
    pub listener: String,
    /// The request's host in the form it is matched in.
    pub host: String,
    /// The request's path in the form it is matched and forwarded in.
    pub path: String,
    /// Every match that the request's host leads to, in order of precedence.
    pub candidates: Vec<Candidate>,
    /// How many more there are.
    pub more_candidates: usize,
    /// What was decided.
    pub outcome: ExplainedOutcome,
}

/// A match that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Candidate {
    /// The host pattern of its table.
    pub host: String,
    /// The rule it leads to.
    pub rule: String,
    /// Which entry of the rule's `matches`, from 0.
    pub match_index: u32,
    /// Its path condition, for instance `PathPrefix /cart`.
    pub path_match: String,
    /// `taken`, or why it lost: `PathDiffers`, `MethodDiffers`, `HeaderDiffers: x-tier`, `QueryParamDiffers: q`,
    /// `CookieDiffers: c`, `LowerPrecedence` (it fits, but an earlier one was taken), `ListenerDiffers`.
    pub verdict: String,
}

/// What was decided.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedOutcome {
    /// `Forward`, `Redirect`, `RedirectToHttps`, `DirectResponse`, `Fail`, `NotFound`, or `Refused` where the request
    /// is answered before it is decided.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The rule, where one was met.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The backend, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// The number of the share drawn, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<usize>,
    /// The draw.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draw: Option<u64>,
    /// The shares of the rule's traffic.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<Share>,
    /// The answer's status, where the router itself answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Why the router itself answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The same for people, where the request is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<&'static str>,
}

/// A share of a rule's traffic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Share {
    /// Its backend, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// Why it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its weight.
    pub weight: u32,
    /// Taken where `draw % total` is at least this…
    pub from: u64,
    /// …and below this.
    pub to: u64,
    /// Whether the backend could take traffic at that moment.
    pub available: bool,
}

/// Decides and records why each candidate lost.
pub fn explain(index: &Index, facts: &Facts<'_>, draw: u64, availability: &Availability<'_>) -> Explanation {
    let mut record = Record {
        facts,
        candidates: Vec::new(),
        more: 0,
    };
    let decision = decide_recorded(index, facts, draw, availability, &mut record);
    Explanation {
        snapshot: index.hash().to_string(),
        listener: index.listener_name(facts.listener).unwrap_or_default().to_owned(),
        host: facts.host.to_owned(),
        path: facts.path.to_owned(),
        candidates: record.candidates,
        more_candidates: record.more,
        outcome: explain_outcome(index, &decision, draw, availability),
    }
}

fn refused(refusal: Refusal) -> ExplainedOutcome {
    let (status, reason, message) = refusal.describe();
    ExplainedOutcome {
        kind: "Refused",
        status: Some(status),
        reason: Some(reason.to_owned()),
        message: Some(message),
        ..ExplainedOutcome::default()
    }
}

fn not_found() -> ExplainedOutcome {
    ExplainedOutcome {
        kind: "NotFound",
        status: Some(404),
        reason: Some("NoRoute".to_owned()),
        ..ExplainedOutcome::default()
    }
}

struct Record<'f> {
    facts: &'f Facts<'f>,
    candidates: Vec<Candidate>,
    more: usize,
}

impl<'i> Recorder<'i> for Record<'_> {
    const ALL: bool = true;

    fn table(&mut self, tables: &'i RouteTable, table: &'i HostTable, state: TableState) {
        for (at, entry) in tables.matches(table).iter().enumerate() {
            let taken = state == TableState::Taken(at as u32);
            if self.candidates.len() >= MAX_CANDIDATES && !taken {
                self.more += 1;
                continue;
            }
            let verdict = match state {
                _ if taken => "taken".to_owned(),
                TableState::OtherListener => "ListenerDiffers".to_owned(),
                _ => verdict(entry, self.facts),
            };
            self.candidates.push(Candidate {
                host: table.host.to_string(),
                rule: tables.rules()[entry.rule as usize].name.to_string(),
                match_index: entry.index,
                path_match: path_text(&entry.path),
                verdict,
            });
        }
    }
}

/// Why a match that was not taken lost.
fn verdict(entry: &Match, facts: &Facts<'_>) -> String {
    match entry.difference(facts) {
        None => "LowerPrecedence".to_owned(),
        Some(Difference::Path) => "PathDiffers".to_owned(),
        Some(Difference::Method) => "MethodDiffers".to_owned(),
        Some(Difference::Header(name)) => format!("HeaderDiffers: {name}"),
        Some(Difference::QueryParam(name)) => format!("QueryParamDiffers: {name}"),
        Some(Difference::Cookie(name)) => format!("CookieDiffers: {name}"),
    }
}

fn path_text(path: &PathCondition) -> String {
    let kind = match path {
        PathCondition::Exact(_) => "Exact",
        PathCondition::Prefix(_) => "PathPrefix",
        PathCondition::Regex(_) => "RegularExpression",
    };
    format!("{kind} {}", path.text())
}

fn explain_outcome(
    index: &Index,
    decision: &Decision<'_>,
    draw: u64,
    availability: &Availability<'_>,
) -> ExplainedOutcome {
    let rule = decision.matched.map(|matched| matched.rule);
    let mut explained = ExplainedOutcome {
        rule: rule.map(|rule| rule.name.to_string()),
        ..ExplainedOutcome::default()
    };
    if let Some(rule) = rule
        && let RuleAction::Forward { targets, total } = &rule.action
    {
        explained.draw = Some(draw);
        explained.share = share(targets, *total, draw);
        explained.shares = shares(index, rule, availability);
    }
    explained.kind = match decision.outcome {
        Outcome::Forward { backend, .. } => {
            explained.backend = Some(backend.name.to_string());
            "Forward"
        }
        Outcome::Redirect(redirect) => {
            explained.status = Some(redirect.status);
            "Redirect"
        }
        Outcome::RedirectToHttps(redirect) => {
            explained.status = Some(redirect.status);
            "RedirectToHttps"
        }
        Outcome::DirectResponse(answer) => {
            explained.status = Some(answer.status);
            "DirectResponse"
        }
        Outcome::Fail { status, reason } => {
            explained.status = Some(status);
            explained.reason = Some(reason.to_owned());
            "Fail"
        }
        Outcome::NotFound => return not_found(),
    };
    explained
}

fn shares(index: &Index, rule: &RuleEntry, availability: &Availability<'_>) -> Vec<Share> {
    let RuleAction::Forward { targets, .. } = &rule.action else {
        return Vec::new();
    };
    let mut from = 0;
    let each = targets.iter().map(|target| {
        let to = from + u64::from(target.weight);
        let id = target.target.as_ref().ok();
        let share = Share {
            backend: id
                .and_then(|id| index.backend(*id))
                .map(|entry| entry.name.to_string()),
            reason: target.target.as_ref().err().map(|reason| reason.to_string()),
            weight: target.weight,
            from,
            to,
            available: id.is_some_and(|id| availability.is_available(*id)),
        };
        from = to;
        share
    });
    each.collect()
}
