//! The published index: one `ArcSwap`, one writer, many readers.

use std::sync::Arc;

use arc_swap::{ArcSwapOption, Guard};
use routed_snapshot::Index;
use tokio::sync::watch;

/// Reads the published index. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Live {
    index: Arc<ArcSwapOption<Index>>,
    changed: watch::Receiver<u64>,
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
}

/// Publishes indexes. One owner; not `Clone`.
#[derive(Debug)]
pub struct Publisher {
    index: Arc<ArcSwapOption<Index>>,
    changed: watch::Sender<u64>,
}

impl Publisher {
    /// A publisher with nothing published, and its reader.
    pub fn new() -> (Publisher, Live) {
        let index = Arc::new(ArcSwapOption::empty());
        let (sender, receiver) = watch::channel(0);
        (
            Publisher {
                index: index.clone(),
                changed: sender,
            },
            Live {
                index,
                changed: receiver,
            },
        )
    }

    /// Publishes an index. An equal hash changes nothing; the answer says whether it was a swap.
    pub fn publish(&mut self, index: Index) -> bool {
        if self
            .index
            .load()
            .as_ref()
            .is_some_and(|held| held.hash() == index.hash())
        {
            return false;
        }
        self.index.store(Some(Arc::new(index)));
        self.changed.send_modify(|swaps| *swaps += 1);
        true
    }
}
