//! Tables that come and go: what stays, what is freed, what is refused.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::files::{objects, table};
use crate::harness::{
    Conn, Folder, Launch, Router, Stub, Usage, backend, compile, full, get, profile, route, simple_route,
    wait_until,
};

fn replace(path: &Path, content: &[u8]) {
    let draft = path.with_extension("draft");
    std::fs::write(&draft, content).unwrap();
    std::fs::rename(&draft, path).unwrap();
}

/// A table whose route and backend are new in every round, beside a route that stays.
fn changing(round: usize, stub: &Stub) -> Vec<Value> {
    let name = format!("turn-{round}");
    vec![
        profile(),
        backend("a", &[stub.address()]),
        backend(&name, &[stub.address()]),
        simple_route("stays", &["stays.example"], "PathPrefix", "/", "a"),
        simple_route(&name, &[&format!("{name}.example")], "PathPrefix", "/", &name),
    ]
}

fn open_stream(router: &Router) -> Conn {
    let mut stream = Conn::open(router.http());
    let request = "GET / HTTP/1.1\r\nHost: stays.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.send(request.as_bytes()).unwrap();
    assert_eq!(stream.reply().unwrap().status, 101);
    stream
}

fn assert_level(what: &str, early: Usage, late: Usage, kib: u64) {
    println!("{what}: {early:?} -> {late:?}");
    assert!(
        late.threads <= early.threads,
        "{what}: threads {early:?} -> {late:?}"
    );
    assert!(
        late.descriptors <= early.descriptors + 8,
        "{what}: descriptors {early:?} -> {late:?}"
    );
    assert!(
        late.rss_kib <= early.rss_kib + kib,
        "{what}: memory {early:?} -> {late:?}"
    );
}

/// C22, H8: with 50 open streams and light traffic.
#[test]
fn memory_threads_and_descriptors_level_off_over_reloads_of_a_file() {
    let (reloads, settle, repeats, refused) = if full() {
        (20_000, 1_000, 20_000, 5_000)
    } else {
        (300, 100, 100, 60)
    };
    let (stub, place) = (Stub::unrecorded("a"), TempDir::new().unwrap());
    let path = place.path().join("table.json");
    let offer = |round: usize| {
        let report = compile(&changing(round, &stub));
        replace(&path, &report.snapshot.encode());
        report.snapshot.hash().to_string()
    };
    offer(0);
    let router = Launch::snapshot(&path).poll("10ms").start();
    let start = router.usage();
    let streams: Vec<Conn> = (0..50).map(|_| open_stream(&router)).collect();
    let mut connection = Conn::open(router.http());
    let mut early = router.usage();
    for round in 1..=reloads {
        let hash = offer(round);
        router.wait_hash(&hash);
        assert_eq!(connection.get("stays.example", "/").who(), "a");
        assert_eq!(connection.get(&format!("turn-{round}.example"), "/").who(), "a");
        if round == settle {
            early = router.usage();
        }
    }
    assert_level("reloads", early, router.usage(), 8 << 10);
    assert!(router.swaps() >= reloads as u64);
    assert!(
        !router.metrics().contains("turn-1\""),
        "series of removed routes are gone"
    );

    let swaps = router.swaps();
    let same = std::fs::read(&path).unwrap();
    let early = router.usage();
    for _ in 0..repeats {
        replace(&path, &same);
        assert_eq!(connection.get("stays.example", "/").who(), "a");
    }
    for round in 0..refused {
        let before = router.refusals();
        replace(
            &path,
            format!("{{\"schemaVersion\":1,\"round\":{round}").as_bytes(),
        );
        wait_until("a refusal", || router.refusals() > before);
        assert_eq!(connection.get("stays.example", "/").who(), "a");
    }
    assert_eq!(
        router.swaps(),
        swaps,
        "neither equal nor refused tables are swaps"
    );
    assert_level("equal and refused tables", early, router.usage(), 6 << 10);
    let hash = offer(reloads + 1);
    router.wait_hash(&hash);
    let open = router.usage().descriptors;
    drop(streams);
    wait_until("the streams' descriptors closed", || {
        router.usage().descriptors + 90 <= open
    });
    println!("at start {start:?}, at the end {:?}", router.usage());
}

/// C22
#[test]
fn memory_threads_and_descriptors_level_off_over_reloads_of_a_folder() {
    let (reloads, settle) = if full() { (20_000, 1_000) } else { (300, 100) };
    let stub = Stub::unrecorded("a");
    let folder = Folder::new(&changing(0, &stub));
    let router = Launch::resources(&folder.dir()).poll("10ms").start();
    let mut connection = Conn::open(router.http());
    let mut early = router.usage();
    let mut hash = router.hash();
    for round in 1..=reloads {
        folder.put("objects.yaml", &changing(round, &stub));
        hash = router.wait_swap(&hash);
        assert_eq!(connection.get(&format!("turn-{round}.example"), "/").who(), "a");
        if round == settle {
            early = router.usage();
        }
    }
    assert_level("reloads", early, router.usage(), 8 << 10);
}

/// C23: pools are keyed by endpoint, not by table.
#[test]
fn untouched_endpoints_keep_their_connections() {
    let stubs: Vec<Stub> = (0..50).map(|n| Stub::unrecorded(&format!("e{n}"))).collect();
    let (spare, other) = (Stub::unrecorded("spare"), Stub::unrecorded("other"));
    let all: Vec<_> = stubs.iter().map(Stub::address).collect();
    let table = |addresses: &[std::net::SocketAddr], stamp: &str, weight: u32, to_other: &Stub| {
        let filter = json!({"type": "RequestHeaderModifier",
            "requestHeaderModifier": {"set": [{"name": "x-stamp", "value": stamp}]}});
        vec![
            crate::harness::profile_with(json!({"timeouts": {"upstreamIdle": "10m"}})),
            backend("pool", addresses),
            backend("other", &[to_other.address()]),
            route(
                "r",
                json!({"hostnames": ["a.example"], "rules": [
                {"filters": [filter], "backends": [{"backend": "pool", "weight": weight}]}]}),
            ),
            simple_route("other", &["o.example"], "PathPrefix", "/", "other"),
        ]
    };
    let folder = Folder::new(&table(&all, "0", 1, &other));
    let router = Launch::resources(&folder.dir()).flag("--workers", "1").start();
    let mut connection = Conn::open(router.http());
    let mut ask = |count: usize| {
        for _ in 0..count {
            assert_eq!(connection.get("a.example", "/").status, 200);
        }
    };
    ask(150);
    let before: Vec<usize> = stubs.iter().map(Stub::accepts).collect();
    assert!(before.iter().all(|count| *count == 1), "{before:?}");
    let mut moved = all.clone();
    moved[49] = spare.address();
    let steps: [(&str, Vec<Value>); 4] = [
        ("another header", table(&all, "1", 1, &other)),
        ("another weight", table(&all, "1", 7, &other)),
        ("another backend's endpoint", table(&all, "1", 7, &spare)),
        ("one endpoint of the pool", table(&moved, "1", 7, &spare)),
    ];
    let mut hash = router.hash();
    for (what, objects) in steps {
        folder.put("objects.yaml", &objects);
        hash = router.wait_swap(&hash);
        ask(150);
        let after: Vec<usize> = stubs[..49].iter().map(Stub::accepts).collect();
        assert!(after.iter().all(|count| *count == 1), "{what}: {after:?}");
    }
    assert!(spare.accepts() > 0);
    wait_until("the removed endpoint's connection closed", || {
        stubs[49].open() == 0
    });
}

/// H1
#[test]
fn a_damaged_table_is_refused_whole_and_the_reason_is_told() {
    let place = TempDir::new().unwrap();
    let path = place.path().join("table.json");
    replace(&path, &table("one"));
    let router = Launch::snapshot(&path).start();
    let next = String::from_utf8(table("two")).unwrap();
    let flip = |from: &str, to: &str| {
        assert!(next.contains(from), "{from} in {next}");
        next.replacen(from, to, 1)
    };
    let digit = next.split_once("\"hash\":\"").unwrap().1.as_bytes()[0];
    let (old, new) = (
        format!("\"hash\":\"{}", digit as char),
        if digit == b'0' {
            "\"hash\":\"1"
        } else {
            "\"hash\":\"0"
        },
    );
    let damaged = [
        ("truncated", next[..next.len() * 2 / 3].to_owned()),
        ("a changed part", flip("two", "twp")),
        ("a changed total", flip(&old, new)),
        (
            "another version",
            flip("\"schemaVersion\":1", "\"schemaVersion\":999"),
        ),
        (
            "an unknown feature",
            flip("\"requires\":[]", "\"requires\":[\"telepathy\"]"),
        ),
        ("nothing", String::new()),
        ("another document", "{\"hello\":[1,2,3]}".to_owned()),
        ("deep nesting", "[".repeat(200_000)),
        ("no text", "\u{0}\u{1}".repeat(100)),
    ];
    for (what, content) in damaged {
        let before = router.refusals();
        replace(&path, content.as_bytes());
        wait_until(&format!("{what} refused"), || router.refusals() > before);
        assert_eq!(get(router.http(), "a", "/").text(), "one", "{what}");
        assert!(router.is_ready() && router.is_degraded(), "{what}");
        if what == "an unknown feature" {
            assert!(
                router.admin("/snapshot").text().contains("telepathy"),
                "the reason is shown"
            );
        }
    }
    let (metrics, shown) = (router.metrics(), router.admin("/snapshot").json());
    for (reason, count) in [("UnknownFeature", 1), ("SchemaVersion", 1), ("Older", 0)] {
        let sample = format!("routed_source_refusals_total{{reason=\"{reason}\"}} {count}\n");
        assert!(metrics.contains(&sample), "{sample}{metrics}");
    }
    let last = &shown["lastRefusal"];
    assert_eq!(last["reason"], "Malformed", "{shown:#}");
    assert!(last["at"].is_string() && last["message"].is_string(), "{shown:#}");
    assert_eq!(shown["refusalsByReason"]["UnknownFeature"], 1);
    replace(&path, next.as_bytes());
    wait_until("the good one", || get(router.http(), "a", "/").text() == "two");
    // What is served is published before it is told of.
    wait_until("all is well again", || !router.is_degraded());
}

/// H2
#[test]
fn an_empty_table_needs_to_be_allowed() {
    let place = TempDir::new().unwrap();
    let path = place.path().join("table.json");
    let empty = compile(&[profile()]).snapshot.encode();
    for allowed in [false, true] {
        replace(&path, &table("one"));
        let launch = Launch::snapshot(&path);
        let router = if allowed {
            launch.switch("--allow-empty").start()
        } else {
            launch.start()
        };
        let before = router.refusals();
        replace(&path, &empty);
        if allowed {
            wait_until("the empty table", || get(router.http(), "a", "/").status == 404);
        } else {
            wait_until("a refusal", || router.refusals() > before);
            assert_eq!(get(router.http(), "a", "/").text(), "one");
        }
    }
}

/// H4, small: a table of many routes is built beside the traffic.
#[test]
fn a_large_table_is_built_off_the_request_path() {
    let place = TempDir::new().unwrap();
    let path = place.path().join("table.json");
    replace(&path, &table("small"));
    let count = if full() { 100_000 } else { 5_000 };
    let answer = json!({"type": "DirectResponse", "directResponse": {"statusCode": 200, "body": "large"}});
    let mut large = vec![profile()];
    large.extend((0..count).map(|n| {
        route(
            &format!("r{n}"),
            json!({"hostnames": [format!("h{n}.example")], "rules": [{"filters": [answer]}]}),
        )
    }));
    let large = compile(&large).snapshot.encode();
    let router = Launch::snapshot(&path).start();
    let mut connection = Conn::open(router.http());
    replace(&path, &large);
    let (mut longest, start) = (Duration::ZERO, Instant::now());
    let last = format!("h{}.example", count - 1);
    wait_until("the large table", || {
        let sent = Instant::now();
        let reply = connection.get(&last, "/");
        longest = longest.max(sent.elapsed());
        assert_eq!(reply.status, 200);
        reply.text() == "large"
    });
    println!(
        "{count} routes served after {:?}; slowest answer meanwhile {longest:?}",
        start.elapsed()
    );
    assert!(longest < Duration::from_secs(3), "{longest:?}");
    assert_eq!(get(router.http(), "h0.example", "/").text(), "large");
}

/// H6: writes faster than anyone can follow come to rest at the last one.
#[test]
fn a_storm_of_changes_ends_at_the_last_one() {
    let place = TempDir::new().unwrap();
    let path = place.path().join("table.json");
    replace(&path, &table("start"));
    let router = Launch::snapshot(&path).start();
    let tables: Vec<Vec<u8>> = (0..20).map(|n| table(&format!("s{n}"))).collect();
    let mut connection = Conn::open(router.http());
    for round in 0..1000 {
        replace(&path, &tables[round % tables.len()]);
        if round % 20 == 0 {
            assert_eq!(connection.get("a", "/").status, 200);
        }
    }
    replace(&path, &table("last"));
    wait_until("the last table", || get(router.http(), "a", "/").text() == "last");
    wait_until("all is well", || !router.is_degraded());
}

/// C23: a listener that comes is bound and one that goes is closed, while the others serve on.
#[test]
fn listeners_of_the_profile_come_and_go_without_restart() {
    let listener = |name: &str| json!({"name": name, "address": "127.0.0.1", "port": 0, "protocol": "HTTP"});
    let with = |names: &[&str]| {
        let listeners: Vec<Value> = names.iter().map(|name| listener(name)).collect();
        let mut all = objects("here");
        all[0] = crate::harness::profile_with(json!({"listeners": listeners}));
        all
    };
    let folder = Folder::new(&with(&["http"]));
    let router = Router::over(&folder);
    let mut kept = Conn::open(router.http());
    assert_eq!(kept.get("a", "/").text(), "here");
    folder.put("objects.yaml", &with(&["http", "second"]));
    let second = router.address("second");
    wait_until("the second listener", || get(second, "a", "/").text() == "here");
    folder.put("objects.yaml", &with(&["http"]));
    wait_until("the second listener closed", || {
        std::net::TcpStream::connect(second).is_err()
    });
    assert_eq!(
        kept.get("a", "/").text(),
        "here",
        "the connection of the first lives on"
    );
}

/// H7: a request that began under one table ends under it.
#[test]
fn a_request_in_flight_when_the_table_changes_is_finished() {
    let (release, gate) = std::sync::mpsc::channel::<()>();
    let gate = std::sync::Mutex::new(gate);
    let slow = Stub::answering("slow", move |_| {
        let _ = gate.lock().unwrap().recv_timeout(crate::harness::DEADLINE);
        crate::harness::reply(200, "x-backend: slow\r\n", "done")
    });
    let stamp = |value: &str| {
        json!([{"type": "ResponseHeaderModifier",
        "responseHeaderModifier": {"set": [{"name": "x-answer", "value": value}]}}])
    };
    let with = |value: &str, to: &str| {
        vec![
            profile(),
            backend("slow", &[slow.address()]),
            route(
                "r",
                json!({"rules": [{"filters": stamp(value), "backends": [{"backend": to}]}]}),
            ),
        ]
    };
    let folder = Folder::new(&with("old", "slow"));
    let router = Router::over(&folder);
    let hash = router.hash();
    let mut connection = Conn::open(router.http());
    connection.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    wait_until("the request at the backend", || slow.accepts() > 0);
    folder.put("objects.yaml", &with("new", "nowhere"));
    router.wait_swap(&hash);
    release.send(()).unwrap();
    let reply = connection.reply().unwrap();
    assert_eq!(
        (reply.who().as_str(), reply.header("x-answer")),
        ("slow", Some("old"))
    );
    assert_eq!(
        connection.get("a", "/").status,
        500,
        "the next request sees the new table"
    );
}

/// C23: whatever worker takes a request, and whatever table decided the one before.
#[test]
fn endpoints_take_turns_through_swaps() {
    let mut stubs = ["a", "b", "c"].map(|name| (Stub::start(name), name));
    // A table has endpoints in the order of their addresses.
    stubs.sort_by_key(|(stub, _)| stub.address());
    let folder = Folder::new(&[
        profile(),
        backend("pool", &stubs.each_ref().map(|(stub, _)| stub.address())),
        simple_route("r", &[], "PathPrefix", "/", "pool"),
    ]);
    let router = Router::over(&folder);
    for round in 0..12 {
        let (_, expected) = stubs[round % 3];
        assert_eq!(
            get(router.http(), "a.example", "/").who(),
            expected,
            "request {round}"
        );
        let hash = router.hash();
        let host = format!("h{round}.example");
        folder.put(
            "more.yaml",
            &[simple_route("more", &[&host], "Exact", "/", "pool")],
        );
        router.wait_swap(&hash);
    }
}
