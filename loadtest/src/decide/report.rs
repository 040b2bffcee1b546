//! What `decide` says.

use std::io::{self, Write};

use schemars::JsonSchema;
use serde::Serialize;

use super::timing::Percentiles;
use crate::args::Shape;

/// The cost of a decision, and of the index it is made on.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Decide")]
pub(crate) struct Report {
    /// How many routes were asked for.
    pub(crate) routes: u32,
    /// How they are spread.
    pub(crate) shape: Shape,
    /// Seed of the requests.
    pub(crate) seed: u64,
    /// Routes as the index counts them.
    pub(crate) route_count: usize,
    /// Whether two indexes were published in turn meanwhile.
    pub(crate) alternate: bool,
    /// How often one was published.
    pub(crate) swaps: u64,
    #[serde(flatten)]
    pub(crate) time: Percentiles,
    /// Share of the requests that met a rule.
    pub(crate) hit_ratio: f64,
    /// `null` where it could not be counted.
    pub(crate) instructions_per_decision: Option<f64>,
    /// Why it could not.
    pub(crate) instructions_reason: Option<String>,
    /// How often a decision asks for memory.
    pub(crate) allocations_per_decision: f64,
    /// Memory of the index after the snapshot is gone.
    pub(crate) bytes_per_route: f64,
    /// `Index::build` from zero.
    pub(crate) build_ms: f64,
    /// One changed route: its part, the snapshot, the index.
    pub(crate) edit_ms: f64,
    /// Whether an edited index decided as one built from zero; `null` unless asked.
    pub(crate) rebuild_check: Option<bool>,
}

impl Report {
    /// Writes it for people.
    pub(crate) fn table(&self, out: &mut impl Write) -> io::Result<()> {
        let mut row = |name: &str, value: String| writeln!(out, "{name:<26}{value:>16}");
        row("routes", self.route_count.to_string())?;
        row("shape", format!("{:?}", self.shape))?;
        row("decisions timed", self.time.decisions.to_string())?;
        row("hits", format!("{:.1} %", self.hit_ratio * 100.0))?;
        row("p50", format!("{} ns", self.time.p50_ns))?;
        row("p99", format!("{} ns", self.time.p99_ns))?;
        row("p99.9", format!("{} ns", self.time.p999_ns))?;
        row("max", format!("{} ns", self.time.max_ns))?;
        row("clock (subtracted)", format!("{} ns", self.time.clock_ns))?;
        if self.alternate {
            row("swaps meanwhile", self.swaps.to_string())?;
        }
        let instructions = self.instructions_per_decision.map(|count| format!("{count:.1}"));
        row(
            "instructions per decision",
            instructions.unwrap_or_else(|| "-".to_owned()),
        )?;
        row(
            "allocations per decision",
            format!("{:.3}", self.allocations_per_decision),
        )?;
        row("bytes per route", format!("{:.1}", self.bytes_per_route))?;
        row("build from zero", format!("{:.2} ms", self.build_ms))?;
        row("one edit", format!("{:.3} ms", self.edit_ms))?;
        if let Some(same) = self.rebuild_check {
            row(
                "rebuild check",
                if same { "same" } else { "DIFFERENT" }.to_owned(),
            )?;
        }
        if let Some(reason) = &self.instructions_reason {
            writeln!(out, "instructions not counted: {reason}")?;
        }
        Ok(())
    }
}
