//! The published index: one `ArcSwap`, one writer, many readers.
//!
//! A replaced index may hold 100,000 routes, and freeing it takes milliseconds. Whoever drops the last `Arc` pays
//! that, and a worker in the middle of a request must not: the publisher keeps each replaced index in a
//! [`Graveyard`] until no reader has it, and frees it there.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwapOption, Guard};
use jiff::Timestamp;
use routed_snapshot::{Index, Position, Snapshot};
use tokio::sync::watch;

use crate::admit::{Held, Refusal, admit};
use crate::cache::SnapshotCache;
use crate::feed::Feed;
use crate::graveyard::Graveyard;
use crate::status::Status;

/// Reads the published index. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Live {
    index: Arc<ArcSwapOption<Index>>,
    changed: watch::Receiver<u64>,
    status: Status,
}

impl Live {
    /// The present index, for the length of one request's decision. The guard must not cross an await.
    pub fn load(&self) -> Guard<Option<Arc<Index>>> {
        self.index.load()
    }

    /// The present index, to keep.
    pub fn load_full(&self) -> Option<Arc<Index>> {
        self.index.load_full()
    }

    /// A receiver that sees a new number after each swap.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.changed.clone()
    }

    /// What is known about the source.
    pub fn status(&self) -> &Status {
        &self.status
    }
}

/// Publishes indexes. One owner; not `Clone`. Sources reach it through [`Feed`]s, one at a time.
#[derive(Debug)]
pub struct Publisher {
    table: Arc<Mutex<Table>>,
    status: Status,
}

/// What is published, and what decides on what follows.
#[derive(Debug)]
pub(crate) struct Table {
    index: Arc<ArcSwapOption<Index>>,
    changed: watch::Sender<u64>,
    graveyard: Graveyard,
    status: Status,
    held: Held,
    resets_seen: u64,
    /// Secrets that the published snapshot's profiles name; none where that isn't known.
    certificates: Option<BTreeSet<String>>,
    cache: Option<SnapshotCache>,
}

/// What came of an offer that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offered {
    /// It is published.
    Swapped,
    /// It is what was published already.
    Equal,
}

impl Publisher {
    /// A publisher with nothing published, and its reader.
    pub fn new() -> (Publisher, Live) {
        let index = Arc::new(ArcSwapOption::empty());
        let (sender, receiver) = watch::channel(0);
        let status = Status::default();
        let table = Table {
            index: index.clone(),
            changed: sender,
            graveyard: Graveyard::new(),
            status: status.clone(),
            held: Held::default(),
            resets_seen: 0,
            certificates: None,
            cache: None,
        };
        (
            Publisher {
                table: Arc::new(Mutex::new(table)),
                status: status.clone(),
            },
            Live {
                index,
                changed: receiver,
                status,
            },
        )
    }

    /// Publishes the last good snapshot that `path` holds, and from then on writes each new one there, on a thread
    /// of its own. A cache that can't be read or is damaged is logged and ignored. Blocks while it reads.
    pub fn attach_snapshot_cache(&self, path: PathBuf) {
        let cached = crate::cache::load(&path);
        if let Some(snapshot) = cached {
            let feed = self.feed("cache", &path.display().to_string());
            match feed.offer(&snapshot, true) {
                Ok(_) => {
                    tracing::info!(path = %path.display(), hash = %snapshot.hash(), "serving the cached snapshot")
                }
                Err(refusal) => {
                    tracing::warn!(path = %path.display(), error = %refusal, "the cached snapshot is ignored");
                    let problem = format!("{}: {refusal}", path.display());
                    feed.status().count_refusal(refusal.reason(), &problem);
                }
            }
        }
        lock(&self.table).cache = Some(SnapshotCache::start(path, self.status.clone()));
    }

    /// A way in for the source of this name that reads this place; the status speaks of it from now on.
    pub fn feed(&self, source: &str, place: &str) -> Feed {
        Feed::new(self.table.clone(), self.status.follow(source, place))
    }

    /// [`Feed::offer`], for who has no source.
    ///
    /// # Errors
    /// As there.
    pub fn offer(&self, snapshot: &Snapshot, allow_empty: bool) -> Result<Offered, Refusal> {
        lock(&self.table).offer(snapshot, allow_empty)
    }

    /// Publishes an index without judging it. An equal hash changes nothing; the answer says whether it was a swap.
    pub fn publish(&self, index: Index) -> bool {
        lock(&self.table).publish(index)
    }

    /// The status that this publisher writes.
    pub fn status(&self) -> &Status {
        &self.status
    }
}

/// The table; whoever panicked while holding it left a published index, which is whole.
pub(crate) fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Table {
    /// Judges a snapshot, builds its index and publishes it. Blocks for as long as the build takes; whatever goes
    /// wrong, the last good index stays.
    pub(crate) fn offer(&mut self, snapshot: &Snapshot, allow_empty: bool) -> Result<Offered, Refusal> {
        self.obey_reset();
        admit(&self.held, snapshot, allow_empty)?;
        if self.held.hash == Some(snapshot.hash()) {
            self.status.table().no_ops += 1;
            self.hold_position(snapshot.position());
            return Ok(Offered::Equal);
        }
        let previous = self.index.load_full();
        // A compiler or builder bug must cost one snapshot, never the process.
        let built = catch_unwind(AssertUnwindSafe(|| Index::build(snapshot, previous.as_deref())));
        drop(previous);
        let index = match built {
            Ok(built) => built?,
            Err(_) => return Err(Refusal::Panicked),
        };
        self.swap(index);
        self.certificates = Some(certificates(snapshot));
        self.hold_position(snapshot.position());
        if let Some(cache) = &self.cache {
            cache.write(snapshot.clone());
        }
        Ok(Offered::Swapped)
    }

    fn publish(&mut self, index: Index) -> bool {
        if self.held.hash == Some(index.hash()) {
            self.status.table().no_ops += 1;
            return false;
        }
        let position = index.position().cloned();
        self.swap(index);
        self.certificates = None;
        self.hold_position(position.as_ref());
        true
    }

    /// True where a table is published.
    pub(crate) fn serves(&self) -> bool {
        self.held.hash.is_some()
    }

    /// True where the published table may need the pair of this Secret (`namespace/name`).
    pub(crate) fn needs_pair(&self, name: &str) -> bool {
        self.certificates
            .as_ref()
            .is_none_or(|names| names.contains(name))
    }

    /// The newest position taken; none after a reset.
    pub(crate) fn position(&mut self) -> Option<&Position> {
        self.obey_reset();
        self.held.position.as_ref()
    }

    fn swap(&mut self, index: Index) {
        let hash = index.hash();
        {
            let mut state = self.status.table();
            state.hash = Some(hash);
            state.config_hash = Some(index.config_hash());
            state.applied_at = Some(Timestamp::now());
            state.swaps += 1;
        }
        self.held.hash = Some(hash);
        if let Some(replaced) = self.index.swap(Some(Arc::new(index))) {
            self.graveyard.bury(replaced);
        }
        self.changed.send_modify(|swaps| *swaps += 1);
        self.status.bump();
    }

    /// A snapshot without a position leaves the one held in force, so that older ones stay refused later.
    fn hold_position(&mut self, position: Option<&Position>) {
        if let Some(position) = position {
            if !self.held.may_follow(position) {
                return;
            }
            if self.held.position.as_ref() == Some(position) {
                return;
            }
            self.held.position = Some(position.clone());
            self.status.table().position = Some(position.clone());
            self.status.bump();
        }
    }

    fn obey_reset(&mut self) {
        let resets = self.status.resets();
        if resets != self.resets_seen {
            self.resets_seen = resets;
            self.held.position = None;
            self.status.table().position = None;
            self.status.bump();
        }
    }
}

/// The Secrets that a snapshot's listeners take certificates from.
fn certificates(snapshot: &Snapshot) -> BTreeSet<String> {
    let profiles = snapshot
        .profiles()
        .into_iter()
        .flat_map(|part| part.profiles.values());
    let listeners = profiles.flat_map(|profile| profile.listeners.values());
    let tls = listeners.filter_map(|listener| listener.tls.as_ref());
    tls.flat_map(|tls| &tls.certificates)
        .map(|certificate| certificate.name.clone())
        .collect()
}
