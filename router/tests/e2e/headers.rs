//! Header fields: matched as forwarded, and never believed from strangers.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::harness::{
    DEADLINE, Folder, H2, Router, Stub, backend, exchange, get_with, profile, profile_with, route,
    simple_route,
};

/// Everything goes to this backend.
fn all_to(a: &Stub) -> Folder {
    Folder::new(&[
        profile(),
        backend("a", &[a.address()]),
        simple_route("r", &[], "PathPrefix", "/", "a"),
    ])
}

/// C09, E12: repeated lines are joined by `, `, over both versions of HTTP.
#[test]
fn repeated_header_lines_are_matched_as_the_backend_sees_them() {
    let names = ["gold", "both", "any", "regex", "absent"];
    let stubs: Vec<Stub> = names.iter().map(|name| Stub::start(name)).collect();
    let rule = |name: &str, condition: Value| json!({"matches": [{"headers": [condition]}], "backends": [{"backend": name}]});
    let mut objects: Vec<Value> = names
        .iter()
        .zip(&stubs)
        .map(|(name, stub)| backend(name, &[stub.address()]))
        .collect();
    objects.push(profile());
    objects.push(route(
        "r",
        json!({"rules": [
            rule("gold", json!({"name": "X-Tier", "value": "gold"})),
            rule("both", json!({"name": "x-tier", "value": "a, gold"})),
            rule("regex", json!({"name": "x-tier", "type": "RegularExpression", "value": "gold(, .*)?"})),
            rule("any", json!({"name": "x-tier", "type": "Present"})),
            rule("absent", json!({"name": "x-tier", "type": "Absent"})),
        ]}),
    ));
    let router = Router::over(&Folder::new(&objects));
    let h2 = H2::open(router.http());
    let cases: [(&[(&str, &str)], &str); 9] = [
        (&[("x-tier", "gold")], "gold"),
        (&[("X-TIER", "gold")], "gold"),
        (&[("x-tier", "Gold")], "any"),
        (&[("x-tier", "  gold\t")], "gold"),
        (&[("x-tier", "a"), ("x-tier", "gold")], "both"),
        (&[("x-tier", "a, gold")], "both"),
        (&[("x-tier", "gold"), ("x-tier", "a")], "regex"),
        (&[("x-tier", "")], "any"),
        (&[], "absent"),
    ];
    for (lines, who) in cases {
        let text: String = lines
            .iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        assert_eq!(get_with(router.http(), "a", "/", &text).who(), who, "{lines:?}");
        let fields: Vec<(&str, &str)> = lines.iter().map(|(name, value)| (*name, value.trim())).collect();
        assert_eq!(h2.get("a", "/", &fields).who(), who, "{lines:?} over HTTP/2");
        for stub in &stubs {
            for seen in stub.take() {
                let arrived = seen.all("x-tier").join(", ");
                let sent: Vec<&str> = lines.iter().map(|(_, value)| value.trim()).collect();
                assert_eq!(arrived, sent.join(", "), "what was matched arrives");
            }
        }
    }
}

/// C09: of two conditions for one name only the first counts.
#[test]
fn of_two_conditions_on_one_header_the_first_counts() {
    let a = Stub::start("a");
    let conditions = json!([{"name": "x-tier", "value": "gold"}, {"name": "X-Tier", "value": "silver"}]);
    let folder = Folder::new(&[
        profile(),
        backend("a", &[a.address()]),
        route(
            "r",
            json!({"rules": [{"matches": [{"headers": conditions}], "backends": [{"backend": "a"}]}]}),
        ),
    ]);
    let router = Router::over(&folder);
    assert_eq!(get_with(router.http(), "a", "/", "x-tier: gold\r\n").who(), "a");
    assert_eq!(
        get_with(router.http(), "a", "/", "x-tier: silver\r\n").who(),
        "404"
    );
}

const SPOOFED: &str = "X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: evil.example\r\n\
                       X-Forwarded-Port: 666\r\nForwarded: for=1.2.3.4;proto=https\r\nX-Real-IP: 1.2.3.4\r\n";

/// C10, E7
#[test]
fn forwarding_headers_of_a_stranger_are_replaced() {
    let a = Stub::start("a");
    let folder = all_to(&a);
    let router = Router::over(&folder);
    let h2 = H2::open(router.http());
    for version in ["1.1", "1.1 with two lines", "2"] {
        let reply = match version {
            "1.1" => get_with(router.http(), "a.example", "/", SPOOFED),
            "2" => h2.get(
                "a.example",
                "/",
                &[
                    ("x-forwarded-for", "1.2.3.4"),
                    ("x-forwarded-proto", "https"),
                    ("x-forwarded-host", "evil.example"),
                    ("x-forwarded-port", "666"),
                    ("forwarded", "for=1.2.3.4;proto=https"),
                ],
            ),
            _ => get_with(
                router.http(),
                "a.example",
                "/",
                &format!("{SPOOFED}X-Forwarded-For: 5.6.7.8\r\n"),
            ),
        };
        assert_eq!(reply.who(), "a");
        let seen = a.take_one();
        assert_eq!(seen.one("x-forwarded-for"), Some("127.0.0.1"), "over {version}");
        assert_eq!(seen.one("x-forwarded-proto"), Some("http"), "over {version}");
        assert_eq!(seen.one("x-forwarded-host"), Some("a.example"), "over {version}");
        let port = router.http().port().to_string();
        assert!(
            seen.one("x-forwarded-port").is_none_or(|given| given == port),
            "over {version}: {seen:?}"
        );
        assert!(
            !seen
                .all("forwarded")
                .iter()
                .any(|value| value.contains("1.2.3.4")),
            "{seen:?}"
        );
    }
}

/// C10
#[test]
fn forwarding_headers_of_a_trusted_peer_are_continued() {
    let a = Stub::start("a");
    let trusted = json!({"trustedProxies": {"cidrs": ["127.0.0.0/8"]}});
    let folder = Folder::new(&[
        profile_with(trusted),
        backend("a", &[a.address()]),
        simple_route("r", &[], "PathPrefix", "/", "a"),
    ]);
    let router = Router::over(&folder);
    let own = router.http().port().to_string();
    let front = "X-Forwarded-Proto: https\r\nX-Forwarded-Host: front.example\r\nX-Forwarded-Port: 8443\r\n";
    let told = ["https", "front.example", "8443"];
    for (lines, list, [proto, host, port]) in [
        (
            format!("X-Forwarded-For: 1.2.3.4\r\n{front}"),
            "1.2.3.4, 127.0.0.1",
            told,
        ),
        (
            format!("X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-For: 5.6.7.8\r\n{front}"),
            "1.2.3.4, 5.6.7.8, 127.0.0.1",
            told,
        ),
        (front.to_owned(), "127.0.0.1", told),
        (String::new(), "127.0.0.1", ["http", "a.example", &own]),
        (
            "X-Forwarded-Port: 81\r\n".to_owned(),
            "127.0.0.1",
            ["http", "a.example", "81"],
        ),
        (
            "X-Forwarded-Proto: https\r\n".to_owned(),
            "127.0.0.1",
            ["https", "a.example", "443"],
        ),
        (
            "X-Forwarded-Proto: x\r\nX-Forwarded-Host: x/y\r\nX-Forwarded-Port: x\r\n".to_owned(),
            "127.0.0.1",
            ["http", "a.example", &own],
        ),
    ] {
        assert_eq!(get_with(router.http(), "a.example", "/", &lines).who(), "a");
        let seen = a.take_one();
        assert_eq!(seen.one("x-forwarded-for"), Some(list), "{lines}");
        assert_eq!(seen.one("x-forwarded-proto"), Some(proto), "{lines}");
        assert_eq!(seen.one("x-forwarded-host"), Some(host), "{lines}");
        assert_eq!(seen.one("x-forwarded-port"), Some(port), "{lines}");
    }
}

/// C10
#[test]
fn a_redirect_to_https_can_neither_be_escaped_nor_loop() {
    let a = Stub::start("a");
    for trusted in [false, true] {
        let listener = json!({"name": "http", "address": "127.0.0.1", "port": 0, "protocol": "HTTP",
            "redirectToHttps": {"port": 443, "statusCode": 301}});
        let mut spec = json!({"listeners": [listener]});
        if trusted {
            spec["trustedProxies"] = json!({"cidrs": ["127.0.0.1/32"]});
        }
        let folder = Folder::new(&[
            profile_with(spec),
            backend("a", &[a.address()]),
            simple_route("r", &[], "PathPrefix", "/", "a"),
        ]);
        let router = Router::over(&folder);
        let plain = get_with(router.http(), "a.example:80", "/x?y=1", "");
        assert_eq!(plain.status, 301);
        assert_eq!(plain.header("location"), Some("https://a.example/x?y=1"));
        let claims = get_with(router.http(), "a.example", "/x", "X-Forwarded-Proto: https\r\n");
        assert_eq!(
            claims.who(),
            if trusted { "a" } else { "301" },
            "trusted: {trusted}"
        );
    }
}

/// E6
#[test]
fn a_client_cannot_delete_the_routers_headers_by_naming_them_in_connection() {
    let a = Stub::start("a");
    let stamp = json!([{"type": "RequestHeaderModifier",
        "requestHeaderModifier": {"set": [{"name": "x-stamp", "value": "ours"}]}}]);
    let folder = Folder::new(&[
        profile(),
        backend("a", &[a.address()]),
        route(
            "r",
            json!({"rules": [{"filters": stamp, "backends": [{"backend": "a"}]}]}),
        ),
    ]);
    let router = Router::over(&folder);
    let request = "GET / HTTP/1.1\r\nHost: a.example\r\nX-Hop: 1\r\nX-Stamp: theirs\r\nKeep-Alive: 5\r\nTE: trailers\r\n\
                   Proxy-Connection: keep-alive\r\n\
                   Connection: x-hop, close, x-forwarded-for, x-forwarded-proto, x-forwarded-host, x-stamp, host\r\n\r\n";
    assert_eq!(exchange(router.http(), request).who(), "a");
    let seen = a.take_one();
    assert_eq!(seen.one("x-forwarded-for"), Some("127.0.0.1"));
    assert_eq!(seen.one("x-forwarded-proto"), Some("http"));
    assert_eq!(seen.one("x-forwarded-host"), Some("a.example"));
    assert_eq!(seen.one("x-stamp"), Some("ours"));
    assert_eq!(seen.one("host"), Some("a.example"));
    for gone in ["x-hop", "keep-alive", "proxy-connection"] {
        assert_eq!(seen.one(gone), None, "{gone} belongs to one connection");
    }
}

/// E7: some servers read `X_Forwarded_For` as `X-Forwarded-For`.
#[test]
fn spellings_with_underscores_do_not_smuggle_forwarding_headers() {
    let a = Stub::start("a");
    let folder = all_to(&a);
    let router = Router::over(&folder);
    let lines =
        "X_Forwarded_For: 1.2.3.4\r\nX_Forwarded_Proto: https\r\nX_Forwarded-Host: evil\r\nX_Own: kept\r\n";
    assert_eq!(get_with(router.http(), "a.example", "/", lines).who(), "a");
    for (name, value) in a.take_one().headers {
        let alias = name.to_ascii_lowercase().replace('_', "-");
        assert!(
            !(alias.starts_with("x-forwarded") && name.contains('_')),
            "{name}: {value}"
        );
    }
}

/// RFC 9110 §9.3.1: some servers give the body of a GET a meaning.
#[test]
fn a_body_of_unknown_length_reaches_the_backend_whatever_the_method() {
    let a = Stub::start("a");
    let folder = all_to(&a);
    let router = Router::over(&folder);
    for method in ["GET", "HEAD", "DELETE", "OPTIONS", "POST", "QUERY"] {
        let request = format!(
            "{method} / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n\
             3\r\nabc\r\n0\r\n\r\n"
        );
        // Read to its end: the answer to a HEAD has no body, whatever length it tells.
        let mut stream = TcpStream::connect(router.http()).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{method}: {answer}");
        let seen = a.take_one();
        assert_eq!(String::from_utf8_lossy(&seen.body), "abc", "{method}");
        assert_eq!(seen.all("transfer-encoding"), ["chunked"], "{method}");
        assert_eq!(seen.one("content-length"), None, "{method}");
    }
    for method in ["GET", "POST"] {
        let request = format!(
            "{method} / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc"
        );
        exchange(router.http(), request);
        let seen = a.take_one();
        assert_eq!(String::from_utf8_lossy(&seen.body), "abc", "{method}");
        assert_eq!(seen.all("transfer-encoding"), Vec::<&str>::new(), "{method}");
    }
    exchange(
        router.http(),
        "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n",
    );
    assert_eq!(
        a.take_one().all("transfer-encoding"),
        Vec::<&str>::new(),
        "no body, no framing"
    );
}
