//! Takes a snapshot apart into the chunks of a delivery: what a control plane does, and what the tests of the
//! assembler hold it against.

use std::collections::BTreeMap;

use bytes::Bytes;
use routed_proto::{Begin, Encoding, PartPiece, PartRef, SnapshotChunk, WatchRequest};
use routed_snapshot::snapshot::SCHEMA_VERSION;
use routed_snapshot::{Hash, Part, PartName, Snapshot};

use super::pack;
use crate::wire;

/// Bytes of parts that a chunk has at most, but for its last piece.
const CHUNK_BYTES: usize = 256 << 10;

/// What a receiver holds, by its request or by what was delivered to it on this stream.
#[derive(Debug, Clone, Default)]
pub struct Receiver {
    /// Hash of the snapshot that it holds whole.
    hash: Option<Hash>,
    parts: BTreeMap<PartName, Hash>,
    zstd: bool,
    delivered: u64,
}

impl Receiver {
    /// What a request says. Names and hashes that can't be read are not held.
    pub fn of(request: &WatchRequest) -> Receiver {
        let held = |part: &PartRef| Some((part.name.parse().ok()?, wire::hash(&part.hash)?));
        Receiver {
            hash: wire::hash(&request.hash),
            parts: request.parts.iter().filter_map(held).collect(),
            zstd: request.encodings.contains(&(Encoding::Zstd as i32)),
            delivered: 0,
        }
    }

    /// The chunks that bring the receiver from what it holds to `snapshot`, which it holds from then on.
    pub fn deliver(&mut self, snapshot: &Snapshot, stream_id: &str) -> Vec<SnapshotChunk> {
        let mut chunks = Vec::new();
        let mut chunk = SnapshotChunk {
            begin: Some(self.begin(snapshot, stream_id)),
            ..SnapshotChunk::default()
        };
        let mut room = CHUNK_BYTES;
        for (name, part) in snapshot.parts() {
            if self.parts.get(name) == Some(&part.hash()) {
                continue;
            }
            for piece in self.pieces(*name, part) {
                if piece.data.len() > room {
                    chunks.push(std::mem::take(&mut chunk));
                    room = CHUNK_BYTES;
                }
                room = room.saturating_sub(piece.data.len());
                chunk.parts.push(piece);
            }
        }
        chunk.complete = true;
        chunks.push(chunk);
        self.delivered += 1;
        for (sequence, chunk) in (0..).zip(&mut chunks) {
            chunk.delivery = self.delivered;
            chunk.sequence = sequence;
        }
        self.hash = Some(snapshot.hash());
        let parts = snapshot.parts().iter();
        self.parts = parts.map(|(name, part)| (*name, part.hash())).collect();
        chunks
    }

    fn begin(&self, snapshot: &Snapshot, stream_id: &str) -> Begin {
        // Without a base all parts are named; with one, those that differ from it.
        let is_news =
            |name: &PartName, part: &Part| self.hash.is_none() || self.parts.get(name) != Some(&part.hash());
        let named = snapshot.parts().iter().filter(|(name, part)| is_news(name, part));
        let gone = self
            .parts
            .keys()
            .filter(|name| !snapshot.parts().contains_key(name));
        Begin {
            hash: wire::hash_bytes(snapshot.hash()),
            config_hash: wire::hash_bytes(snapshot.config_hash()),
            base_hash: self.hash.map(wire::hash_bytes).unwrap_or_default(),
            parts: named
                .map(|(name, part)| PartRef {
                    name: name.to_string(),
                    hash: wire::hash_bytes(part.hash()),
                    length: part.length() as u64,
                })
                .collect(),
            removed: match self.hash {
                Some(_) => gone.map(PartName::to_string).collect(),
                None => Vec::new(),
            },
            position: snapshot.position().map(wire::position_message),
            schema_version: SCHEMA_VERSION,
            requires: Vec::new(),
            stream_id: stream_id.to_owned(),
        }
    }

    /// A part's bytes in pieces of at most a chunk's size.
    fn pieces(&self, name: PartName, part: &Part) -> Vec<PartPiece> {
        let packed = self.zstd.then(|| pack::pack(&part.bytes())).flatten();
        let (encoding, bytes) = match packed {
            Some(packed) => (Encoding::Zstd, packed),
            None => (Encoding::Identity, part.bytes().into_owned()),
        };
        let bytes = Bytes::from(bytes);
        let starts = (0..bytes.len().max(1)).step_by(CHUNK_BYTES);
        let piece = |start: usize| {
            let end = bytes.len().min(start + CHUNK_BYTES);
            PartPiece {
                name: name.to_string(),
                encoding: encoding.into(),
                data: bytes.slice(start..end),
                last: end == bytes.len(),
            }
        };
        starts.map(piece).collect()
    }
}
