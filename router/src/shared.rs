//! What all workers of a process share.

use std::sync::Arc;

use routed_sources::live::Live;

use crate::metrics::Metrics;
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
            endpoints: Endpoints::default(),
        })
    }

    /// Drops the state of what the published index no longer has. Called after each swap, off the request path.
    /// Idle connections to endpoints that vanished are dropped by each worker within a second.
    pub fn on_swap(&self) {
        let Some(index) = self.live.load_full() else {
            return;
        };
        let routes = index.rules().map(|rule| &*rule.name).collect();
        let backends = index.backends().map(|backend| &*backend.name).collect();
        self.stats
            .retain(&routes, &backends, |name| index.listener(name).is_some());
        self.endpoints.retain(&index);
    }
}
