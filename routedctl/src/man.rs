//! `routedctl man`: manual pages.

use std::fs;

use anyhow::{Context, Result};
use clap::CommandFactory;

use crate::args::{Args, Man};
use crate::exit::Exit;
use crate::output;

/// Prints the page of the command itself, or writes all pages into a folder.
pub(crate) fn run(options: &Man) -> Result<Exit> {
    let command = Args::command();
    match &options.folder {
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page)?;
            output::print(&page)?;
        }
        Some(folder) => {
            let written = fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(command, folder));
            written.with_context(|| format!("cannot write pages into {}", folder.display()))?;
        }
    }
    Ok(Exit::Fine)
}
