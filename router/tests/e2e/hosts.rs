//! Hosts: how clients write them, which route they reach, how they arrive.

use serde_json::json;

use crate::harness::{
    Folder, H2, Router, Stub, backend, backend_spec, compile, exchange, get, profile, route, simple_route,
    wait_until,
};

fn shop() -> (Stub, Stub, Folder) {
    let (app, wild) = (Stub::start("app"), Stub::start("wild"));
    let folder = Folder::new(&[
        profile(),
        backend("app", &[app.address()]),
        backend("wild", &[wild.address()]),
        simple_route("app", &["app.example.com"], "PathPrefix", "/", "app"),
        simple_route("wild", &["*.example.com"], "PathPrefix", "/", "wild"),
    ]);
    (app, wild, folder)
}

/// C06, E4
#[test]
fn every_spelling_of_a_host_reaches_its_route_and_arrives_unchanged() {
    let (app, wild, folder) = shop();
    let router = Router::over(&folder);
    for host in [
        "app.example.com",
        "app.example.com:8443",
        "APP.EXAMPLE.COM",
        "App.Example.Com:80",
        "app.example.com:",
    ] {
        assert_eq!(get(router.http(), host, "/x").who(), "app", "{host}");
        assert_eq!(app.take_one().one("host"), Some(host));
    }
    for host in ["x.example.com", "X.example.com:1", "a.b.example.com"] {
        assert_eq!(get(router.http(), host, "/x").who(), "wild", "{host}");
        assert_eq!(wild.take_one().one("host"), Some(host));
    }
    for host in [
        "example.com",
        "[::1]:8080",
        "[::1]",
        "127.0.0.1:80",
        "other.example",
    ] {
        assert_eq!(get(router.http(), host, "/x").status, 404, "{host}");
    }
}

/// C06
#[test]
fn an_absolute_target_names_the_host() {
    let (app, _wild, folder) = shop();
    let router = Router::over(&folder);
    let request =
        "GET http://app.example.com/x?y HTTP/1.1\r\nHost: other.example.com\r\nConnection: close\r\n\r\n";
    let reply = exchange(router.http(), request);
    assert!([200, 400].contains(&reply.status), "{reply:?}");
    if reply.status == 200 {
        let seen = app.take_one();
        assert_eq!(seen.one("host"), Some("app.example.com"));
        assert_eq!(seen.target(), "/x?y");
    }
    let request =
        "GET http://app.example.com/x HTTP/1.1\r\nHost: app.example.com\r\nConnection: close\r\n\r\n";
    assert_eq!(exchange(router.http(), request).who(), "app");
    assert_eq!(app.take_one().target(), "/x");
}

/// C06
#[test]
fn a_request_without_one_well_formed_host_is_refused() {
    let (app, wild, folder) = shop();
    let router = Router::over(&folder);
    for lines in [
        "",
        "Host: app.example.com\r\nHost: app.example.com\r\n",
        "Host: app.example.com\r\nHost: other\r\n",
        "Host: a b\r\n",
        "Host: a,b\r\n",
        "Host: a/b\r\n",
        "Host: user@app.example.com\r\n",
        "Host: app.example.com:port\r\n",
        "Host: app.example.com:99999\r\n",
        "Host : app.example.com\r\n",
        "Host: app.example.com?x\r\n",
        "Host: [::1\r\n",
    ] {
        let reply = exchange(
            router.http(),
            format!("GET / HTTP/1.1\r\n{lines}Connection: close\r\n\r\n"),
        );
        assert_eq!(reply.status, 400, "{lines:?}");
    }
    assert!(app.take().is_empty() && wild.take().is_empty());
}

/// C06
#[test]
fn authority_and_host_of_http2_agree_or_the_request_is_refused() {
    let (app, _wild, folder) = shop();
    let router = Router::over(&folder);
    let h2 = H2::open(router.http());
    assert_eq!(h2.get("App.example.com:99", "/x", &[]).who(), "app");
    assert_eq!(app.take_one().one("host"), Some("App.example.com:99"));
    let reply = h2.get("app.example.com", "/x", &[("host", "other.example.com")]);
    assert!([400, 200].contains(&reply.status), "{reply:?}");
    if reply.status == 200 {
        assert_eq!(app.take_one().one("host"), Some("app.example.com"));
    }
}

/// C07, E4
#[test]
fn a_trailing_dot_names_the_same_host() {
    let (app, wild, folder) = shop();
    let router = Router::over(&folder);
    for host in ["app.example.com.", "app.example.com.:8080", "APP.example.com."] {
        assert_eq!(get(router.http(), host, "/").who(), "app", "{host}");
        assert_eq!(app.take_one().one("host"), Some(host));
    }
    assert_eq!(get(router.http(), "x.example.com.", "/").who(), "wild");
    assert_eq!(wild.take_one().one("host"), Some("x.example.com."));
    for host in ["app.example.com..", ".", "..", ".example.com", "app..example.com"] {
        let reply = get(router.http(), host, "/");
        assert!([400, 404].contains(&reply.status), "{host}: {reply:?}");
    }
}

/// C08: names outside ASCII are converted at load, or refused with the form that works.
#[test]
fn a_name_outside_ascii_is_served_or_refused_at_load() {
    let a = Stub::start("a");
    for spelling in ["bücher.example", "BÜCHER.example", "xn--bcher-kva.example"] {
        let objects = [
            profile(),
            backend("a", &[a.address()]),
            simple_route("r", &[spelling], "PathPrefix", "/", "a"),
            simple_route("other", &["other.example"], "PathPrefix", "/", "a"),
        ];
        let report = compile(&objects);
        let refused = report.diags.iter().find(|diag| diag.object == "default/r");
        let router = Router::over(&Folder::new(&objects));
        assert_eq!(get(router.http(), "other.example", "/").who(), "a");
        for host in ["xn--bcher-kva.example", "XN--BCHER-KVA.example"] {
            let reply = get(router.http(), host, "/");
            match refused {
                None => assert_eq!(reply.who(), "a", "{host} where the route says {spelling}"),
                Some(diag) => {
                    assert!(!spelling.starts_with("xn--"), "{diag:?}");
                    assert!(diag.message.contains("xn--bcher-kva.example"), "{diag:?}");
                }
            }
        }
        let reply = get(router.http(), "bücher.example", "/");
        assert!([200, 400, 404].contains(&reply.status), "{reply:?}");
    }
}

/// C11
#[test]
fn a_host_taken_from_the_backend_carries_its_port_unless_it_is_the_default() {
    let stub = Stub::start("s");
    let at = stub.address();
    let addresses = json!([{"address": at.ip().to_string(), "port": at.port()}]);
    let rewrite = |how: serde_json::Value| json!([{"type": "URLRewrite", "urlRewrite": how}]);
    let rule =
        |to: &str, filters: serde_json::Value| json!([{"filters": filters, "backends": [{"backend": to}]}]);
    let from_backend = rewrite(json!({"hostFromBackend": true}));
    let folder = Folder::new(&[
        profile(),
        backend_spec(
            "named",
            json!({"addresses": addresses, "hostname": "backend.example.com"}),
        ),
        backend("plain", &[at]),
        route(
            "off",
            json!({"hostnames": ["off.example"], "rules": rule("named", json!([]))}),
        ),
        route(
            "lit",
            json!({"hostnames": ["lit.example"],
            "rules": rule("named", rewrite(json!({"hostname": "rewritten.example"})))}),
        ),
        route(
            "from",
            json!({"hostnames": ["from.example"], "rules": rule("named", from_backend.clone())}),
        ),
        route(
            "plain",
            json!({"hostnames": ["plain.example"], "rules": rule("plain", from_backend)}),
        ),
    ]);
    let router = Router::over(&folder);
    let port = at.port();
    let h2 = H2::open(router.http());
    for (host, arrives) in [
        ("off.example", "off.example".to_owned()),
        ("off.example:81", "off.example:81".to_owned()),
        ("lit.example", "rewritten.example".to_owned()),
        ("from.example", format!("backend.example.com:{port}")),
        ("plain.example", format!("127.0.0.1:{port}")),
    ] {
        for version in ["1.1", "2"] {
            let reply = if version == "2" {
                h2.get(host, "/", &[])
            } else {
                get(router.http(), host, "/")
            };
            assert_eq!(reply.who(), "s", "{host} {reply:?}");
            let seen = stub.take_one();
            assert_eq!(
                seen.one("host"),
                Some(arrives.as_str()),
                "{host} over HTTP/{version}"
            );
            assert_eq!(seen.one("x-forwarded-host"), Some(host), "over HTTP/{version}");
        }
    }
}

/// C11: each of two backends gets its own name.
#[test]
fn each_backend_of_a_rule_gets_its_own_name() {
    let (one, two) = (Stub::start("one"), Stub::start("two"));
    let named = |name: &str, stub: &Stub| {
        let address = json!({"address": "127.0.0.1", "port": stub.address().port()});
        backend_spec(
            name,
            json!({"addresses": [address], "hostname": format!("{name}.internal")}),
        )
    };
    let folder = Folder::new(&[
        profile(),
        named("one", &one),
        named("two", &two),
        route(
            "r",
            json!({"rules": [{
            "filters": [{"type": "URLRewrite", "urlRewrite": {"hostFromBackend": true}}],
            "backends": [{"backend": "one"}, {"backend": "two"}]}]}),
        ),
    ]);
    let router = Router::over(&folder);
    wait_until("both backends chosen", || {
        get(router.http(), "a", "/");
        !one.seen().is_empty() && !two.seen().is_empty()
    });
    for (stub, name) in [(&one, "one"), (&two, "two")] {
        let wanted = format!("{name}.internal:{}", stub.address().port());
        assert!(
            stub.take()
                .iter()
                .all(|seen| seen.one("host") == Some(wanted.as_str()))
        );
    }
}
