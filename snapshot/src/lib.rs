//! The compiled routing table of `routed`, and the decision made on it.
//!
//! In reading order:
//! - [`ir`]: what a snapshot says (profiles, routes, backends, endpoints), as serde types.
//! - [`snapshot`]: parts (`part`), their hashes, and the whole as one JSON document; `canonical`: how it is written.
//! - [`index`]: the lookup tables a router builds from a snapshot before it publishes it.
//! - [`limits`]: the numbers and texts that the data plane takes.
//! - `matching`: the conditions of a match, one file per kind.
//! - [`request`]: what a client wrote, brought to the one form that is decided on, or refused.
//! - [`facts`]: what is known of a request when it is decided.
//! - [`decision`]: what a decision says, and [`decision::decide`], the pure function that makes it.
//! - [`mod@explain`]: the same code with a recorder: each candidate and the reason it lost.
//! - `fuzz`: entry points of the fuzz targets.
//!
//! This crate has no tokio, no kube and no IO.
//!
//! # Decisions
//! - **Fixed buckets.** Host tables, backends and endpoints are spread over 256 parts by a stable hash of their
//!   name ([`snapshot::bucket_of`]), whatever their number. A bucket count that grew with the table would rewrite
//!   every part when it crosses a threshold, and one that remembers would make the bytes depend on history.
//! - **Hosts name their listeners.** The first key of a lookup is the listener. A host table lists the listeners it
//!   serves, so listeners with equal routes share one table in the document and in memory. The alternative, a map
//!   of listeners holding hosts, doubles a snapshot as soon as a second listener (HTTPS) carries the same routes.
//! - **Order, not times.** Matches of a host stand in their final order of precedence. Creation times are inputs of
//!   the compiler only, so a recreated object with equal content gives equal bytes where the order is equal.
#![forbid(unsafe_code)]

mod canonical;
pub mod decision;
pub mod explain;
pub mod facts;
#[doc(hidden)]
pub mod fuzz;
pub mod index;
pub mod ir;
pub mod limits;
mod matching;
mod part;
pub mod request;
pub mod snapshot;

pub use decision::{Decision, Outcome, decide};
pub use explain::{Question, explain};
pub use facts::{Availability, Facts, Header};
pub use index::Index;
pub use matching::pattern::{PatternError, check_pattern};
pub use snapshot::{Hash, Part, PartName, Position, Snapshot};
