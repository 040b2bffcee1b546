//! The data plane of `routed`: accepts connections, decides each request on the published index, forwards it, and
//! records it once.
//!
//! In reading order (the request path):
//! - [`conn`]: what is known of an accepted connection.
//! - [`shared`], [`worker`]: what all workers share, and what one worker thread owns.
//! - [`http`]: the seam to the HTTP codecs: [`http::serve_connection`].
//! - [`parse`]: what a client wrote, brought to one form or refused.
//! - [`forward`]: one request from its head to its response; [`filter`]: what rules do to it.
//! - [`respond`]: each error and its answer.
//! - [`upstream`]: endpoints and the connections to them.
//! - [`record`], [`metrics`]: one record per request.
//! - [`demo`]: backends and resources to try it with.
#![deny(unsafe_code)]

pub mod conn;
pub mod demo;
pub mod filter;
pub mod forward;
pub mod http;
pub mod metrics;
pub mod parse;
pub mod record;
pub mod respond;
pub mod shared;
pub mod upstream;
pub mod worker;
