//! A decision allocates nothing.
#![allow(unsafe_code)] // counting allocations takes a global allocator, and its trait is unsafe
#![allow(clippy::unwrap_used, clippy::print_stderr)] // a test may fail, and says what it measured

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use common::{field, forward, listener_facts, prefix, snapshot_of, table};
use routed_snapshot::facts::Header;
use routed_snapshot::ir::{PathMatch, ValueMatch};
use routed_snapshot::{Availability, Facts, Index, Outcome, decide};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn index() -> Index {
    let mut exact = prefix("/cart", "A");
    exact.headers = vec![field("x-tier", ValueMatch::Exact("gold, silver".into()))];
    exact.query_params = vec![field("a b", ValueMatch::RegularExpression("[0-9 ]+".into()))];
    exact.cookies = vec![field("id", ValueMatch::Exact("7".into()))];
    let mut regex = prefix("/", "A");
    regex.path = PathMatch::RegularExpression("/r/[a-z]+(/x)*".into());
    let many = (0..100).map(|n| prefix(&format!("/p{n}"), "A")).collect();
    let tables = vec![
        table("shop.example.com", vec![exact, regex, prefix("/", "A")]),
        table("many.example.com", many),
        table("*.example.com", vec![prefix("/w", "A")]),
        table("*", vec![prefix("/any", "A")]),
    ];
    let snapshot = snapshot_of(&[("A", forward(&[("one", 1), ("two", 3)]))], tables);
    Index::build(&snapshot, None).unwrap()
}

#[test]
fn a_decision_allocates_nothing() {
    let index = index();
    let headers = [
        Header {
            name: "x-tier",
            value: b"gold",
        },
        Header {
            name: "cookie",
            value: b"a=b; id=7",
        },
        Header {
            name: "x-tier",
            value: b"silver",
        },
    ];
    let requests = [
        ("shop.example.com", "/cart/1"),
        ("shop.example.com", "/r/abc/x/x"),
        ("shop.example.com", "/other"),
        ("many.example.com", "/p77/a/b/c"),
        ("a.b.example.com", "/w"),
        ("elsewhere.test", "/any/x"),
    ];
    let facts = requests.map(|(host, path)| Facts {
        query: Some("x=1&a%20b=1+2"),
        headers: &headers,
        ..listener_facts(&index, host, path)
    });
    // A thread's first use of a regular expression makes its scratch memory.
    let all = || {
        for (draw, facts) in (0..).zip(&facts) {
            let decision = decide(&index, facts, draw, &Availability::default());
            assert!(matches!(decision.outcome, Outcome::Forward { .. }), "{facts:?}");
        }
    };
    all();
    let before = ALLOCATIONS.get();
    for _ in 0..100 {
        all();
    }
    assert_eq!(ALLOCATIONS.get() - before, 0);
}
