//! `--key-cache DIR`: certificates and private keys on disk, so that TLS survives a restart without a control plane.

use std::io;
use std::path::PathBuf;

/// Why a key cache can't be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyCacheError {
    /// The system said no.
    #[error("{}: {error}", path.display())]
    Io {
        /// Which file or folder.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Others could read it.
    #[error("{}: mode {mode:04o} lets others in; private keys need 0700", path.display())]
    Open {
        /// The folder.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Something else stands there.
    #[error("{}: not a folder", path.display())]
    NotAFolder {
        /// The path.
        path: PathBuf,
    },
}
