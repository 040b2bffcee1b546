//! `--snapshot-cache`: the last good snapshot on disk, so that a restart serves at once.
//!
//! Written by a thread of its own, whole and atomically; while one write runs, only the newest snapshot waits. A
//! disk that is full or gone is reported and costs nothing else.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};

use jiff::Timestamp;
use routed_snapshot::Snapshot;
use routed_snapshot::snapshot::MAX_DOCUMENT_BYTES;

use crate::disk::read::{ReadError, read_file};
use crate::disk::write::write_atomically;
use crate::status::{CacheStatus, Status};

/// The writer's end. Dropping it waits for the write under way, so that a clean exit leaves the newest on disk.
#[derive(Debug)]
pub(crate) struct SnapshotCache {
    sender: Option<Sender<Snapshot>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl SnapshotCache {
    /// Starts the writer.
    pub(crate) fn start(path: PathBuf, status: Status) -> SnapshotCache {
        status.state().cache = Some(CacheStatus::default());
        let (sender, receiver) = channel();
        let for_thread = status.clone();
        let started = std::thread::Builder::new()
            .name("routed-cache".to_owned())
            .spawn(move || write_all(&path, &for_thread, &receiver));
        if let Err(error) = &started {
            note(&status, Err(format!("no thread to write it: {error}")));
        }
        SnapshotCache {
            sender: Some(sender),
            thread: started.ok(),
        }
    }

    /// Writes `snapshot` soon.
    pub(crate) fn write(&self, snapshot: Snapshot) {
        if let Some(sender) = &self.sender {
            let _ = sender.send(snapshot);
        }
    }
}

impl Drop for SnapshotCache {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
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

fn write_all(path: &Path, status: &Status, receiver: &Receiver<Snapshot>) {
    while let Ok(mut snapshot) = receiver.recv() {
        while let Ok(newer) = receiver.try_recv() {
            snapshot = newer;
        }
        let written = write_atomically(path, &snapshot.encode(), 0o600);
        note(status, written.map_err(|error| error.to_string()));
    }
}

fn note(status: &Status, written: Result<(), String>) {
    let mut state = status.state();
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
