//! The kinds people write, and the one compiler that turns them into a snapshot.
//!
//! In reading order:
//! - [`kinds`]: EdgeRoute, Backend, RoutingPolicy, RouterProfile, and what is read of Kubernetes' own kinds.
//! - [`resources`]: the objects, from files or from memory.
//! - [`compile`](mod@compile): resources → snapshot, keys and diagnostics; pure.
//! - [`diag`]: what is wrong, where.
#![forbid(unsafe_code)]

pub mod compile;
pub mod diag;
pub mod kinds;
pub mod resources;
mod yaml;

pub use compile::{Compiler, Report, TlsPair, compile};
pub use diag::{Diag, Place, Reason, Severity};
pub use kinds::crds;
pub use resources::{Kind, Object, ObjectKey, Resources};
