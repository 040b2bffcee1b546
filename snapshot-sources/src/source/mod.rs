//! The sources a router can follow, and the loop they share.
//!
//! # Decisions
//! - **Polling is the truth.** The kernel's change notices only hasten a look: they don't come from a network file
//!   system, from the far side of a `..data` link, or once the watches of a machine are used up.
//! - **A look blocks, so it runs on a blocking thread** and takes publisher and state with it; nothing is locked.
//!   A file system that hangs holds that thread only, and the status shows the age of the last contact.
//! - **At least as long as a look took lies between two**, so a file that changes all the time never costs more than
//!   half a core, and everything written in between is skipped: only the newest matters.

mod file;
mod hints;
mod resources;

use std::future::Future;
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub use file::FileConfig;
pub use resources::ResourcesConfig;

use crate::keys::Keys;
use crate::live::Publisher;
use crate::source::file::FileLook;
use crate::source::hints::Hints;
use crate::source::resources::ResourcesLook;

/// A writer is given this long to finish what a change notice was the beginning of.
const SETTLE: Duration = Duration::from_millis(50);

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
    /// Follows the source until `shutdown`. Whatever goes wrong, the last good table stays published.
    pub async fn run(self, publisher: Publisher, keys: Keys, shutdown: impl Future<Output = ()>) {
        let (name, place, polling) = match &self {
            Source::File(config) => ("file", &config.path, config.polling.clone()),
            Source::Resources(config) => ("resources", &config.path, config.polling.clone()),
        };
        let status = publisher.status().clone();
        {
            let mut state = status.state();
            state.source = name.to_owned();
            state.place = place.display().to_string();
        }
        let look = match self {
            Source::File(config) => Look::File(Box::new(FileLook::new(config))),
            Source::Resources(config) => Look::Resources(Box::new(ResourcesLook::new(config))),
        };
        let followed = follow(look, publisher, keys, &polling);
        tokio::select! {
            () = followed => {}
            () = shutdown => {}
        }
    }
}

/// One source's state between looks.
#[derive(Debug)]
enum Look {
    File(Box<FileLook>),
    Resources(Box<ResourcesLook>),
}

/// When a look wants the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// After the interval, or at a change notice.
    Poll,
    /// Soon: something is being written.
    Soon,
}

impl Look {
    fn look(&mut self, publisher: &mut Publisher, keys: &Keys) -> Next {
        match self {
            Look::File(look) => look.look(publisher, keys),
            Look::Resources(look) => look.look(publisher, keys),
        }
    }

    /// Folders whose change notices are worth a look.
    fn folders(&self) -> Vec<PathBuf> {
        match self {
            Look::File(look) => look.folders(),
            Look::Resources(look) => look.folders(),
        }
    }
}

async fn follow(mut look: Look, mut publisher: Publisher, keys: Keys, polling: &Polling) {
    let status = publisher.status().clone();
    let mut hints = Hints::new(polling.notify);
    loop {
        let started = Instant::now();
        let keys = keys.clone();
        let looked = tokio::task::spawn_blocking(move || {
            keys.catch_up();
            let next = look.look(&mut publisher, &keys);
            hints.arm(&look.folders());
            (look, publisher, hints, next)
        });
        let next;
        (look, publisher, hints, next) = match looked.await {
            Ok(back) => back,
            Err(error) => {
                // A panic outside the guarded build and compile: the state is lost, the published table is not.
                tracing::error!(%error, "the source ended by a bug in the router; the last table serves on");
                status.fail("the source ended by a bug in the router");
                return std::future::pending().await;
            }
        };
        tokio::time::sleep(SETTLE.max(started.elapsed())).await;
        if next == Next::Soon {
            continue;
        }
        // What can end the wait: the interval, a change notice, a reset of the position.
        tokio::select! {
            () = tokio::time::sleep(polling.interval.saturating_sub(SETTLE)) => {}
            () = hints.changed() => tokio::time::sleep(SETTLE).await,
            () = status.reset_asked() => {}
        }
    }
}
