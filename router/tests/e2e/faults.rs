//! Objects in error: each hurts itself, and only itself.

use serde_json::{Value, json};

use crate::harness::{
    Folder, Router, Stub, backend, backend_spec, compile, full, get, object, profile, route, simple_route,
    wait_until,
};

const GOOD: usize = 100;

fn good(to: &str) -> Vec<Value> {
    (0..GOOD)
        .map(|n| {
            simple_route(
                &format!("good-{n:03}"),
                &[&format!("g{n}.example")],
                "PathPrefix",
                "/",
                to,
            )
        })
        .collect()
}

fn to_a() -> Value {
    json!([{"backend": "a"}])
}

/// Faults by name: the bad route's rules, and whether the fault is one of the shape (then the object is what it was
/// when it last could be read) or of one rule (then the rule answers 500 in its place).
fn faults() -> Vec<(&'static str, Value, bool)> {
    let rewrite = json!({"type": "URLRewrite", "urlRewrite": {"hostname": "x.example"}});
    let paths = std::iter::once("/".to_owned()).chain((1..1000).map(|n| format!("/{n}")));
    let matches: Vec<Value> = paths.map(|path| json!({"path": {"value": path}})).collect();
    vec![
        (
            "a missing Service",
            json!([{"backends": [{"service": "nowhere", "port": 80}]}]),
            false,
        ),
        (
            "a missing Backend",
            json!([{"backends": [{"backend": "nowhere"}]}]),
            false,
        ),
        (
            "a wrong kind",
            json!([{"backends": [{"kind": "Bucket", "name": "a"}]}]),
            true,
        ),
        (
            "a missing port",
            json!([{"backends": [{"service": "web"}]}]),
            false,
        ),
        (
            "a backend of another namespace",
            json!([{"backends": [{"backend": "a", "namespace": "other"}]}]),
            false,
        ),
        (
            "two URL rewrites",
            json!([{"filters": [rewrite, rewrite], "backends": to_a()}]),
            false,
        ),
        (
            "a bad pattern",
            json!([{"matches": [{"path": {"type": "RegularExpression", "value": "("}}],
            "backends": to_a()}]),
            false,
        ),
        (
            "weights of 0",
            json!([{"backends": [{"backend": "a", "weight": 0}, {"backend": "a", "weight": 0}]}]),
            false,
        ),
        (
            "a header name with a blank",
            json!([{"matches": [{"headers": [{"name": "x y", "value": "1"}]}],
            "backends": to_a()}]),
            false,
        ),
        (
            "too many matches",
            json!([{"matches": matches, "backends": to_a()}]),
            false,
        ),
        ("an unknown field", json!([{"backend": "a"}]), true),
        ("a policy", json!([{"policyRef": {"name": "p"}}]), false),
    ]
}

/// C27, H10
#[test]
fn one_bad_route_hurts_only_itself() {
    let a = Stub::unrecorded("a");
    let folder = Folder::new(&[
        profile(),
        backend("a", &[a.address()]),
        simple_route("rest", &["*.example"], "PathPrefix", "/", "a"),
    ]);
    folder.put("good.yaml", &good("a"));
    folder.put("next.yaml", &[]);
    let router = Router::over(&folder);
    for (round, (fault, rules, of_shape)) in faults().into_iter().enumerate() {
        let bad = route("bad", json!({"hostnames": ["bad.example"], "rules": rules}));
        let report = compile(&[profile(), backend("a", &[a.address()]), bad.clone()]);
        let named = report.diags.iter().any(|diag| diag.object == "default/bad");
        assert!(named, "{fault} is reported: {:?}", report.diags);
        folder.put("bad.yaml", &[bad]);
        // The next good change is taken although the fault is still there.
        let host = format!("next-{round}.test");
        folder.put(
            "next.yaml",
            &[simple_route("next", &[&host], "PathPrefix", "/", "a")],
        );
        wait_until(&format!("the change after {fault}"), || {
            get(router.http(), &host, "/").who() == "a"
        });
        let status = get(router.http(), "bad.example", "/").status;
        // The version before has other paths: what it doesn't take goes where it went.
        let expected = if of_shape { 200 } else { 500 };
        assert_eq!(status, expected, "{fault}: in its place, without falling through");
        for n in (0..GOOD).step_by(9) {
            assert_eq!(
                get(router.http(), &format!("g{n}.example"), "/").who(),
                "a",
                "{fault}, good route {n}"
            );
        }
        folder.put(
            "bad.yaml",
            &[simple_route("bad", &["bad.example"], "PathPrefix", "/fixed", "a")],
        );
        wait_until(&format!("the repair of {fault}"), || {
            get(router.http(), "bad.example", "/fixed").who() == "a"
                && get(router.http(), "bad.example", "/fixed/x").who() == "a"
        });
    }
}

/// What an error takes from a rule goes to no broader one: it answers 500 where the written text leads.
#[test]
fn no_error_lets_a_request_fall_through_to_a_broader_rule() {
    let a = Stub::unrecorded("a");
    let bad = |name: &str, hostnames: Value, rules: Value| {
        route(name, json!({"hostnames": hostnames, "rules": rules}))
    };
    let expression = json!([{"path": {"type": "RegularExpression", "value": "/v2/("}}]);
    let folder = Folder::new(&[
        profile(),
        backend("a", &[a.address()]),
        route("any", json!({"rules": [{"backends": to_a()}]})),
        simple_route("broad", &["pattern.example"], "PathPrefix", "/", "a"),
        bad(
            "pattern",
            json!(["pattern.example"]),
            json!([{"matches": expression, "backends": to_a()}]),
        ),
        bad(
            "host",
            json!(["port.example:80", "https://URL.example/", "good.example"]),
            json!([{"backends": to_a()}]),
        ),
        bad(
            "unreadable",
            json!(["unreadable.example"]),
            json!([{"matches": [{"path": {"value": "/x"}}], "backend": "a"}]),
        ),
    ]);
    let router = Router::over(&folder);
    for (host, path, status) in [
        ("pattern.example", "/v2/x", 500),
        ("pattern.example", "/v1", 200),
        ("port.example", "/", 500),
        ("url.example", "/", 500),
        ("good.example", "/", 200),
        ("unreadable.example", "/x/y", 500),
        // Not among the paths that the object names, so it was never the object's.
        ("unreadable.example", "/y", 200),
        ("other.example", "/", 200),
    ] {
        assert_eq!(get(router.http(), host, path).status, status, "{host}{path}");
    }
}

/// C27: text that is no YAML, and objects that come twice.
#[test]
fn unreadable_text_and_doubled_names_leave_the_rest_alone() {
    let a = Stub::unrecorded("a");
    let folder = Folder::new(&[
        profile(),
        backend("a", &[a.address()]),
        simple_route("r", &["r.example"], "PathPrefix", "/", "a"),
    ]);
    folder.put(
        "twice.yaml",
        &[simple_route("twice", &["t.example"], "PathPrefix", "/", "a")],
    );
    folder.put(
        "again.yaml",
        &[simple_route("twice", &["t.example"], "PathPrefix", "/", "a")],
    );
    folder.put_text(
        "broken.yaml",
        "apiVersion: routed.io/v2\nkind: EdgeRoute\n\tmetadata: [\n",
    );
    let router = Router::over(&folder);
    assert_eq!(get(router.http(), "r.example", "/").who(), "a");
    folder.put(
        "more.yaml",
        &[simple_route("more", &["more.example"], "PathPrefix", "/", "a")],
    );
    wait_until("the next good change", || {
        get(router.http(), "more.example", "/").who() == "a"
    });
    assert_eq!(get(router.http(), "r.example", "/").who(), "a");
}

/// C27, E10
#[test]
fn a_share_without_backend_answers_500_for_its_weight() {
    let a = Stub::unrecorded("a");
    let shares = json!([{"backend": "a", "weight": 70}, {"backend": "nowhere", "weight": 30}]);
    let none = json!([{"backend": "a", "weight": 1}, {"backend": "nowhere", "weight": 0}]);
    let folder = Folder::new(&[
        profile(),
        backend("a", &[a.address()]),
        route(
            "shares",
            json!({"hostnames": ["shares.example"], "rules": [{"backends": shares}]}),
        ),
        route(
            "none",
            json!({"hostnames": ["none.example"], "rules": [{"backends": none}]}),
        ),
    ]);
    let router = Router::over(&folder);
    let (count, tolerance) = if full() { (40_000, 0.02) } else { (3_000, 0.04) };
    let mut connection = crate::harness::Conn::open(router.http());
    let mut failed = 0;
    for _ in 0..count {
        match connection.get("shares.example", "/").status {
            200 => {}
            500 => failed += 1,
            other => panic!("{other}"),
        }
    }
    let share = f64::from(failed) / f64::from(count);
    assert!((share - 0.30).abs() < tolerance, "{share}");
    for _ in 0..100 {
        assert_eq!(
            connection.get("none.example", "/").who(),
            "a",
            "weight 0 gets no traffic"
        );
    }
}

/// E10: a backend that exists but has no endpoint that is ready.
#[test]
fn a_backend_without_ready_endpoints_answers_503() {
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"ports": [{"port": 80, "name": "http", "targetPort": 8080}]}});
    let slice = |ready: bool, port: u16| {
        json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": "web-1", "namespace": "default", "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4", "ports": [{"name": "http", "port": port, "protocol": "TCP"}],
            "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": ready}}]})
    };
    let a = Stub::start("a");
    let to_web = json!({"rules": [{"backends": [{"service": "web", "port": 80}]}]});
    let folder = Folder::new(&[profile(), service, route("r", to_web)]);
    folder.put("slice.yaml", &[slice(false, a.address().port())]);
    let router = Router::over(&folder);
    assert_eq!(get(router.http(), "a", "/").status, 503);
    folder.put("slice.yaml", &[slice(true, a.address().port())]);
    wait_until("the endpoint", || get(router.http(), "a", "/").who() == "a");
    folder.remove("slice.yaml");
    wait_until("no endpoint", || get(router.http(), "a", "/").status == 503);
}

/// A backend that refuses connections is 502 or 503, and no other backend suffers.
#[test]
fn an_endpoint_that_refuses_connections_is_a_gateway_error() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = closed.local_addr().unwrap();
    drop(closed);
    let a = Stub::start("a");
    let folder = Folder::new(&[
        profile(),
        backend("down", &[address]),
        backend("a", &[a.address()]),
        simple_route("down", &["down.example"], "PathPrefix", "/", "down"),
        simple_route("a", &["a.example"], "PathPrefix", "/", "a"),
    ]);
    let router = Router::over(&folder);
    let status = get(router.http(), "down.example", "/").status;
    assert!([502, 503].contains(&status), "{status}");
    assert_eq!(get(router.http(), "a.example", "/").who(), "a");
}

/// Kinds that are not built yet, and fields that are not, are refused aloud.
#[test]
fn what_is_not_built_is_reported_and_never_ignored() {
    let policy = object("RoutingPolicy", "routed.io/v1", "p", json!({"priority": 1}));
    let health = backend_spec(
        "h",
        json!({"addresses": [{"address": "127.0.0.1", "port": 1}], "health": {"path": "/"}}),
    );
    for (name, object) in [("default/p", policy), ("default/h", health)] {
        let report = compile(&[profile(), object]);
        let errors: Vec<_> = report.diags.iter().filter(|diag| diag.object == name).collect();
        assert!(
            errors
                .iter()
                .any(|diag| diag.severity == routed_policy::Severity::Error),
            "{name}: {errors:?}"
        );
    }
}
