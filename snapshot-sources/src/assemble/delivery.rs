//! One delivery, from its first chunk to its last.

use std::collections::BTreeMap;
use std::sync::Arc;

use routed_proto::{Begin, Encoding, PartPiece, PartRef};
use routed_snapshot::snapshot::{DecodeError, check_version};
use routed_snapshot::{Hash, Part, PartName, Position, Snapshot};

use super::pack;
use super::{AssembleError, Delivered, MAX_CHUNK_BYTES};
use crate::wire;

/// A delivery of which not all has come.
#[derive(Debug)]
pub(super) struct Delivery {
    hash: Hash,
    config_hash: Hash,
    position: Option<Position>,
    stream_id: String,
    /// The base's parts that stay, and those that have come.
    parts: BTreeMap<PartName, Arc<Part>>,
    /// Parts that were named and have not come whole.
    wanted: BTreeMap<PartName, Wanted>,
    /// The part that is coming.
    current: Option<Current>,
    sequence: u64,
}

/// What a part must be.
#[derive(Debug)]
struct Wanted {
    hash: Hash,
    length: usize,
}

/// The pieces of a part so far.
#[derive(Debug)]
struct Current {
    name: PartName,
    encoding: Encoding,
    data: Vec<u8>,
    /// More than this is no encoding of the part.
    limit: usize,
}

impl Delivery {
    /// Reads the first chunk's head.
    pub(super) fn begin(
        begin: Begin,
        held: Option<&Snapshot>,
        limit: usize,
    ) -> Result<Delivery, AssembleError> {
        let hash = read_hash(&begin.hash)?;
        let config_hash = read_hash(&begin.config_hash)?;
        check_version(begin.schema_version, &begin.requires)?;
        let mut parts = base(&begin, held)?;
        for name in &begin.removed {
            let known = name.parse().ok().and_then(|name: PartName| parts.remove(&name));
            known.ok_or_else(|| AssembleError::UnknownPart(name.clone()))?;
        }
        let wanted = wanted(&begin.parts)?;
        for name in wanted.keys() {
            parts.remove(name);
        }
        let staying = parts.values().map(|part| part.length() as u64);
        let coming = wanted.values().map(|part| part.length as u64);
        let bytes = staying.chain(coming).fold(0, u64::saturating_add);
        let limit = limit as u64;
        if bytes > limit {
            return Err(AssembleError::TooLarge { bytes, limit });
        }
        Ok(Delivery {
            hash,
            config_hash,
            position: begin.position.map(wire::position),
            stream_id: begin.stream_id,
            parts,
            wanted,
            current: None,
            sequence: 0,
        })
    }

    /// Number of the chunk that is due.
    pub(super) fn next(&self) -> u64 {
        self.sequence
    }

    /// Takes a chunk's pieces.
    pub(super) fn take(&mut self, pieces: Vec<PartPiece>) -> Result<(), AssembleError> {
        self.sequence += 1;
        let bytes = pieces.iter().map(|piece| piece.data.len()).sum();
        if bytes > MAX_CHUNK_BYTES {
            return Err(AssembleError::ChunkTooLarge(bytes));
        }
        pieces.into_iter().try_for_each(|piece| self.piece(&piece))
    }

    /// The snapshot, verified. Parts that did not come are taken from those held.
    pub(super) fn complete(mut self, held: Option<&Snapshot>) -> Result<Delivered, AssembleError> {
        if let Some(current) = self.current {
            return Err(AssembleError::MissingPart(current.name));
        }
        for (name, wanted) in self.wanted {
            let held = held.and_then(|held| held.parts().get(&name));
            let part = held.filter(|part| part.hash() == wanted.hash && part.length() == wanted.length);
            let part = part.ok_or(AssembleError::MissingPart(name))?;
            self.parts.insert(name, part.clone());
        }
        let snapshot = Snapshot::new(self.parts, self.position);
        for (promised, actual) in [
            (self.hash, snapshot.hash()),
            (self.config_hash, snapshot.config_hash()),
        ] {
            if promised != actual {
                return Err(DecodeError::Hash { promised, actual }.into());
            }
        }
        Ok(Delivered {
            snapshot,
            stream_id: self.stream_id,
        })
    }

    fn piece(&mut self, piece: &PartPiece) -> Result<(), AssembleError> {
        let unknown = || AssembleError::UnknownPart(piece.name.clone());
        let name: PartName = piece.name.parse().map_err(|_| unknown())?;
        let mut current = match self.current.take() {
            Some(current) if current.name != name => {
                return Err(AssembleError::Mixed {
                    unfinished: current.name,
                    found: name,
                });
            }
            Some(current) => current,
            None => Current::new(name, piece.encoding, self.wanted.get(&name).ok_or_else(unknown)?)?,
        };
        current.append(piece)?;
        if !piece.last {
            self.current = Some(current);
            return Ok(());
        }
        let wanted = self.wanted.remove(&name).ok_or_else(unknown)?;
        self.parts.insert(name, Arc::new(current.finish(&wanted)?));
        Ok(())
    }
}

impl Current {
    fn new(name: PartName, encoding: i32, wanted: &Wanted) -> Result<Current, AssembleError> {
        let encoding = Encoding::try_from(encoding).map_err(|_| AssembleError::Encoding {
            part: name,
            why: "its encoding is not known",
        })?;
        let limit = match encoding {
            Encoding::Identity => wanted.length,
            Encoding::Zstd => pack::bound(wanted.length),
        };
        Ok(Current {
            name,
            encoding,
            data: Vec::new(),
            limit,
        })
    }

    fn append(&mut self, piece: &PartPiece) -> Result<(), AssembleError> {
        if piece.encoding != self.encoding as i32 {
            return Err(self.wrong("its pieces are encoded differently"));
        }
        if piece.data.len() > self.limit - self.data.len() {
            return Err(self.wrong("it is longer than was promised"));
        }
        self.data.extend_from_slice(&piece.data);
        Ok(())
    }

    /// The part, its bytes verified, kept packed.
    fn finish(self, wanted: &Wanted) -> Result<Part, AssembleError> {
        let verify = |bytes: &[u8]| {
            let actual = Hash::of(bytes);
            (actual == wanted.hash)
                .then_some(())
                .ok_or(DecodeError::PartHash {
                    part: self.name,
                    promised: wanted.hash,
                    actual,
                })
        };
        let packed = match self.encoding {
            Encoding::Identity if self.data.len() != wanted.length => {
                return Err(self.wrong("it is shorter than was promised"));
            }
            Encoding::Identity => {
                verify(&self.data)?;
                let packed = pack::pack(&self.data);
                packed.ok_or_else(|| self.wrong("there is no memory to keep it"))?
            }
            Encoding::Zstd => {
                let bytes = pack::unpack_exactly(&self.data, wanted.length);
                verify(&bytes.ok_or_else(|| self.wrong("it is not a zstd frame of the promised length"))?)?;
                self.data
            }
        };
        let packed = packed.into_boxed_slice();
        Ok(Part::packed(
            self.name,
            wanted.hash,
            wanted.length,
            packed,
            pack::unpack,
        )?)
    }

    fn wrong(&self, why: &'static str) -> AssembleError {
        AssembleError::Encoding { part: self.name, why }
    }
}

/// The parts of the snapshot that the delivery is a change to.
fn base(begin: &Begin, held: Option<&Snapshot>) -> Result<BTreeMap<PartName, Arc<Part>>, AssembleError> {
    if begin.base_hash.is_empty() {
        return Ok(BTreeMap::new());
    }
    let base = read_hash(&begin.base_hash)?;
    match held.filter(|held| held.hash() == base) {
        Some(held) => Ok(held.parts().clone()),
        None => Err(AssembleError::WrongBase {
            base,
            held: held.map(Snapshot::hash),
        }),
    }
}

fn wanted(parts: &[PartRef]) -> Result<BTreeMap<PartName, Wanted>, AssembleError> {
    let mut wanted = BTreeMap::new();
    for part in parts {
        let name: PartName = part
            .name
            .parse()
            .map_err(|_| AssembleError::UnknownPart(part.name.clone()))?;
        let entry = Wanted {
            hash: read_hash(&part.hash)?,
            // What does not fit in memory is beyond the limit too.
            length: usize::try_from(part.length).unwrap_or(usize::MAX),
        };
        if wanted.insert(name, entry).is_some() {
            return Err(AssembleError::RepeatedPart(name));
        }
    }
    Ok(wanted)
}

fn read_hash(bytes: &[u8]) -> Result<Hash, AssembleError> {
    wire::hash(bytes).ok_or(AssembleError::Field("a hash does not have 32 bytes"))
}
