//! What metrics count by: configuration, never what strangers send.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::harness::{
    Conn, DEADLINE, Folder, Router, Stub, backend, full, get, object, profile, reply, route, simple_route,
    wait_until,
};
use crate::restart::{certificate, profile_with_tls, secret, tls};

fn series(text: &str) -> BTreeSet<String> {
    let lines = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned()))
        .collect()
}

/// A generator without a dependency: the sequence is the same in every run.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn word(&mut self) -> String {
        let length = 1 + self.next() % 12;
        (0..length)
            .map(|_| char::from(b'a' + (self.next() % 26) as u8))
            .collect()
    }
}

/// C37
#[test]
fn strangers_cannot_create_time_series() {
    let a = Stub::unrecorded("a");
    let folder = Folder::new(&[
        profile(),
        backend("a", &[a.address()]),
        simple_route("r", &["*.example"], "PathPrefix", "/", "a"),
    ]);
    let router = Router::over(&folder);
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    let mut connection = Conn::open(router.http());
    let mut ask = |noise: &mut Noise, count: usize| {
        for _ in 0..count {
            let method = match noise.next() % 4 {
                0 => "GET".to_owned(),
                1 => "DELETE".to_owned(),
                _ => noise.word().to_uppercase(),
            };
            let (host, path, agent, name) = (noise.word(), noise.word(), noise.word(), noise.word());
            let domain = if noise.next().is_multiple_of(2) {
                ".example"
            } else {
                ""
            };
            let request = format!(
                "{method} /{path} HTTP/1.1\r\nHost: {host}{domain}\r\nUser-Agent: {agent}\r\nX-{name}: {agent}\r\n\r\n"
            );
            let sent = connection
                .send(request.as_bytes())
                .and_then(|()| connection.reply());
            let closes = sent.as_ref().is_ok_and(|reply| {
                reply
                    .header("connection")
                    .is_some_and(|value| value.eq_ignore_ascii_case("close"))
            });
            if sent.is_err() || closes {
                connection = Conn::open(router.http());
            }
        }
    };
    ask(&mut noise, 1000);
    let (before, memory) = (series(&router.metrics()), router.usage().rss_kib);
    ask(&mut noise, if full() { 100_000 } else { 5_000 });
    let after = series(&router.metrics());
    let new: Vec<&String> = after.difference(&before).collect();
    assert!(new.len() < 12, "series that came with requests: {new:#?}");
    let grown = router.usage().rss_kib.saturating_sub(memory);
    assert!(grown < 8 << 10, "{grown} KiB");
    println!(
        "series: {} before, {} after; memory grew by {grown} KiB",
        before.len(),
        after.len()
    );
}

/// C37
#[test]
fn server_names_of_strangers_create_no_series() {
    let a = Stub::unrecorded("a");
    let (authority, chain, key) = certificate("*.names.example");
    let folder = Folder::new(&[
        profile_with_tls("cert"),
        secret("cert", &chain, &key),
        backend("a", &[a.address()]),
        simple_route("r", &["*.names.example"], "PathPrefix", "/", "a"),
    ]);
    let router = Router::over(&folder);
    let address = router.address("https");
    let mut noise = Noise(0x2545_f491_4f6c_dd1d);
    let mut ask = |count: usize| {
        let mut answered = 0;
        for _ in 0..count {
            let name = noise.word();
            // Names of the certificate, and names that nobody has one for.
            let refused = noise.next().is_multiple_of(2);
            let sni = if refused {
                format!("{name}.test")
            } else {
                format!("{name}.names.example")
            };
            let request = format!("GET /{name} HTTP/1.1\r\nHost: {name}.names.example\r\n\r\n");
            let reply = tls(address, &sni, &authority).and_then(|mut connection| {
                connection.send(request.as_bytes())?;
                connection.reply()
            });
            assert_eq!(reply.is_err(), refused, "{sni}");
            answered += usize::from(reply.is_ok_and(|reply| reply.status == 200));
        }
        answered
    };
    assert!(ask(20) > 0);
    let before = series(&router.metrics());
    let answered = ask(if full() { 10_000 } else { 300 });
    let text = router.metrics();
    let after = series(&text);
    assert!(answered > 0 && !text.contains("routed_tls_handshakes_failed_total 0\n"));
    assert_eq!(
        after.difference(&before).collect::<Vec<_>>(),
        Vec::<&String>::new()
    );
    check_exposition(&text);
}

/// C37: the size of a scrape is that of the routes that had requests, and comes down again with them.
#[test]
fn a_scrape_of_ten_thousand_routes_is_bounded() {
    const ROUTES: usize = 10_000;
    let answer = json!({"type": "DirectResponse", "directResponse": {"statusCode": 200, "body": "hi"}});
    let one = |n: usize| {
        let hosts = [format!("h{n}.example")];
        route(
            &format!("route-of-a-customer-{n}"),
            json!({"hostnames": hosts, "rules": [{"filters": [answer]}]}),
        )
    };
    let folder = Folder::new(&[profile()]);
    folder.put("many.yaml", &(0..ROUTES).map(one).collect::<Vec<_>>());
    let router = Router::over(&folder);
    wait_until("all routes", || router.number("routes") == ROUTES as u64);
    let idle = router.metrics().len();
    assert!(idle < 32 << 10, "{idle} bytes before the first request");
    let mut connection = Conn::open(router.http());
    for n in 0..ROUTES {
        assert_eq!(connection.get(&format!("h{n}.example"), "/").status, 200);
    }
    let begun = std::time::Instant::now();
    let text = router.metrics();
    let took = begun.elapsed();
    assert!(took < DEADLINE);
    check_exposition(&text);
    // 15 buckets, their sum and count, and the requests of one method and class.
    let of_routes = text
        .lines()
        .filter(|line| line.contains("route-of-a-customer-"))
        .count();
    assert_eq!(of_routes, ROUTES * 18);
    assert!(text.len() < ROUTES * 18 * 160, "{} bytes", text.len());
    println!("{} bytes scraped in {took:.1?}", text.len());
    folder.put("many.yaml", &[one(0)]);
    wait_until("the series gone", || router.metrics().len() < idle + (4 << 10));
    assert!(
        router.metrics().contains("route-of-a-customer-0/"),
        "what stays is kept"
    );
}

/// C22, C37: a request that ends after the swap that removed its route, its backend and its listener.
#[test]
fn a_request_that_outlives_its_route_leaves_no_series() {
    let (release, gate) = std::sync::mpsc::channel::<()>();
    let gate = std::sync::Mutex::new(gate);
    let slow = Stub::answering("slow", move |_| {
        let _ = gate.lock().unwrap().recv_timeout(DEADLINE);
        reply(200, "", "late")
    });
    let listener = |name: &str| json!({"name": name, "address": "127.0.0.1", "port": 0, "protocol": "HTTP"});
    let listeners = |all: &[Value]| {
        object(
            "RouterProfile",
            "routed.io/v1",
            "default",
            json!({"listeners": all}),
        )
    };
    let folder = Folder::new(&[]);
    folder.put(
        "all.yaml",
        &[
            listeners(&[listener("http"), listener("goes")]),
            backend("slow", &[slow.address()]),
            simple_route("goes", &[], "PathPrefix", "/", "slow"),
        ],
    );
    let router = Router::over(&folder);
    let mut connection = Conn::open(router.address("goes"));
    connection
        .send(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
        .unwrap();
    wait_until("the request at the backend", || slow.accepts() > 0);
    let hash = router.hash();
    folder.put("all.yaml", &[listeners(&[listener("http")])]);
    router.wait_swap(&hash);
    release.send(()).unwrap();
    assert_eq!(connection.reply().unwrap().text(), "late");
    drop(connection);
    let trace = |text: &str| text.contains("goes") || text.contains("slow");
    wait_until("no trace", || !trace(&router.metrics()));
    assert_eq!(router.swaps(), 2, "no other swap took it away");
}

/// C37
#[test]
fn the_exposition_is_well_formed_and_series_end_with_their_route() {
    let a = Stub::start("a");
    let folder = Folder::new(&[
        profile(),
        backend("a", &[a.address()]),
        simple_route("stays", &["s.example"], "PathPrefix", "/", "a"),
    ]);
    folder.put(
        "goes.yaml",
        &[simple_route("goes", &["g.example"], "PathPrefix", "/", "a")],
    );
    let router = Router::over(&folder);
    assert_eq!(get(router.http(), "s.example", "/").who(), "a");
    assert_eq!(get(router.http(), "g.example", "/").who(), "a");
    let text = router.metrics();
    check_exposition(&text);
    assert!(!text.is_empty());
    folder.remove("goes.yaml");
    wait_until("the route gone", || {
        get(router.http(), "g.example", "/").status == 404
    });
    wait_until("its series gone", || !router.metrics().contains("default/goes"));
    check_exposition(&router.metrics());
}

/// Checks text against the Prometheus exposition format 0.0.4: names, labels, escapes, numbers, one TYPE a family
/// before its samples, no series twice.
fn check_exposition(text: &str) {
    let mut types = BTreeSet::new();
    let mut all = BTreeSet::new();
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(
                ["counter", "gauge", "histogram", "summary", "untyped"].contains(&kind),
                "{line}"
            );
            assert!(types.insert(name.to_owned()), "two types: {line}");
            continue;
        }
        if line.starts_with('#') || line.is_empty() {
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        assert!(
            value.parse::<f64>().is_ok() || value == "+Inf" || value == "NaN",
            "{line}"
        );
        let (name, labels) = series
            .split_once('{')
            .map_or((series, None), |(name, rest)| (name, Some(rest)));
        let word = |text: &str| {
            text.bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b':')
        };
        assert!(word(name) && !name.is_empty(), "{line}");
        let family = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|end| name.strip_suffix(end));
        assert!(
            types.contains(name) || family.is_some_and(|family| types.contains(family)),
            "no type: {line}"
        );
        if let Some(labels) = labels {
            check_labels(labels, line);
        }
        assert!(all.insert(series.to_owned()), "twice: {line}");
    }
}

fn check_labels(labels: &str, line: &str) {
    let mut rest = labels;
    while rest != "}" {
        let (name, tail) = rest.split_once("=\"").unwrap_or_else(|| panic!("{line}"));
        assert!(
            name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'),
            "{line}"
        );
        let mut escaped = false;
        let end = tail.char_indices().find(|(_, c)| {
            let closes = *c == '"' && !escaped;
            escaped = *c == '\\' && !escaped;
            closes
        });
        let (end, _) = end.unwrap_or_else(|| panic!("no end of a label value: {line}"));
        rest = tail[end + 1..].trim_start_matches(',');
    }
}

/// The admin endpoints never answer on a data port.
#[test]
fn admin_paths_on_a_data_port_are_ordinary_paths() {
    let folder = Folder::new(&[profile()]);
    let router = Router::over(&folder);
    for path in [
        "/metrics",
        "/snapshot",
        "/config",
        "/explain",
        "/livez",
        "/readyz",
    ] {
        assert_eq!(get(router.http(), "a", path).status, 404, "{path}");
    }
    let snapshot = router.admin("/snapshot").json();
    assert!(
        snapshot.get("hash").and_then(Value::as_str).is_some(),
        "{snapshot}"
    );
}
