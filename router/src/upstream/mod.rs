//! Endpoints and the connections to them.
//!
//! - [`state`]: what all workers know of backends and endpoints, beyond the snapshot.
//! - [`pool`]: one worker's idle connections.
//! - [`connect`]: new connections.
//! - [`tls`]: TLS to backends.

pub mod connect;
pub mod pool;
pub mod state;
pub mod tls;

pub use state::{Endpoints, Upstream, Upstreams};
