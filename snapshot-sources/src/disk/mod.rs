//! Reading and writing files with care.

pub(crate) mod read;
pub(crate) mod tree;
pub(crate) mod write;
