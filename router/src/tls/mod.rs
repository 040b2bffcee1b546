//! Terminating TLS.
//!
//! - [`table`]: which certificate a server name gets.
//! - [`certificates`]: the pairs served, and how a new pair replaces an old one.
//!
//! The name is judged before the handshake: a client that asks for a name we have no certificate for is told so
//! (`unrecognized_name`) rather than shown another site's certificate. rustls' own resolver could only answer
//! `access_denied`, which clients report as something else. Judging first also binds resumption to the table: a ticket
//! never revives a session for a name that was removed.

pub(crate) mod certificates;
pub(crate) mod table;

use std::io;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::server::{Acceptor, ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use crate::conn::TlsFacts;
use table::CertificateTable;

/// A fatal `unrecognized_name` (112) in a TLS 1.2 record, as RFC 6066 section 3 asks for.
const UNRECOGNIZED_NAME: [u8; 7] = [0x15, 3, 3, 0, 2, 2, 112];

/// How one listener terminates TLS. Its table is replaced while it serves.
#[derive(Debug)]
pub(crate) struct Terminator {
    config: Arc<ServerConfig>,
    table: Arc<Present>,
}

#[derive(Debug, Default)]
struct Present(ArcSwap<CertificateTable>);

impl ResolvesServerCert for Present {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.load().choose(hello.server_name()).cloned()
    }
}

impl Terminator {
    /// A terminator that refuses everybody until [`Terminator::serve`].
    ///
    /// Tickets are sealed by a key of this listener, made anew every few hours: a session can't be carried to
    /// another listener, which may ask more of its clients.
    pub(crate) fn new() -> Result<Terminator, rustls::Error> {
        let table = Arc::new(Present::default());
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(table.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new()?;
        let config = Arc::new(config);
        Ok(Terminator { config, table })
    }

    /// Serves these certificates from the next handshake on.
    pub(crate) fn serve(&self, table: CertificateTable) {
        self.table.0.store(Arc::new(table));
    }
}

/// Shakes hands.
pub(crate) async fn accept(
    stream: TcpStream,
    terminator: &Terminator,
) -> io::Result<(TlsStream<TcpStream>, TlsFacts)> {
    let mut start = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
    let sni = start.client_hello().server_name().map(str::to_ascii_lowercase);
    if terminator.table.0.load().choose(sni.as_deref()).is_none() {
        start.io.write_all(&UNRECOGNIZED_NAME).await?;
        start.io.shutdown().await?;
        let name = sni.unwrap_or_else(|| "a client without server name".to_owned());
        return Err(io::Error::other(format!("no certificate for {name}")));
    }
    let stream = start.into_stream(terminator.config.clone()).await?;
    let h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    Ok((stream, TlsFacts { sni, h2 }))
}
