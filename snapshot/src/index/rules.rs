//! Turns the IR's rules into compact entries.

use std::collections::BTreeMap;
use std::sync::Arc;

use smallvec::SmallVec;

use super::build::Backends;
use super::{BackendId, IndexError, RuleAction, RuleEntry, RuleExtras, WeightedTarget, ranges};
use crate::ir::{Action, HeaderEdits, Mirror, Rule, Target, WeightedBackend};
use crate::snapshot::PartName;

/// The rules of one part, sorted by name, with all backends that they name.
pub(super) struct Rules<'p> {
    part: PartName,
    backends: &'p Backends,
    numbers: BTreeMap<&'p str, u32>,
    pub(super) entries: Vec<Arc<RuleEntry>>,
    pub(super) named: Vec<BackendId>,
}

impl<'p> Rules<'p> {
    pub(super) fn build(
        part: PartName,
        rules: &'p BTreeMap<String, Rule>,
        backends: &'p Backends,
    ) -> Result<Rules<'p>, IndexError> {
        let mut all = Rules {
            part,
            backends,
            numbers: BTreeMap::new(),
            entries: Vec::with_capacity(rules.len()),
            named: Vec::new(),
        };
        for (name, rule) in rules {
            ranges::rule(part, name, rule)?;
            let entry = all.entry(name, rule)?;
            all.numbers.insert(name, all.entries.len() as u32);
            all.entries.push(Arc::new(entry));
        }
        all.named.sort_unstable();
        all.named.dedup();
        Ok(all)
    }

    /// The number of a rule by its name.
    pub(super) fn number(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    fn entry(&mut self, name: &str, rule: &Rule) -> Result<RuleEntry, IndexError> {
        let action = match &rule.action {
            Action::Forward { backends } => self.forward(name, backends)?,
            Action::Redirect(redirect) => RuleAction::Redirect(Box::new(redirect.clone())),
            Action::DirectResponse(answer) => RuleAction::DirectResponse(Box::new(answer.clone())),
            Action::Fail { status, reason } => RuleAction::Fail {
                status: *status,
                reason: reason.as_str().into(),
            },
        };
        let extras = RuleExtras {
            rule_name: rule.name.clone(),
            request_headers: rule.request_headers.clone(),
            response_headers: rule.response_headers.clone(),
            rewrite: rule.rewrite.clone(),
            cors: rule.cors.clone(),
            mirrors: self.mirrors(name, &rule.mirrors)?,
            timeouts: rule.timeouts.clone(),
            retry: rule.retry.clone(),
        };
        Ok(RuleEntry {
            name: name.into(),
            action,
            extras: (extras != RuleExtras::default()).then(|| Box::new(extras)),
        })
    }

    fn forward(&mut self, rule: &str, backends: &[WeightedBackend]) -> Result<RuleAction, IndexError> {
        let total: u64 = backends.iter().map(|share| u64::from(share.weight)).sum();
        if total == 0 {
            return Err(IndexError::at(
                self.part,
                format!("rules.{rule}.action.backends"),
                "no weight is above 0",
            ));
        }
        let mut targets = SmallVec::with_capacity(backends.len());
        for (at, share) in backends.iter().enumerate() {
            let target = match &share.target {
                Target::Invalid(reason) => Err(reason.as_str().into()),
                Target::Backend(name) => {
                    Ok(self.backend(name, || format!("rules.{rule}.action.backends[{at}].target"))?)
                }
            };
            targets.push(WeightedTarget {
                weight: share.weight,
                target,
                edits: edits(&share.request_headers, &share.response_headers),
            });
        }
        Ok(RuleAction::Forward { targets, total })
    }

    fn mirrors(&mut self, rule: &str, mirrors: &[Mirror]) -> Result<Vec<(Mirror, BackendId)>, IndexError> {
        let mut found = Vec::with_capacity(mirrors.len());
        for (at, mirror) in mirrors.iter().enumerate() {
            let place = || format!("rules.{rule}.mirrors[{at}]");
            if mirror.denominator == 0 {
                return Err(IndexError::at(self.part, place(), "the denominator is 0"));
            }
            let id = self.backend(&mirror.backend, place)?;
            found.push((mirror.clone(), id));
        }
        Ok(found)
    }

    fn backend(&mut self, name: &str, place: impl Fn() -> String) -> Result<BackendId, IndexError> {
        let Some(entry) = self.backends.named(name) else {
            let why = format!("no backend `{name}` in the snapshot");
            return Err(IndexError::at(self.part, place(), why));
        };
        self.named.push(entry.id);
        Ok(entry.id)
    }
}

fn edits(request: &HeaderEdits, response: &HeaderEdits) -> Option<Box<(HeaderEdits, HeaderEdits)>> {
    let none = request.is_empty() && response.is_empty();
    (!none).then(|| Box::new((request.clone(), response.clone())))
}
