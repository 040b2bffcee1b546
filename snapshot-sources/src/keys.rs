//! Certificates with their private keys, beside the snapshot.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;

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
    table: Arc<ArcSwap<KeyTable>>,
}

impl Keys {
    /// The present table.
    pub fn load(&self) -> Arc<KeyTable> {
        self.table.load_full()
    }

    /// Replaces the table.
    pub fn store(&self, table: KeyTable) {
        self.table.store(Arc::new(table));
    }
}
