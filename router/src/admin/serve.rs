//! Sockets and connections of the admin interface.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;

use super::Admin;
use super::answer::{Answer, answer, problem};
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

/// Binds the address and serves it for as long as the runtime lives. Says where it listens, if by TCP.
pub(crate) async fn start(address: &AdminAddress, admin: Arc<Admin>) -> anyhow::Result<Option<SocketAddr>> {
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
            Ok(Some(bound))
        }
        AdminAddress::Unix(path) => {
            let listener = bind_unix(path).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
            tracing::info!(listener = "admin", address = %path.display(), "listening");
            tokio::spawn(async move {
                loop {
                    let accepted = listener.accept().await.map(|(stream, _)| stream);
                    take(accepted, &places, &admin).await;
                }
            });
            Ok(None)
        }
    }
}

/// A socket left by a process that was killed is replaced; one that is answered, or anything else, is not.
fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    if let Ok(found) = std::fs::symlink_metadata(path) {
        if !found.file_type().is_socket() {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "something that is no socket stands there",
            ));
        }
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            return Err(io::Error::new(
                io::ErrorKind::AddrInUse,
                "another process listens there",
            ));
        }
        std::fs::remove_file(path)?;
    }
    // Bound under a name of its own and renamed once the mode is set: nobody finds it open in between.
    let mut hidden = path.as_os_str().to_owned();
    hidden.push(format!(".{}", std::process::id()));
    let listener = UnixListener::bind(&hidden)?;
    std::fs::set_permissions(&hidden, std::fs::Permissions::from_mode(0o600))?;
    std::fs::rename(&hidden, path)?;
    Ok(listener)
}

async fn take<S>(accepted: io::Result<S>, places: &Arc<Semaphore>, admin: &Arc<Admin>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = match accepted {
        Ok(stream) => stream,
        Err(error) => {
            tracing::warn!(%error, "the admin interface could not accept; going on");
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
