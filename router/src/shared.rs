//! What all workers of a process share.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use routed_snapshot::{Hash, Index};
use routed_sources::live::Live;

use crate::metrics::{Metrics, Observed};
use crate::record::AccessLog;
use crate::upstream::Endpoints;

/// The state shared by all worker threads.
#[derive(Debug)]
pub struct Shared {
    /// The published index.
    pub live: Live,
    /// `namespace/name` of the profile that this process runs.
    pub profile: String,
    /// Counters.
    pub stats: Metrics,
    /// The access log's writer.
    pub access: AccessLog,
    /// Whether a request of a table that was replaced has begun a series.
    outdated: AtomicBool,
    /// State of backends and endpoints that lives through swaps.
    pub endpoints: Endpoints,
}

impl Shared {
    /// The state at start: nothing published, nothing counted.
    pub fn new(live: Live, profile: String) -> Arc<Shared> {
        let stats = Metrics::default();
        let access = AccessLog::stdout(stats.log_drops());
        Arc::new(Shared {
            live,
            profile,
            stats,
            access,
            outdated: AtomicBool::new(false),
            endpoints: Endpoints::default(),
        })
    }

    /// Counts a request that was decided on this table.
    pub fn observe(&self, snapshot: Option<Hash>, request: &Observed<'_>) {
        let begun = self.stats.observe(request);
        // The table is looked at after the series has begun: one that is replaced later has its series ended then.
        if begun && snapshot != self.live.load().as_ref().map(|index| index.hash()) {
            self.outdated.store(true, Relaxed);
        }
    }

    /// Ends series that outlived their swap. Called now and then.
    pub fn tidy(&self) {
        if self.outdated.swap(false, Relaxed) {
            self.on_swap();
        } else if let Some(index) = self.live.load_full() {
            let listeners = self.listeners(&index);
            self.stats.retain_listeners(|name| listeners.contains(name));
        }
    }

    /// The full names of the listeners that a table has this process run. (The table's own numbering goes on knowing
    /// those that are no more.)
    fn listeners(&self, index: &Index) -> HashSet<String> {
        let profile = index.profile_run(&self.profile);
        let names = profile.listeners.keys();
        names.map(|name| format!("{}/{name}", self.profile)).collect()
    }

    /// Drops the state of what the published index no longer has. Called after each swap, off the request path.
    /// Idle connections to endpoints that vanished are dropped by each worker within a second.
    pub fn on_swap(&self) {
        let Some(index) = self.live.load_full() else {
            return;
        };
        let routes = index.rules().map(|rule| &*rule.name).collect();
        let backends = index.backends().map(|backend| &*backend.name).collect();
        let listeners = self.listeners(&index);
        self.stats
            .retain(&routes, &backends, |name| listeners.contains(name));
        self.endpoints.retain(&index);
    }
}
