//! Sockets and connections of the admin interface.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::Admin;
use super::answer::{Answer, answer, problem};
use super::socket::{self, SocketFile};
use crate::config::AdminAddress;

/// Open connections: above, new ones wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 64;
/// A request's head must come within this time, on a kept connection too.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Longest life of a connection: a client that doesn't read must not keep its place.
const CONNECTION_TIME: Duration = Duration::from_secs(60);
/// Largest head.
const HEAD_BYTES: usize = 32 * 1024;
/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Where the interface listens. To be kept to the end of the process: a Unix socket's file goes with it.
#[derive(Debug)]
pub(crate) struct Served {
    /// The address, if by TCP.
    pub(crate) tcp: Option<SocketAddr>,
    _file: Option<SocketFile>,
}

/// Binds the address and serves it for as long as the runtime lives.
pub(crate) async fn start(address: &AdminAddress, admin: Arc<Admin>) -> anyhow::Result<Served> {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    match address {
        AdminAddress::Tcp(address) => {
            let listener = TcpListener::bind(address)
                .await
                .map_err(|error| anyhow::anyhow!("{address}: {error}"))?;
            let bound = listener.local_addr()?;
            tracing::info!(listener = "admin", address = %bound, "listening");
            tokio::spawn(async move {
                loop {
                    let accepted = listener.accept().await.map(|(stream, _)| stream);
                    take(accepted, &places, &admin).await;
                }
            });
            Ok(Served {
                tcp: Some(bound),
                _file: None,
            })
        }
        AdminAddress::Unix(path) => {
            let (listener, file) =
                socket::bind(path).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
            tracing::info!(listener = "admin", address = %path.display(), "listening");
            tokio::spawn(async move {
                loop {
                    let accepted = listener.accept().await.map(|(stream, _)| stream);
                    take(accepted, &places, &admin).await;
                }
            });
            Ok(Served {
                tcp: None,
                _file: Some(file),
            })
        }
    }
}

async fn take<S>(accepted: io::Result<S>, places: &Arc<Semaphore>, admin: &Arc<Admin>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = match accepted {
        Ok(stream) => stream,
        Err(error) => {
            admin.stats.accept_failed(&error, "admin");
            return tokio::time::sleep(ACCEPT_PAUSE).await;
        }
    };
    let place = places.clone().acquire_owned().await;
    let admin = admin.clone();
    tokio::spawn(async move {
        let _place = place;
        let serving = connection(stream, admin);
        if tokio::time::timeout(CONNECTION_TIME, serving).await.is_err() {
            tracing::debug!("an admin connection was closed for its age");
        }
    });
}

async fn connection<S>(stream: S, admin: Arc<Admin>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        // Bodies are not read: no path takes one, and hyper closes a connection that has bytes left.
        let answered = guarded(&admin, &request);
        async move { Ok::<Answer, Infallible>(answered) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "admin connection");
    }
}

/// A panic costs one answer.
fn guarded(admin: &Admin, request: &Request<Incoming>) -> Answer {
    catch_unwind(AssertUnwindSafe(|| {
        answer(admin, request.method(), request.uri())
    }))
    .unwrap_or_else(|_| problem(StatusCode::INTERNAL_SERVER_ERROR, "a panic; see the log"))
}
