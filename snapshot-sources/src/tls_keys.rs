//! `--tls-keys DIR`: pairs from files, for a source that brings none.

use std::path::PathBuf;

use crate::keys::Keys;
use crate::source::Next;

/// The folder's state between looks.
#[derive(Debug)]
pub(crate) struct TlsKeys {
    folder: PathBuf,
}

impl TlsKeys {
    /// Before the first look.
    pub(crate) fn new(folder: PathBuf) -> TlsKeys {
        TlsKeys { folder }
    }

    /// Looks once.
    pub(crate) fn look(&mut self, keys: &Keys) -> Next {
        let _ = keys;
        Next::Poll
    }

    /// Folders whose change notices are worth a look.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        vec![self.folder.clone()]
    }
}
