//! One worker's idle connections to endpoints: last in, first out, so that what is not needed grows old and is closed.
//!
//! A connection stays while it is younger than the idle limit, the other side has not closed it, and the published
//! index still names its endpoint. Swaps that leave an endpoint alone leave its connections alone.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use routed_snapshot::Hash;
use tokio::time::Instant;

use crate::http::client::Sender;
use crate::shared::Shared;

/// Most idle connections of one key in one worker.
const MAX_IDLE: usize = 256;

/// How often old connections are looked for.
const SWEEP: Duration = Duration::from_secs(1);

/// What connections may be exchanged for one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PoolKey {
    /// The endpoint.
    pub address: SocketAddr,
    /// Stands for the TLS settings; `None` for plain TCP.
    pub tls: Option<u64>,
}

#[derive(Debug)]
struct Idle {
    sender: Sender,
    since: Instant,
}

/// Idle connections of one worker.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
    idle: RefCell<HashMap<PoolKey, Vec<Idle>>>,
    sweeping: Cell<bool>,
    swept: Cell<Option<Hash>>,
}

impl Pool {
    /// An empty pool.
    pub fn new(shared: Arc<Shared>) -> Rc<Pool> {
        Rc::new(Pool {
            shared,
            idle: RefCell::default(),
            sweeping: Cell::new(false),
            swept: Cell::new(None),
        })
    }

    /// A connection that can be used at once.
    pub fn take(&self, key: &PoolKey) -> Option<Sender> {
        let mut idle = self.idle.borrow_mut();
        let of_key = idle.get_mut(key)?;
        of_key.retain(|idle| !idle.sender.is_closed());
        // One whose last response has only just been read may not be ready for a moment; it stays.
        let ready = of_key.iter().rposition(|idle| idle.sender.is_ready())?;
        Some(of_key.remove(ready).sender)
    }

    /// Keeps a connection for the next request.
    pub fn put(self: &Rc<Self>, key: PoolKey, sender: Sender) {
        if sender.is_closed() {
            return;
        }
        let since = Instant::now();
        let mut idle = self.idle.borrow_mut();
        if !idle.contains_key(&key) {
            // It may have been in use while a swap removed its endpoint, so the next sweep looks again. A key that
            // is held has been looked at, or will be.
            self.swept.set(None);
        }
        let of_key = idle.entry(key).or_default();
        if of_key.len() < MAX_IDLE {
            of_key.push(Idle { sender, since });
        }
        drop(idle);
        if !self.sweeping.replace(true) {
            tokio::task::spawn_local(sweep(Rc::downgrade(self)));
        }
    }

    /// Drops what is too old or no longer named. Returns whether anything is left.
    fn sweep(&self) -> bool {
        let index = self.shared.live.load();
        let profile = index
            .as_ref()
            .and_then(|index| index.profile(&self.shared.profile));
        let limit = profile.map_or(30_000, |profile| profile.timeouts.upstream_idle_ms);
        let limit = (limit > 0).then_some(Duration::from_millis(limit));
        let now = Instant::now();
        let mut idle = self.idle.borrow_mut();
        if let Some(index) = index.as_ref()
            && self.swept.replace(Some(index.hash())) != Some(index.hash())
        {
            let endpoints = index.backends().flat_map(|backend| backend.endpoints.iter());
            let named: HashSet<SocketAddr> = endpoints.map(|endpoint| endpoint.address).collect();
            idle.retain(|key, _| named.contains(&key.address));
        }
        for of_key in idle.values_mut() {
            of_key.retain(|idle| {
                let old = limit.is_some_and(|limit| now.duration_since(idle.since) >= limit);
                !old && !idle.sender.is_closed()
            });
        }
        idle.retain(|_, of_key| !of_key.is_empty());
        !idle.is_empty()
    }
}

/// Sweeps while there is anything to sweep.
async fn sweep(pool: std::rc::Weak<Pool>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        let Some(pool) = pool.upgrade() else { return };
        if !pool.sweep() {
            pool.sweeping.set(false);
            return;
        }
    }
}
