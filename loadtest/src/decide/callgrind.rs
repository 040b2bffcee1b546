//! Instructions counted by valgrind: this program, run twice with two numbers of decisions.
//!
//! What is not a decision (start, building the table) costs the same in both runs and falls out of the difference;
//! the loop around the decisions, a few instructions, stays in.

use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use crate::args::Decide;

const FEW: u64 = 10_000;
const MANY: u64 = 110_000;

/// Instructions per decision.
pub(crate) fn instructions(options: &Decide) -> Result<f64> {
    let few = collected(options, FEW)?;
    let many = collected(options, MANY)?;
    Ok(many.saturating_sub(few) as f64 / (MANY - FEW) as f64)
}

fn collected(options: &Decide, decisions: u64) -> Result<u64> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let shape = options
        .shape
        .to_possible_value()
        .context("the shape has no name")?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(["decide", "--shape", shape.get_name()])
        .args(["--routes", &options.routes.to_string()])
        .args(["--seed", &options.seed.to_string()])
        .args(["--count-loop", &decisions.to_string()])
        .output()
        .context("cannot run valgrind")?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("valgrind ended with {}: {}", output.status, said.trim_end());
    }
    // `==1234== Collected : 567890`
    let line = said.lines().find(|line| line.contains("Collected"));
    let number = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
    number.context("valgrind did not say how much it collected")
}
