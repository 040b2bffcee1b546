//! The index against a naive matcher written from the Gateway API's text, over random tables and requests.
//!
//! Alphabets are small so that hosts, paths and values collide often, and matches stand in any order. The number of
//! cases is `ROUTED_PROPERTY_CASES` (100,000 by default), the seed `ROUTED_PROPERTY_SEED`.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // a test may fail, and says what it measured

mod common;

use common::{LISTENER, field, forward, listener_facts, path_match, prefix, snapshot_of, table};
use routed_snapshot::explain::Explanation;
use routed_snapshot::facts::Header;
use routed_snapshot::ir::{Action, FieldMatch, HttpMatch, HttpTable, PathMatch, ValueMatch};
use routed_snapshot::{Availability, Decision, Facts, Index, Outcome, decide, explain};

/// Requests per random table.
const REQUESTS: u64 = 25;

const OTHER_LISTENER: &str = "default/default/other";

const HOSTS: [&str; 9] = [
    "a.test",
    "b.a.test",
    "c.b.a.test",
    "ab.test",
    "*.a.test",
    "*.b.a.test",
    "*.test",
    "*",
    "test",
];
const REQUEST_HOSTS: [&str; 10] = [
    "a.test",
    "b.a.test",
    "c.b.a.test",
    "ab.test",
    "d.c.b.a.test",
    "x.test",
    "xa.test",
    "test",
    "x.other",
    "",
];
const PATHS: [&str; 10] = [
    "/", "/a", "/a/b", "/ab", "/a/b/c", "/b", "/a//b", "/b/a", "/B", "/a%2Fb",
];
const REQUEST_PATHS: [&str; 16] = [
    "/", "/a", "/a/", "/a/b", "/ab", "/abc", "/a/bc", "/a/b/c/d", "/b", "/b/", "/a//b", "/a//", "//", "/A",
    "*", "/a%2Fb/x",
];
const NAMES: [&str; 3] = ["x-a", "x-b", "x-c"];
const VALUES: [&str; 6] = ["", "1", "2", "1, 2", "a b", "12"];

/// Patterns beside what they mean.
type Meaning = fn(&str) -> bool;
const PATTERNS: [(&str, Meaning); 6] = [
    ("/a|/ab", |value| value == "/a" || value == "/ab"),
    ("/a(/.*)?", |value| value == "/a" || value.starts_with("/a/")),
    ("/[^/]+", |value| {
        value.len() > 1 && value.starts_with('/') && !value[1..].contains('/')
    }),
    ("1|12", |value| value == "1" || value == "12"),
    (".*", |_| true),
    ("(?x) [12]+ (,\\ [12]+)*  # a comment", |value| {
        value
            .split(", ")
            .all(|each| !each.is_empty() && each.bytes().all(|b| b == b'1' || b == b'2'))
    }),
];

fn pattern_means(text: &str, value: &str) -> bool {
    PATTERNS.iter().find(|(pattern, _)| *pattern == text).unwrap().1(value)
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

// --- random tables and requests

fn random_field(random: &mut Random) -> FieldMatch {
    let value = match random.below(5) {
        0 | 1 => ValueMatch::Exact(random.pick(&VALUES).into()),
        2 => ValueMatch::RegularExpression(random.pick(&PATTERNS).0.into()),
        3 => ValueMatch::Present,
        _ => ValueMatch::Absent,
    };
    field(random.pick(&NAMES), value)
}

fn random_fields(random: &mut Random) -> Vec<FieldMatch> {
    let count = if random.one_in(4) { 1 + random.below(2) } else { 0 };
    (0..count).map(|_| random_field(random)).collect()
}

fn random_match(random: &mut Random, position: u64) -> HttpMatch {
    let path = match random.below(6) {
        0 | 1 => PathMatch::Exact(random.pick(&PATHS).into()),
        2 => PathMatch::RegularExpression(random.pick(&PATTERNS).0.into()),
        _ => PathMatch::PathPrefix(random.pick(&PATHS).into()),
    };
    let rule = random.pick(&["R0", "R1", "R2", "R3"]);
    let mut entry = path_match(path, rule);
    entry.method = random.one_in(5).then(|| random.pick(&["GET", "POST"]).into());
    entry.headers = random_fields(random);
    entry.query_params = random_fields(random);
    entry.cookies = random_fields(random);
    entry.index = position as u32;
    entry
}

fn random_tables(random: &mut Random) -> Vec<HttpTable> {
    let mut tables = Vec::new();
    for host in HOSTS {
        let sets: &[&[&str]] = match random.below(6) {
            0 | 1 => &[],
            2 => &[&[LISTENER, OTHER_LISTENER]],
            3 => &[&[LISTENER], &[OTHER_LISTENER]],
            4 => &[&[OTHER_LISTENER]],
            _ => &[&[LISTENER]],
        };
        for set in sets {
            // Some tables are short and searched in order, some long and searched by path.
            let count = if random.one_in(2) {
                random.below(5)
            } else {
                random.below(40)
            };
            let mut new = table(host, (0..count).map(|at| random_match(random, at)).collect());
            new.listeners = set.iter().map(|name| (*name).to_owned()).collect();
            tables.push(new);
        }
    }
    tables
}

fn rules() -> [(&'static str, Action); 4] {
    let fail = Action::Fail {
        status: 500,
        reason: "BackendNotFound".into(),
    };
    [
        ("R0", forward(&[("one", 1)])),
        (
            "R1",
            forward(&[("one", 1), ("two", 0), ("!ServiceNotFound", 2), ("three", 5)]),
        ),
        ("R2", fail),
        ("R3", forward(&[("four", 7), ("five", 7)])),
    ]
}

struct Request {
    listener: &'static str,
    method: &'static str,
    host: &'static str,
    path: &'static str,
    query: Option<String>,
    headers: Vec<(String, String)>,
}

fn random_request(random: &mut Random) -> Request {
    let mut headers = Vec::new();
    for _ in 0..random.below(4) {
        headers.push((random.pick(&NAMES).to_owned(), random.pick(&VALUES).to_owned()));
    }
    for _ in 0..random.below(3) {
        let mut cookies = Vec::new();
        for _ in 0..random.below(3) {
            cookies.push(format!("{}={}", random.pick(&NAMES), random.pick(&VALUES)));
        }
        headers.push(("cookie".to_owned(), cookies.join("; ")));
    }
    let query = random.one_in(2).then(|| {
        let pieces = [
            "x-a",
            "x-b=1",
            "x%2da=2",
            "x-c=a+b",
            "x-c=a%20b",
            "x-b=1%2C+2",
            "",
            "x-a=%zz",
            "%78-c=12",
            "=1",
        ];
        let count = random.below(4);
        let chosen: Vec<&str> = (0..count).map(|_| random.pick(&pieces)).collect();
        chosen.join("&")
    });
    Request {
        listener: if random.one_in(4) {
            OTHER_LISTENER
        } else {
            LISTENER
        },
        method: random.pick(&["GET", "POST", "get"]),
        host: random.pick(&REQUEST_HOSTS),
        path: random.pick(&REQUEST_PATHS),
        query,
        headers,
    }
}

// --- the naive matcher

/// How specific a host pattern is for a host; `None` where it doesn't serve it.
fn specificity(pattern: &str, host: &str) -> Option<(u8, usize)> {
    if pattern == "*" {
        return Some((0, 0));
    }
    match pattern.strip_prefix('*') {
        Some(suffix) => (host.ends_with(suffix) && host.len() > suffix.len()).then_some((1, suffix.len())),
        None => (pattern == host).then_some((2, 0)),
    }
}

fn path_fits(path: &PathMatch, request: &str) -> bool {
    match path {
        PathMatch::Exact(exact) => exact == request,
        PathMatch::PathPrefix(prefix) if prefix == "/" => request.starts_with('/'),
        PathMatch::PathPrefix(prefix) => {
            let wanted: Vec<&str> = prefix.split('/').collect();
            let given: Vec<&str> = request.split('/').collect();
            given.len() >= wanted.len() && given[..wanted.len()] == wanted[..]
        }
        PathMatch::RegularExpression(text) => pattern_means(text, request),
    }
}

fn field_fits(field: &FieldMatch, value: Option<&str>) -> bool {
    match (&field.value, value) {
        (ValueMatch::Absent, value) => value.is_none(),
        (ValueMatch::Present, value) => value.is_some(),
        (ValueMatch::Exact(expected), value) => value == Some(expected),
        (ValueMatch::RegularExpression(text), value) => value.is_some_and(|value| pattern_means(text, value)),
    }
}

fn decode(text: &str) -> String {
    let text = text.replace('+', " ");
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        match rest
            .get(at + 1..at + 3)
            .and_then(|pair| u8::from_str_radix(pair, 16).ok())
        {
            Some(byte) => {
                out.push(char::from(byte));
                rest = &rest[at + 3..];
            }
            None => {
                out.push('%');
                rest = &rest[at + 1..];
            }
        }
    }
    out + rest
}

fn fits(entry: &HttpMatch, request: &Request) -> bool {
    let header = |name: &str| {
        let own: Vec<&str> = request
            .headers
            .iter()
            .filter(|(n, _)| n == name)
            .map(|(_, v)| v.as_str())
            .collect();
        (!own.is_empty()).then(|| own.join(", "))
    };
    let query: Vec<(String, String)> = request
        .query
        .iter()
        .flat_map(|query| query.split('&'))
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (decode(name), decode(value)))
        .collect();
    let cookies: Vec<(String, String)> = request
        .headers
        .iter()
        .filter(|(name, _)| name == "cookie")
        .flat_map(|(_, line)| line.split(';'))
        .filter_map(|cookie| cookie.trim().split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let first = |all: &[(String, String)], name: &str| {
        all.iter()
            .find(|(n, _)| n == name)
            .map(|(_, value)| value.clone())
    };
    path_fits(&entry.path, request.path)
        && entry
            .method
            .as_deref()
            .is_none_or(|method| method == request.method)
        && entry
            .headers
            .iter()
            .all(|field| field_fits(field, header(&field.name).as_deref()))
        && entry
            .query_params
            .iter()
            .all(|field| field_fits(field, first(&query, &field.name).as_deref()))
        && entry
            .cookies
            .iter()
            .all(|field| field_fits(field, first(&cookies, &field.name).as_deref()))
}

/// Host, rule, index and prefix of the match that should win.
fn naive<'t>(tables: &'t [HttpTable], request: &Request) -> Option<(&'t str, &'t HttpMatch)> {
    let mut serving: Vec<(&HttpTable, (u8, usize))> = tables
        .iter()
        .filter(|table| table.listeners.iter().any(|name| name == request.listener))
        .filter_map(|table| Some((table, specificity(&table.host, request.host)?)))
        .collect();
    serving.sort_by_key(|(_, specificity)| std::cmp::Reverse(*specificity));
    serving.iter().find_map(|(table, _)| {
        let entry = table.matches.iter().find(|entry| fits(entry, request))?;
        Some((table.host.as_str(), entry))
    })
}

// --- the comparison

/// A decision in words.
fn words(decision: &Decision<'_>) -> String {
    let matched = decision
        .matched
        .map(|m| (m.host, &*m.rule.name, m.index, m.prefix));
    let outcome = match decision.outcome {
        Outcome::Forward { backend, target } => format!("{} {}", backend.name, target.weight),
        Outcome::Fail { status, reason } => format!("{status} {reason}"),
        Outcome::NotFound => "404".to_owned(),
        other => format!("{other:?}"),
    };
    format!("{matched:?} {outcome}")
}

/// What the rules' definition gives for a draw.
fn naive_outcome(rule: &str, draw: u64) -> &'static str {
    match (rule, draw % 8, draw % 14) {
        ("R0", _, _) => "one 1",
        ("R1", 0, _) => "one 1",
        ("R1", 1 | 2, _) => "500 ServiceNotFound",
        ("R1", _, _) => "three 5",
        ("R2", _, _) => "500 BackendNotFound",
        ("R3", _, 0..=6) => "four 7",
        _ => "five 7",
    }
}

fn check_explanation(explanation: &Explanation, decision: &Decision<'_>) {
    let taken: Vec<_> = explanation
        .candidates
        .iter()
        .filter(|c| c.verdict == "taken")
        .collect();
    match decision.matched {
        None => assert!(taken.is_empty(), "{explanation:?}"),
        Some(matched) => {
            assert_eq!(taken.len(), 1, "{explanation:?}");
            assert_eq!(
                (
                    taken[0].host.as_str(),
                    taken[0].rule.as_str(),
                    taken[0].match_index
                ),
                (matched.host, &*matched.rule.name, matched.index)
            );
        }
    }
    let backend = match decision.outcome {
        Outcome::Forward { backend, .. } => Some(&*backend.name),
        _ => None,
    };
    assert_eq!(explanation.outcome.backend.as_deref(), backend);
}

fn from_env(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|value| value.parse().ok())
        .unwrap_or(default)
}

#[test]
fn the_index_decides_like_the_naive_matcher() {
    let cases = from_env("ROUTED_PROPERTY_CASES", 100_000);
    let seed = from_env("ROUTED_PROPERTY_SEED", 1);
    let mut random = Random(seed);
    let mut tables = random_tables(&mut random);
    let mut chained: Option<Index> = None;
    let mut matched = 0;
    for case in 0..cases {
        if case % REQUESTS == 0 {
            // Half of the tables stay, so that the chain of indexes takes some over.
            let fresh = random_tables(&mut random);
            let keep: Vec<bool> = HOSTS.iter().map(|_| random.one_in(2)).collect();
            let kept = |table: &HttpTable| keep[HOSTS.iter().position(|host| *host == table.host).unwrap()];
            tables.retain(kept);
            tables.extend(fresh.into_iter().filter(|table| !kept(table)));
            let snapshot = snapshot_of(&rules(), tables.clone());
            chained = Some(Index::build(&snapshot, chained.as_ref()).unwrap());
        }
        let index = chained.as_ref().unwrap();
        let request = random_request(&mut random);
        let draw = random.next();
        let headers: Vec<Header<'_>> = request
            .headers
            .iter()
            .map(|(name, value)| Header {
                name,
                value: value.as_bytes(),
            })
            .collect();
        let Some(listener) = index.listener(request.listener) else {
            continue;
        };
        let facts = Facts {
            listener,
            https: false,
            method: request.method,
            host: request.host,
            path: request.path,
            query: request.query.as_deref(),
            headers: &headers,
        };
        let decision = decide(index, &facts, draw, &Availability::default());
        let expected = match naive(&tables, &request) {
            None => "None 404".to_owned(),
            Some((host, entry)) => {
                matched += 1;
                let prefix = match &entry.path {
                    PathMatch::PathPrefix(prefix) => Some(prefix.as_str()),
                    _ => None,
                };
                let outcome = naive_outcome(&entry.rule, draw);
                format!(
                    "{:?} {outcome}",
                    Some((host, entry.rule.as_str(), entry.index, prefix))
                )
            }
        };
        assert_eq!(words(&decision), expected, "seed {seed}, case {case}: {facts:?}");
        check_explanation(&explain(index, &facts, draw, &Availability::default()), &decision);
    }
    eprintln!("{cases} cases with seed {seed}, {matched} of them matched");
    assert!(
        matched > cases / 4,
        "the alphabets must make most requests meet something"
    );
}

#[test]
fn an_index_built_from_another_decides_like_one_from_zero() {
    let mut random = Random(from_env("ROUTED_PROPERTY_SEED", 2));
    let mut chained: Option<Index> = None;
    for _ in 0..200 {
        let used = 1 + random.below(4) as usize;
        let some = &rules()[..used];
        let mut tables = random_tables(&mut random);
        tables
            .iter_mut()
            .flat_map(|table| &mut table.matches)
            .for_each(|entry| {
                entry.rule = some[random.below(used as u64) as usize].0.into();
            });
        let snapshot = snapshot_of(some, tables);
        let next = Index::build(&snapshot, chained.as_ref()).unwrap();
        let zero = Index::build(&snapshot, None).unwrap();
        assert_eq!(next.route_count(), zero.route_count());
        assert_eq!(next.rules().count(), zero.rules().count());
        for host in REQUEST_HOSTS {
            for path in REQUEST_PATHS {
                let draw = random.next();
                let by = |index: &Index| {
                    let facts = listener_facts(index, host, path);
                    words(&decide(index, &facts, draw, &Availability::default()))
                };
                assert_eq!(by(&next), by(&zero));
            }
        }
        chained = Some(next);
    }
}

#[test]
fn ten_hosts_alone_decide_as_among_ten_thousand() {
    let host = |n: usize| match n % 3 {
        0 => format!("*.h{n}.test"),
        _ => format!("h{n}.test"),
    };
    let build = |count: usize| {
        let tables = (0..count).map(|n| table(&host(n), vec![prefix(&format!("/p{}", n % 7), "R0")]));
        Index::build(&snapshot_of(&rules(), tables.collect()), None).unwrap()
    };
    let (few, many) = (build(10), build(10_000));
    assert_eq!((few.route_count(), many.route_count()), (10, 10_000));
    for n in 0..10 {
        for host in [
            format!("h{n}.test"),
            format!("x.h{n}.test"),
            format!("y.x.h{n}.test"),
        ] {
            for path in ["/", "/p0", "/p1/x", "/p2", "/p3/", "/p4x", "/p5", "/p6"] {
                let by = |index: &Index| {
                    let facts = listener_facts(index, &host, path);
                    words(&decide(index, &facts, 0, &Availability::default()))
                };
                assert_eq!(by(&few), by(&many));
            }
        }
    }
}
