//! Between the codec and the rules about what a client wrote, which are [`routed_snapshot::request`]'s.
//!
//! - [`head`]: a head in the codec's types, accepted or refused.
//! - [`fuzz`]: properties for the fuzz targets.

pub mod fuzz;
pub mod head;
