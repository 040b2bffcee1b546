//! The gRPC source against a real server that does as it is told: [`server`]. Reading order: [`deliveries`] (what may
//! come), [`sizes`], [`dead`] (peers that are gone and don't say so), [`channels`] (TLS, Unix sockets, keys),
//! [`reports`] (acknowledgements), [`switching`] (sources that follow one another).
//!
//! `ROUTED_FULL=1` asks for the full sizes.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::print_stdout,
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "a test stops where something is not as it should be, and talks to the person who runs it"
)]

mod channels;
#[path = "../common/mod.rs"]
mod common;
mod dead;
mod deliveries;
mod process;
mod relay;
mod reports;
mod rig;
mod server;
mod sizes;
mod switching;
