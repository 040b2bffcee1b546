//! An explanation on a snapshot at hand. Every backend counts as available: its endpoints are asked of nobody.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use routed_snapshot::ir::Profile;
use routed_snapshot::request::Typed;
use routed_snapshot::{Availability, Index, Snapshot, explain_typed};
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
    let index = Index::build(snapshot, None)?;
    let profiles = profiles(snapshot, options.listener.as_deref());
    let listeners = profiles.iter().flat_map(|(name, profile)| {
        let own = profile.listeners.iter();
        own.map(move |(listener, settings)| (format!("{name}/{listener}"), settings))
    });
    let listener = typed.listener(listeners, options.listener.as_deref())?;
    let explanation = explain_typed(&index, &listener, typed, options.draw, &Availability::default());
    Ok(serde_json::to_value(explanation)?)
}

/// The snapshot's profiles, and the built-in one where a router would run it: as `default/default`, or as the profile of
/// the listener that was named.
fn profiles(snapshot: &Snapshot, listener: Option<&str>) -> BTreeMap<String, Profile> {
    let part = snapshot.profiles();
    let mut profiles = part.map(|part| part.profiles.clone()).unwrap_or_default();
    let named = listener.and_then(|listener| listener.rsplit_once('/'));
    let named = named
        .map(|(profile, _)| profile)
        .filter(|profile| profile.contains('/'));
    for name in ["default/default"].into_iter().chain(named) {
        profiles.entry(name.to_owned()).or_insert_with(Profile::built_in);
    }
    profiles
}
