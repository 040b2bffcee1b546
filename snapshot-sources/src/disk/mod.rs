//! Reading and writing files with care.

pub(crate) mod read;
pub(crate) mod write;
