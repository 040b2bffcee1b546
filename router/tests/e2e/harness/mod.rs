//! What the end-to-end tests share: the router as a child process, scripted backends, clients that send exact bytes.
//!
//! Rules: nothing waits by a fixed sleep, everything waits for a condition with a generous [`DEADLINE`]; every
//! address is 127.0.0.1 with a port chosen by the kernel, so tests run side by side; a process is ended by its pid.
//! The clients are written with plain sockets where bytes matter, so that no client library "repairs" a request.

mod backend;
mod client;
mod folder;
mod router;
#[path = "../../../../snapshot-sources/tests/common/skips.rs"]
mod skips;

use std::sync::LazyLock;
use std::time::{Duration, Instant};

pub use backend::{Stub, reply};
pub use client::{Conn, H2, Reply, exchange, get, get_with};
pub use folder::{
    Folder, backend, backend_spec, compile, object, profile, profile_with, route, simple_route,
};
pub use router::{Launch, Router, Usage};
pub use skips::skipped;

/// How long a condition may take on a machine that is busy with other work.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// The runtime of all stubs and of asynchronous clients.
pub fn runtime() -> &'static tokio::runtime::Runtime {
    static RUNTIME: LazyLock<tokio::runtime::Runtime> = LazyLock::new(|| {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap()
    });
    &RUNTIME
}

/// Waits for a condition; fails the test with `what` where it doesn't come.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < end, "not within {DEADLINE:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits for a value; fails the test with `what` where it doesn't come.
#[track_caller]
pub fn wait_for<T>(what: &str, mut value: impl FnMut() -> Option<T>) -> T {
    let mut found = None;
    wait_until(what, || {
        found = value();
        found.is_some()
    });
    found.unwrap()
}

/// True where the long form of the tests was asked for.
pub fn full() -> bool {
    std::env::var_os("ROUTED_FULL").is_some_and(|value| value == "1")
}
