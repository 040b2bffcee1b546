//! Resources → snapshot, keys and diagnostics.
//!
//! Stages, each a file: Backends ([`backend`]) and profiles ([`profile`]), then EdgeRoutes ([`route`], with
//! [`attach`], [`matching`] and [`filter`]), then the Services that routes use, then host tables ([`table`]), then
//! parts. Pure: no clock, no random, and the order of objects is of no meaning.
//!
//! # Decisions
//! - **From zero in meaning, memoised in fact.** A unit (one object) is compiled again when it or anything it looked
//!   at changed, found or not; what it looked at is recorded by [`world::World`]. [`compile`] is a [`Compiler`] with an
//!   empty memory, so there is one code path, and a property test holds that both give the same bytes.
//! - **Routes see a Backend as usable or not**, and a profile as its listeners and what they admit. A change that
//!   leaves this alone (an endpoint, a timeout) compiles no route again.
//! - **The built-in profile stands for one that nobody wrote**, never for one that can't be read: the latter becomes
//!   one without listeners, so that a slip of the pen opens no port that wasn't asked for.
//! - **Only Services that a route names** are in the snapshot: a router needn't know all of a cluster.

mod attach;
mod backend;
mod check;
mod filter;
mod matching;
mod memo;
mod profile;
mod reference;
mod route;
mod salvage;
mod table;
mod tls;
mod world;

use std::collections::BTreeMap;
use std::fmt;

use routed_snapshot::Snapshot;

pub use memo::Compiler;

use crate::diag::Diag;
use crate::resources::Resources;

/// A certificate chain and its private key. Its `Debug` never shows the key.
#[derive(Clone, PartialEq, Eq)]
pub struct TlsPair {
    /// SHA-256 of the leaf certificate's DER, lower-case hex.
    pub fingerprint: String,
    /// PEM chain, leaf first.
    pub certificate_pem: Vec<u8>,
    /// PEM private key.
    pub key_pem: Vec<u8>,
}

impl fmt::Debug for TlsPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsPair")
            .field("fingerprint", &self.fingerprint)
            .finish_non_exhaustive()
    }
}

/// What the compiler made of some resources.
#[derive(Debug, Clone)]
pub struct Report {
    /// The routing table.
    pub snapshot: Snapshot,
    /// Pairs by `namespace/name` of their Secret, for the certificates that the snapshot names.
    pub keys: BTreeMap<String, TlsPair>,
    /// All findings, sorted.
    pub diags: Vec<Diag>,
}

impl Report {
    /// True where some finding is an error.
    pub fn has_errors(&self) -> bool {
        self.diags
            .iter()
            .any(|diag| diag.severity == crate::diag::Severity::Error)
    }
}

/// Compiles from zero.
pub fn compile(resources: &Resources) -> Report {
    Compiler::new().compile(resources)
}
