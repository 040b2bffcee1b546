//! `--snapshot-cache`: the last good snapshot on disk, so that a restart serves at once.
//!
//! Written by a thread of its own, whole and atomically; while one write runs, only the newest snapshot waits. A
//! disk that is full, slow or gone is reported and costs nothing else; a write that failed is tried again.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use routed_snapshot::Snapshot;
use routed_snapshot::snapshot::MAX_DOCUMENT_BYTES;

use crate::disk::read::{ReadError, read_file};
use crate::disk::write::write_atomically;
use crate::status::{CacheStatus, Status};

/// How long the end of the process waits for the write under way.
const LAST_WRITE: Duration = Duration::from_secs(5);

/// Pause after a write that failed.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// The snapshot that waits to be written.
type Newest = Arc<Mutex<Option<Snapshot>>>;

/// The writer's end. Dropping it waits for the writer, so that a clean exit leaves the newest on disk.
#[derive(Debug)]
pub(crate) struct SnapshotCache {
    newest: Newest,
    /// One token at most: "there is something to write".
    wake: Option<SyncSender<()>>,
    /// Disconnects when the writer has ended.
    ended: Receiver<()>,
}

impl SnapshotCache {
    /// Starts the writer.
    pub(crate) fn start(path: PathBuf, status: Status) -> SnapshotCache {
        status.table().cache = Some(CacheStatus::default());
        let newest = Newest::default();
        let (wake, woken) = sync_channel(1);
        let (end, ended) = channel();
        let (for_thread, its_status) = (newest.clone(), status.clone());
        let started = std::thread::Builder::new()
            .name("routed-cache".to_owned())
            .spawn(move || write_all(&path, &its_status, &for_thread, &woken, end));
        if let Err(error) = started {
            note(&status, Err(format!("no thread to write it: {error}")));
        }
        SnapshotCache {
            newest,
            wake: Some(wake),
            ended,
        }
    }

    /// Writes `snapshot` soon, in place of one that still waits.
    pub(crate) fn write(&self, snapshot: Snapshot) {
        let Some(wake) = &self.wake else { return };
        *self.newest.lock().unwrap_or_else(PoisonError::into_inner) = Some(snapshot);
        if let Err(TrySendError::Disconnected(())) = wake.try_send(()) {
            // No writer: nothing may wait for it.
            self.newest.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
    }
}

impl Drop for SnapshotCache {
    fn drop(&mut self) {
        self.wake = None;
        let _ = self.ended.recv_timeout(LAST_WRITE);
    }
}

/// What the cache holds; `None`, with a line in the log, where it holds nothing usable.
pub(crate) fn load(path: &Path) -> Option<Snapshot> {
    let content = match read_file(path, MAX_DOCUMENT_BYTES as u64) {
        Ok(content) => content,
        Err(ReadError::Io { error, .. }) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!(%error, "the snapshot cache is ignored");
            return None;
        }
    };
    Snapshot::decode(&content.bytes)
        .inspect_err(|error| tracing::warn!(path = %path.display(), %error, "the snapshot cache is ignored"))
        .ok()
}

fn write_all(path: &Path, status: &Status, newest: &Newest, woken: &Receiver<()>, end: Sender<()>) {
    let mut failed = false;
    loop {
        // A new snapshot, the end of a pause after a failure, or the end of the process: then one last attempt.
        let woke = if failed {
            woken.recv_timeout(RETRY_AFTER)
        } else {
            woken.recv().map_err(|_| RecvTimeoutError::Disconnected)
        };
        failed = !write_newest(path, status, newest);
        if woke == Err(RecvTimeoutError::Disconnected) {
            break;
        }
    }
    drop(end);
}

/// Writes what waits; where that fails it waits on, unless a newer one has come. False where it failed.
fn write_newest(path: &Path, status: &Status, newest: &Newest) -> bool {
    let waiting = || newest.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(snapshot) = waiting().take() else {
        return true;
    };
    let written = write_atomically(path, &snapshot.encode(), 0o600).map_err(|error| error.to_string());
    let good = written.is_ok();
    note(status, written);
    if !good {
        waiting().get_or_insert(snapshot);
    }
    good
}

fn note(status: &Status, written: Result<(), String>) {
    let mut state = status.table();
    let cache = state.cache.get_or_insert_default();
    match written {
        Ok(()) => {
            cache.written_at = Some(Timestamp::now());
            cache.error = None;
        }
        Err(error) => {
            if cache.error.as_ref() != Some(&error) {
                tracing::warn!(%error, "the snapshot cache can't be written; serving goes on");
            }
            cache.error = Some(error);
        }
    }
}
