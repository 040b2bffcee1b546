//! Measurements of routed.
//!
//! - [`args`]: what can be typed.
//! - [`decide`]: `routed-loadtest decide`, the cost of a decision and of the index it is made on, in this process.
//! - [`upstream`]: `routed-loadtest upstream`, the backend behind what is measured.
//! - [`measurement`]: the one JSON shape of all results, and its schema.
//! - [`machine`]: what a result says about where it was measured.
//! - [`alloc`]: the allocator, which counts.
//!
//! Decisions are measured on the snapshot crate alone: what the router links, with nothing around it. Everything else
//! is measured from outside, over sockets.

mod alloc;
mod args;
mod decide;
mod machine;
mod measurement;
mod upstream;

use clap::Parser;

use crate::args::{Args, Command};

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

fn main() -> anyhow::Result<()> {
    match Args::parse().command {
        Command::Decide(options) => decide::run(&options),
        Command::Upstream(options) => upstream::run(&options),
        Command::Schema => measurement::print_schema(),
    }
}
