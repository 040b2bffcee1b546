//! Paths: which rule takes them, and in which form they are forwarded.

use serde_json::{Value, json};

use crate::harness::{
    Folder, Router, Stub, backend, exchange, get, profile, profile_with, route, simple_route,
};

fn raw(router: &Router, target: &str) -> String {
    let reply = exchange(
        router.http(),
        format!("GET {target} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n"),
    );
    reply.who()
}

fn deny(name: &str, path: &str) -> Value {
    let answer = json!({"type": "DirectResponse", "directResponse": {"statusCode": 403, "body": "denied"}});
    route(
        name,
        json!({"rules": [{"matches": [{"path": {"value": path}}], "filters": [answer]}]}),
    )
}

/// C01
#[test]
fn a_prefix_ends_at_a_path_element_and_exact_means_exact() {
    for prefix in ["/foo", "/foo/"] {
        let (a, b, z) = (Stub::start("a"), Stub::start("b"), Stub::start("z"));
        let folder = Folder::new(&[
            profile(),
            backend("a", &[a.address()]),
            backend("b", &[b.address()]),
            backend("z", &[z.address()]),
            simple_route("foo", &[], "PathPrefix", prefix, "a"),
            simple_route("abc", &[], "Exact", "/abc", "b"),
            simple_route("rest", &[], "PathPrefix", "/", "z"),
        ]);
        let router = Router::over(&folder);
        for path in ["/foo", "/foo/", "/foo/x", "/foo?x", "/foo/?x"] {
            assert_eq!(raw(&router, path), "a", "{path} with prefix {prefix}");
        }
        for path in ["/foobar", "/fo", "/Foo", "/", "/x/foo"] {
            assert_eq!(raw(&router, path), "z", "{path} with prefix {prefix}");
        }
        for (path, who) in [
            ("/abc", "b"),
            ("/abc?q", "b"),
            ("/abc/", "z"),
            ("/Abc", "z"),
            ("/abcd", "z"),
        ] {
            assert_eq!(raw(&router, path), who, "{path}");
        }
    }
}

/// C01: both spellings of one prefix are equally long, so the older object wins, then the name.
#[test]
fn a_trailing_slash_does_not_decide_between_equal_prefixes() {
    let (a, b) = (Stub::start("a"), Stub::start("b"));
    for (first, second) in [("/foo", "/foo/"), ("/foo/", "/foo")] {
        let folder = Folder::new(&[
            profile(),
            backend("a", &[a.address()]),
            backend("b", &[b.address()]),
            simple_route("r1", &[], "PathPrefix", first, "a"),
            simple_route("r2", &[], "PathPrefix", second, "b"),
        ]);
        let router = Router::over(&folder);
        for path in ["/foo", "/foo/", "/foo/x"] {
            assert_eq!(raw(&router, path), "a", "{path} where {first} comes first");
        }
    }
}

/// What comes out of a replaced prefix (Gateway API, HTTPPathModifier): prefix, replacement, request, result.
const REPLACED: [(&str, &str, &str, &str); 32] = [
    ("/foo", "", "/foo", "/"),
    ("/foo", "", "/foo/", "/"),
    ("/foo", "", "/foo/bar", "/bar"),
    ("/foo", "", "/foo//bar", "//bar"),
    ("/foo", "/", "/foo", "/"),
    ("/foo", "/", "/foo/", "/"),
    ("/foo", "/", "/foo/bar", "/bar"),
    ("/foo", "/", "/foo//bar", "//bar"),
    ("/foo", "/xyz", "/foo", "/xyz"),
    ("/foo", "/xyz", "/foo/", "/xyz/"),
    ("/foo", "/xyz", "/foo/bar", "/xyz/bar"),
    ("/foo", "/xyz", "/foo//bar", "/xyz//bar"),
    ("/foo", "/xyz/", "/foo", "/xyz"),
    ("/foo", "/xyz/", "/foo/", "/xyz/"),
    ("/foo", "/xyz/", "/foo/bar", "/xyz/bar"),
    ("/foo", "/xyz/", "/foo//bar", "/xyz//bar"),
    ("/foo/", "", "/foo", "/"),
    ("/foo/", "", "/foo/", "/"),
    ("/foo/", "", "/foo/bar", "/bar"),
    ("/foo/", "", "/foo//bar", "//bar"),
    ("/foo/", "/", "/foo", "/"),
    ("/foo/", "/", "/foo/", "/"),
    ("/foo/", "/", "/foo/bar", "/bar"),
    ("/foo/", "/", "/foo//bar", "//bar"),
    ("/foo/", "/xyz", "/foo", "/xyz"),
    ("/foo/", "/xyz", "/foo/", "/xyz/"),
    ("/foo/", "/xyz", "/foo/bar", "/xyz/bar"),
    ("/foo/", "/xyz", "/foo//bar", "/xyz//bar"),
    ("/foo/", "/xyz/", "/foo", "/xyz"),
    ("/foo/", "/xyz/", "/foo/", "/xyz/"),
    ("/foo/", "/xyz/", "/foo/bar", "/xyz/bar"),
    ("/foo/", "/xyz/", "/foo//bar", "/xyz//bar"),
];

/// C02
#[test]
fn a_replaced_prefix_has_one_slash_at_the_seam() {
    let a = Stub::start("a");
    let mut objects = vec![profile(), backend("a", &[a.address()])];
    let mut hosts = std::collections::BTreeMap::new();
    for (prefix, by, ..) in REPLACED {
        let number = hosts.len();
        hosts.entry((prefix, by)).or_insert_with(|| {
            let path = json!({"type": "ReplacePrefixMatch", "replacePrefixMatch": by});
            let rewrite = json!({"type": "URLRewrite", "urlRewrite": {"path": path}});
            let redirect = json!({"type": "RequestRedirect", "requestRedirect": {"path": path}});
            let matches = json!([{"path": {"value": prefix}}]);
            let (w, d) = (format!("w{number}.example"), format!("d{number}.example"));
            objects.push(route(
                &format!("w{number}"),
                json!({"hostnames": [w], "rules": [
                {"matches": matches, "filters": [rewrite], "backends": [{"backend": "a"}]}]}),
            ));
            objects.push(route(
                &format!("d{number}"),
                json!({"hostnames": [d], "rules": [
                {"matches": matches, "filters": [redirect]}]}),
            ));
            (w, d)
        });
    }
    let folder = Folder::new(&objects);
    let router = Router::over(&folder);
    let port = router.http().port();
    for (prefix, by, request, result) in REPLACED {
        let (w, d) = &hosts[&(prefix, by)];
        for query in ["", "?q=1&r=//"] {
            let what = format!("{request}{query} with {prefix} by {by:?}");
            assert_eq!(
                get(router.http(), w, &format!("{request}{query}")).status,
                200,
                "{what}"
            );
            assert_eq!(
                a.take_one().target(),
                format!("{result}{query}"),
                "rewrite of {what}"
            );
            let reply = get(router.http(), d, &format!("{request}{query}"));
            assert_eq!(reply.status, 302, "{what}");
            let location = reply.header("location").unwrap();
            let wanted = [
                format!("http://{d}:{port}{result}{query}"),
                format!("http://{d}{result}{query}"),
            ];
            assert!(
                wanted.iter().any(|form| form == location),
                "redirect of {what}: {location}"
            );
        }
    }
}

/// What a backend that decodes and resolves as usual would serve for a target.
fn as_a_backend_reads(target: &str) -> String {
    let path = target.split('?').next().unwrap_or("");
    let mut decoded = Vec::new();
    let mut rest = path.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let hex = tail
            .get(..2)
            .and_then(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok());
        match hex {
            Some(byte) if first == b'%' => {
                decoded.push(byte);
                rest = &tail[2..];
            }
            _ => {
                decoded.push(first);
                rest = tail;
            }
        }
    }
    let decoded = String::from_utf8_lossy(&decoded).replace('\\', "/");
    let mut parts: Vec<&str> = Vec::new();
    for part in decoded.split('/') {
        match part.split(';').next().unwrap_or("") {
            ".." => drop(parts.pop()),
            "" | "." => {}
            other => parts.push(other),
        }
    }
    format!("/{}", parts.join("/"))
}

/// C03, E1, E2
#[test]
fn dot_segments_do_not_pass_a_guard() {
    let (a, z) = (Stub::start("a"), Stub::start("z"));
    let folder = Folder::new(&[
        profile(),
        backend("a", &[a.address()]),
        backend("z", &[z.address()]),
        simple_route("info", &[], "PathPrefix", "/info", "a"),
        simple_route("rest", &[], "PathPrefix", "/", "z"),
        deny("private", "/private"),
    ]);
    let router = Router::over(&folder);
    let guarded = [
        "/info/../private",
        "/info/%2e%2e/private",
        "/info/.%2E/private",
        "/info/%2e./private",
        "/info/..%2fprivate",
        "/info/..;/private",
        "/../../private",
        "/info/./../private",
        "/info/..%5cprivate",
        "/info/..\\private",
        "/info/x/../../private",
        "/info/..%2Fprivate/x",
        "/info/%2e%2e%2fprivate",
        "/./private",
        "/%2e/private",
        "/%70rivate",
        "/info/..;a=b/private",
        "/info%2f..%2fprivate",
        "/info/x/..;/../private",
    ];
    for target in guarded {
        let who = raw(&router, target);
        assert!(
            ["403", "400", "a", "z"].contains(&who.as_str()),
            "{target}: {who}"
        );
        for seen in a.take().into_iter().chain(z.take()) {
            let read = as_a_backend_reads(seen.target());
            assert!(
                !read.starts_with("/private"),
                "{target} went to {who} as {}",
                seen.target()
            );
        }
    }
    for target in [
        "/info/../private",
        "/info/%2e%2e/private",
        "/../../private",
        "/%70rivate",
    ] {
        assert!(
            ["403", "400"].contains(&raw(&router, target).as_str()),
            "{target}"
        );
    }
    // What stays below the prefix stays a request for it, and `..` alone leaves it.
    for (target, who, forwarded) in [
        ("/info/.", "a", "/info/"),
        ("/info/..", "z", "/"),
        ("/info/x/../y", "a", "/info/y"),
        (
            "/info?q=/../private&r=%2e%2e",
            "a",
            "/info?q=/../private&r=%2e%2e",
        ),
        ("/info/%252e%252e/private", "a", "/info/%252e%252e/private"),
        ("/info/a..b/...", "a", "/info/a..b/..."),
    ] {
        assert_eq!(raw(&router, target), who, "{target}");
        let stub = if who == "a" { &a } else { &z };
        assert_eq!(stub.take_one().target(), forwarded, "{target}");
    }
}

/// Section 2 of the probes: targets that are refused whatever the routes say.
#[test]
fn targets_that_no_two_programs_read_alike_are_refused() {
    let z = Stub::start("z");
    let folder = Folder::new(&[
        profile(),
        backend("z", &[z.address()]),
        simple_route("rest", &[], "PathPrefix", "/", "z"),
    ]);
    let router = Router::over(&folder);
    for target in ["/a%00b", "/x/..\\a", "/a%", "/a%zz", "/a\tb", "a", "/a\u{1}b"] {
        assert_eq!(raw(&router, target), "400", "{target:?}");
    }
    assert!(z.take().is_empty());
}

/// C04
#[test]
fn double_slashes_are_merged_or_kept_as_the_profile_says() {
    let targets = ["/a//b", "//a/b", "/a/b//", "///a///b", "/a/b"];
    for merge in [true, false] {
        let z = Stub::start("z");
        let folder = Folder::new(&[
            profile_with(json!({"normalization": {"mergeSlashes": merge}})),
            backend("z", &[z.address()]),
            deny("guard", "/a/b"),
            simple_route("rest", &[], "PathPrefix", "/", "z"),
        ]);
        let router = Router::over(&folder);
        for target in targets {
            let plain = target == "/a/b" || (target == "/a/b//");
            let who = raw(&router, target);
            if merge || plain {
                assert_eq!(who, "403", "{target}, merge {merge}");
            } else {
                assert_eq!(who, "z", "{target}, merge {merge}");
                assert_eq!(z.take_one().target(), target);
            }
        }
        // A slash that is escaped is data by default.
        assert_eq!(raw(&router, "/%2Fa/b"), "z");
        assert_eq!(z.take_one().target(), "/%2Fa/b");
    }
}

/// C04
#[test]
fn an_escaped_slash_is_kept_refused_or_decoded_as_the_profile_says() {
    for (how, who) in [("Keep", "z"), ("Reject", "400"), ("Decode", "403")] {
        let z = Stub::start("z");
        let folder = Folder::new(&[
            profile_with(json!({"normalization": {"escapedSlashes": how}})),
            backend("z", &[z.address()]),
            deny("guard", "/a/b"),
            simple_route("rest", &[], "PathPrefix", "/", "z"),
        ]);
        let router = Router::over(&folder);
        assert_eq!(raw(&router, "/a%2Fb"), who, "{how}");
        assert_eq!(
            raw(&router, "/x/..%2fa/b"),
            if how == "Decode" { "403" } else { "400" },
            "{how}"
        );
    }
}

/// C04: a path that begins with two slashes is a path, also in a redirect.
#[test]
fn a_redirect_never_points_to_a_host_named_in_the_path() {
    let redirect = |spec: Value| json!([{"type": "RequestRedirect", "requestRedirect": spec}]);
    let strip = json!({"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}});
    let folder = Folder::new(&[
        profile(),
        route(
            "r",
            json!({"hostnames": ["a.example"], "rules": [{"filters": redirect(json!({"statusCode": 301}))}]}),
        ),
        route(
            "s",
            json!({"hostnames": ["s.example"], "rules": [
            {"matches": [{"path": {"value": "/strip"}}], "filters": redirect(strip)}]}),
        ),
    ]);
    let router = Router::over(&folder);
    for (host, target) in [
        ("a.example", "//evil.example/x"),
        ("s.example", "/strip//evil.example/x"),
    ] {
        let reply = get(router.http(), host, target);
        let location = reply.header("location").unwrap_or_else(|| panic!("{reply:?}"));
        assert!(location.starts_with(&format!("http://{host}")), "{location}");
    }
}

/// C05, E9
#[test]
fn a_regular_expression_matches_the_whole_path_without_the_query() {
    let (a, b, z) = (Stub::start("a"), Stub::start("b"), Stub::start("z"));
    let folder = Folder::new(&[
        profile(),
        backend("a", &[a.address()]),
        backend("b", &[b.address()]),
        backend("z", &[z.address()]),
        simple_route("t", &[], "RegularExpression", "/t/[^/]+/x", "a"),
        simple_route("alt", &[], "RegularExpression", "/one|/two", "b"),
        simple_route("slow", &["slow.example"], "RegularExpression", "/(a+)+", "a"),
        simple_route("rest", &[], "PathPrefix", "/", "z"),
    ]);
    let router = Router::over(&folder);
    for (path, who) in [
        ("/t/1/x", "a"),
        ("/t/1/x?a=1", "a"),
        ("/t/1/x/", "z"),
        ("/q/t/1/x", "z"),
        ("/T/1/x", "z"),
        ("/one", "b"),
        ("/two", "b"),
        ("/one/two", "z"),
        ("/x/two", "z"),
        ("/onex", "z"),
    ] {
        assert_eq!(raw(&router, path), who, "{path}");
    }
    let long = format!("/{}!", "a".repeat(8000));
    let start = std::time::Instant::now();
    assert_eq!(get(router.http(), "slow.example", &long).who(), "z");
    assert!(
        start.elapsed().as_secs() < 5,
        "{:?} for a pattern that is slow elsewhere",
        start.elapsed()
    );
}

/// C05, E9
#[test]
fn a_bad_pattern_hurts_its_own_route_only() {
    let a = Stub::start("a");
    let folder = Folder::new(&[
        profile(),
        backend("a", &[a.address()]),
        simple_route("good", &["good.example"], "PathPrefix", "/", "a"),
        simple_route("open", &["open.example"], "RegularExpression", "(", "a"),
        simple_route(
            "huge",
            &["huge.example"],
            "RegularExpression",
            &"x".repeat(1 << 20),
            "a",
        ),
    ]);
    let router = Router::over(&folder);
    assert_eq!(get(router.http(), "good.example", "/").who(), "a");
    for host in ["open.example", "huge.example"] {
        let reply = get(router.http(), host, "/");
        assert!([500, 404].contains(&reply.status), "{host}: {reply:?}");
    }
}

/// E3
#[test]
fn a_stripped_prefix_does_not_bring_dot_segments_back() {
    let a = Stub::start("a");
    let strip = json!([{"type": "URLRewrite",
        "urlRewrite": {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/pub"}}}]);
    let folder = Folder::new(&[
        profile(),
        backend("a", &[a.address()]),
        route(
            "r",
            json!({"rules": [
            {"matches": [{"path": {"value": "/api"}}], "filters": strip, "backends": [{"backend": "a"}]}]}),
        ),
    ]);
    let router = Router::over(&folder);
    for target in [
        "/api/../x",
        "/api/..",
        "/api/%2e%2e/secret",
        "/api/..%2fsecret",
        "/api../secret",
        "/api/..;/secret",
    ] {
        let who = raw(&router, target);
        for seen in a.take() {
            let read = as_a_backend_reads(seen.target());
            assert!(
                read.starts_with("/pub"),
                "{target} reached {who} as {}",
                seen.target()
            );
        }
    }
    assert_eq!(raw(&router, "/api/a/../b"), "a");
    assert_eq!(a.take_one().target(), "/pub/b");
}

/// E8
#[test]
fn headers_and_parameters_that_name_another_method_are_ignored() {
    let (a, z) = (Stub::start("a"), Stub::start("z"));
    let folder = Folder::new(&[
        profile(),
        backend("a", &[a.address()]),
        backend("z", &[z.address()]),
        route(
            "del",
            json!({"rules": [{"matches": [{"method": "DELETE"}], "backends": [{"backend": "a"}]}]}),
        ),
        simple_route("rest", &[], "PathPrefix", "/", "z"),
    ]);
    let router = Router::over(&folder);
    for name in ["X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"] {
        let request = format!(
            "POST /?_method=DELETE HTTP/1.1\r\nHost: a\r\n{name}: DELETE\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        assert_eq!(exchange(router.http(), request).who(), "z", "{name}");
    }
    let request = "DELETE / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    assert_eq!(exchange(router.http(), request).who(), "a");
    let request = "delete / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    assert_ne!(
        exchange(router.http(), request).who(),
        "a",
        "methods are case-sensitive"
    );
}

/// E11
#[test]
fn the_query_takes_no_part_in_the_path_and_arrives_as_sent() {
    let (a, q) = (Stub::start("a"), Stub::start("q"));
    let folder = Folder::new(&[
        profile(),
        backend("a", &[a.address()]),
        backend("q", &[q.address()]),
        route(
            "q",
            json!({"rules": [{
            "matches": [{"path": {"type": "Exact", "value": "/x"}, "queryParams": [{"name": "v", "value": "a b"}]}],
            "backends": [{"backend": "q"}]}]}),
        ),
        simple_route("x", &[], "Exact", "/x", "a"),
    ]);
    let router = Router::over(&folder);
    for (target, who) in [
        ("/x", "a"),
        ("/x?", "a"),
        ("/x??v=a+b", "a"),
        ("/x?v=a%20b", "q"),
        ("/x?v=a+b", "q"),
        ("/x?%76=a%20b", "q"),
        ("/x?v=a%20b&v=c", "q"),
        ("/x?v=c&v=a%20b", "a"),
        ("/x?V=a%20b", "a"),
        ("/x?w=1&v=a%20b", "q"),
        ("/x?a=/../y", "a"),
        ("/x%3Fv=a", "404"),
    ] {
        assert_eq!(raw(&router, target), who, "{target}");
        for seen in a.take().into_iter().chain(q.take()) {
            assert_eq!(seen.target(), target);
        }
    }
}
