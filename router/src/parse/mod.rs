//! What a client wrote, brought to the one form that is matched and forwarded, or refused.
//!
//! - [`path`]: the path (RFC 3986 §5.2.4 and §6.2.2).
//! - [`host`]: the authority.
//! - [`head`]: the rules about a request head as a whole.
//! - [`fuzz`]: properties for the fuzz targets.

pub mod fuzz;
pub mod head;
pub mod host;
pub mod path;
