//! A folder of YAML, compiled here.

use std::path::PathBuf;

use crate::source::Polling;

/// `--resources`.
#[derive(Debug, Clone)]
pub struct ResourcesConfig {
    /// The folder, or a single file.
    pub path: PathBuf,
    /// When to look.
    pub polling: Polling,
    /// Whether a table without routes is taken.
    pub allow_empty: bool,
}

impl ResourcesConfig {
    /// The defaults for a folder.
    pub fn new(path: impl Into<PathBuf>) -> ResourcesConfig {
        ResourcesConfig {
            path: path.into(),
            polling: Polling::default(),
            allow_empty: false,
        }
    }
}
