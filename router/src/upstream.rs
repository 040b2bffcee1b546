//! Endpoints and the connections to them.

/// State of endpoints that outlives a snapshot.
#[derive(Debug, Default)]
pub struct Endpoints {}
