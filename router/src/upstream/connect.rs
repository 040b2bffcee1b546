//! New connections to endpoints.

use std::time::Duration;

use routed_snapshot::index::BackendEntry;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::Endpoints;
use super::state::EndpointState;
use crate::conn::probe_when_idle;
use crate::http::client::{self, Sender};

/// Connects within `limit` (0: no limit), TCP and TLS together. `None` where that fails; the reason is logged at
/// debug level, since a dead endpoint would otherwise fill the log at the rate of requests.
pub async fn connect(
    endpoints: &Endpoints,
    backend: &BackendEntry,
    endpoint: &EndpointState,
    limit: Duration,
) -> Option<Sender> {
    let address = endpoint.key.address;
    let connecting = attempt(endpoints, backend, endpoint);
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

async fn attempt(endpoints: &Endpoints, backend: &BackendEntry, endpoint: &EndpointState) -> Option<Sender> {
    let address = endpoint.key.address;
    let failed =
        |error: &std::io::Error| tracing::debug!(%address, %error, "an endpoint can't be connected to");
    let stream = TcpStream::connect(address).await.inspect_err(failed).ok()?;
    // Heads and small bodies are written whole; waiting to fill a segment only delays them.
    let _ = stream.set_nodelay(true);
    let _ = probe_when_idle(&stream);
    if backend.config.tls.is_none() {
        return client::handshake(stream).await;
    }
    let settings = endpoints.settings(backend, endpoint)?;
    let connector = TlsConnector::from(settings.config.clone());
    let stream = connector
        .connect(settings.name.clone(), stream)
        .await
        .inspect_err(failed)
        .ok()?;
    client::handshake(stream).await
}
