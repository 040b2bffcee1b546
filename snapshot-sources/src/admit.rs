//! Whether a snapshot may replace the one held. One rule for every source.
//!
//! In this order:
//! 1. Equal hash: nothing to judge, nothing changes.
//! 2. Another cluster's position, or one that the position held dominates: refused until the position is reset.
//!    Incomparable ones are taken: each side saw something that the other did not.
//! 3. A table without routes: taken only with a newer position, or where it was allowed by flag. It is what a
//!    control plane without access to its objects writes, and it would turn a whole site into 404.
//! 4. A snapshot without a position (compiled from a folder or by hand) is taken; the position held stays.

use routed_snapshot::index::IndexError;
use routed_snapshot::snapshot::DecodeError;
use routed_snapshot::{Hash, Position, Snapshot};
use serde::Serialize;

use crate::assemble::AssembleError;

/// What a router holds, as far as it matters here.
#[derive(Debug, Clone, Default)]
pub(crate) struct Held {
    /// Hash of the published table.
    pub(crate) hash: Option<Hash>,
    /// The newest position ever taken.
    pub(crate) position: Option<Position>,
}

impl Held {
    /// True where a snapshot at `position` is not a step back and is of the same cluster.
    pub(crate) fn may_follow(&self, position: &Position) -> bool {
        self.position
            .as_ref()
            .is_none_or(|held| held.cluster_id == position.cluster_id && !position.is_dominated_by(held))
    }
}

/// Why a snapshot was not published.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It can't be read.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// It did not arrive whole.
    #[error("the delivery is refused: {0}")]
    Delivery(#[from] AssembleError),
    /// No index can be built from it.
    #[error("no index: {0}")]
    Index(#[from] IndexError),
    /// Building the index panicked.
    #[error("building the index failed by a bug in the router; the snapshot is refused")]
    Panicked,
    /// It is older than what is held.
    #[error("the snapshot's position is older than the one held")]
    Older,
    /// It comes from another cluster.
    #[error(
        "the snapshot comes from cluster `{offered}`, this router follows `{held}`; restart it without the cache to follow another"
    )]
    OtherCluster {
        /// Cluster of the position held.
        held: String,
        /// Cluster of the snapshot.
        offered: String,
    },
    /// Its source was stopped meanwhile.
    #[error("the source was stopped")]
    Stopped,
    /// It has no routes.
    #[error("the snapshot has no routes and no newer position; an empty table needs --allow-empty")]
    Empty,
}

/// The kinds of refusal: one word each, for metrics and for `/snapshot`. A closed list, whatever is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum RefusalReason {
    /// A folder, FIFO or device stands where a file should.
    NotAFile,
    /// Larger than is taken.
    TooLarge,
    /// Not a snapshot, or a part that doesn't fit its type.
    Malformed,
    /// It did not arrive whole: pieces missing, out of order, or of another snapshot than was announced.
    Delivery,
    /// Written for another layout.
    SchemaVersion,
    /// Needs something that this version can't do.
    UnknownFeature,
    /// The bytes are not those that were promised.
    WrongHash,
    /// No index can be built from it.
    Index,
    /// A bug of ours.
    Panicked,
    /// Older than what is held.
    Older,
    /// Of another cluster.
    OtherCluster,
    /// Without routes.
    Empty,
    /// Its source was stopped meanwhile.
    Stopped,
}

impl RefusalReason {
    /// All of them.
    pub const ALL: [RefusalReason; 13] = [
        RefusalReason::NotAFile,
        RefusalReason::TooLarge,
        RefusalReason::Malformed,
        RefusalReason::Delivery,
        RefusalReason::SchemaVersion,
        RefusalReason::UnknownFeature,
        RefusalReason::WrongHash,
        RefusalReason::Index,
        RefusalReason::Panicked,
        RefusalReason::Older,
        RefusalReason::OtherCluster,
        RefusalReason::Empty,
        RefusalReason::Stopped,
    ];

    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            RefusalReason::NotAFile => "NotAFile",
            RefusalReason::TooLarge => "TooLarge",
            RefusalReason::Malformed => "Malformed",
            RefusalReason::Delivery => "Delivery",
            RefusalReason::SchemaVersion => "SchemaVersion",
            RefusalReason::UnknownFeature => "UnknownFeature",
            RefusalReason::WrongHash => "WrongHash",
            RefusalReason::Index => "Index",
            RefusalReason::Panicked => "Panicked",
            RefusalReason::Older => "Older",
            RefusalReason::OtherCluster => "OtherCluster",
            RefusalReason::Empty => "Empty",
            RefusalReason::Stopped => "Stopped",
        }
    }
}

impl Refusal {
    /// Its kind.
    pub fn reason(&self) -> RefusalReason {
        match self {
            Refusal::Decode(error) | Refusal::Delivery(AssembleError::Decode(error)) => of_decode(error),
            Refusal::Delivery(
                AssembleError::TooLarge { .. }
                | AssembleError::MessageTooLarge(_)
                | AssembleError::ChunkTooLarge(_),
            ) => RefusalReason::TooLarge,
            Refusal::Delivery(_) => RefusalReason::Delivery,
            Refusal::Index(_) => RefusalReason::Index,
            Refusal::Panicked => RefusalReason::Panicked,
            Refusal::Older => RefusalReason::Older,
            Refusal::OtherCluster { .. } => RefusalReason::OtherCluster,
            Refusal::Empty => RefusalReason::Empty,
            Refusal::Stopped => RefusalReason::Stopped,
        }
    }
}

fn of_decode(error: &DecodeError) -> RefusalReason {
    match error {
        DecodeError::Malformed(_) | DecodeError::Part { .. } => RefusalReason::Malformed,
        DecodeError::SchemaVersion(_) => RefusalReason::SchemaVersion,
        DecodeError::UnknownFeature(_) => RefusalReason::UnknownFeature,
        DecodeError::PartHash { .. } | DecodeError::Hash { .. } => RefusalReason::WrongHash,
        DecodeError::TooLarge { .. } => RefusalReason::TooLarge,
    }
}

/// Judges `snapshot`.
pub(crate) fn admit(held: &Held, snapshot: &Snapshot, allow_empty: bool) -> Result<(), Refusal> {
    if held.hash == Some(snapshot.hash()) {
        return Ok(());
    }
    if let (Some(held), Some(offered)) = (&held.position, snapshot.position()) {
        if held.cluster_id != offered.cluster_id {
            return Err(Refusal::OtherCluster {
                held: held.cluster_id.clone(),
                offered: offered.cluster_id.clone(),
            });
        }
        if offered.is_dominated_by(held) {
            return Err(Refusal::Older);
        }
    }
    let newer = match (&held.position, snapshot.position()) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(held), Some(offered)) => held.is_dominated_by(offered),
    };
    if snapshot.is_empty() && !newer && !allow_empty {
        return Err(Refusal::Empty);
    }
    Ok(())
}
