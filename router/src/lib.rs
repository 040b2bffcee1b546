//! The data plane of `routed`: accepts connections, decides each request on the published index, forwards it, and
//! records it once.
//!
//! In reading order (the request path):
//! - [`conn`]: what is known of an accepted connection.
//! - [`shared`], [`worker`]: what all workers share, and what one worker thread owns.
//! - [`http`]: the seam to the HTTP codecs: [`http::serve_connection`].
//! - [`upstream`]: endpoints and the connections to them.
//! - [`record`], [`metrics`]: one record per request.
//! - [`demo`]: backends and resources to try it with.
#![deny(unsafe_code)]

pub mod conn;
pub mod demo;
pub mod http;
pub mod metrics;
pub mod record;
pub mod shared;
pub mod upstream;
pub mod worker;
