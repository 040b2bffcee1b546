//! `routedctl completions`: a completion script for a shell.

use anyhow::Result;
use clap::CommandFactory;

use crate::args::{Args, Completions};
use crate::exit::Exit;
use crate::output;

/// Prints it.
pub(crate) fn run(options: &Completions) -> Result<Exit> {
    // Into memory first: the generator panics where it can't write, for instance into a closed pipe.
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Args::command(), "routedctl", &mut script);
    output::print(&script)?;
    Ok(Exit::Fine)
}
