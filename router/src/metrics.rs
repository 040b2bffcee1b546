//! Counters, and how they are shown.

/// All counters of the data plane.
#[derive(Debug, Default)]
pub struct Metrics {}

impl Metrics {
    /// The counters in Prometheus' text format.
    pub fn render(&self) -> String {
        String::new()
    }
}
