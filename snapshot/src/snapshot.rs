//! A snapshot: parts by name, their hashes, and the whole as one JSON document.
//!
//! ```text
//! hash       = sha256(JCS({part name: sha256(bytes of the part)}))
//! configHash = the same without the parts `endpoints/*`
//! ```
//! Each part is canonical JSON (RFC 8785). Bytes are verified as they were received; nothing is written again in
//! order to check it. The whole document holds the parts in place:
//!
//! ```json
//! {"configHash":"…","hash":"…","manifest":{"profiles":"…","routes/a7":"…"},
//!  "parts":{"profiles":{…},"routes/a7":{…}},"position":{…},"requires":[],"schemaVersion":1}
//! ```

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::canonical;
use crate::ir::ProfilesPart;

pub use crate::part::{Part, PartContent, PartName, Unpack};

/// The version of the document's layout that this crate reads and writes.
pub const SCHEMA_VERSION: u32 = 1;

/// Features that a snapshot may demand in `requires` and that this crate knows.
pub const FEATURES: &[&str] = &[];

/// Most bytes of a whole document that [`Snapshot::decode`] takes (512 MiB).
pub const MAX_DOCUMENT_BYTES: usize = 512 << 20;

/// Whether this crate reads that layout and knows all features that a snapshot requires.
///
/// # Errors
/// Names what it doesn't know.
pub fn check_version(schema_version: u32, requires: &[String]) -> Result<(), DecodeError> {
    if schema_version != SCHEMA_VERSION {
        return Err(DecodeError::SchemaVersion(schema_version));
    }
    match requires
        .iter()
        .find(|feature| !FEATURES.contains(&feature.as_str()))
    {
        Some(unknown) => Err(DecodeError::UnknownFeature(unknown.clone())),
        None => Ok(()),
    }
}

/// The bucket (0 to 255) of a host, backend or endpoint set: the low 8 bits of xxh3-64 of its name. Part of the
/// document's meaning: it never changes within a schema version.
pub fn bucket_of(name: &str) -> u8 {
    (xxhash_rust::xxh3::xxh3_64(name.as_bytes()) & 0xff) as u8
}

/// A SHA-256, shown as lower-case hex.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash(pub [u8; 32]);

impl Hash {
    /// The hash of some bytes.
    pub fn of(bytes: &[u8]) -> Hash {
        Hash(Sha256::digest(bytes).into())
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not by `{:02x}` per byte: a table with 100,000 routes names some 500 hashes in each of its two lists.
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 64];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
        f.pad(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Hash {
    type Err = DecodeError;

    fn from_str(text: &str) -> Result<Hash, DecodeError> {
        let bad = || DecodeError::Malformed(format!("`{text}` is not a SHA-256 in lower-case hex"));
        let digits = text.as_bytes();
        if digits.len() != 64 || digits.iter().any(|d| !matches!(d, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(bad());
        }
        let mut hash = [0; 32];
        for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| bad())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| bad())?;
        }
        Ok(Hash(hash))
    }
}

/// How new a snapshot's inputs are. Not part of the hash.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Position {
    /// Uid of the namespace `kube-system`.
    pub cluster_id: String,
    /// Per watched resource, the resourceVersion that the compiler's cache has reached.
    pub resource_versions: BTreeMap<String, u64>,
}

impl Position {
    /// True where `self` is older than `held` in the sense that makes a router refuse it: same cluster, nothing
    /// newer, something older.
    pub fn is_dominated_by(&self, held: &Position) -> bool {
        if self.cluster_id != held.cluster_id {
            return false;
        }
        let held_at = |resource: &str| held.resource_versions.get(resource).copied().unwrap_or(0);
        let newer = self
            .resource_versions
            .iter()
            .any(|(resource, at)| *at > held_at(resource));
        let older = held
            .resource_versions
            .iter()
            .any(|(resource, at)| self.resource_versions.get(resource).copied().unwrap_or(0) < *at);
        older && !newer
    }
}

/// A compiled routing table. Cheap to clone: parts are shared.
#[derive(Debug, Clone)]
pub struct Snapshot {
    parts: BTreeMap<PartName, Arc<Part>>,
    hash: Hash,
    config_hash: Hash,
    position: Option<Position>,
}

impl Snapshot {
    /// A snapshot of these parts.
    pub fn new(parts: BTreeMap<PartName, Arc<Part>>, position: Option<Position>) -> Snapshot {
        let hash = hash_of(parts.iter().map(|(name, part)| (*name, part.hash())));
        let config = parts.iter().filter(|(name, _)| name.is_config());
        let config_hash = hash_of(config.map(|(name, part)| (*name, part.hash())));
        Snapshot {
            parts,
            hash,
            config_hash,
            position,
        }
    }

    /// Reads and verifies a whole document. Nothing of a bad one is used.
    ///
    /// # Errors
    /// Says what is wrong: not JSON, another schema version, an unknown required feature, a part whose bytes don't
    /// have the hash that the manifest gives, a total that doesn't.
    pub fn decode(document: &[u8]) -> Result<Snapshot, DecodeError> {
        if document.len() > MAX_DOCUMENT_BYTES {
            return Err(DecodeError::TooLarge {
                bytes: document.len(),
                limit: MAX_DOCUMENT_BYTES,
            });
        }
        // The version is read first, and leniently: a later version may look different.
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Version {
            schema_version: u32,
        }
        let malformed = |error: serde_json::Error| DecodeError::Malformed(error.to_string());
        let Version { schema_version } = serde_json::from_slice(document).map_err(malformed)?;
        check_version(schema_version, &[])?;
        let whole: Document<'_> = serde_json::from_slice(document).map_err(malformed)?;
        check_version(schema_version, &whole.requires)?;
        whole.verify()
    }

    /// The whole as one JSON document, parts in place.
    pub fn encode(&self) -> Vec<u8> {
        let manifest = self
            .parts
            .iter()
            .map(|(name, part)| format!("\"{name}\":\"{}\"", part.hash()));
        let manifest = manifest.collect::<Vec<_>>().join(",");
        let mut out = format!(
            "{{\"configHash\":\"{}\",\"hash\":\"{}\",\"manifest\":{{{manifest}}},\"parts\":{{",
            self.config_hash, self.hash
        )
        .into_bytes();
        for (at, (name, part)) in self.parts.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            out.extend_from_slice(format!("{comma}\"{name}\":").as_bytes());
            out.extend_from_slice(&part.bytes());
        }
        out.push(b'}');
        if let Some(position) = &self.position
            && let Ok(position) = canonical::to_vec(position)
        {
            out.extend_from_slice(b",\"position\":");
            out.extend_from_slice(&position);
        }
        out.extend_from_slice(format!(",\"requires\":[],\"schemaVersion\":{SCHEMA_VERSION}}}").as_bytes());
        out
    }

    /// The parts by name.
    pub fn parts(&self) -> &BTreeMap<PartName, Arc<Part>> {
        &self.parts
    }

    /// What is in it.
    pub fn hash(&self) -> Hash {
        self.hash
    }

    /// What is in it, endpoints apart.
    pub fn config_hash(&self) -> Hash {
        self.config_hash
    }

    /// How new its inputs are, where it comes from an operator.
    pub fn position(&self) -> Option<&Position> {
        self.position.as_ref()
    }

    /// The profiles part, where there is one.
    pub fn profiles(&self) -> Option<&ProfilesPart> {
        match self.parts.get(&PartName::Profiles)?.opened()? {
            PartContent::Profiles(part) => Some(part),
            _ => None,
        }
    }

    /// True where it routes nothing: no routes part.
    pub fn is_empty(&self) -> bool {
        !self.parts.keys().any(|name| matches!(name, PartName::Routes(_)))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    hash: String,
    config_hash: String,
    manifest: BTreeMap<String, String>,
    #[serde(borrow)]
    parts: BTreeMap<String, &'a RawValue>,
    #[serde(default)]
    position: Option<Position>,
    #[serde(default)]
    requires: Vec<String>,
}

impl Document<'_> {
    fn verify(self) -> Result<Snapshot, DecodeError> {
        if let Some(name) = self.manifest.keys().find(|name| !self.parts.contains_key(*name)) {
            return Err(DecodeError::Malformed(format!(
                "part `{name}` is in the manifest but missing"
            )));
        }
        let mut parts = BTreeMap::new();
        for (text, raw) in self.parts {
            let name: PartName = text.parse()?;
            let promised = self.manifest.get(&text);
            let promised: Hash = promised
                .ok_or_else(|| DecodeError::Malformed(format!("part `{text}` is not in the manifest")))?
                .parse()?;
            let bytes = raw.get().as_bytes();
            let actual = Hash::of(bytes);
            if actual != promised {
                return Err(DecodeError::PartHash {
                    part: name,
                    promised,
                    actual,
                });
            }
            parts.insert(name, Arc::new(Part::from_bytes(name, bytes)?));
        }
        let snapshot = Snapshot::new(parts, self.position);
        for (promised, actual) in [
            (&self.hash, snapshot.hash),
            (&self.config_hash, snapshot.config_hash),
        ] {
            let promised = promised.parse()?;
            if promised != actual {
                return Err(DecodeError::Hash { promised, actual });
            }
        }
        Ok(snapshot)
    }
}

/// The hash over a canonical list of part names and hashes. Part names are plain ASCII and arrive in order, so the
/// canonical JSON is written out directly.
fn hash_of(parts: impl Iterator<Item = (PartName, Hash)>) -> Hash {
    let mut list = String::from("{");
    for (name, hash) in parts {
        let comma = if list.len() > 1 { "," } else { "" };
        // Writing to a string can't fail.
        let _ = write!(list, "{comma}\"{name}\":\"{hash}\"");
    }
    list.push('}');
    Hash::of(list.as_bytes())
}

/// Why a snapshot was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Not JSON of the expected shape.
    #[error("not a snapshot: {0}")]
    Malformed(String),
    /// Written for another layout.
    #[error("schemaVersion {0} is not known (this router reads {SCHEMA_VERSION})")]
    SchemaVersion(u32),
    /// Needs something that this version can't do.
    #[error("the snapshot requires `{0}`, which this version does not know")]
    UnknownFeature(String),
    /// A part's content doesn't fit its type.
    #[error("part {part}: {at}: {why}")]
    Part {
        /// Which part.
        part: PartName,
        /// Path within it.
        at: String,
        /// What is wrong.
        why: String,
    },
    /// A part's bytes are not the ones promised.
    #[error("part {part} has hash {actual}, the manifest says {promised}")]
    PartHash {
        /// Which part.
        part: PartName,
        /// From the manifest.
        promised: Hash,
        /// Of the bytes received.
        actual: Hash,
    },
    /// The total is not the one promised.
    #[error("the snapshot has hash {actual}, it says {promised}")]
    Hash {
        /// From the document.
        promised: Hash,
        /// Computed.
        actual: Hash,
    },
    /// Larger than is taken.
    #[error("the snapshot has {bytes} bytes, the limit is {limit}")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test may fail
mod tests {
    use super::*;

    #[test]
    fn a_document_read_back_has_the_same_hash_and_parts() {
        let profiles = Part::from_content(PartContent::Profiles(ProfilesPart::default())).unwrap();
        let snapshot = Snapshot::new(BTreeMap::from([(PartName::Profiles, Arc::new(profiles))]), None);
        let read = Snapshot::decode(&snapshot.encode()).unwrap();
        assert_eq!(read.hash(), snapshot.hash());
        assert_eq!(read.parts(), snapshot.parts());
    }
}
