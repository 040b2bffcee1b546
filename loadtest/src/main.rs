//! Measurements of routed.
//!
//! - [`args`]: what can be typed.
//! - [`decide`]: `routed-loadtest decide`, the cost of a decision and of the index it is made on, in this process.
//! - [`measurement`]: the one JSON shape of all results, and its schema.
//! - [`machine`]: what a result says about where it was measured.
//! - [`alloc`]: the allocator, which counts.
//!
//! It depends on the snapshot crate alone: what is measured is what the router links, with nothing around it.

mod alloc;
mod args;
mod decide;
mod machine;
mod measurement;

use clap::Parser;

use crate::args::{Args, Command};

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

fn main() -> anyhow::Result<()> {
    match Args::parse().command {
        Command::Decide(options) => decide::run(&options),
        Command::Schema => measurement::print_schema(),
    }
}
