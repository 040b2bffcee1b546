//! New connections to endpoints.

use std::net::SocketAddr;
use std::time::Duration;

use routed_snapshot::ir::Backend;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::Endpoints;
use crate::conn::probe_when_idle;
use crate::http::client::{self, Sender};

/// Connects within `limit` (0: no limit), TCP and TLS together. `None` where that fails; the reason is logged at
/// debug level, since a dead endpoint would otherwise fill the log at the rate of requests.
pub async fn connect(
    endpoints: &Endpoints,
    backend: &Backend,
    address: SocketAddr,
    limit: Duration,
) -> Option<Sender> {
    let connecting = attempt(endpoints, backend, address);
    if limit.is_zero() {
        return connecting.await;
    }
    match tokio::time::timeout(limit, connecting).await {
        Ok(connected) => connected,
        Err(_) => {
            tracing::debug!(%address, "connecting to an endpoint took too long");
            None
        }
    }
}

async fn attempt(endpoints: &Endpoints, backend: &Backend, address: SocketAddr) -> Option<Sender> {
    let failed =
        |error: &std::io::Error| tracing::debug!(%address, %error, "an endpoint can't be connected to");
    let stream = TcpStream::connect(address).await.inspect_err(failed).ok()?;
    // Heads and small bodies are written whole; waiting to fill a segment only delays them.
    let _ = stream.set_nodelay(true);
    let _ = probe_when_idle(&stream);
    let Some(tls) = &backend.tls else {
        return client::handshake(stream).await;
    };
    let settings = endpoints.tls.settings(backend, tls, address.ip())?;
    let connector = TlsConnector::from(settings.config);
    let stream = connector
        .connect(settings.name, stream)
        .await
        .inspect_err(failed)
        .ok()?;
    client::handshake(stream).await
}
