//! Measurements of routed.
//!
//! - [`args`]: what can be typed.
//! - [`decide`]: `routed-loadtest decide`, the cost of a decision and of the index it is made on, in this process.
//! - [`alloc`]: the allocator, which counts.
//! - [`machine`]: what a result says about where it was measured.
//!
//! It depends on the snapshot crate alone: what is measured is what the router links, with nothing around it.

mod alloc;
mod args;
mod decide;
mod machine;

use clap::Parser;

use crate::args::{Args, Command};

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

fn main() -> anyhow::Result<()> {
    match Args::parse().command {
        Command::Decide(options) => decide::run(&options),
    }
}
