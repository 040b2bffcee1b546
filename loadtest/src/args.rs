//! What can be typed.
//!
//! [`upstream`]: a subcommand's own flags. [`units`]: values with a unit.

pub(crate) mod units;
pub(crate) mod upstream;

use clap::{Parser, Subcommand, ValueEnum};
use schemars::JsonSchema;
use serde::Serialize;

/// Measures routed.
#[derive(Debug, Parser)]
#[command(name = "routed-loadtest", version)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measures decisions in this process, and building and changing the index they are made on.
    #[command(after_long_help = INSTRUCTIONS_BY_HAND)]
    Decide(Decide),
    /// Answers requests: a fast backend that fails and stalls as it is told.
    #[command(after_long_help = QUERY)]
    Upstream(upstream::Upstream),
    /// Prints the JSON schema of what `--json` says, whichever the subcommand.
    Schema,
}

const QUERY: &str = "\
Any method and path is answered, HTTP/1.1 and HTTP/2 on the same port. A request's query overrides the flags:
  /?status=404&size=100000&delay=20ms&fail=0.5&fail-with=reset
fail-with is one of status (503), reset, truncate, hang. A request's body is read before it is answered, and counted in
the header x-received-bytes. A WebSocket handshake is taken on any path, and each message comes back as it is.";

const INSTRUCTIONS_BY_HAND: &str = "\
Instructions by hand: run twice with two counts and divide the difference,
  valgrind --tool=callgrind --callgrind-out-file=/dev/null routed-loadtest decide --routes N --count-loop 10000
  valgrind --tool=callgrind --callgrind-out-file=/dev/null routed-loadtest decide --routes N --count-loop 110000
(second `Collected` - first `Collected`) / 100000. `--instructions valgrind` does the same.";

#[derive(Debug, clap::Args)]
pub(crate) struct Decide {
    /// How many routes the table has.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) routes: u32,

    /// How the routes are spread.
    #[arg(long, value_enum, default_value_t = Shape::ManyHosts)]
    pub(crate) shape: Shape,

    /// How long decisions are timed.
    #[arg(long, default_value_t = 5.0, value_parser = units::seconds)]
    pub(crate) seconds: f64,

    /// Seed of the random requests: equal seeds give equal requests.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,

    /// Publish two indexes in turn, 100 times a second, while deciding.
    #[arg(long)]
    pub(crate) alternate: bool,

    /// Check that an index built by an edit decides as one built from zero.
    #[arg(long)]
    pub(crate) rebuild_check: bool,

    /// How instructions are counted.
    #[arg(long, value_enum, default_value_t = Counter::Perf)]
    pub(crate) instructions: Counter,

    /// Make this many decisions and end, untimed: for counting from outside.
    #[arg(long, value_name = "K", conflicts_with_all = ["json", "alternate", "rebuild_check"])]
    pub(crate) count_loop: Option<u64>,

    /// One JSON object instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

/// How routes are spread over hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Shape {
    /// One host with all routes, each a path prefix of two or three elements.
    OneHost,
    /// As many hosts as routes, each with one path prefix.
    ManyHosts,
}

/// How instructions are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Counter {
    /// By the processor, through `perf_event_open`.
    Perf,
    /// By running this program twice under valgrind's callgrind. Slow, and the same on every machine.
    Valgrind,
    /// Not at all.
    None,
}
