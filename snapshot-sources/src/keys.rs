//! Certificates with their private keys, beside the snapshot.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::watch;

use crate::key_cache::{KeyCache, KeyCacheError};

/// A certificate chain and its private key as PEM. Its `Debug` never shows the key.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyPair {
    /// SHA-256 of the leaf certificate's DER, lower-case hex.
    pub fingerprint: String,
    /// PEM chain, leaf first.
    pub certificate_pem: Vec<u8>,
    /// PEM private key.
    pub key_pem: Vec<u8>,
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyPair")
            .field("fingerprint", &self.fingerprint)
            .finish_non_exhaustive()
    }
}

/// Pairs by `namespace/name` of their Secret.
pub type KeyTable = BTreeMap<String, Arc<KeyPair>>;

/// The pairs a router holds: replaced whole, read without a lock. Cheap to clone; clones see the same table.
#[derive(Debug, Clone, Default)]
pub struct Keys {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    table: ArcSwap<KeyTable>,
    changed: watch::Sender<u64>,
    cache: Option<KeyCache>,
}

impl Keys {
    /// Keys that are kept in `folder` (`--key-cache`) as well, starting with the ones found there. Blocks.
    ///
    /// # Errors
    /// Where the folder can't be made or read, or others could read it.
    pub fn with_cache(folder: PathBuf) -> Result<Keys, KeyCacheError> {
        let cache = KeyCache::open(folder)?;
        let table = ArcSwap::from_pointee(cache.load()?);
        Ok(Keys {
            shared: Arc::new(Shared {
                table,
                changed: watch::Sender::default(),
                cache: Some(cache),
            }),
        })
    }

    /// The present table.
    pub fn load(&self) -> Arc<KeyTable> {
        self.shared.table.load_full()
    }

    /// Replaces the table; an equal one changes nothing. Blocks where the pairs are kept on disk as well; a disk
    /// that refuses is logged and costs nothing else.
    pub fn store(&self, table: KeyTable) {
        let before = self.load();
        if *before == table {
            return;
        }
        let table = Arc::new(table);
        self.shared.table.store(table.clone());
        if let Some(cache) = &self.shared.cache
            && let Err(error) = cache.store(&table, &before)
        {
            tracing::warn!(%error, "the key cache can't be written; serving goes on and it is tried again");
        }
        self.shared.changed.send_modify(|changes| *changes += 1);
    }

    /// Tries again to write what the disk refused before. Called at each look of a source, whose interval is the
    /// pause between two attempts; the fault is in the log already.
    pub(crate) fn catch_up(&self) {
        let behind = self.shared.cache.as_ref().filter(|cache| cache.is_behind());
        let Some(cache) = behind else { return };
        let table = self.load();
        if cache.store(&table, &table).is_ok() {
            tracing::info!("the key cache is written again");
        }
    }

    /// A receiver that sees a new number after each change.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.shared.changed.subscribe()
    }
}
