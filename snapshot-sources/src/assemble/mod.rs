//! Puts snapshots together from the chunks of a stream, and takes them apart again ([`deliver`]).
//!
//! Pure: chunks come in, verified snapshots come out. The rules of a delivery are those of `snapshot.proto`.
//!
//! # Decisions
//! - **Nothing of a bad delivery is used.** Each part's bytes are hashed as they were received (after decoding), and
//!   the list of parts makes the total; a delivery whose chunks are lost, doubled or out of order, or whose bytes are
//!   not the promised ones, is refused whole, and the parts held stay.
//! - **A delivery is applied to what the stream delivered**, not to what the router serves: a snapshot that was
//!   verified here and then not admitted (older, or without an index) is still the base of the next one, and no
//!   stream must be opened anew for it.
//! - **Sizes are promised first and enforced.** A snapshot beyond the limit ([`MAX_SNAPSHOT_BYTES`]) is refused by its
//!   first chunk; a compressed part may become exactly as long as was promised and not a byte longer.
//! - **Parts are kept packed**, most of them as the very frame that arrived: 100,000 routes are some 3 MiB instead of
//!   40 MiB of text.

pub mod deliver;
mod delivery;
mod pack;

use routed_proto::{PartRef, SnapshotChunk};
use routed_snapshot::snapshot::{DecodeError, MAX_DOCUMENT_BYTES};
use routed_snapshot::{Hash, PartName, Snapshot};

use crate::wire;
use delivery::Delivery;

/// Most bytes that the parts of a snapshot may have together: what a file may have too.
pub const MAX_SNAPSHOT_BYTES: usize = MAX_DOCUMENT_BYTES;

/// Most bytes of parts in one chunk.
pub const MAX_CHUNK_BYTES: usize = 4 << 20;

/// What goes wrong with a delivery.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AssembleError {
    /// A chunk is not the next one.
    #[error(
        "chunk {sequence} of delivery {delivery} came where chunk {expected_sequence} of {expected_delivery} was due"
    )]
    Order {
        /// Number of its delivery.
        delivery: u64,
        /// Its number in it.
        sequence: u64,
        /// The delivery that was due.
        expected_delivery: u64,
        /// The chunk that was due.
        expected_sequence: u64,
    },
    /// A delivery's first chunk does not say what it is, or a later one does.
    #[error("a delivery must begin with its first chunk and only there")]
    Begin,
    /// A field can't be read.
    #[error("{0}")]
    Field(&'static str),
    /// It is a change to something that is not held.
    #[error("the delivery is a change to snapshot {base}, held is {}", held_text(.held))]
    WrongBase {
        /// What it changes.
        base: Hash,
        /// What is held.
        held: Option<Hash>,
    },
    /// Nobody knows this part, the delivery doesn't name it, or it has come already.
    #[error("part `{0}` is not one that this delivery lacks")]
    UnknownPart(String),
    /// A delivery names a part twice.
    #[error("part {0} is named twice")]
    RepeatedPart(PartName),
    /// The pieces of two parts are mixed.
    #[error("a piece of part {found} came before the last piece of {unfinished}")]
    Mixed {
        /// Whose pieces had not ended.
        unfinished: PartName,
        /// Whose piece came.
        found: PartName,
    },
    /// A part was neither sent nor held.
    #[error("part {0} was neither sent nor is it held")]
    MissingPart(PartName),
    /// More than is taken.
    #[error("the snapshot has {bytes} bytes, the limit is {limit}")]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// One message is larger than is taken.
    #[error("a message is larger than {0} bytes")]
    MessageTooLarge(usize),
    /// One chunk has more than is taken.
    #[error("a chunk has {0} bytes of parts, the limit is {MAX_CHUNK_BYTES}")]
    ChunkTooLarge(usize),
    /// A part's bytes are not as encoded or not as long as was promised.
    #[error("part {part}: {why}")]
    Encoding {
        /// Which part.
        part: PartName,
        /// What is wrong.
        why: &'static str,
    },
    /// A part's or the total hash differs, or this version can't read the snapshot.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

fn held_text(held: &Option<Hash>) -> String {
    held.map_or_else(|| "nothing".to_owned(), |held| held.to_string())
}

/// A snapshot as it was delivered.
#[derive(Debug, Clone)]
pub struct Delivered {
    /// The snapshot, its bytes verified; its content is read when its index is built.
    pub snapshot: Snapshot,
    /// The stream's name for acknowledgements; may be empty.
    pub stream_id: String,
}

/// Puts deliveries together. Holds the parts of the last one.
#[derive(Debug)]
pub struct Assembler {
    /// Most bytes of all parts together.
    limit: usize,
    held: Option<Snapshot>,
    open: Option<Delivery>,
    /// Number of the last delivery that came whole.
    delivered: u64,
}

impl Default for Assembler {
    fn default() -> Assembler {
        Assembler::with_limit(MAX_SNAPSHOT_BYTES)
    }
}

impl Assembler {
    /// One that takes so many bytes at most.
    pub fn with_limit(limit: usize) -> Assembler {
        Assembler {
            limit,
            held: None,
            open: None,
            delivered: 0,
        }
    }

    /// The hash of what is held, and its parts: what a request says.
    pub fn held(&self) -> (Option<Hash>, Vec<PartRef>) {
        let Some(held) = &self.held else {
            return (None, Vec::new());
        };
        let parts = held.parts().iter().map(|(name, part)| PartRef {
            name: name.to_string(),
            hash: wire::hash_bytes(part.hash()),
            length: 0,
        });
        (Some(held.hash()), parts.collect())
    }

    /// A new stream begins: deliveries are counted anew, and one that was cut off is forgotten.
    pub fn begin_stream(&mut self) {
        self.open = None;
        self.delivered = 0;
    }

    /// Lets go of the parts held.
    pub fn forget(&mut self) {
        *self = Assembler::with_limit(self.limit);
    }

    /// True in the middle of a delivery.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Takes the stream's next chunk; `Some` where it completes a snapshot.
    ///
    /// # Errors
    /// The delivery is refused, and with it the stream: what its server believes to be held is unknown. The parts
    /// held stay, so that the next stream can begin with them.
    pub fn push(&mut self, chunk: SnapshotChunk) -> Result<Option<Delivered>, AssembleError> {
        let open = self.open.take();
        let expected = (self.delivered + 1, open.as_ref().map_or(0, Delivery::next));
        if (chunk.delivery, chunk.sequence) != expected {
            return Err(AssembleError::Order {
                delivery: chunk.delivery,
                sequence: chunk.sequence,
                expected_delivery: expected.0,
                expected_sequence: expected.1,
            });
        }
        let mut open = match (open, chunk.begin) {
            (Some(open), None) => open,
            (None, Some(begin)) => Delivery::begin(begin, self.held.as_ref(), self.limit)?,
            _ => return Err(AssembleError::Begin),
        };
        open.take(chunk.parts)?;
        if !chunk.complete {
            self.open = Some(open);
            return Ok(None);
        }
        let delivered = open.complete(self.held.as_ref())?;
        self.held = Some(delivered.snapshot.clone());
        self.delivered += 1;
        Ok(Some(delivered))
    }
}
