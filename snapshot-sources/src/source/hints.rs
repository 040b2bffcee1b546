//! Change notices of the kernel, which make a look come sooner and are never relied on.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;

/// Most folders that are watched: the rest is polled only, and the machine's watches are for others too.
const MAX_FOLDERS: usize = 128;

/// Watches folders. Does nothing where the kernel refuses.
#[derive(Debug)]
pub(crate) struct Hints {
    watcher: Option<RecommendedWatcher>,
    /// Device and inode of each watched folder: one that was replaced under its name is watched anew.
    armed: BTreeMap<PathBuf, (u64, u64)>,
    changed: Arc<Notify>,
    complained: bool,
}

impl Hints {
    /// Starts, where wanted.
    pub(crate) fn new(wanted: bool) -> Hints {
        let mut hints = Hints {
            watcher: None,
            armed: BTreeMap::new(),
            changed: Arc::new(Notify::new()),
            complained: false,
        };
        if wanted {
            let changed = hints.changed.clone();
            let started = notify::recommended_watcher(move |event: notify::Result<Event>| {
                // An error here is an overflow or a lost watch: something may have changed.
                if event.as_ref().map_or(true, is_change) {
                    changed.notify_one();
                }
            });
            match started {
                Ok(watcher) => hints.watcher = Some(watcher),
                Err(error) => hints.complain(&error),
            }
        }
        hints
    }

    /// Watches these folders and no others.
    pub(crate) fn arm(&mut self, folders: &[PathBuf]) {
        let Some(watcher) = &mut self.watcher else { return };
        let mut wanted = BTreeMap::new();
        for folder in folders.iter().take(MAX_FOLDERS) {
            if let Some(identity) = identity_of(folder) {
                wanted.insert(folder.clone(), identity);
            }
        }
        let stale: Vec<PathBuf> = self
            .armed
            .iter()
            .filter(|(folder, identity)| wanted.get(*folder) != Some(identity))
            .map(|(folder, _)| folder.clone())
            .collect();
        for folder in stale {
            // The kernel has dropped the watch already where the folder is gone.
            let _ = watcher.unwatch(&folder);
            self.armed.remove(&folder);
        }
        let mut failed = None;
        for (folder, identity) in wanted {
            if self.armed.contains_key(&folder) {
                continue;
            }
            match watcher.watch(&folder, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    self.armed.insert(folder, identity);
                }
                Err(error) => failed = Some(error),
            }
        }
        if let Some(error) = failed {
            self.complain(&error);
        }
    }

    /// Ends at the next notice; never, where there are none.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    fn complain(&mut self, error: &notify::Error) {
        if !self.complained {
            tracing::warn!(%error, "no change notices from the kernel; polling goes on");
            self.complained = true;
        }
    }
}

/// Reading is no change: this process reads the files itself, and would wake itself for ever.
fn is_change(event: &Event) -> bool {
    match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Access(_) => false,
        _ => true,
    }
}

fn identity_of(folder: &Path) -> Option<(u64, u64)> {
    let metadata = fs::metadata(folder).ok().filter(fs::Metadata::is_dir)?;
    Some((metadata.dev(), metadata.ino()))
}
