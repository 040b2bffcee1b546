//! What can be typed.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use routed_snapshot::request::typed;

/// Validates, compiles and explains routed configuration.
#[derive(Debug, Parser)]
#[command(name = "routedctl", version)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Tells whether a router would take these resources
    #[command(after_help = EXIT_CODES)]
    Validate(Validate),
    /// Compiles resources into a snapshot file
    #[command(after_help = EXIT_CODES)]
    Compile(Compile),
    /// Tells where a request would go, and why
    Explain(Explain),
    /// Prints the definitions of all kinds, for `kubectl apply -f -`
    Crds,
    /// Prints a completion script
    Completions(Completions),
    /// Prints the manual page, or writes all pages into a folder
    Man(Man),
}

const EXIT_CODES: &str = "\
Exit codes:
  0  fine
  1  invalid (with --strict: or warnings)
  2  unusable: an input can't be read, is too large, or no input holds a document";

#[derive(Debug, clap::Args)]
pub(crate) struct Validate {
    /// Files, folders (their *.yaml and *.yml, also in folders below), or - for stdin
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    /// Warnings are errors
    #[arg(long)]
    pub(crate) strict: bool,

    /// Json adds a report for machines on stdout
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) output: Format,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Compile {
    /// Files, folders (their *.yaml and *.yml, also in folders below), or - for stdin
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    /// Where the snapshot goes; - is stdout. Private keys are never part of it
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,

    /// Write what is left although there are errors, as a router would serve it
    #[arg(long)]
    pub(crate) keep_going: bool,

    /// List the parts with their hashes and sizes
    #[arg(long)]
    pub(crate) print_parts: bool,

    /// Write certificates and private keys to DIR/NAMESPACE/NAME/tls.crt and tls.key, for `routed --tls-keys`
    #[arg(long, value_name = "DIR")]
    pub(crate) keys_out: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Explain {
    #[command(flatten)]
    pub(crate) table: Table,

    /// The profile that the router runs; without it the listeners of all profiles are considered
    #[arg(long, value_name = "NAMESPACE/NAME", conflicts_with = "admin")]
    pub(crate) profile: Option<String>,

    /// The listener the request arrives at, by its name or as namespace/profile/listener; needed where several would do
    #[arg(long)]
    pub(crate) listener: Option<String>,

    /// The request's method
    #[arg(long, default_value = "GET")]
    pub(crate) method: String,

    /// A header line of the request; may be repeated. A Host is sent instead of the URL's
    #[arg(long = "header", value_name = "NAME:VALUE", value_parser = typed::header)]
    pub(crate) headers: Vec<(String, String)>,

    /// The number that chooses among weighted backends
    #[arg(long, default_value_t = 0)]
    pub(crate) draw: u64,

    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) output: Format,

    /// The request's URL, for instance `https://shop.example.com/cart?page=2`
    pub(crate) url: String,
}

/// What decides.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Table {
    /// A snapshot file
    #[arg(long, value_name = "FILE")]
    pub(crate) snapshot: Option<PathBuf>,

    /// Resources: a file, a folder, or - for stdin
    #[arg(long, value_name = "PATH")]
    pub(crate) resources: Option<PathBuf>,

    /// A running router's admin address: host:port, or unix:PATH
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) admin: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Man {
    /// Write one page per subcommand here
    #[arg(value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
}

/// For whom it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Text,
    /// For machines
    Json,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_defined() {
        Args::command().debug_assert();
    }
}
