//! What is known of a request when it is decided: a borrowed view, nothing owned.

use crate::index::{BackendId, ListenerId};

/// One header line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// Name, lower-case.
    pub name: &'a str,
    /// Value, without blanks around it.
    pub value: &'a [u8],
}

/// A request as the decision sees it. Everything is already normalised: what is matched is what is forwarded.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The listener that accepted the connection ([`crate::Index::listener`]).
    pub listener: ListenerId,
    /// True where the client reached the edge by TLS (or a trusted proxy says so).
    pub https: bool,
    /// Method.
    pub method: &'a str,
    /// Host, lower-case, without port and trailing dot; IPv6 in brackets.
    pub host: &'a str,
    /// Normalised path, beginning with `/` (or `*`), without query.
    pub path: &'a str,
    /// Query without `?`, raw.
    pub query: Option<&'a str>,
    /// Header lines in order of arrival.
    pub headers: &'a [Header<'a>],
}

/// Which backends can take traffic at the moment of a decision: an input, so that a decision can be replayed.
/// Weighted shares ignore it (a share without endpoints is answered with 503, as the Gateway API says); candidates
/// of policies don't.
#[derive(Debug, Clone, Copy, Default)]
pub struct Availability<'a> {
    /// One bit per backend number, set where the backend can take none. Backends beyond its end are available.
    pub unavailable: &'a [u64],
}

impl Availability<'_> {
    /// Whether the backend can take traffic.
    pub fn is_available(&self, backend: BackendId) -> bool {
        let word = self
            .unavailable
            .get(backend.0 as usize / 64)
            .copied()
            .unwrap_or(0);
        word & (1 << (backend.0 % 64)) == 0
    }
}
