//! The admin interface: health, metrics and explanations, for people and machines on this host.
//!
//! - [`serve`]: sockets and connections; [`socket`]: the file of a Unix socket.
//! - [`answer`]: what each path answers.
//! - [`explain`] answers `/explain`.
//! - [`text`]: metrics of the process.
//!
//! It has an address of its own, by default on the loopback, and never shares a data port: who can reach the edge
//! must not reach this. It shows no private keys; it changes nothing.

mod answer;
mod explain;
mod serve;
mod socket;
mod text;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::config::Config;
use crate::listeners::ListenersView;
use crate::process_stats::ProcessStats;
use crate::shared::Shared;
use crate::workers::Open;

pub(crate) use serve::start;

/// What the admin interface shows.
#[derive(Debug)]
pub(crate) struct Admin {
    shared: Arc<Shared>,
    stats: Arc<ProcessStats>,
    open: Open,
    flags: serde_json::Value,
    has_source: bool,
    draining: AtomicBool,
    view: Mutex<ListenersView>,
}

impl Admin {
    /// Nothing applied yet.
    pub(crate) fn new(config: &Config, shared: Arc<Shared>, stats: Arc<ProcessStats>, open: Open) -> Admin {
        Admin {
            shared,
            stats,
            open,
            flags: config.effective.clone(),
            has_source: config.source.is_some(),
            draining: AtomicBool::new(false),
            view: Mutex::default(),
        }
    }

    /// Shows these listeners from now on.
    pub(crate) fn show(&self, view: ListenersView) {
        *self.view() = view;
    }

    /// Not ready from now on.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    fn view(&self) -> MutexGuard<'_, ListenersView> {
        // Replaced whole: a panic while it was held left nothing half done.
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the process is not ready; empty: it is.
    fn reasons(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.draining.load(Ordering::Acquire) {
            reasons.push("draining".to_owned());
        }
        let view = self.view();
        if self.shared.live.load().is_none() {
            let why = if self.has_source {
                "no snapshot yet"
            } else {
                "no source is set"
            };
            reasons.push(why.to_owned());
        } else if !view.applied {
            reasons.push("the snapshot is not applied yet".to_owned());
        }
        reasons.extend(view.problem.clone());
        let unbound = view.listeners.iter().filter_map(|listener| {
            let problem = listener.problem.as_ref()?;
            Some(format!("listener {}: {problem}", listener.name))
        });
        reasons.extend(unbound);
        reasons
    }
}
