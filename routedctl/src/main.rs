//! `routedctl`: validates, compiles and explains routed configuration.
//!
//! - [`args`]: what can be typed. One file per subcommand: [`validate`], [`compile`], [`explain`], [`crds`],
//!   [`completions`], [`man`].
//! - [`input`]: reading what is named on the command line. [`show`]: diagnostics with their source lines.
//! - [`exit`]: exit codes. [`output`]: stdout, and files written whole or not at all.
//!
//! It compiles with the crate that the router compiles with, and decides with the crate that the router decides
//! with: what is fine here is taken there.

mod args;
mod compile;
mod completions;
mod crds;
mod exit;
mod explain;
mod input;
mod man;
mod output;
mod show;
mod validate;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Command};
use crate::exit::Exit;

fn main() -> ExitCode {
    let done = match Args::parse().command {
        Command::Validate(options) => validate::run(&options),
        Command::Compile(options) => compile::run(&options),
        Command::Explain(options) => explain::run(&options),
        Command::Crds => crds::run(),
        Command::Completions(options) => completions::run(&options),
        Command::Man(options) => man::run(&options),
    };
    match done {
        Ok(exit) => exit.into(),
        // Whoever reads has read enough, for instance `head`.
        Err(error) if output::is_broken_pipe(&error) => Exit::Fine.into(),
        Err(error) => {
            output::complain(&format!("error: {error:#}\n"));
            Exit::Unusable.into()
        }
    }
}
