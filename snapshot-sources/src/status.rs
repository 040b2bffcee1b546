//! What is known about the source: for `/snapshot`, `/ready`, metrics and `routedctl`.
//!
//! The source writes it at each look, a person or a scraper reads it a few times a minute: a mutex held for the
//! length of a copy is enough, and requests never touch it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use routed_policy::Diag;
use routed_snapshot::{Hash, Position};
use serde::{Serialize, Serializer};
use tokio::sync::Notify;

use crate::disk::read::ReadError;

/// Most diagnostics kept of one compile.
pub const MAX_DIAGNOSTICS: usize = 100;

/// The source's state at one moment. Times are wall-clock; ages are to be taken from the handle that gave it.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceStatus {
    /// `file`, `resources`, `cache`, or empty before the first.
    pub source: String,
    /// Where it reads.
    pub place: String,
    /// Hash of what is published.
    #[serde(serialize_with = "hash_text")]
    pub hash: Option<Hash>,
    /// The same, endpoints apart.
    #[serde(serialize_with = "hash_text")]
    pub config_hash: Option<Hash>,
    /// The newest position taken.
    pub position: Option<Position>,
    /// When the present table was published.
    pub applied_at: Option<Timestamp>,
    /// When the source was last looked at, whatever came of it.
    pub last_contact: Option<Timestamp>,
    /// When it was last found good, changed or not.
    pub last_success: Option<Timestamp>,
    /// What was last wrong, kept after it went away; see `degraded`.
    pub last_error: Option<SourceError>,
    /// True while the source can't be read or what it offers is refused; the last good table serves on.
    pub degraded: bool,
    /// Tables published.
    pub swaps: u64,
    /// Offers equal to what was published.
    pub no_ops: u64,
    /// Contents refused; each content counts once.
    pub refusals: u64,
    /// What the compiler said, where the source compiles.
    pub compile: Option<CompileStatus>,
    /// How writing `--snapshot-cache` fares, where it is set.
    pub cache: Option<CacheStatus>,
}

/// Something that went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SourceError {
    /// What.
    pub message: String,
    /// When it was first seen.
    pub at: Timestamp,
}

/// The last compile.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CompileStatus {
    /// How many errors.
    pub errors: usize,
    /// How many warnings.
    pub warnings: usize,
    /// The first [`MAX_DIAGNOSTICS`] of them.
    pub diagnostics: Vec<Diag>,
}

/// The snapshot cache.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CacheStatus {
    /// When it was last written.
    pub written_at: Option<Timestamp>,
    /// Why the last write failed; none after one that succeeded.
    pub error: Option<String>,
}

/// Reads the status. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Status {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<SourceStatus>,
    resets: AtomicU64,
    reset: Notify,
}

impl Status {
    /// The present state.
    pub fn view(&self) -> SourceStatus {
        self.state().clone()
    }

    /// Forgets the position held (`routedctl source reset`): the next look takes what the source holds, from
    /// whatever cluster and however old, even where it was refused before.
    pub fn reset_position(&self) {
        self.shared.resets.fetch_add(1, Ordering::AcqRel);
        self.shared.reset.notify_one();
    }

    /// The source was looked at and is in order.
    pub(crate) fn succeed(&self) {
        let now = Timestamp::now();
        let mut state = self.state();
        if state.degraded {
            tracing::info!(source = %state.source, "the source is in order again");
        }
        state.last_contact = Some(now);
        state.last_success = Some(now);
        state.degraded = false;
    }

    /// The source was looked at and something is wrong. Logged once for as long as it stays the same.
    pub(crate) fn fail(&self, message: &str) {
        self.note_failure(message, false);
    }

    /// The source can't be read; what can never be read counts as a refusal.
    pub(crate) fn fail_reading(&self, error: &ReadError) {
        self.note_failure(&error.to_string(), !matches!(error, ReadError::Io { .. }));
    }

    /// One more content was refused.
    pub(crate) fn count_refusal(&self) {
        self.state().refusals += 1;
    }

    fn note_failure(&self, message: &str, refused: bool) {
        let now = Timestamp::now();
        let mut state = self.state();
        state.last_contact = Some(now);
        let known = state.degraded
            && state
                .last_error
                .as_ref()
                .is_some_and(|error| error.message == message);
        state.degraded = true;
        if known {
            return;
        }
        tracing::warn!(source = %state.source, error = message, "the source is degraded; the last good table serves on");
        state.refusals += u64::from(refused);
        state.last_error = Some(SourceError {
            message: message.to_owned(),
            at: now,
        });
    }

    /// How often the position was reset.
    pub(crate) fn resets(&self) -> u64 {
        self.shared.resets.load(Ordering::Acquire)
    }

    /// Ends at the next reset.
    pub(crate) async fn reset_asked(&self) {
        self.shared.reset.notified().await;
    }

    /// The state, to change.
    pub(crate) fn state(&self) -> MutexGuard<'_, SourceStatus> {
        // The state is plain data: whoever panicked while holding it left nothing half done that matters.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn hash_text<S: Serializer>(hash: &Option<Hash>, serializer: S) -> Result<S::Ok, S::Error> {
    hash.map(|hash| hash.to_string()).serialize(serializer)
}
