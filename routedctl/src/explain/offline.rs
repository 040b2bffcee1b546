//! An explanation on a snapshot at hand. Every backend counts as available: its endpoints are asked of nobody.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use routed_snapshot::ir::ListenerProtocol;
use routed_snapshot::{Availability, Facts, Header, Index, Snapshot};
use serde_json::Value;

use super::request::Request;
use crate::input;
use crate::validate::Findings;

/// On a snapshot file.
pub(crate) fn on_snapshot(file: &Path, request: &Request) -> Result<Value> {
    let document = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let snapshot = Snapshot::decode(&document).with_context(|| format!("{}", file.display()))?;
    on(&snapshot, request)
}

/// On resources. What is wrong with them is shown on stderr: it is often the reason asked for.
pub(crate) fn on_resources(path: &Path, request: &Request) -> Result<Value> {
    let input = input::read(&[path.to_owned()]);
    if let [first, ..] = input.unusable.as_slice() {
        bail!("{}: {}", first.file, first.message);
    }
    let findings = Findings::of(&input);
    findings.show(&input);
    on(&findings.report.snapshot, request)
}

fn on(snapshot: &Snapshot, request: &Request) -> Result<Value> {
    let index = Index::build(snapshot, None)?;
    let listener = listener(snapshot, request)?;
    let listener = index
        .listener(&listener)
        .with_context(|| format!("there is no listener `{listener}`"))?;
    let headers = request.headers.iter().map(|(name, value)| Header {
        name,
        value: value.as_bytes(),
    });
    let headers = headers.collect::<Vec<_>>();
    let facts = Facts {
        listener,
        https: request.https,
        method: &request.method,
        host: &request.host,
        path: &request.path,
        query: request.query.as_deref(),
        headers: &headers,
    };
    let explanation = routed_snapshot::explain(&index, &facts, request.draw, &Availability::default());
    Ok(serde_json::to_value(explanation)?)
}

/// The listener named; else the only one that speaks the URL's scheme, on the URL's port where it has one. Guessing
/// among several would explain a decision that nobody asked about.
fn listener(snapshot: &Snapshot, request: &Request) -> Result<String> {
    if let Some(name) = &request.listener {
        return Ok(name.clone());
    }
    let wanted = match request.https {
        true => ListenerProtocol::Https,
        false => ListenerProtocol::Http,
    };
    let profiles = snapshot.profiles().into_iter().flat_map(|part| &part.profiles);
    let listeners = profiles.flat_map(|(profile, content)| {
        let of_profile = content.listeners.iter();
        of_profile.map(move |(name, listener)| (format!("{profile}/{name}"), listener))
    });
    let fitting = listeners.filter(|(_, listener)| {
        listener.protocol == wanted && request.port.is_none_or(|port| port == listener.port)
    });
    let mut names = fitting.map(|(name, _)| name).collect::<Vec<_>>();
    ensure!(
        names.len() <= 1,
        "several listeners would do, name one by --listener: {}",
        names.join(", ")
    );
    names.pop().with_context(|| {
        let scheme = if request.https { "https" } else { "http" };
        let port = request
            .port
            .map(|port| format!(" on port {port}"))
            .unwrap_or_default();
        format!("no listener speaks {scheme}{port}; name one by --listener")
    })
}
