//! Decisions that the comparison with the naive matcher does not reach, and what an explanation says.
#![allow(clippy::unwrap_used)] // a test may fail

mod common;

use std::collections::BTreeMap;

use common::{forward, listener_facts, prefix, snapshot_of, snapshot_of_parts, table};
use routed_snapshot::ir::{Action, ProfilesPart, RedirectToHttps};
use routed_snapshot::snapshot::PartContent;
use routed_snapshot::{Availability, Facts, Index, Outcome, PartName, decide, explain};

#[test]
fn a_listener_redirects_plain_http_before_any_route() {
    let snapshot = snapshot_of(&[], Vec::new());
    let mut profiles: ProfilesPart = snapshot.profiles().unwrap().clone();
    let redirect = RedirectToHttps {
        port: 443,
        status: 301,
    };
    let profile = profiles.profiles.get_mut("default/default").unwrap();
    profile.listeners.get_mut("http").unwrap().redirect_to_https = Some(redirect.clone());
    let parts = BTreeMap::from([(PartName::Profiles, PartContent::Profiles(profiles))]);
    let index = Index::build(&snapshot_of_parts(parts), None).unwrap();
    let plain = listener_facts(&index, "a.test", "/");
    let by = |facts: &Facts<'_>| decide(&index, facts, 0, &Availability::default()).outcome;
    assert!(matches!(by(&plain), Outcome::RedirectToHttps(found) if *found == redirect));
    assert!(matches!(by(&Facts { https: true, ..plain }), Outcome::NotFound));
}

#[test]
fn a_failing_rule_answers_in_its_place() {
    let fail = Action::Fail {
        status: 500,
        reason: "BackendNotFound".into(),
    };
    let rules = [("Fail", fail), ("Broad", forward(&[("one", 1)]))];
    let tables = vec![
        table("a.test", vec![prefix("/bad", "Fail")]),
        table("*", vec![prefix("/", "Broad")]),
    ];
    let index = Index::build(&snapshot_of(&rules, tables), None).unwrap();
    let by = |path| {
        decide(
            &index,
            &listener_facts(&index, "a.test", path),
            0,
            &Availability::default(),
        )
        .outcome
    };
    assert!(matches!(
        by("/bad/x"),
        Outcome::Fail {
            status: 500,
            reason: "BackendNotFound"
        }
    ));
    assert!(
        matches!(by("/good"), Outcome::Forward { .. }),
        "the host's table has nothing: the next one's turn"
    );
}

#[test]
fn an_explanation_says_why_each_candidate_lost() {
    let rules = [("R", forward(&[("one", 1), ("!ServiceNotFound", 2), ("two", 0)]))];
    let mut post = prefix("/a", "R");
    post.method = Some("POST".into());
    let tables = vec![
        table("a.test", vec![post, prefix("/b", "R"), prefix("/a", "R")]),
        table("*", vec![prefix("/", "R")]),
    ];
    let index = Index::build(&snapshot_of(&rules, tables), None).unwrap();
    let facts = listener_facts(&index, "a.test", "/a/x");
    let explained = explain(&index, &facts, 4, &Availability::default());
    let verdicts: Vec<&str> = explained.candidates.iter().map(|c| c.verdict.as_str()).collect();
    assert_eq!(
        verdicts,
        ["MethodDiffers", "PathDiffers", "taken", "LowerPrecedence"]
    );
    assert_eq!(
        (explained.outcome.kind, explained.outcome.share),
        ("Fail", Some(1))
    );
    assert_eq!(explained.outcome.reason.as_deref(), Some("ServiceNotFound"));
    let ranges: Vec<_> = explained
        .outcome
        .shares
        .iter()
        .map(|share| (share.from, share.to))
        .collect();
    assert_eq!(ranges, [(0, 1), (1, 3), (3, 3)]);
}

#[test]
fn a_backend_keeps_its_number_while_it_exists_and_none_is_given_twice() {
    let build = |names: &[&str], previous: Option<&Index>| {
        let shares: Vec<(&str, u32)> = names.iter().map(|name| (*name, 1)).collect();
        let tables = vec![table("a.test", vec![prefix("/", "R")])];
        Index::build(&snapshot_of(&[("R", forward(&shares))], tables), previous).unwrap()
    };
    let id = |index: &Index, name: &str| index.backend_named(name).map(|entry| entry.id);
    let first = build(&["one", "two"], None);
    let second = build(&["one"], Some(&first));
    assert_eq!(id(&second, "one"), id(&first, "one"));
    assert_eq!(id(&second, "two"), None);
    assert!(second.backend(id(&first, "two").unwrap()).is_none());
    let third = build(&["one", "two"], Some(&second));
    assert_ne!(id(&third, "two"), id(&first, "two"));
    // Where far more numbers are dead than alive, numbering begins anew.
    let mut index = third;
    for _ in 0..2_000 {
        index = build(&["one"], Some(&index));
        index = build(&["one", "two"], Some(&index));
    }
    assert!(index.backends().all(|entry| entry.id.0 >> 8 <= 1_100));
}
