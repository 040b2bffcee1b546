//! One source's way into the publisher.
//!
//! A feed is open while its source runs. A source can be stopped at any moment, also while it reads or compiles on
//! another thread; what it brings afterwards is turned away here, so that the source that follows it has the table
//! and the keys to itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use routed_snapshot::{Position, Snapshot};

use crate::admit::Refusal;
use crate::keys::{KeyTable, Keys};
use crate::live::{Offered, Table, lock};
use crate::status::{Followed, Refused};

/// What a source publishes through. Cheap to clone; clones are one feed.
#[derive(Debug, Clone)]
pub struct Feed {
    table: Arc<Mutex<Table>>,
    status: Followed,
    closed: Arc<AtomicBool>,
}

/// Closes its feed when it is dropped.
#[derive(Debug)]
pub(crate) struct Closing(Feed);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.closed.store(true, Ordering::Release);
    }
}

impl Feed {
    /// An open feed.
    pub(crate) fn new(table: Arc<Mutex<Table>>, status: Followed) -> Feed {
        Feed {
            table,
            status,
            closed: Arc::default(),
        }
    }

    /// Closes the feed, and all its clones, when what is returned is dropped.
    pub(crate) fn closing(&self) -> Closing {
        Closing(self.clone())
    }

    /// Judges a snapshot, builds its index and publishes it. Blocks for as long as the build takes; whatever goes
    /// wrong, the last good index stays.
    ///
    /// # Errors
    /// Where the snapshot is not to be taken ([`crate::admit`]), no index can be built from it, or the source was
    /// stopped.
    pub fn offer(&self, snapshot: &Snapshot, allow_empty: bool) -> Result<Offered, Refusal> {
        let mut table = lock(&self.table);
        if self.closed.load(Ordering::Acquire) {
            return Err(Refusal::Stopped);
        }
        let offered = table.offer(snapshot, allow_empty);
        let refused = offered.as_ref().err();
        self.status
            .refuse(refused.map(|refusal| Refused::of(refusal, Some(snapshot))));
        offered
    }

    /// Notes that a snapshot was refused before it could be offered.
    pub(crate) fn refuse(&self, refusal: &Refusal) {
        self.status.refuse(Some(Refused::of(refusal, None)));
    }

    /// Replaces the keys, where the feed is open.
    pub(crate) fn store_keys(&self, keys: &Keys, table: KeyTable) {
        let _held = lock(&self.table);
        if !self.closed.load(Ordering::Acquire) {
            keys.store(table);
        }
    }

    /// True where a table is published.
    pub(crate) fn serves(&self) -> bool {
        lock(&self.table).serves()
    }

    /// True where the published table may need the pair of this Secret (`namespace/name`).
    pub(crate) fn needs_pair(&self, name: &str) -> bool {
        lock(&self.table).needs_pair(name)
    }

    /// The newest position taken.
    pub(crate) fn position(&self) -> Option<Position> {
        lock(&self.table).position().cloned()
    }

    /// What is known about this source.
    pub(crate) fn status(&self) -> &Followed {
        &self.status
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::live::Publisher;

    #[test]
    fn what_a_stopped_source_brings_is_turned_away() {
        let (publisher, live) = Publisher::new();
        let (keys, nothing) = (Keys::default(), Snapshot::new(BTreeMap::new(), None));
        let (first, second) = (publisher.feed("file", "/a"), publisher.feed("resources", "/b"));
        let (still_reading, closing) = (first.clone(), first.closing());
        drop(closing);
        assert_eq!(still_reading.offer(&nothing, true), Err(Refusal::Stopped));
        let pair = crate::KeyPair {
            fingerprint: String::new(),
            certificate_pem: Vec::new(),
            key_pem: Vec::new(),
        };
        let table = KeyTable::from([("a/b".to_owned(), Arc::new(pair))]);
        still_reading.store_keys(&keys, table.clone());
        assert!(keys.load().is_empty());
        still_reading.status().fail("late");
        let status = live.status().view();
        assert_eq!((status.source.as_str(), status.degraded), ("resources", false));

        second.store_keys(&keys, table);
        assert_eq!(second.offer(&nothing, true), Ok(Offered::Swapped));
        assert_eq!(keys.load().len(), 1);
    }
}
