//! One part of a snapshot: its name, its bytes, their hash, and what they say.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::de::DeserializeOwned;

use crate::canonical;
use crate::ir::{BackendsPart, EndpointsPart, ProfilesPart, RoutesPart};
use crate::snapshot::{DecodeError, Hash};

/// The name of a part; the order is the order in the document's hash list once written out as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PartName {
    /// `backends/<bucket>`
    Backends(u8),
    /// `endpoints/<bucket>`
    Endpoints(u8),
    /// `profiles`
    Profiles,
    /// `routes/<bucket>`
    Routes(u8),
}

impl PartName {
    /// True where the part counts for `configHash`.
    pub fn is_config(self) -> bool {
        !matches!(self, PartName::Endpoints(_))
    }
}

impl fmt::Display for PartName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PartName::Backends(bucket) => write!(f, "backends/{bucket:02x}"),
            PartName::Endpoints(bucket) => write!(f, "endpoints/{bucket:02x}"),
            PartName::Profiles => f.write_str("profiles"),
            PartName::Routes(bucket) => write!(f, "routes/{bucket:02x}"),
        }
    }
}

impl FromStr for PartName {
    type Err = DecodeError;

    fn from_str(text: &str) -> Result<PartName, DecodeError> {
        if text == "profiles" {
            return Ok(PartName::Profiles);
        }
        let unknown = || DecodeError::Malformed(format!("unknown part `{text}`"));
        let (kind, digits) = text.split_once('/').ok_or_else(unknown)?;
        let lower_hex = digits.len() == 2 && digits.bytes().all(|d| matches!(d, b'0'..=b'9' | b'a'..=b'f'));
        let bucket = u8::from_str_radix(digits, 16)
            .ok()
            .filter(|_| lower_hex)
            .ok_or_else(unknown)?;
        match kind {
            "backends" => Ok(PartName::Backends(bucket)),
            "endpoints" => Ok(PartName::Endpoints(bucket)),
            "routes" => Ok(PartName::Routes(bucket)),
            _ => Err(unknown()),
        }
    }
}

/// The content of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartContent {
    /// See [`BackendsPart`].
    Backends(BackendsPart),
    /// See [`EndpointsPart`].
    Endpoints(EndpointsPart),
    /// See [`ProfilesPart`].
    Profiles(ProfilesPart),
    /// See [`RoutesPart`].
    Routes(RoutesPart),
}

/// Gives back the bytes of a packed part, of which it is told the packed bytes and the length that they had. It was
/// tried when the part was packed; should it fail all the same, whatever it returns is refused as content.
pub type Unpack = fn(packed: &[u8], length: usize) -> Vec<u8>;

/// One part: its content, its bytes and their hash. Immutable; parts are shared between snapshots.
///
/// Who keeps a snapshot for long keeps its parts packed ([`Part::packed`]): the text of a large table is many times
/// the size of the index built from it, and is needed again only where something changed.
#[derive(Debug, Clone)]
pub struct Part {
    hash: Hash,
    form: Form,
}

#[derive(Debug, Clone)]
enum Form {
    Open {
        bytes: Box<[u8]>,
        content: PartContent,
    },
    Packed {
        name: PartName,
        packed: Box<[u8]>,
        length: usize,
        unpack: Unpack,
    },
}

/// Equal hashes are equal bytes, whatever the form.
impl PartialEq for Part {
    fn eq(&self, other: &Part) -> bool {
        self.hash == other.hash
    }
}

impl Eq for Part {}

impl Part {
    /// A part made by the compiler: written as canonical JSON and hashed.
    pub fn from_content(content: PartContent) -> Result<Part, DecodeError> {
        let written = match &content {
            PartContent::Backends(part) => canonical::to_vec(part),
            PartContent::Endpoints(part) => canonical::to_vec(part),
            PartContent::Profiles(part) => canonical::to_vec(part),
            PartContent::Routes(part) => canonical::to_vec(part),
        };
        let bytes = written.map_err(|error| DecodeError::Malformed(error.to_string()))?;
        Ok(Part {
            hash: Hash::of(&bytes),
            form: Form::Open {
                bytes: bytes.into_boxed_slice(),
                content,
            },
        })
    }

    /// A part as received: the bytes are kept and hashed as they are, then read.
    pub fn from_bytes(name: PartName, bytes: &[u8]) -> Result<Part, DecodeError> {
        Ok(Part {
            hash: Hash::of(bytes),
            form: Form::Open {
                bytes: bytes.into(),
                content: read_content(name, bytes)?,
            },
        })
    }

    /// A part whose bytes, verified to have this hash and length, are kept packed. Its content is read when it is
    /// asked for; the profiles, which are few and asked for often, are read here and kept open.
    ///
    /// # Errors
    /// Where the part is the profiles and can't be read.
    pub fn packed(
        name: PartName,
        hash: Hash,
        length: usize,
        packed: Box<[u8]>,
        unpack: Unpack,
    ) -> Result<Part, DecodeError> {
        if name == PartName::Profiles {
            return Part::from_bytes(name, &unpack(&packed, length));
        }
        let form = Form::Packed {
            name,
            packed,
            length,
            unpack,
        };
        Ok(Part { hash, form })
    }

    /// SHA-256 of the bytes.
    pub fn hash(&self) -> Hash {
        self.hash
    }

    /// The part's JSON.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        match &self.form {
            Form::Open { bytes, .. } => Cow::Borrowed(bytes),
            Form::Packed {
                packed,
                length,
                unpack,
                ..
            } => Cow::Owned(unpack(packed, *length)),
        }
    }

    /// How many bytes of JSON it has.
    pub fn length(&self) -> usize {
        match &self.form {
            Form::Open { bytes, .. } => bytes.len(),
            Form::Packed { length, .. } => *length,
        }
    }

    /// The part's content, where it is open.
    pub(crate) fn opened(&self) -> Option<&PartContent> {
        match &self.form {
            Form::Open { content, .. } => Some(content),
            Form::Packed { .. } => None,
        }
    }

    /// The part's content.
    ///
    /// # Errors
    /// Where the part was kept packed and its JSON doesn't fit its type.
    pub fn content(&self) -> Result<Cow<'_, PartContent>, DecodeError> {
        match &self.form {
            Form::Open { content, .. } => Ok(Cow::Borrowed(content)),
            Form::Packed { name, .. } => Ok(Cow::Owned(read_content(*name, &self.bytes())?)),
        }
    }
}

fn read_content(name: PartName, bytes: &[u8]) -> Result<PartContent, DecodeError> {
    Ok(match name {
        PartName::Backends(_) => PartContent::Backends(read(name, bytes)?),
        PartName::Endpoints(_) => PartContent::Endpoints(read(name, bytes)?),
        PartName::Profiles => PartContent::Profiles(read(name, bytes)?),
        PartName::Routes(_) => PartContent::Routes(read(name, bytes)?),
    })
}

fn read<T: DeserializeOwned>(name: PartName, bytes: &[u8]) -> Result<T, DecodeError> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| DecodeError::Part {
        part: name,
        at: error.path().to_string(),
        why: error.to_string(),
    })?;
    json.end().map_err(|error| DecodeError::Part {
        part: name,
        at: String::new(),
        why: error.to_string(),
    })?;
    Ok(value)
}
