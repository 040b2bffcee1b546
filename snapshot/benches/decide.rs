//! A decision, by what has to be compared: for work on the matcher. What a whole table costs, with percentiles, memory
//! and instructions, is told by `routed-loadtest decide`.
//!
//! `cargo bench --workspace --bench decide`. Run as a test it decides once per case.
#![allow(clippy::unwrap_used)] // a bench may fail

#[path = "../tests/common/mod.rs"]
mod common;

use std::hint::black_box;

use common::{field, forward, listener_facts, path_match, prefix, snapshot_of, table};
use criterion::{Criterion, criterion_group, criterion_main};
use routed_snapshot::ir::{HttpMatch, PathMatch, ValueMatch};
use routed_snapshot::{Availability, Facts, Header, Index, Outcome, decide};

/// A match on everything that is compared after the path.
fn detailed(path: &str, value: ValueMatch) -> HttpMatch {
    let mut entry = prefix(path, "A");
    entry.headers = vec![field("x-tier", value.clone())];
    entry.query_params = vec![field("v", value.clone())];
    entry.cookies = vec![field("id", value)];
    entry
}

fn index() -> Index {
    let exact = (0..1000).map(|n| path_match(PathMatch::Exact(format!("/exact/{n}")), "A"));
    let prefixes = (0..1000).map(|n| prefix(&format!("/team-{}/app-{n}", n % 50), "A"));
    let expressions = (0..20)
        .map(|n| path_match(PathMatch::RegularExpression(format!("/r{n}/[a-z]+(/x)*")), "A"))
        .collect();
    let tables = vec![
        table("paths.example.com", exact.chain(prefixes).collect()),
        table("regex.example.com", expressions),
        table(
            "detail.example.com",
            vec![
                detailed("/exact", ValueMatch::Exact("gold".into())),
                detailed("/regex", ValueMatch::RegularExpression("g[a-z]+".into())),
            ],
        ),
        table("*.wild.example.com", vec![prefix("/", "A")]),
        table("*", vec![prefix("/any", "A")]),
    ];
    let snapshot = snapshot_of(&[("A", forward(&[("one", 1), ("two", 3)]))], tables);
    Index::build(&snapshot, None).unwrap()
}

/// Name of the case, host and path.
const CASES: [(&str, &str, &str); 8] = [
    ("exact path", "paths.example.com", "/exact/777"),
    ("prefix", "paths.example.com", "/team-7/app-57/a/b/c/d"),
    ("last of 20 expressions", "regex.example.com", "/r19/abc/x/x"),
    ("header, query, cookie", "detail.example.com", "/exact"),
    ("the same by expressions", "detail.example.com", "/regex"),
    ("wildcard host", "a.b.wild.example.com", "/x"),
    ("any host", "elsewhere.test", "/any/x"),
    ("no route", "elsewhere.test", "/none"),
];

fn decisions(criterion: &mut Criterion) {
    let index = index();
    let headers = [
        Header {
            name: "x-tier",
            value: b"gold",
        },
        Header {
            name: "cookie",
            value: b"a=b; id=gold",
        },
    ];
    let mut group = criterion.benchmark_group("decide");
    for (name, host, path) in CASES {
        let facts = Facts {
            query: Some("x=1&v=gold"),
            headers: &headers,
            ..listener_facts(&index, host, path)
        };
        let found = decide(&index, &facts, 0, &Availability::default());
        let forwards = matches!(found.outcome, Outcome::Forward { .. });
        assert_eq!(forwards, name != "no route", "{name}: {found:?}");
        group.bench_function(name, |bench| {
            let mut draw = 0u64;
            bench.iter(|| {
                draw = draw.wrapping_add(1);
                decide(&index, black_box(&facts), draw as _, &Availability::default())
                    .matched
                    .is_some()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, decisions);
criterion_main!(benches);
