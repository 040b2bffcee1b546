//! Sizes: what arrives whole, and how little a change costs. Row K6.

use std::collections::BTreeMap;
use std::sync::Arc;

use routed_snapshot::ir::{
    Action, Backend, BackendsPart, HttpMatch, HttpTable, PathMatch, RoutesPart, Rule, Target, WeightedBackend,
};
use routed_snapshot::snapshot::{PartContent, bucket_of};
use routed_snapshot::{Hash, Part, PartName, Snapshot};

use crate::common::{Running, position, snapshot};
use crate::rig::{full, grpc};
use crate::server::{At, Script, Server};

/// A snapshot whose document has about as many bytes, none of which compress well: hosts that answer with long text.
pub fn sized(bytes: usize, version: u64) -> Snapshot {
    let template = snapshot("", None);
    let content = template
        .parts()
        .values()
        .next()
        .unwrap()
        .content()
        .unwrap()
        .into_owned();
    let PartContent::Routes(template) = content else {
        panic!("no routes")
    };
    let mut parts: BTreeMap<PartName, RoutesPart> = BTreeMap::new();
    for number in 0..bytes.div_ceil(ANSWER) {
        let host = format!("h{number}.example.com");
        let name = format!("EdgeRoute/default/r{number}/0");
        let mut rule = template.rules.values().next().unwrap().clone();
        if let Action::DirectResponse(answer) = &mut rule.action {
            answer.body = noise(ANSWER, version * 10_000 + number as u64);
        }
        let mut table = template.tables[0].clone();
        table.host.clone_from(&host);
        table.matches[0].rule.clone_from(&name);
        let part = parts.entry(PartName::Routes(bucket_of(&host))).or_default();
        part.rules.insert(name, rule);
        part.tables.push(table);
    }
    let part = |(name, part)| {
        (
            name,
            Arc::new(Part::from_content(PartContent::Routes(part)).unwrap()),
        )
    };
    Snapshot::new(
        parts.into_iter().map(part).collect(),
        Some(position("c", version)),
    )
}

/// Length of one answer's text.
const ANSWER: usize = 50_000;

/// Text that does not become much smaller.
fn noise(length: usize, seed: u64) -> String {
    let mut state = seed;
    let next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        char::from(b'0' + ((state >> 40) % 64) as u8)
    };
    let plain = |c| if c == '\\' { '~' } else { c };
    std::iter::repeat_with(next).map(plain).take(length).collect()
}

/// Arrives at a router that runs and at a fresh one.
fn arrives(mebibytes: f64, script: Script) {
    let bytes = (mebibytes * f64::from(1 << 20)) as usize;
    let large = sized(bytes, 2);
    let length = large.encode().len();
    assert!(
        length.abs_diff(bytes) < bytes / 10 + 600_000,
        "{length} bytes instead of {bytes}"
    );
    let server = Server::at(At::Port(0));
    server.script(script);
    server.set(&snapshot("small", Some(position("c", 1))));
    let running = Running::start(grpc(server.address()));
    running.until_serves(&snapshot("small", None));
    server.set(&large);
    running.until_serves(&large);
    let fresh = Running::start(grpc(server.address()));
    fresh.until_serves(&large);
    for running in [running, fresh] {
        assert_eq!(running.status().refusals, 0);
    }
}

fn sizes() -> Vec<f64> {
    let mut sizes = vec![0.9, 3.9, 4.1, 17.0];
    if full() {
        sizes.push(64.0);
    }
    sizes
}

#[test]
fn snapshots_of_many_sizes_arrive_in_parts() {
    for size in sizes() {
        arrives(size, Script::Honest);
    }
}

#[test]
fn snapshots_of_many_sizes_arrive_as_whole_documents() {
    for size in sizes() {
        arrives(size, Script::Whole);
    }
}

/// Hosts with nothing in common but the domain, each with a rule and a path of its own.
fn many_hosts(count: usize, edited: Option<usize>, version: u64) -> Snapshot {
    let mut routes: BTreeMap<u8, RoutesPart> = BTreeMap::new();
    let mut backends: BTreeMap<u8, BackendsPart> = BTreeMap::new();
    for number in 0..count {
        let id = &Hash::of(&number.to_le_bytes()).to_string()[..12];
        let host = format!("{id}.shop.example.com");
        let name = format!("EdgeRoute/shop/{id}/0");
        let backend = format!("Service/shop/app-{}/80", number / 100);
        let table = HttpTable {
            host: host.clone(),
            listeners: vec!["default/default/http".to_owned()],
            matches: vec![HttpMatch {
                path: PathMatch::PathPrefix(if edited == Some(number) { "/edited" } else { "/" }.to_owned()),
                method: None,
                headers: Vec::new(),
                query_params: Vec::new(),
                cookies: Vec::new(),
                rule: name.clone(),
                index: 0,
            }],
        };
        let part = routes.entry(bucket_of(&host)).or_default();
        part.rules.insert(name, forward(&backend));
        part.tables.push(table);
        let part = backends.entry(bucket_of(&backend)).or_default();
        part.backends.insert(backend, Backend::default());
    }
    let routes = routes
        .into_iter()
        .map(|(bucket, part)| (PartName::Routes(bucket), PartContent::Routes(part)));
    let backends = backends
        .into_iter()
        .map(|(bucket, part)| (PartName::Backends(bucket), PartContent::Backends(part)));
    let parts = routes
        .chain(backends)
        .map(|(name, content)| (name, Arc::new(Part::from_content(content).unwrap())));
    Snapshot::new(parts.collect(), Some(position("c", version)))
}

fn forward(backend: &str) -> Rule {
    let share = WeightedBackend {
        weight: 1,
        target: Target::Backend(backend.to_owned()),
        request_headers: Default::default(),
        response_headers: Default::default(),
    };
    Rule {
        name: None,
        action: Action::Forward {
            backends: vec![share],
        },
        request_headers: Default::default(),
        response_headers: Default::default(),
        rewrite: None,
        cors: None,
        mirrors: Vec::new(),
        timeouts: Default::default(),
        retry: None,
    }
}

/// 100,000 routes in full size: the change has at most 64 KiB on the wire, frames and pings included.
#[test]
fn one_edit_among_many_routes_costs_little_on_the_wire() {
    let count = if full() { 100_000 } else { 10_000 };
    let server = Server::start(&many_hosts(count, None, 1));
    let running = Running::start(grpc(server.address()));
    let before = many_hosts(count, None, 1);
    running.until_serves(&before);
    let whole = server.written();
    let edited = many_hosts(count, Some(7), 2);
    server.set(&edited);
    running.until_serves(&edited);
    let change = server.written() - whole;
    let document = before.encode().len();
    println!(
        "{count} routes: document {document} bytes, first delivery {whole} bytes, one edit {change} bytes"
    );
    assert!(change <= 64 << 10, "{change} bytes for one edit");
    assert!(change > 100, "nothing was counted");
}
