//! The process from its configuration to its end.
//!
//! The calling thread's runtime follows the source, keeps the listeners in line with the profile and serves the admin
//! interface; requests run on the worker threads.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use routed_snapshot::ir;
use routed_sources::{Keys, Live, Publisher};
use tokio::sync::watch;

use crate::admin::{self, Admin};
use crate::config::Config;
use crate::drain::{self, Ended, Stop};
use crate::listeners::{Listeners, ListenersView};
use crate::process_stats::ProcessStats;
use crate::shared::Shared;
use crate::workers::Workers;

/// Time between two tries to bind what could not be bound, and between two looks at certificate files.
const REVISIT: Duration = Duration::from_secs(1);

/// Runs a router until `stop`.
///
/// # Errors
/// Where it can't start: the admin address or the key cache is unusable, or threads can't be made. Once it runs,
/// nothing but `stop` ends it.
pub async fn run(config: Config, mut stop: watch::Receiver<Stop>) -> anyhow::Result<Ended> {
    let keys = match &config.key_cache {
        Some(folder) => Keys::with_cache(folder.clone()).context("--key-cache")?,
        None => Keys::default(),
    };
    let (publisher, live) = Publisher::new();
    if let Some(path) = &config.snapshot_cache {
        publisher.attach_snapshot_cache(path.clone());
    }
    let shared = Shared::new(live.clone(), config.profile.clone());
    let stats = Arc::new(ProcessStats::default());
    let workers = Workers::start(config.workers, &shared).context("worker threads")?;
    let open = workers.open().clone();
    let state = Arc::new(Admin::new(&config, shared.clone(), stats.clone(), open));
    let admin = admin::start(&config.admin, state.clone())
        .await
        .context("--admin-addr")?;
    announce(&config, &keys);
    let listeners = Listeners::new(config.profile.clone(), admin.tcp, workers, stats);

    let (source_stop, source_stopped) = tokio::sync::oneshot::channel::<()>();
    let source = config.source.clone().map(|source| {
        let stopped = async move { drop(source_stopped.await) };
        tokio::spawn(source.run(&publisher, keys.clone(), stopped))
    });
    let report = config.report.clone().map(|config| {
        let never = std::future::pending();
        tokio::spawn(routed_sources::report(config, live.status().clone(), never))
    });
    let mut process = Process {
        profile: config.profile,
        live,
        keys,
        shared,
        state,
        listeners,
        last: None,
        problem: None,
    };
    // Told twice, it ends in the middle of whatever it does.
    let mut twice = stop.clone();
    tokio::select! {
        () = process.follow(&mut stop) => {}
        () = drain::told(&mut twice, Stop::Now) => {}
    }
    drop(source_stop);
    if let Some(report) = report {
        report.abort();
    }
    let ended = process.drain(&mut stop).await;
    if let Some(source) = source {
        // It may be in the middle of a long compile, which ends with the process.
        source.abort();
    }
    Ok(ended)
}

fn announce(config: &Config, keys: &Keys) {
    for flag in &config.unused {
        tracing::warn!(flag, "unused: another source comes first");
    }
    if config.source.is_none() {
        tracing::warn!(
            "no source: set --snapshot-addr, --snapshot-path or --resources; not ready until then"
        );
    }
    if config.snapshot_cache.is_some() && config.key_cache.is_none() {
        tracing::info!("without --key-cache, TLS needs the source after a restart");
    }
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        profile = config.profile,
        workers = config.workers,
        keys = keys.load().len(),
        "started"
    );
}

/// The profile that is run where none is named.
const DEFAULT_PROFILE: &str = "default/default";

/// What the main thread keeps up to date.
struct Process {
    profile: String,
    live: Live,
    keys: Keys,
    shared: Arc<Shared>,
    state: Arc<Admin>,
    listeners: Listeners,
    /// The profile run last, and why it is not the one asked for.
    last: Option<ir::Profile>,
    problem: Option<String>,
}

impl Process {
    /// Follows the published table until the process is told to end. What is begun is finished: a removal that is
    /// broken off would leave connections in a queue.
    async fn follow(&mut self, stop: &mut watch::Receiver<Stop>) {
        let mut swapped = self.live.changed();
        let mut keys_changed = self.keys.changed();
        let mut revisit = tokio::time::interval(REVISIT);
        revisit.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        if self.live.load_full().is_some() {
            self.apply().await;
        }
        loop {
            // What can happen: the end, a new table, new keys, a lost worker, or a second has passed. The channels of
            // both ends live as long as this loop; should one close all the same, the clock remains.
            tokio::select! {
                () = drain::told(stop, Stop::Drain) => return,
                Ok(()) = swapped.changed() => {
                    self.shared.on_swap();
                    self.apply().await;
                }
                Ok(()) = keys_changed.changed() => self.apply().await,
                number = self.listeners.worker_lost() => self.listeners.replace_worker(number),
                _ = revisit.tick() => self.revisit().await,
            }
        }
    }

    async fn apply(&mut self) {
        let Some(profile) = self.present() else { return };
        let problem = self.missing_profile();
        if let Some(problem) = problem.as_ref().filter(|_| self.problem != problem) {
            tracing::error!(profile = self.profile, "{problem}");
        }
        self.problem = problem;
        self.listeners.apply(&profile, &self.keys.load()).await;
        self.show(&profile);
        self.last = Some(profile);
    }

    fn show(&self, profile: &ir::Profile) {
        self.state.show(ListenersView {
            problem: self.problem.clone(),
            ..self.listeners.view(profile)
        });
    }

    /// What is wrong where the profile asked for by name isn't there: most probably it is misspelt, and its routes
    /// are served nowhere. Nobody asks for the default one by name.
    fn missing_profile(&self) -> Option<String> {
        let index = self.live.load_full()?;
        if self.profile == DEFAULT_PROFILE || index.profile(&self.profile).is_some() {
            return None;
        }
        let instead = match &self.last {
            Some(_) => "the last one stays in use until it is back",
            None => "the built-in one (HTTP on :8080) stands in",
        };
        Some(format!("no RouterProfile `{}`: {instead}", self.profile))
    }

    async fn revisit(&mut self) {
        self.shared.tidy();
        let Some(profile) = self.present() else { return };
        self.listeners.revisit(&profile, &self.keys.load()).await;
        self.show(&profile);
    }

    /// The profile to run; none before the first table.
    fn present(&self) -> Option<ir::Profile> {
        let index = self.live.load_full()?;
        // Where the object doesn't exist the built-in profile is run. One that was there and is gone stays: the
        // built-in one listens on all addresses, and a router of the loopback must not become public.
        let last = || self.last.clone().unwrap_or_else(ir::Profile::built_in);
        Some(index.profile(&self.profile).cloned().unwrap_or_else(last))
    }

    async fn drain(&mut self, stop: &mut watch::Receiver<Stop>) -> Ended {
        let begun = Instant::now();
        self.state.drain();
        let limit = self.present().unwrap_or_default().timeouts.drain_ms;
        tracing::info!(
            open = self.listeners.open_connections().count(),
            limit_ms = limit,
            "draining"
        );
        let open = self.listeners.open_connections();
        let closing = self.listeners.close_all();
        let cut = self.shared.stats.connections_cut();
        let limit = Duration::from_millis(limit) + drain::LAST_WORDS;
        let mut ended = drain::wait(closing, || open.count(), limit, stop).await;
        if self.shared.stats.connections_cut() > cut {
            ended = Ended::Cut;
        }
        let took = begun.elapsed().as_millis();
        tracing::info!(
            ?ended,
            took_ms = u64::try_from(took).unwrap_or(u64::MAX),
            "drained"
        );
        ended
    }
}
