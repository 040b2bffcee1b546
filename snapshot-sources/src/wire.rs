//! Between the messages on the wire and the types of this crate.

use routed_proto as proto;
use routed_snapshot::{Hash, Position};

/// A hash off the wire; `None` where it is not 32 bytes.
pub(crate) fn hash(bytes: &[u8]) -> Option<Hash> {
    Some(Hash(bytes.try_into().ok()?))
}

/// A hash for the wire.
pub(crate) fn hash_bytes(hash: Hash) -> bytes::Bytes {
    bytes::Bytes::copy_from_slice(&hash.0)
}

/// A position off the wire.
pub(crate) fn position(position: proto::Position) -> Position {
    Position {
        cluster_id: position.cluster_id,
        resource_versions: position.resource_versions,
    }
}

/// A position for the wire.
pub(crate) fn position_message(position: &Position) -> proto::Position {
    proto::Position {
        cluster_id: position.cluster_id.clone(),
        resource_versions: position.resource_versions.clone(),
    }
}
