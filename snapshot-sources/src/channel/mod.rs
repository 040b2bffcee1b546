//! Connections to a control plane.
//!
//! # Decisions
//! - **One connection per stream.** It is made here and handed to the gRPC client once; when it ends, so does the
//!   stream, and the next one begins with the files and addresses of that moment. Nothing reconnects behind our back.
//! - **A peer that is gone is found by pings**: one every [`Timing::ping_every`] while the stream is idle, and an
//!   answer within [`Timing::ping_timeout`]. A TCP connection alone stays open for hours after a silent cut.
//! - **Addresses are tried in random order**, so that routers spread over the replicas behind a name.

mod address;
mod io;
mod tls;

use std::future::{Ready, ready};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
use rand::seq::SliceRandom;
use rustls_pki_types::ServerName;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tonic::codegen::Service;
use tonic::transport::{Channel, Endpoint};

pub use address::{Address, AddressError};
pub(crate) use io::Contact;
pub use tls::TlsFiles;

use io::Noted;

/// Room for what is on its way, so that a large snapshot does not wait for each piece to be acknowledged.
const STREAM_WINDOW: u32 = 2 << 20;
/// The same for all streams of a connection.
const CONNECTION_WINDOW: u32 = 4 << 20;
/// How long one of several addresses may keep the others waiting.
const ADDRESS_TIMEOUT: Duration = Duration::from_secs(3);

/// Where a control plane is, and how it is spoken to.
#[derive(Debug, Clone)]
pub struct ControlPlane {
    /// Where it is.
    pub address: Address,
    /// Files of TLS, for an `https` address.
    pub tls: TlsFiles,
    /// How long things may take.
    pub timing: Timing,
}

/// How long things may take.
#[derive(Debug, Clone)]
pub struct Timing {
    /// From the look-up of the name to the end of the TLS handshake.
    pub connect: Duration,
    /// Time without a byte after which the peer is asked whether it lives.
    pub ping_every: Duration,
    /// How long it may take to say so.
    pub ping_timeout: Duration,
    /// How long a delivery that has begun may stand still.
    pub stalled: Duration,
    /// How long a peer may offer nothing but snapshots older than what is held.
    pub behind: Duration,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            connect: Duration::from_secs(10),
            // Together well below the 30 s in which a dead peer is to be found.
            ping_every: Duration::from_secs(10),
            ping_timeout: Duration::from_secs(10),
            stalled: Duration::from_secs(30),
            behind: Duration::from_secs(30),
        }
    }
}

/// An open connection.
#[derive(Debug)]
pub(crate) struct Connection {
    /// For the gRPC client.
    pub(crate) channel: Channel,
    /// When the peer was last heard of.
    pub(crate) contact: Contact,
    /// Whether private keys may come this way; an error says why not.
    pub(crate) carries_keys: Result<(), &'static str>,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error("no connection within {0:?}")]
    Timeout(Duration),
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Files(String),
    #[error("TLS: {0}")]
    Tls(std::io::Error),
    #[error("`{0}` is no server name")]
    ServerName(String),
    #[error("the name has no address")]
    NoAddress,
    #[error("HTTP/2: {0}")]
    Http(#[from] tonic::transport::Error),
}

impl ControlPlane {
    /// With the usual times and without TLS files.
    pub fn new(address: Address) -> ControlPlane {
        ControlPlane {
            address,
            tls: TlsFiles::default(),
            timing: Timing::default(),
        }
    }

    /// Connects.
    pub(crate) async fn connect(&self) -> Result<Connection, ConnectError> {
        let limit = self.timing.connect;
        let opened = timeout(limit, self.open()).await;
        let (io, carries_keys) = opened.map_err(|_| ConnectError::Timeout(limit))??;
        let contact = io.contact.clone();
        let endpoint = Endpoint::from_static(self.origin())
            .http2_keep_alive_interval(self.timing.ping_every)
            .keep_alive_timeout(self.timing.ping_timeout)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW);
        let channel = endpoint
            .connect_with_connector(Once(Some(TokioIo::new(io))))
            .await?;
        Ok(Connection {
            channel,
            contact,
            carries_keys,
        })
    }

    /// What the requests say they are for. Servers of this kind do not look at it.
    fn origin(&self) -> &'static str {
        match &self.address {
            Address::Tcp { tls: true, .. } => "https://routed-operator",
            _ => "http://routed-operator",
        }
    }

    async fn open(&self) -> Result<(Noted, Result<(), &'static str>), ConnectError> {
        let contact = Contact::new();
        let noted = |io| Noted { io, contact };
        match &self.address {
            Address::Unix(path) => {
                let stream = UnixStream::connect(path).await?;
                let closed = is_closed_to_others(path, &stream);
                Ok((noted(Box::new(stream)), closed))
            }
            Address::Tcp {
                host,
                port,
                tls: false,
            } => {
                let stream = connect_tcp(host, *port).await?;
                Ok((noted(Box::new(stream)), Err("the channel is not encrypted")))
            }
            Address::Tcp {
                host,
                port,
                tls: true,
            } => {
                let files = self.tls.clone();
                let loaded = tokio::task::spawn_blocking(move || files.load()).await;
                let loaded = loaded.unwrap_or_else(|error| Err(error.to_string()));
                let tls = loaded.map_err(ConnectError::Files)?;
                let name = self.tls.server_name.as_ref().unwrap_or(host);
                let name =
                    ServerName::try_from(name.clone()).map_err(|_| ConnectError::ServerName(name.clone()))?;
                let stream = connect_tcp(host, *port).await?;
                let stream = TlsConnector::from(tls.config).connect(name, stream).await;
                let stream = stream.map_err(ConnectError::Tls)?;
                let mutual = if tls.shown.load(Ordering::Acquire) {
                    Ok(())
                } else {
                    Err("the server did not ask for the router's certificate")
                };
                Ok((noted(Box::new(stream)), mutual))
            }
        }
    }
}

/// The first address that answers.
async fn connect_tcp(host: &str, port: u16) -> Result<TcpStream, ConnectError> {
    let mut addresses: Vec<_> = tokio::net::lookup_host((host, port)).await?.collect();
    addresses.shuffle(&mut rand::rng());
    let mut last = ConnectError::NoAddress;
    let several = addresses.len() > 1;
    for address in addresses {
        let connected = if several {
            let limited = timeout(ADDRESS_TIMEOUT, TcpStream::connect(address)).await;
            limited.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()))
        } else {
            TcpStream::connect(address).await
        };
        match connected {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error.into(),
        }
    }
    Err(last)
}

/// Whether nobody but the socket's owner can open or replace what this stream leads to.
fn is_closed_to_others(path: &Path, stream: &UnixStream) -> Result<(), &'static str> {
    let Ok(metadata) = std::fs::metadata(path) else {
        return Err("the socket's permissions can't be read");
    };
    if !metadata.file_type().is_socket() || metadata.mode() & 0o077 != 0 {
        return Err("the socket is open to others; keys need mode 0600");
    }
    let Ok(peer) = stream.peer_cred() else {
        return Err("the system does not say who serves the socket");
    };
    if peer.uid() != metadata.uid() && peer.uid() != 0 {
        return Err("the socket is served by another user than its owner");
    }
    Ok(())
}

/// Gives one connection to the client, which never gets a second one.
struct Once(Option<TokioIo<Noted>>);

impl Service<Uri> for Once {
    type Response = TokioIo<Noted>;
    type Error = std::io::Error;
    type Future = Ready<Result<TokioIo<Noted>, std::io::Error>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), std::io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _uri: Uri) -> Self::Future {
        ready(
            self.0
                .take()
                .ok_or_else(|| std::io::Error::other("the connection has ended")),
        )
    }
}

/// When a moment of this process was, by the wall clock of now.
pub(crate) fn moment(age: Duration) -> jiff::Timestamp {
    let now = jiff::Timestamp::now();
    let age = jiff::SignedDuration::try_from(age).unwrap_or_default();
    now.checked_sub(age).unwrap_or(now)
}

/// What went wrong with a call, with its causes: the cause is what tells a dead peer from a refusal.
pub(crate) fn explain(status: &tonic::Status) -> String {
    let mut text = match status.message() {
        "" => status.code().to_string(),
        message => format!("{}: {message}", status.code()),
    };
    let mut cause = std::error::Error::source(status);
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}
