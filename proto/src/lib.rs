//! How snapshots and acknowledgements travel between a control plane and its routers: the messages and services of
//! `snapshot.proto`, which documents each field.
#![forbid(unsafe_code)]
#![allow(
    clippy::all,
    missing_docs,
    reason = "the module is generated; what its fields mean is said in the .proto"
)]

use std::fmt;

include!(concat!(env!("OUT_DIR"), "/routed.v1.rs"));

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyPair")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
