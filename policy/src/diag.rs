//! Diagnostics: what is wrong with an object, where, and what the compiler did about it.

use std::fmt;

use serde::{Serialize, Serializer};

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Severity {
    /// Something the author wrote isn't served as written.
    Error,
    /// Everything is served, but probably not as meant.
    Warning,
}

/// What kind of fault it is. The names are part of the interface: statuses and tests use them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Two objects of one kind and name; the first one counts.
    AlreadyDefined,
    /// No Backend of the name.
    BackendNotFound,
    /// No ConfigMap of the name, or no such entry in it.
    ConfigMapNotFound,
    /// A reference into another namespace.
    CrossNamespace,
    /// A version that will go.
    Deprecated,
    /// Two conditions for one name; the first one counts.
    DuplicateCondition,
    /// Two listeners of one name or address.
    DuplicateListener,
    /// A kind that isn't ours.
    IgnoredKind,
    /// Not an IP address.
    InvalidAddress,
    /// Not a certificate, or one that doesn't belong to its key.
    InvalidCertificate,
    /// Not a network.
    InvalidCidr,
    /// Not a Gateway API duration.
    InvalidDuration,
    /// A filter that can't be applied.
    InvalidFilter,
    /// Not a host name.
    InvalidHostname,
    /// A match that can't be compiled.
    InvalidMatch,
    /// Not an object name.
    InvalidName,
    /// A number out of its range, or a value that makes no sense.
    InvalidValue,
    /// Not YAML, or not of the kind's form.
    Malformed,
    /// No listener of the name.
    ListenerNotFound,
    /// Nothing to forward to.
    NoBackends,
    /// A field that this version knows and doesn't do.
    NotBuilt,
    /// No listener admits the route.
    NotAttached,
    /// No profile of the name.
    ProfileNotFound,
    /// No Secret of the name, or no such entry in it.
    SecretNotFound,
    /// No Service (nor Backend) of the name, or no such port.
    ServiceNotFound,
    /// Larger than is taken.
    TooLarge,
    /// More than is taken.
    TooMany,
    /// No request can reach it.
    Unreachable,
    /// A kind or version of our group that doesn't exist.
    UnknownKind,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Diag {
    /// What is a cause comes before what follows of it: objects that can't be read, then what rules refer to, then
    /// rules.
    pub(crate) fn order(&self) -> (u8, &Diag) {
        let unread = matches!(
            self.reason,
            Reason::Malformed | Reason::UnknownKind | Reason::InvalidName | Reason::TooLarge
        );
        let rank = match self.kind.as_str() {
            _ if unread => 0,
            "EdgeRoute" => 2,
            _ => 1,
        };
        (rank, self)
    }
}

/// A position in a file, from 1.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Place {
    /// Name of the file.
    pub file: String,
    /// Line.
    pub line: u32,
    /// Column in characters.
    pub column: u32,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Diag {
    /// Kind of the object, empty where it isn't known.
    pub kind: String,
    /// `namespace/name` of the object, empty where it isn't known.
    pub object: String,
    /// Where it is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// Path of the field, for instance `spec.rules[0].matches[1].path.value`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
    /// How bad it is.
    pub severity: Severity,
    /// What kind of fault.
    pub reason: Reason,
    /// For people.
    pub message: String,
}

impl fmt::Display for Diag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{}:{}:{}: ", place.file, place.line, place.column)?;
        }
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, "{severity}[{}]", self.reason)?;
        if !self.object.is_empty() {
            write!(f, " {} {}", self.kind, self.object)?;
        }
        if !self.field.is_empty() {
            write!(f, " {}", self.field)?;
        }
        write!(f, ": {}", self.message)
    }
}
