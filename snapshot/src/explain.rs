//! Explains a decision: the same code as [`crate::decide`], with a recorder.

use serde::Serialize;

use crate::facts::{Availability, Facts};
use crate::index::Index;

/// A decision with its reasons, as JSON shown to people and machines.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Hash of the snapshot that decided.
    pub snapshot: String,
}

/// Decides and records why each candidate lost.
pub fn explain(index: &Index, facts: &Facts<'_>, draw: u64, availability: &Availability<'_>) -> Explanation {
    let _ = (facts, draw, availability);
    Explanation {
        snapshot: index.hash().to_string(),
    }
}
