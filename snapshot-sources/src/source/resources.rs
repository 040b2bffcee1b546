//! A folder of YAML, compiled here.

use std::path::PathBuf;

use crate::keys::Keys;
use crate::live::Publisher;
use crate::source::{Next, Polling};

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

/// The source's state between looks.
#[derive(Debug)]
pub(crate) struct ResourcesLook {
    config: ResourcesConfig,
}

impl ResourcesLook {
    /// Before the first look.
    pub(crate) fn new(config: ResourcesConfig) -> ResourcesLook {
        ResourcesLook { config }
    }

    /// Looks once.
    pub(crate) fn look(&mut self, publisher: &mut Publisher, keys: &Keys) -> Next {
        let _ = (publisher, keys);
        Next::Poll
    }

    /// Folders whose change notices are worth a look.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        vec![self.config.path.clone()]
    }
}
