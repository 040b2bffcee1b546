//! `routed-loadtest` as it is run, over real sockets.
//!
//! Counts and orders of magnitude are tested, never a speed: the machine is busy with other tests.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    unreachable_pub,
    missing_docs,
    reason = "a test stops where something is not as it should be, and talks to the person who runs it"
)]

mod harness;
mod upstream;
