//! Which crate may depend on which: the order that keeps the decision free of IO, the compiler free of a client,
//! and the router away from the Kubernetes API.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// The workspace's crates and the crates of the workspace each is built on.
const ALLOWED: &[(&str, &[&str])] = &[
    ("routed-snapshot", &[]),
    ("routed-policy", &["routed-snapshot"]),
    ("routed-proto", &[]),
    (
        "routed-sources",
        &["routed-snapshot", "routed-policy", "routed-proto"],
    ),
    ("routed", &["routed-snapshot", "routed-sources"]),
    ("routedctl", &["routed-snapshot", "routed-policy"]),
    ("routed-loadtest", &["routed-snapshot"]),
];

/// What the crates must not reach, however indirectly.
const FORBIDDEN: &[(&str, &[&str])] = &[
    (
        "routed-snapshot",
        &[
            "tokio",
            "hyper",
            "kube",
            "kube-core",
            "k8s-openapi",
            "rustls",
            "notify",
        ],
    ),
    (
        "routed-policy",
        &["tokio", "hyper", "kube-client", "kube-runtime", "rustls"],
    ),
    (
        "routed",
        &["kube-client", "kube-runtime", "ring", "openssl-sys", "native-tls"],
    ),
    ("routedctl", &["ring", "openssl-sys", "native-tls"]),
];

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version=1",
            "--locked",
            "--filter-platform=x86_64-unknown-linux-gnu",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON")
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().map_or(&[], Vec::as_slice)
}

/// Package id → ids of what is linked into it (tests' and build scripts' own dependencies apart).
fn graph(metadata: &Value) -> BTreeMap<&str, Vec<&str>> {
    let linked = |dependency: &&Value| {
        list(dependency, "dep_kinds")
            .iter()
            .any(|kind| kind["kind"].is_null())
    };
    list(&metadata["resolve"], "nodes")
        .iter()
        .map(|node| {
            (
                text(node, "id"),
                list(node, "deps")
                    .iter()
                    .filter(linked)
                    .map(|d| text(d, "pkg"))
                    .collect(),
            )
        })
        .collect()
}

fn names(metadata: &Value) -> BTreeMap<&str, &str> {
    list(metadata, "packages")
        .iter()
        .map(|package| (text(package, "id"), text(package, "name")))
        .collect()
}

fn members(metadata: &Value) -> BTreeSet<&str> {
    list(metadata, "workspace_members")
        .iter()
        .filter_map(Value::as_str)
        .collect()
}

#[test]
fn crates_of_the_workspace_depend_only_downwards() {
    let metadata = metadata();
    let (graph, names, members) = (graph(&metadata), names(&metadata), members(&metadata));
    let found: BTreeSet<&str> = members.iter().map(|id| names[id]).collect();
    let known: BTreeSet<&str> = ALLOWED.iter().map(|(name, _)| *name).collect();
    assert_eq!(found, known, "a new crate is given its place here first");
    for id in &members {
        let (_, allowed) = ALLOWED
            .iter()
            .find(|(name, _)| name == &names[id])
            .expect("compared above");
        for dependency in graph[id]
            .iter()
            .filter(|dependency| members.contains(*dependency))
        {
            assert!(
                allowed.contains(&names[dependency]),
                "{} depends on {}",
                names[id],
                names[dependency]
            );
        }
    }
}

/// Names of all crates linked into `package`. By `cargo tree`, as the metadata's graph also holds optional crates that
/// are merely named by a feature and never built.
fn linked_into(package: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--locked",
            "--edges=normal",
            "--prefix=none",
            "--format={p}",
            "--package",
            package,
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines()
        .filter_map(|line| line.split(' ').next())
        .map(str::to_owned)
        .collect()
}

#[test]
fn no_crate_reaches_what_it_must_not() {
    for (name, forbidden) in FORBIDDEN {
        let linked = linked_into(name);
        assert!(linked.contains("serde_json"), "{name}: the tree was not read");
        for forbidden in *forbidden {
            assert!(!linked.contains(*forbidden), "{name} reaches {forbidden}");
        }
    }
}
