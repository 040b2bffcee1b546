//! What is known of an accepted connection before its first request.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;
use tokio::sync::watch;

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
    /// Turns true when the connection is to end: its listener goes, or the process.
    pub drain: watch::Receiver<bool>,
}

impl Connection {
    /// Ends when the connection is told to end.
    pub async fn told(&self) {
        // Nobody left who could tell is as good as being told.
        let _ = self.drain.clone().wait_for(|drain| *drain).await;
    }
}

/// Lets the system find out that the other side is gone where it says nothing: after 90 seconds without a byte.
pub fn probe_when_idle(stream: &TcpStream) -> io::Result<()> {
    let probes = TcpKeepalive::new()
        .with_time(Duration::from_secs(60))
        .with_interval(Duration::from_secs(10))
        .with_retries(3);
    SockRef::from(stream).set_tcp_keepalive(&probes)
}
