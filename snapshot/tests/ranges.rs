//! Numbers and texts out of range: no index is built, and the error names the place.
#![allow(clippy::unwrap_used)] // a test may fail

mod common;

use std::collections::BTreeMap;

use common::{forward, prefix, rule, snapshot_of_parts, table};
use routed_snapshot::index::IndexError;
use routed_snapshot::ir::{
    Action, DirectResponse, HeaderEdits, HeaderPair, Limits, Listener, ListenerProtocol, Profile,
    ProfilesPart, Redirect, RedirectToHttps, Retry, RoutesPart, Rule, RuleTimeouts, Timeouts,
};
use routed_snapshot::snapshot::{PartContent, bucket_of};
use routed_snapshot::{Index, PartName, limits};

const MAX_MS: u64 = limits::MILLISECONDS.most;

fn with_profile(profile: Profile) -> Result<Index, IndexError> {
    let profiles = ProfilesPart {
        profiles: BTreeMap::from([("ns/p".to_owned(), profile)]),
    };
    let parts = BTreeMap::from([(PartName::Profiles, PartContent::Profiles(profiles))]);
    Index::build(&snapshot_of_parts(parts), None)
}

fn with_rule(rule: Rule) -> Result<Index, IndexError> {
    let routes = RoutesPart {
        rules: BTreeMap::from([("R".to_owned(), rule)]),
        tables: vec![table("a.test", vec![prefix("/", "R")])],
    };
    let name = PartName::Routes(bucket_of("a.test"));
    Index::build(
        &snapshot_of_parts(BTreeMap::from([(name, PartContent::Routes(routes))])),
        None,
    )
}

/// Where the profile is refused, below the profile.
fn bad_profile(change: impl FnOnce(&mut Profile)) -> String {
    let mut profile = Profile::built_in();
    change(&mut profile);
    let error = with_profile(profile).unwrap_err();
    assert_eq!(error.part, "profiles");
    error.at.strip_prefix("profiles.ns/p.").unwrap().to_owned()
}

/// Where the rule is refused, below the rule.
fn bad_rule(change: impl FnOnce(&mut Rule)) -> String {
    let mut rule = rule(forward(&[("!NoSuchThing", 1)]));
    change(&mut rule);
    let error = with_rule(rule).unwrap_err();
    assert_eq!(error.part, PartName::Routes(bucket_of("a.test")).to_string());
    error.at.strip_prefix("rules.R.").unwrap().to_owned()
}

fn bad_action(action: Action) -> String {
    bad_rule(|rule| rule.action = action)
}

fn pair(name: &str, value: &str) -> HeaderPair {
    HeaderPair {
        name: name.into(),
        value: value.into(),
    }
}

#[test]
fn the_least_and_the_most_are_taken() {
    for (least, time) in [(true, 0), (false, MAX_MS)] {
        let number = |low, high| if least { low } else { high };
        let mut profile = Profile::built_in();
        profile.limits = Limits {
            target_bytes: number(16, 1 << 20),
            header_bytes: number(256, 16 << 20),
            header_count: number(1, 10_000),
            http2_streams: number(1, 100_000),
            body_bytes: if least { 0 } else { (1 << 53) - 1 },
        };
        profile.timeouts = Timeouts {
            request_head_ms: time,
            idle_ms: time,
            handshake_ms: time,
            connect_ms: time,
            upstream_idle_ms: time,
            drain_ms: time,
        };
        with_profile(profile).unwrap();
        let mut rule = rule(forward(&[("!NoSuchThing", 1)]));
        rule.timeouts.request_ms = time;
        rule.timeouts.backend_request_ms = time;
        rule.retry = Some(Retry {
            attempts: number(0, 100),
            codes: vec![400, 599],
            backoff_ms: time,
        });
        rule.request_headers.set = vec![pair("x-a_b", ""), pair("1", "\u{e9} \t;")];
        with_rule(rule).unwrap();
    }
}

#[test]
fn limits_out_of_range() {
    assert_eq!(bad_profile(|p| p.limits.target_bytes = 15), "limits.targetBytes");
    assert_eq!(
        bad_profile(|p| p.limits.header_bytes = u32::MAX),
        "limits.headerBytes"
    );
    for count in [0, 10_001] {
        assert_eq!(
            bad_profile(|p| p.limits.header_count = count),
            "limits.headerCount"
        );
    }
    assert_eq!(bad_profile(|p| p.limits.http2_streams = 0), "limits.http2Streams");
    assert_eq!(
        bad_profile(|p| p.limits.body_bytes = u64::MAX),
        "limits.bodyBytes"
    );
    assert_eq!(
        bad_profile(|p| p.trusted_proxies.hops = 33),
        "trustedProxies.hops"
    );
}

#[test]
fn times_no_one_can_write() {
    assert_eq!(
        bad_profile(|p| p.timeouts.idle_ms = MAX_MS + 1),
        "timeouts.idleMs"
    );
    assert_eq!(
        bad_profile(|p| p.timeouts.drain_ms = u64::MAX),
        "timeouts.drainMs"
    );
    let request = RuleTimeouts {
        request_ms: u64::MAX,
        backend_request_ms: 0,
    };
    assert_eq!(bad_rule(|rule| rule.timeouts = request), "timeouts.requestMs");
}

#[test]
fn listeners_that_cannot_be_bound_or_redirect_nowhere() {
    let listener = |address: &str, port: u16, status: u16| Listener {
        address: address.into(),
        port: 80,
        protocol: ListenerProtocol::Http,
        tls: None,
        redirect_to_https: Some(RedirectToHttps { port, status }),
    };
    for (bad, place) in [
        (listener("localhost", 443, 301), "address"),
        (listener("", 443, 301), "address"),
        (listener("::", 0, 301), "redirectToHttps.port"),
        (listener("::", 443, 200), "redirectToHttps.status"),
    ] {
        let at = bad_profile(|p| p.listeners = BTreeMap::from([("web".to_owned(), bad)]));
        assert_eq!(at, format!("listeners.web.{place}"));
    }
}

#[test]
fn statuses_and_bodies_of_answers() {
    for status in [0, 99, 200, 304, 1000] {
        let redirect = Redirect {
            status,
            ..Redirect::default()
        };
        assert_eq!(bad_action(Action::Redirect(redirect)), "action.status");
    }
    let answer = |status, body: String, content_type: Option<&str>| {
        Action::DirectResponse(DirectResponse {
            status,
            body,
            content_type: content_type.map(str::to_owned),
        })
    };
    for status in [0, 101, 199, 600, u16::MAX] {
        assert_eq!(bad_action(answer(status, String::new(), None)), "action.status");
        let reason = "NoBackends".to_owned();
        assert_eq!(bad_action(Action::Fail { status, reason }), "action.status");
    }
    let long = "a".repeat((64 << 10) + 1);
    assert_eq!(bad_action(answer(200, long, None)), "action.body");
    let split = answer(200, String::new(), Some("text/plain\r\nx: y"));
    assert_eq!(bad_action(split), "action.contentType");
}

#[test]
fn edits_that_are_no_header() {
    let set = |name: &str, value: &str| HeaderEdits {
        set: vec![pair("x-fine", "fine"), pair(name, value)],
        ..HeaderEdits::default()
    };
    for name in ["", "a b", "X-Upper", "a:", "a\r\nb", "\u{e4}", &"a".repeat(257)] {
        let edits = set(name, "v");
        assert_eq!(
            bad_rule(|rule| rule.request_headers = edits),
            "requestHeaders.set[1].name"
        );
        let remove = HeaderEdits {
            remove: vec![name.to_owned()],
            ..HeaderEdits::default()
        };
        assert_eq!(
            bad_rule(|rule| rule.response_headers = remove),
            "responseHeaders.remove[0]"
        );
    }
    for value in ["a\nb", "\0", "\x7f", &"a".repeat((8 << 10) + 1)] {
        let mut action = forward(&[("!NoSuchThing", 1)]);
        if let Action::Forward { backends } = &mut action {
            backends[0].response_headers = set("x-a", value);
        }
        assert_eq!(
            bad_action(action),
            "action.backends[0].responseHeaders.set[1].value"
        );
    }
}

#[test]
fn retries_without_end() {
    let retry = |attempts, code, backoff_ms| {
        Some(Retry {
            attempts,
            codes: vec![code],
            backoff_ms,
        })
    };
    assert_eq!(bad_rule(|rule| rule.retry = retry(101, 503, 0)), "retry.attempts");
    assert_eq!(bad_rule(|rule| rule.retry = retry(1, 200, 0)), "retry.codes");
    assert_eq!(
        bad_rule(|rule| rule.retry = retry(1, 503, u64::MAX)),
        "retry.backoffMs"
    );
}
