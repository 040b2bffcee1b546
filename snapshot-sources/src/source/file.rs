//! A compiled snapshot in a file.

use std::path::PathBuf;

use routed_snapshot::snapshot::MAX_DOCUMENT_BYTES;

use crate::source::Polling;

/// `--snapshot-path`.
#[derive(Debug, Clone)]
pub struct FileConfig {
    /// The file.
    pub path: PathBuf,
    /// `--tls-keys`: a folder `<namespace>/<name>/{tls.crt,tls.key}`.
    pub tls_keys: Option<PathBuf>,
    /// When to look.
    pub polling: Polling,
    /// Largest file that is read.
    pub limit_bytes: u64,
    /// Whether a table without routes and without a newer position is taken.
    pub allow_empty: bool,
}

impl FileConfig {
    /// The defaults for a file.
    pub fn new(path: impl Into<PathBuf>) -> FileConfig {
        FileConfig {
            path: path.into(),
            tls_keys: None,
            polling: Polling::default(),
            limit_bytes: MAX_DOCUMENT_BYTES as u64,
            allow_empty: false,
        }
    }
}
