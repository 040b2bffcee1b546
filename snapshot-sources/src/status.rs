//! What is known about the table and its source: for `/snapshot`, `/ready`, metrics, acknowledgements and `routedctl`.
//!
//! The source writes it at each look, a person or a scraper reads it a few times a minute: a mutex held for the
//! length of a copy is enough, and requests never touch it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use routed_policy::Diag;
use routed_snapshot::{Hash, Position, Snapshot};
use serde::{Serialize, Serializer};
use tokio::sync::{Notify, watch};

use crate::admit::{Refusal, RefusalReason};
use crate::blame::{self, ObjectName};
use crate::disk::read::ReadError;

/// Most diagnostics kept of one compile.
pub const MAX_DIAGNOSTICS: usize = 100;

/// The state at one moment. Times are wall-clock; ages are to be taken from the handle that gave it.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceStatus {
    /// `grpc`, `file`, `resources`, `cache`, or empty before the first.
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
    /// Whether the stream to the control plane is up, where the source has one.
    pub connected: Option<bool>,
    /// The name of that stream, where the control plane gave it one.
    pub stream_id: Option<String>,
    /// When the source was last looked at or heard of, whatever came of it.
    pub last_contact: Option<Timestamp>,
    /// When it was last found good, changed or not.
    pub last_success: Option<Timestamp>,
    /// What was last wrong, kept after it went away; see `degraded`.
    pub last_error: Option<SourceError>,
    /// True while the source can't be read or what it offers is refused; the last good table serves on.
    pub degraded: bool,
    /// What it offered last, where that was not taken.
    pub refused: Option<Refused>,
    /// What is wrong with the keys that it brought, where something is.
    pub keys_problem: Option<String>,
    /// Tables published.
    pub swaps: u64,
    /// Offers equal to what was published.
    pub no_ops: u64,
    /// Contents refused; each content counts once.
    pub refusals: u64,
    /// The same by reason; those that were met.
    pub refusals_by_reason: BTreeMap<RefusalReason, u64>,
    /// The last of them, kept after it went away.
    pub last_refusal: Option<LastRefusal>,
    /// What the compiler said, where the source compiles.
    pub compile: Option<CompileStatus>,
    /// How writing `--snapshot-cache` fares, where it is set.
    pub cache: Option<CacheStatus>,
    /// How acknowledging fares, where there is someone to tell.
    pub report: Option<ReportStatus>,
}

/// Something that went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SourceError {
    /// What.
    pub message: String,
    /// When it was first seen.
    pub at: Timestamp,
}

/// A snapshot that was not taken, as far as it could be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Refused {
    /// Its hash.
    #[serde(serialize_with = "hash_text")]
    pub hash: Option<Hash>,
    /// The same, endpoints apart.
    #[serde(serialize_with = "hash_text")]
    pub config_hash: Option<Hash>,
    /// Its position.
    pub position: Option<Position>,
    /// Why.
    pub reason: String,
    /// The objects at fault, where they are known.
    pub objects: Vec<ObjectName>,
}

impl Refused {
    /// What is known of a snapshot refused for this reason.
    pub(crate) fn of(refusal: &Refusal, snapshot: Option<&Snapshot>) -> Refused {
        Refused {
            hash: snapshot.map(Snapshot::hash),
            config_hash: snapshot.map(Snapshot::config_hash),
            position: snapshot.and_then(Snapshot::position).cloned(),
            reason: refusal.to_string(),
            objects: blame::objects(refusal, snapshot),
        }
    }
}

/// A content that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LastRefusal {
    /// Why, in one word.
    pub reason: RefusalReason,
    /// Why, with its place.
    pub message: String,
    /// When.
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

/// Acknowledgements.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportStatus {
    /// Whom it tells.
    pub place: String,
    /// Whether the stream is up.
    pub connected: bool,
    /// How many were sent on this stream.
    pub sent: u64,
    /// The newest of them that was answered.
    pub answered: u64,
    /// Why the last stream ended.
    pub last_error: Option<String>,
}

/// Reads the status. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Status {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    table: Mutex<TableState>,
    /// The source that the status speaks of: the one that was started last.
    followed: Mutex<Followed>,
    changes: watch::Sender<u64>,
    resets: AtomicU64,
    reset: Notify,
}

/// What is published; the fields are [`SourceStatus`]'s.
#[derive(Debug, Default)]
pub(crate) struct TableState {
    pub(crate) hash: Option<Hash>,
    pub(crate) config_hash: Option<Hash>,
    pub(crate) position: Option<Position>,
    pub(crate) applied_at: Option<Timestamp>,
    pub(crate) swaps: u64,
    pub(crate) no_ops: u64,
    pub(crate) cache: Option<CacheStatus>,
    pub(crate) report: Option<ReportStatus>,
}

/// One source's part of the status; the fields are [`SourceStatus`]'s.
#[derive(Debug, Clone, Default)]
pub(crate) struct FollowedState {
    source: String,
    place: String,
    connected: Option<bool>,
    stream_id: Option<String>,
    last_contact: Option<Timestamp>,
    last_success: Option<Timestamp>,
    last_error: Option<SourceError>,
    degraded: bool,
    refused: Option<Refused>,
    keys_problem: Option<String>,
    refusals: u64,
    refusals_by_reason: BTreeMap<RefusalReason, u64>,
    last_refusal: Option<LastRefusal>,
    compile: Option<CompileStatus>,
}

/// Writes one source's part. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Followed {
    state: Arc<Mutex<FollowedState>>,
    status: std::sync::Weak<Shared>,
}

impl Status {
    /// The present state.
    pub fn view(&self) -> SourceStatus {
        let followed = self.followed().state().clone();
        let table = self.table();
        SourceStatus {
            source: followed.source,
            place: followed.place,
            hash: table.hash,
            config_hash: table.config_hash,
            position: table.position.clone(),
            applied_at: table.applied_at,
            connected: followed.connected,
            stream_id: followed.stream_id,
            last_contact: followed.last_contact,
            last_success: followed.last_success,
            last_error: followed.last_error,
            degraded: followed.degraded,
            refused: followed.refused,
            keys_problem: followed.keys_problem,
            swaps: table.swaps,
            no_ops: table.no_ops,
            refusals: followed.refusals,
            refusals_by_reason: followed.refusals_by_reason,
            last_refusal: followed.last_refusal,
            compile: followed.compile,
            cache: table.cache.clone(),
            report: table.report.clone(),
        }
    }

    /// A receiver that sees a new number whenever something changed that an acknowledgement tells: the table, its
    /// position, what was refused, the source, its stream.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    /// Forgets the position held (`routedctl source reset`): the next look takes what the source holds, from
    /// whatever cluster and however old, even where it was refused before.
    pub fn reset_position(&self) {
        self.shared.resets.fetch_add(1, Ordering::AcqRel);
        self.shared.reset.notify_one();
    }

    /// How acknowledging fares.
    pub(crate) fn report(&self, change: impl FnOnce(&mut ReportStatus)) {
        change(self.table().report.get_or_insert_default());
    }

    /// How often the position was reset.
    pub(crate) fn resets(&self) -> u64 {
        self.shared.resets.load(Ordering::Acquire)
    }

    /// From now on the status speaks of this source.
    pub(crate) fn follow(&self, source: &str, place: &str) -> Followed {
        let followed = Followed {
            state: Arc::new(Mutex::new(FollowedState {
                source: source.to_owned(),
                place: place.to_owned(),
                ..FollowedState::default()
            })),
            status: Arc::downgrade(&self.shared),
        };
        *self
            .shared
            .followed
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = followed.clone();
        self.bump();
        followed
    }

    /// Something changed that an acknowledgement tells.
    pub(crate) fn bump(&self) {
        self.shared.changes.send_modify(|changes| *changes += 1);
    }

    /// The table's part, to change. Plain data: whoever panicked while holding it left nothing half done that matters.
    pub(crate) fn table(&self) -> MutexGuard<'_, TableState> {
        self.shared.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn followed(&self) -> Followed {
        let followed = self.shared.followed.lock();
        followed.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Followed {
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
        self.state().last_contact = Some(Timestamp::now());
        self.note_failure(message, None);
    }

    /// The source can't be read; what can never be read counts as a refusal.
    pub(crate) fn fail_reading(&self, error: &ReadError) {
        self.state().last_contact = Some(Timestamp::now());
        let refused = match error {
            ReadError::Io { .. } => None,
            ReadError::NotAFile { .. } => Some(RefusalReason::NotAFile),
            ReadError::TooLarge { .. } => Some(RefusalReason::TooLarge),
        };
        self.note_failure(&error.to_string(), refused);
    }

    /// The source can't be reached: no contact.
    pub(crate) fn fail_reaching(&self, message: &str) {
        self.note_failure(message, None);
    }

    /// One more content was refused.
    pub(crate) fn count_refusal(&self, reason: RefusalReason, message: &str) {
        self.state().count_refusal(reason, message);
    }

    /// What was offered last and not taken; none where it was.
    pub(crate) fn refuse(&self, refused: Option<Refused>) {
        let changed = {
            let mut state = self.state();
            let changed = state.refused != refused;
            state.refused = refused;
            changed
        };
        if changed {
            self.bump();
        }
    }

    /// Whether the stream is up.
    pub(crate) fn connect(&self, connected: bool) {
        self.state().connected = Some(connected);
    }

    /// The stream's name.
    pub(crate) fn stream(&self, id: Option<&str>) {
        let changed = {
            let mut state = self.state();
            let changed = state.stream_id.as_deref() != id;
            state.stream_id = id.map(str::to_owned);
            changed
        };
        if changed {
            self.bump();
        }
    }

    /// The other end of the stream was heard of; it is as good as it was before.
    pub(crate) fn heard(&self, at: Timestamp) {
        let mut state = self.state();
        state.last_contact = state.last_contact.max(Some(at));
        if state.connected == Some(true) && !state.degraded {
            state.last_success = state.last_success.max(Some(at));
        }
    }

    /// What is wrong with the keys. Logged where it is new.
    pub(crate) fn keys_problem(&self, problem: Option<String>) {
        let mut state = self.state();
        if let Some(problem) = problem
            .as_ref()
            .filter(|new| state.keys_problem.as_ref() != Some(new))
        {
            tracing::warn!(source = %state.source, problem, "keys that came can't be used");
        }
        state.keys_problem = problem;
    }

    /// Whether what was offered last was refused.
    pub(crate) fn is_refused(&self) -> bool {
        self.state().refused.is_some()
    }

    /// What the compiler said.
    pub(crate) fn compiled(&self, compile: CompileStatus) {
        self.state().compile = Some(compile);
    }

    /// How often the position was reset.
    pub(crate) fn resets(&self) -> u64 {
        let shared = self.status.upgrade();
        shared.map_or(0, |shared| shared.resets.load(Ordering::Acquire))
    }

    /// Ends at the next reset.
    pub(crate) async fn reset_asked(&self) {
        match self.status.upgrade() {
            Some(shared) => shared.reset.notified().await,
            None => std::future::pending().await,
        }
    }

    fn note_failure(&self, message: &str, refused: Option<RefusalReason>) {
        let mut state = self.state();
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
        if let Some(reason) = refused {
            state.count_refusal(reason, message);
        }
        state.last_error = Some(SourceError {
            message: message.to_owned(),
            at: Timestamp::now(),
        });
    }

    fn bump(&self) {
        if let Some(shared) = self.status.upgrade() {
            shared.changes.send_modify(|changes| *changes += 1);
        }
    }

    fn state(&self) -> MutexGuard<'_, FollowedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FollowedState {
    fn count_refusal(&mut self, reason: RefusalReason, message: &str) {
        self.refusals += 1;
        *self.refusals_by_reason.entry(reason).or_default() += 1;
        self.last_refusal = Some(LastRefusal {
            reason,
            message: message.to_owned(),
            at: Timestamp::now(),
        });
    }
}

fn hash_text<S: Serializer>(hash: &Option<Hash>, serializer: S) -> Result<S::Ok, S::Error> {
    hash.map(|hash| hash.to_string()).serialize(serializer)
}
