//! Edits: what one changed route costs, and whether the index built by it is the right one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use routed_snapshot::index::ListenerId;
use routed_snapshot::{Availability, Index, Outcome, Part, Snapshot, decide};

use super::requests::Request;
use super::shape::{LISTENER, Table};
use super::timing;

/// Edits timed; the median counts.
const EDITS: u32 = 11;

/// An edited index, and what it was made of.
pub(crate) struct Edit {
    snapshot: Snapshot,
    pub(crate) index: Arc<Index>,
    pub(crate) median_ms: f64,
}

/// Sends single routes elsewhere, each edit upon the one before.
pub(crate) fn edit(table: &Table, index: &Arc<Index>) -> Result<Edit> {
    let mut taken = Vec::new();
    let mut edit = Edit {
        snapshot: table.snapshot()?,
        index: index.clone(),
        median_ms: 0.0,
    };
    for number in 0..EDITS {
        let route = (u64::from(table.routes) * u64::from(number) / u64::from(EDITS)) as u32;
        let to = (number * 7 + 1) % table.backend_count();
        let (name, content) = table.edited(&edit.snapshot, route, to)?;
        let mut parts: BTreeMap<_, _> = edit.snapshot.parts().clone();
        let start = Instant::now();
        parts.insert(name, Arc::new(Part::from_content(content)?));
        edit.snapshot = Snapshot::new(parts, None);
        edit.index = Arc::new(Index::build(&edit.snapshot, Some(&edit.index))?);
        taken.push(start.elapsed());
    }
    taken.sort_unstable();
    edit.median_ms = timing::millis(taken[taken.len() / 2]);
    Ok(edit)
}

impl Edit {
    /// Whether the index built by edits decides every request as one built from zero.
    pub(crate) fn same_as_rebuilt(&self, requests: &[Request]) -> Result<bool> {
        let rebuilt = Index::build(&self.snapshot, None)?;
        let here = self
            .index
            .listener(LISTENER)
            .context("the edited index lacks the listener")?;
        let there = rebuilt
            .listener(LISTENER)
            .context("the rebuilt index lacks the listener")?;
        let same = |request: &Request| answer(&self.index, here, request) == answer(&rebuilt, there, request);
        Ok(requests.iter().all(same))
    }
}

/// A decision by names: numbers differ between indexes.
fn answer(index: &Index, listener: ListenerId, request: &Request) -> (Option<String>, Option<String>) {
    let decision = decide(
        index,
        &request.facts(listener),
        request.draw,
        &Availability::default(),
    );
    let backend = match decision.outcome {
        Outcome::Forward { backend, .. } => Some(backend.name.to_string()),
        _ => None,
    };
    (
        decision.matched.map(|matched| matched.rule.name.to_string()),
        backend,
    )
}
