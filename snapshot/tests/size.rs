//! What an index costs: bytes per route, and the work after one edit.
#![allow(unsafe_code)] // counting bytes takes a global allocator, and its trait is unsafe
#![allow(clippy::unwrap_used, clippy::print_stderr)] // a test may fail, and says what it measured

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Instant;

use common::{LISTENER, forward, listener_facts, prefix, snapshot_of, table};
use routed_snapshot::{Availability, Index, Outcome, PartName, Snapshot, decide};

struct Counting;

thread_local! {
    /// Bytes that this thread's blocks take.
    static LIVE: Cell<usize> = const { Cell::new(0) };
}

/// What the heap itself adds to each block, as common allocators do.
const BLOCK: usize = 8;

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = LIVE.try_with(|live| live.set(live.get().wrapping_add(layout.size() + BLOCK)));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        let _ = LIVE.try_with(|live| live.set(live.get().wrapping_sub(layout.size() + BLOCK)));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// As many hosts, each with one prefix and a rule of its own.
fn many_hosts(count: usize, edited: Option<usize>) -> Snapshot {
    let names: Vec<String> = (0..count)
        .map(|n| format!("EdgeRoute/shop/route-{n}/0"))
        .collect();
    let rules: Vec<(&str, _)> = names
        .iter()
        .map(|name| (name.as_str(), forward(&[("Service/shop/app/80", 1)])))
        .collect();
    let tables = names.iter().enumerate().map(|(n, name)| {
        let path = if edited == Some(n) { "/edited" } else { "/app" };
        table(&format!("host-{n}.shop.example.com"), vec![prefix(path, name)])
    });
    snapshot_of(&rules, tables.collect())
}

fn count() -> usize {
    let set = std::env::var("ROUTED_SIZE_ROUTES").ok();
    set.and_then(|value| value.parse().ok()).unwrap_or(20_000)
}

#[test]
fn many_hosts_cost_few_bytes_each_and_an_edit_costs_one_bucket() {
    let count = count();
    let snapshot = many_hosts(count, None);
    let before = LIVE.get();
    let started = Instant::now();
    let index = Index::build(&snapshot, None).unwrap();
    let from_zero = started.elapsed();
    let bytes = LIVE.get().wrapping_sub(before) / count;

    let edited = many_hosts(count, Some(7));
    let changed = edited
        .parts()
        .iter()
        .filter(|(name, part)| snapshot.parts()[*name].hash() != part.hash());
    assert!(
        changed
            .clone()
            .all(|(name, _)| matches!(name, PartName::Routes(_)))
    );
    assert_eq!(changed.count(), 1);
    let started = Instant::now();
    let next = Index::build(&edited, Some(&index)).unwrap();
    let one_edit = started.elapsed();
    eprintln!("{count} routes: {bytes} bytes each, from zero {from_zero:?}, one edit {one_edit:?}");
    assert!(bytes <= 400, "{bytes} bytes per route");

    let shared = index
        .rules()
        .zip(next.rules())
        .filter(|(a, b)| std::sync::Arc::ptr_eq(a, b));
    assert!(
        shared.count() > count - count / 64,
        "all buckets but one are taken over"
    );
    let facts = listener_facts(&next, "host-7.shop.example.com", "/edited/x");
    let decision = decide(&next, &facts, 0, &Availability::default());
    assert!(matches!(decision.outcome, Outcome::Forward { .. }));
    assert_eq!(index.listener(LISTENER), next.listener(LISTENER));
}

#[test]
fn one_host_of_many_prefixes_finds_each() {
    let count = count();
    let matches = (0..count)
        .map(|n| prefix(&format!("/team-{}/app-{n}", n % 50), "R"))
        .collect();
    let snapshot = snapshot_of(
        &[("R", forward(&[("Service/shop/app/80", 1)]))],
        vec![table("one.test", matches)],
    );
    let before = LIVE.get();
    let index = Index::build(&snapshot, None).unwrap();
    let bytes = LIVE.get().wrapping_sub(before) / count;
    let started = Instant::now();
    for n in 0..count {
        let path = format!("/team-{}/app-{n}/x/y", n % 50);
        let facts = listener_facts(&index, "one.test", &path);
        let decision = decide(&index, &facts, 0, &Availability::default());
        let found = decision.matched.and_then(|matched| matched.prefix);
        assert_eq!(found, path.strip_suffix("/x/y"));
    }
    eprintln!(
        "{count} prefixes: {bytes} bytes each, {:?} a decision",
        started.elapsed() / count as u32
    );
}
