//! Snapshots of which no index is built: refused whole, with the part and the place.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // a test may fail, and says what it measured

mod common;

use std::collections::BTreeMap;

use common::{field, forward, path_match, prefix, snapshot_of, snapshot_of_parts, table};
use routed_snapshot::ir::{
    Backend, BackendsPart, Endpoint, EndpointsPart, PathMatch, RoutesPart, ValueMatch,
};
use routed_snapshot::snapshot::{PartContent, bucket_of};
use routed_snapshot::{Index, PartName, Snapshot};

fn refusal(snapshot: &Snapshot) -> (String, String) {
    let error = Index::build(snapshot, None).unwrap_err();
    (error.at, error.why)
}

fn one(entry: routed_snapshot::ir::HttpMatch) -> Snapshot {
    snapshot_of(&[("R", forward(&[("B", 1)]))], vec![table("a.test", vec![entry])])
}

#[test]
fn a_rule_that_the_part_lacks() {
    let (at, why) = refusal(&one(prefix("/", "Q")));
    assert_eq!(
        (at.as_str(), why.as_str()),
        ("tables[0].matches[0].rule", "no rule `Q` in this part")
    );
}

#[test]
fn a_regular_expression_that_does_not_compile() {
    let long = "a".repeat(5_000);
    for bad in [
        "(",
        "a)|(b",
        "[z-a]",
        "(?P<n>",
        "\\1",
        "(((a{100}){100}){100})",
        &long,
    ] {
        let (at, why) = refusal(&one(path_match(PathMatch::RegularExpression(bad.into()), "R")));
        assert_eq!(at, "tables[0].matches[0].path", "{bad}");
        assert!(why.contains("regular expression"), "{why}");
    }
    let mut entry = prefix("/", "R");
    entry.headers = vec![
        field("x-a", ValueMatch::Present),
        field("x-b", ValueMatch::RegularExpression("(".into())),
    ];
    assert_eq!(refusal(&one(entry)).0, "tables[0].matches[0].headers[1].value");
}

#[test]
fn a_second_table_of_a_host_for_the_same_listener() {
    let twice = vec![
        table("a.test", vec![prefix("/", "R")]),
        table("a.test", vec![prefix("/b", "R")]),
    ];
    let (at, why) = refusal(&snapshot_of(&[("R", forward(&[("B", 1)]))], twice));
    assert_eq!(at, "tables[1]");
    assert!(why.contains("a.test"), "{why}");
}

#[test]
fn weights_of_zero_only() {
    let zero = [("R", forward(&[("B", 0), ("C", 0)]))];
    let (at, _) = refusal(&snapshot_of(&zero, vec![table("a.test", vec![prefix("/", "R")])]));
    assert_eq!(at, "rules.R.action.backends");
}

#[test]
fn a_backend_named_nowhere_also_where_the_rest_is_taken_over() {
    let whole = one(prefix("/", "R"));
    let index = Index::build(&whole, None).unwrap();
    let mut parts = whole.parts().clone();
    parts.remove(&PartName::Backends(bucket_of("B")));
    let without = Snapshot::new(parts, None);
    for previous in [None, Some(&index)] {
        let error = Index::build(&without, previous).unwrap_err();
        assert_eq!(error.at, "rules.R.action.backends[0].target");
        assert_eq!(error.part, PartName::Routes(bucket_of("a.test")).to_string());
    }
    // Back again, the chain goes on.
    assert!(Index::build(&whole, Some(&index)).is_ok());
}

#[test]
fn names_in_the_wrong_bucket() {
    let wrong = |name: &str| bucket_of(name).wrapping_add(1);
    let routes = RoutesPart {
        rules: BTreeMap::new(),
        tables: vec![table("a.test", vec![])],
    };
    let backends = BackendsPart {
        backends: BTreeMap::from([("B".to_owned(), Backend::default())]),
    };
    let endpoints = EndpointsPart {
        endpoints: BTreeMap::from([("B".to_owned(), vec![])]),
    };
    for (name, content) in [
        (PartName::Routes(wrong("a.test")), PartContent::Routes(routes)),
        (PartName::Backends(wrong("B")), PartContent::Backends(backends)),
        (PartName::Endpoints(wrong("B")), PartContent::Endpoints(endpoints)),
    ] {
        let (_, why) = refusal(&snapshot_of_parts(BTreeMap::from([(name, content)])));
        assert!(why.contains("wrong bucket"), "{why}");
    }
}

#[test]
fn an_endpoint_whose_address_is_no_ip_address() {
    let bucket = bucket_of("B");
    let endpoint = Endpoint {
        address: "localhost".into(),
        port: 80,
        weight: 1,
    };
    let backends = BackendsPart {
        backends: BTreeMap::from([("B".to_owned(), Backend::default())]),
    };
    let endpoints = EndpointsPart {
        endpoints: BTreeMap::from([("B".to_owned(), vec![endpoint])]),
    };
    let (at, _) = refusal(&snapshot_of_parts(BTreeMap::from([
        (PartName::Backends(bucket), PartContent::Backends(backends)),
        (PartName::Endpoints(bucket), PartContent::Endpoints(endpoints)),
    ])));
    assert_eq!(at, "endpoints.B[0].address");
}

#[test]
fn content_of_another_kind_than_the_name() {
    let parts = BTreeMap::from([(PartName::Profiles, PartContent::Routes(RoutesPart::default()))]);
    assert!(refusal(&snapshot_of_parts(parts)).1.contains("another kind"));
}
