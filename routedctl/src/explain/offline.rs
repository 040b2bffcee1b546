//! An explanation on a snapshot at hand. Every backend counts as available: its endpoints are asked of nobody.

use std::path::Path;

use anyhow::{Context, Result, bail};
use routed_snapshot::request::Typed;
use routed_snapshot::{Availability, Index, Question, Snapshot};
use serde_json::Value;

use crate::args::Explain;
use crate::input;
use crate::validate::Findings;

/// On a snapshot file.
pub(crate) fn on_snapshot(file: &Path, typed: &Typed, options: &Explain) -> Result<Value> {
    let document = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let snapshot = Snapshot::decode(&document).with_context(|| format!("{}", file.display()))?;
    on(&snapshot, typed, options)
}

/// On resources. What is wrong with them is shown on stderr: it is often the reason asked for.
pub(crate) fn on_resources(path: &Path, typed: &Typed, options: &Explain) -> Result<Value> {
    let input = input::read(&[path.to_owned()]);
    if let [first, ..] = input.unusable.as_slice() {
        bail!("{}: {}", first.file, first.message);
    }
    let findings = Findings::of(&input);
    findings.show(&input);
    on(&findings.report.snapshot, typed, options)
}

fn on(snapshot: &Snapshot, typed: &Typed, options: &Explain) -> Result<Value> {
    let question = Question {
        typed,
        profile: options.profile.as_deref(),
        listener: options.listener.as_deref(),
        draw: options.draw,
    };
    let index = Index::build(snapshot, None)?;
    let explanation = question.answer(&index, &Availability::default())?;
    Ok(serde_json::to_value(explanation)?)
}
