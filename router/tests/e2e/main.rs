//! The router from outside: the real binary, real sockets, scripted backends.
//!
//! Each test is named after the behaviour it holds; the doc comment gives the case (`C..`) or the row of the list of
//! attacks (`E..`, `H..`, `J..`) that it answers. Reading order: [`routing`], [`hosts`], [`headers`] (what one request
//! does), [`faults`] (objects in error), [`reloads`], [`files`] and [`grpc`] (how tables arrive), [`labels`],
//! [`agreement`] and [`explained`] (what the router says), [`tunnels`] (how connections end), [`swaps`], [`restart`] and
//! [`clients`] (the whole under load, after a crash, with programs that others wrote).
//!
//! `ROUTED_FULL=1` asks for the full sizes; `ROUTED_SWAPS`, `ROUTED_SKIPS` and `ROUTED_PYTHON` are explained where
//! they are read.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::print_stdout,
    unreachable_pub,
    missing_docs,
    reason = "a test stops where something is not as it should be, and talks to the person who runs it"
)]

mod agreement;
mod clients;
/// The control plane of the sources' own tests: one scripted server for both.
#[path = "../../../snapshot-sources/tests/grpc/server.rs"]
#[allow(dead_code, reason = "these tests use their share of it")]
mod control_plane;
mod explained;
mod faults;
mod files;
mod grpc;
mod harness;
mod headers;
mod hosts;
mod labels;
mod reloads;
mod restart;
mod routing;
mod swaps;
mod tunnels;
