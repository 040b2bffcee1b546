//! The sources a router can follow, and the loop that those of files share.
//!
//! # Decisions
//! - **Polling is the truth.** The kernel's change notices only hasten a look: they don't come from a network file
//!   system, from the far side of a `..data` link, or once the watches of a machine are used up.
//! - **A look blocks, so it runs on a blocking thread** and takes its state with it; the table is locked only while a
//!   snapshot is offered.
//!   A file system that hangs holds that thread only, and the status shows the age of the last contact.
//! - **At least as long as a look took lies between two**, so a file that changes all the time never costs more than
//!   half a core, and everything written in between is skipped: only the newest matters.

mod file;
mod grpc;
mod hints;
mod resources;

use std::convert::Infallible;
use std::future::Future;
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub use file::FileConfig;
pub use grpc::GrpcConfig;
pub use resources::ResourcesConfig;

use crate::feed::Feed;
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
    /// A control plane, by gRPC.
    Grpc(Box<GrpcConfig>),
    /// A compiled snapshot in a file.
    File(FileConfig),
    /// A folder of YAML, compiled here.
    Resources(ResourcesConfig),
}

impl Source {
    /// What the status calls it.
    pub fn name(&self) -> &'static str {
        match self {
            Source::Grpc(_) => "grpc",
            Source::File(_) => "file",
            Source::Resources(_) => "resources",
        }
    }

    /// Where it reads.
    pub fn place(&self) -> String {
        match self {
            Source::Grpc(config) => config.control_plane.address.to_string(),
            Source::File(config) => config.path.display().to_string(),
            Source::Resources(config) => config.path.display().to_string(),
        }
    }

    /// Follows the source until `shutdown`, or until the future is dropped. Whatever goes wrong, the last good table
    /// stays published; whatever the source was about to bring when it was stopped is turned away.
    pub fn run<S: Future<Output = ()>>(
        self,
        publisher: &Publisher,
        keys: Keys,
        shutdown: S,
    ) -> impl Future<Output = ()> + use<S> {
        let feed = publisher.feed(self.name(), &self.place());
        let closing = feed.closing();
        async move {
            tokio::select! {
                never = self.follow(feed, keys) => match never {},
                () = shutdown => {}
            }
            drop(closing);
        }
    }

    async fn follow(self, feed: Feed, keys: Keys) -> Infallible {
        match self {
            Source::Grpc(config) => grpc::follow(*config, feed, keys).await,
            Source::File(config) => {
                let polling = config.polling.clone();
                poll(Look::File(Box::new(FileLook::new(config))), feed, keys, &polling).await
            }
            Source::Resources(config) => {
                let polling = config.polling.clone();
                poll(
                    Look::Resources(Box::new(ResourcesLook::new(config))),
                    feed,
                    keys,
                    &polling,
                )
                .await
            }
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
    fn look(&mut self, feed: &Feed, keys: &Keys) -> Next {
        match self {
            Look::File(look) => look.look(feed, keys),
            Look::Resources(look) => look.look(feed, keys),
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

async fn poll(mut look: Look, feed: Feed, keys: Keys, polling: &Polling) -> Infallible {
    let mut hints = Hints::new(polling.notify);
    loop {
        let started = Instant::now();
        let (keys, for_look) = (keys.clone(), feed.clone());
        let looked = tokio::task::spawn_blocking(move || {
            keys.catch_up();
            let next = look.look(&for_look, &keys);
            hints.arm(&look.folders());
            (look, hints, next)
        });
        let next;
        (look, hints, next) = match looked.await {
            Ok(back) => back,
            Err(error) => {
                // A panic outside the guarded build and compile: the state is lost, the published table is not.
                tracing::error!(%error, "the source ended by a bug in the router; the last table serves on");
                feed.status().fail("the source ended by a bug in the router");
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
            () = feed.status().reset_asked() => {}
        }
    }
}
