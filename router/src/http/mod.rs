//! The seam to the HTTP codecs. Only the modules of this folder name hyper; what leaves them are plain values: a
//! head, edits of a head as data, and a body of frames.
//!
//! - [`head`]: [`Head`] and [`HeadEdits`].
//! - [`body`]: [`Body`], both ways.
//! - [`server`]: the client's side, HTTP/1.1 and HTTP/2.
//! - [`client`]: the backend's side, HTTP/1.1.
//! - [`tunnel`]: raw bytes after a switch of protocols; `frames`: where WebSocket frames end.
//! - [`io`]: the byte stream of an accepted connection, with a watch on slow and idle clients.

pub mod body;
pub mod client;
mod frames;
pub mod head;
pub mod io;
pub mod server;
pub mod tunnel;

pub use body::{Body, Meter};
pub use head::{Head, HeadEdits};
pub use server::serve_connection;
