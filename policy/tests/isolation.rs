//! What can't be read or compiled hurts only itself: nothing is guessed in its place, and its requests reach no
//! broader rule.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use routed_policy::{Compiler, Kind, ObjectKey, Reason, Report, Resources, compile};
use routed_snapshot::PartName;
use routed_snapshot::ir::Action;
use routed_snapshot::snapshot::PartContent;

const PROFILE: &str = "apiVersion: routed.io/v1
kind: RouterProfile
metadata: {name: default}
spec:
  listeners: [{name: web, port: 80, protocol: HTTP}]
";

const UNREADABLE: [&str; 4] = [
    // An unknown field.
    "apiVersion: routed.io/v1\nkind: RouterProfile\nmetadata: {name: default}\nspec: {listener: []}\n",
    // A wrong type.
    "apiVersion: routed.io/v1\nkind: RouterProfile\nmetadata: {name: default}\nspec: {listeners: 80}\n",
    // No such version.
    "apiVersion: routed.io/v11\nkind: RouterProfile\nmetadata: {name: default}\nspec: {listeners: []}\n",
    // No such kind.
    "apiVersion: routed.io/v1\nkind: RouterProfil\nmetadata: {name: default}\nspec: {listeners: []}\n",
];

const ROUTE: &str = "apiVersion: routed.io/v2
kind: EdgeRoute
metadata: {name: a}
spec:
  hostnames: [a.example.com]
  rules:
  - filters: [{type: DirectResponse, directResponse: {statusCode: 200, body: a}}]
";

fn files(documents: &[&str]) -> Vec<(String, Vec<u8>)> {
    let numbered = documents.iter().enumerate();
    numbered
        .map(|(at, text)| (format!("{at}.yaml"), text.as_bytes().to_vec()))
        .collect()
}

fn ports(report: &Report) -> Vec<u16> {
    let profiles = report.snapshot.profiles().unwrap();
    let listeners = profiles.profiles["default/default"].listeners.values();
    listeners.map(|listener| listener.port).collect()
}

fn has(report: &Report, reason: Reason) -> bool {
    report.diags.iter().any(|diag| diag.reason == reason)
}

#[test]
fn a_profile_that_never_could_be_read_opens_no_port() {
    for unreadable in UNREADABLE {
        let mut resources = Resources::default();
        let mut compiler = Compiler::new();
        resources.reload_keeping(files(&[unreadable, ROUTE]));
        let report = compiler.compile(&resources);
        assert_eq!(ports(&report), [0; 0], "{unreadable}");
        assert!(has(&report, Reason::ProfileNotFound), "{:?}", report.diags);
        assert!(report.snapshot.is_empty());
        // Taken away, it is one that nobody wrote; and mended, it is itself.
        resources.reload_keeping(files(&["", ROUTE]));
        let report = compiler.compile(&resources);
        assert_eq!((ports(&report), report.snapshot.is_empty()), (vec![8080], false));
        resources.reload_keeping(files(&[unreadable, ROUTE]));
        assert_eq!(ports(&compiler.compile(&resources)), [0; 0]);
        resources.reload_keeping(files(&[PROFILE, ROUTE]));
        assert_eq!(ports(&compiler.compile(&resources)), [80]);
    }
}

#[test]
fn an_object_that_can_no_longer_be_read_stays_what_it_was() {
    for unreadable in UNREADABLE {
        let mut resources = Resources::default();
        let mut compiler = Compiler::new();
        resources.reload_keeping(files(&[PROFILE, ROUTE]));
        let good = compiler.compile(&resources);
        // The second copy doesn't count, neither before nor while the first one can't be read.
        let copy = PROFILE.replace("80", "81");
        let sure = unreadable.contains("kind: RouterProfile\n");
        let presents = [&[unreadable, ROUTE][..], &[unreadable, ROUTE, &copy]];
        for present in &presents[..1 + usize::from(sure)] {
            resources.reload_keeping(files(present));
            let report = compiler.compile(&resources);
            assert_eq!(report.snapshot.hash(), good.snapshot.hash(), "{:?}", report.diags);
            let kept = |message: &str| message.contains("last good version stays");
            assert!(report.diags.iter().any(|diag| kept(&diag.message)));
        }
        // Not YAML at all meanwhile: which object it is can't be told, and nothing is forgotten.
        resources.reload_keeping(files(&["kind: [", ROUTE]));
        resources.reload_keeping(files(&[unreadable, ROUTE]));
        assert_eq!(compiler.compile(&resources).snapshot.hash(), good.snapshot.hash());
        resources.reload_keeping(files(&["", ROUTE]));
        resources.reload_keeping(files(&[unreadable, ROUTE]));
        assert_eq!(
            ports(&compiler.compile(&resources)),
            [0; 0],
            "one that was gone is kept"
        );
    }
}

#[test]
fn the_profile_served_stays_when_it_is_gone_until_it_is_back() {
    let mut resources = Resources::default();
    resources.hold(ObjectKey::new(Kind::RouterProfile, None, "default"));
    let mut compiler = Compiler::new();
    // Never there: the built-in one.
    resources.reload_keeping(files(&["", ROUTE]));
    assert_eq!(ports(&compiler.compile(&resources)), [8080]);
    resources.reload_keeping(files(&[PROFILE, ROUTE]));
    let good = compiler.compile(&resources);
    assert_eq!(good.diags, []);
    for _ in 0..2 {
        resources.reload_keeping(files(&["", ROUTE]));
        let report = compiler.compile(&resources);
        assert_eq!(report.snapshot.hash(), good.snapshot.hash());
        assert!(report.has_errors() && has(&report, Reason::ProfileNotFound));
    }
    let moved = PROFILE.replace("80", "81");
    resources.reload_keeping(files(&["", ROUTE, &moved]));
    let report = compiler.compile(&resources);
    assert_eq!((ports(&report), report.diags), (vec![81], vec![]));
}

#[test]
fn a_misspelt_kind_is_no_profile_unless_it_is_spelt_like_one() {
    let good = compile(&Resources::from_files(files(&[PROFILE, ROUTE])));
    for kind in ["EdgeRout", "Backnd", "RoutingPolcy", "Something"] {
        let document =
            format!("apiVersion: routed.io/v2\nkind: {kind}\nmetadata: {{name: api}}\nspec: {{}}\n");
        let report = compile(&Resources::from_files(files(&[PROFILE, ROUTE, &document])));
        assert_eq!(report.snapshot.hash(), good.snapshot.hash(), "{kind}");
        assert!(has(&report, Reason::UnknownKind), "{:?}", report.diags);
    }
}

/// The status of each rule that answers by itself, by its name.
fn answers(report: &Report) -> Vec<(String, u16)> {
    let parts = report.snapshot.parts().iter();
    let rules = parts.filter_map(
        |(name, part)| match (name, part.content().unwrap().into_owned()) {
            (PartName::Routes(_), PartContent::Routes(part)) => Some(part.rules),
            _ => None,
        },
    );
    let status = |action: &Action| match action {
        Action::Fail { status, .. } => *status,
        Action::DirectResponse(answer) => answer.status,
        _ => 0,
    };
    rules
        .flatten()
        .map(|(name, rule)| (name, status(&rule.action)))
        .collect()
}

#[test]
fn a_route_that_can_not_be_read_answers_500_unless_a_good_version_is_there() {
    let broken = ROUTE.replace("  rules:", "  backend: web\n  rules:");
    let expect = |report: &Report, status: u16| {
        let name = "EdgeRoute/default/a/0".to_owned();
        assert_eq!(answers(report), [(name, status)], "{:?}", report.diags);
        report.has_errors()
    };
    let mut resources = Resources::default();
    let mut compiler = Compiler::new();
    let mut take = |documents: &[&str]| {
        resources.reload_keeping(files(documents));
        compiler.compile(&resources)
    };
    // Cold: nothing is known but its host; an outline is no version to go on with.
    assert!(expect(&take(&[&broken]), 500));
    assert!(expect(&take(&[&broken, "# touched"]), 500));
    // A good copy elsewhere counts.
    assert!(expect(&take(&[&broken, ROUTE]), 200));
    assert!(expect(&take(&[&broken]), 200));
    assert!(!expect(&take(&[ROUTE]), 200));
    assert!(expect(&take(&[&broken]), 200));
    assert_eq!(answers(&take(&[""])), []);
    assert!(expect(&take(&[&broken]), 500));
}

#[test]
fn an_unreadable_copy_beside_a_good_object_stops_no_edit_of_it() {
    for unreadable in UNREADABLE {
        let mut resources = Resources::default();
        let mut compiler = Compiler::new();
        for port in [80, 81] {
            let good = PROFILE.replace("80", &port.to_string());
            resources.reload_keeping(files(&[unreadable, &good]));
            let report = compiler.compile(&resources);
            assert_eq!(ports(&report), [port], "{:?}", report.diags);
            assert!(!has(&report, Reason::AlreadyDefined));
        }
    }
}

#[test]
fn a_rule_with_too_many_matches_answers_500_to_all_of_them() {
    let matches: Vec<String> = (0..100)
        .map(|at| format!("{{path: {{value: /p{at}}}}}"))
        .collect();
    let filter = "filters: [{type: DirectResponse, directResponse: {statusCode: 200, body: a}}]";
    let route = format!(
        "apiVersion: routed.io/v2\nkind: EdgeRoute\nmetadata: {{name: a}}\nspec:\n  hostnames: [a.example.com]\n  rules:\n  \
         - matches: [{}]\n    {filter}\n  - {filter}\n",
        matches.join(", ")
    );
    let report = compile(&Resources::from_files(files(&[&route])));
    assert!(has(&report, Reason::TooMany), "{:?}", report.diags);
    let parts = report.snapshot.parts().iter();
    let mut routes = parts.filter_map(
        |(name, part)| match (name, part.content().unwrap().into_owned()) {
            (PartName::Routes(_), PartContent::Routes(part)) => Some(part),
            _ => None,
        },
    );
    let part = routes.next().unwrap();
    assert_eq!(part.tables[0].matches.len(), 101);
    let failing = &part.rules["EdgeRoute/default/a/0"].action;
    assert!(matches!(failing, Action::Fail { status: 500, .. }), "{failing:?}");
}
