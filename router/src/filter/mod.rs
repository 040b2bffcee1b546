//! What a rule does to requests and responses, as pure functions: they take what is known and give a new path, a
//! location, or edits; nothing is changed in place.

pub mod cors;
pub mod redirect;
pub mod rewrite;
