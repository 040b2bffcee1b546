//! What is known of an accepted connection before its first request.

use std::net::SocketAddr;
use std::sync::Arc;

/// The listener that accepted a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerContext {
    /// `namespace/profile/listener`.
    pub name: String,
    /// `namespace/name` of the profile.
    pub profile: String,
    /// The port in the profile (which clients see; the port bound may differ in tests).
    pub port: u16,
    /// Whether the listener terminates TLS.
    pub https: bool,
}

/// What the TLS handshake settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFacts {
    /// The server name that the client asked for.
    pub sni: Option<String>,
    /// Whether ALPN chose HTTP/2.
    pub h2: bool,
}

/// An accepted connection, its bytes apart.
#[derive(Debug, Clone)]
pub struct Connection {
    /// The client's end (or the proxy's in front of us).
    pub peer: SocketAddr,
    /// Our end.
    pub local: SocketAddr,
    /// Who accepted it.
    pub listener: Arc<ListenerContext>,
    /// Present where TLS was terminated here.
    pub tls: Option<TlsFacts>,
}
