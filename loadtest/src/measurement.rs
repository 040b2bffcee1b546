//! The one shape of all results.
//!
//! Whatever is measured, `--json` prints one object: `command` says which subcommand measured, `measured_at` and
//! `machine` when and where, and the rest is that subcommand's own. The names are a contract: results of different
//! versions are compared by them. Units are part of the names (`_ns`, `_ms`, `_bytes`). `result.schema.json` beside
//! the crate is the schema; it is made from the types here, and a test holds the two together.

use std::io::{self, Write};

use anyhow::Result;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;

use crate::decide;
use crate::machine::Machine;

/// One result of routed-loadtest.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(extend("unevaluatedProperties" = false))]
pub(crate) struct Measurement {
    /// When it ended (RFC 3339), by the machine's clock.
    pub(crate) measured_at: String,
    /// Where.
    pub(crate) machine: Machine,
    /// What was found.
    #[serde(flatten)]
    pub(crate) outcome: Outcome,
}

/// What was measured, by subcommand.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "command", rename_all = "kebab-case")]
pub(crate) enum Outcome {
    /// `routed-loadtest decide`.
    Decide(decide::report::Report),
}

impl Measurement {
    /// A result of now. The machine was looked at before the measuring began.
    pub(crate) fn new(machine: Machine, outcome: Outcome) -> Measurement {
        Measurement {
            measured_at: jiff::Timestamp::now().to_string(),
            machine,
            outcome,
        }
    }

    /// Writes it to stdout, for programs or for people.
    pub(crate) fn print(&self, json: bool) -> Result<()> {
        let mut out = io::stdout().lock();
        if json {
            serde_json::to_writer(&mut out, self)?;
            writeln!(out)?;
        } else {
            self.table(&mut out)?;
        }
        Ok(out.flush()?)
    }

    fn table(&self, out: &mut impl Write) -> io::Result<()> {
        match &self.outcome {
            Outcome::Decide(report) => report.table(out)?,
        }
        writeln!(out, "{}", self.machine)
    }
}

/// Writes the schema to stdout.
pub(crate) fn print_schema() -> Result<()> {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let schema = settings.into_generator().into_root_schema_for::<Measurement>();
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &schema)?;
    writeln!(out)?;
    Ok(())
}
