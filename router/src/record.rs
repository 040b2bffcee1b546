//! One record per request.

/// The access log's writer.
#[derive(Debug)]
pub struct AccessLog {}

impl AccessLog {
    /// A log to standard output.
    pub fn stdout() -> AccessLog {
        AccessLog {}
    }
}
