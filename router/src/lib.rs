//! The data plane of `routed`: accepts connections, decides each request on the published index, forwards it, and
//! records it once.
//!
//! The process, in reading order:
//! - [`args`], [`config`], `control_plane`: what was typed, and what it means.
//! - [`telemetry`]: the log.
//! - [`run`]: everything from here to the end of the process.
//! - `listeners`, `tls`, `workers`, `accept`: from the profile to an accepted connection.
//! - `admin`: health, metrics, explanations.
//! - [`drain`]: how it ends.
//!
//! The request path, in reading order:
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

mod accept;
mod admin;
pub mod args;
pub mod config;
pub mod conn;
mod control_plane;
pub mod demo;
pub mod drain;
pub mod filter;
pub mod forward;
pub mod http;
mod listeners;
pub mod metrics;
pub mod parse;
mod process;
mod process_stats;
pub mod record;
pub mod respond;
pub mod shared;
pub mod telemetry;
mod tls;
pub mod upstream;
pub mod worker;
mod workers;

pub use process::run;
