//! The client's side of the seam: HTTP/1.1 and HTTP/2, by ALPN over TLS, by the connection preface without.
//!
//! What hyper decides and we can't see: a request with both Content-Length and Transfer-Encoding is read as chunked,
//! loses its Content-Length, and is the last one of its connection (RFC 9112 §6.1 allows that beside refusing it).

use std::convert::Infallible;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use routed_snapshot::ir::{Limits, Timeouts};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use super::Body;
use super::io::{Activity, Overdue, Watched};
use crate::conn::Connection;
use crate::forward::{self, Exchange};
use crate::worker::Worker;

/// How long a connection without a request yet may go on after the drain begins: its first one may be on its way.
const FIRST_REQUEST_GRACE: Duration = Duration::from_millis(500);

/// Most lines that a head is read with, whatever the limit: hyper sets aside a slot for each.
const MAX_LINES: usize = 10_000;

/// Read buffer of a connection beyond the head limit.
const BUFFER_BYTES: usize = 16 << 10;

/// The answer to a head that took too long; hyper has none.
const REQUEST_TIMEOUT: &[u8] =
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// Runs HTTP/2 streams as tasks of the worker's thread.
#[derive(Debug, Clone, Copy)]
struct LocalExec;

impl<F> hyper::rt::Executor<F> for LocalExec
where
    F: Future + 'static,
{
    fn execute(&self, future: F) {
        tokio::task::spawn_local(async move {
            future.await;
        });
    }
}

/// Serves one connection to its end. When it is told to end the request in flight finishes, with `Connection: close`
/// or GOAWAY, and idle connections close; what is still under way after the profile's `timeouts.drain` is cut.
pub async fn serve_connection<IO>(io: IO, connection: Connection, worker: Rc<Worker>)
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (limits, timeouts) = settings(&worker);
    let activity = Activity::new();
    let mut io = Watched::new(io, activity.clone());
    let open = worker.shared.stats.connection(&connection.listener.name);
    let h2 = match &connection.tls {
        Some(tls) => tls.h2,
        None => {
            let head = Duration::from_millis(timeouts.request_head_ms);
            tokio::select! {
                biased;
                sniffed = io.sniff_h2() => match sniffed {
                    Ok(h2) => h2,
                    Err(_) => return,
                },
                _ = activity.overdue(head, head) => {
                    worker.shared.stats.head_timeout();
                    let _ = io.write_all(REQUEST_TIMEOUT).await;
                    return;
                }
                () = drained(&connection, &activity) => return,
            }
        }
    };
    let served = Served {
        connection: Rc::new(connection),
        worker,
        activity,
        limits,
        timeouts,
    };
    let activity = served.activity.clone();
    match h2 {
        true => served.run_h2(io).await,
        false => served.run_h1(io).await,
    }
    // A connection that became a tunnel ends with it.
    activity.quiet().await;
    drop(open);
}

/// Waits until the connection is to end. hyper closes one that has not read a request yet at once, with whatever is
/// on its way, so that one is given a little time.
async fn drained(connection: &Connection, activity: &Activity) {
    connection.told().await;
    let _ = tokio::time::timeout(FIRST_REQUEST_GRACE, activity.first_request()).await;
}

/// Waits until the time that a connection has for its end is over: the present profile's `timeouts.drain`.
pub async fn overtime(connection: &Connection, worker: &Worker) {
    connection.told().await;
    let (_, timeouts) = settings(worker);
    tokio::time::sleep(Duration::from_millis(timeouts.drain_ms)).await;
}

fn settings(worker: &Worker) -> (Limits, Timeouts) {
    let index = worker.shared.live.load();
    let profile = index
        .as_ref()
        .and_then(|index| index.profile(&worker.shared.profile));
    match profile {
        Some(profile) => (profile.limits.clone(), profile.timeouts.clone()),
        None => (Limits::default(), Timeouts::default()),
    }
}

/// A connection whose protocol is known. Limits and times are those of the index at its beginning; routes are those
/// of each request's own.
struct Served {
    connection: Rc<Connection>,
    worker: Rc<Worker>,
    activity: Arc<Activity>,
    limits: Limits,
    timeouts: Timeouts,
}

impl Served {
    fn head_and_idle(&self) -> (Duration, Duration) {
        let head = Duration::from_millis(self.timeouts.request_head_ms);
        (head, Duration::from_millis(self.timeouts.idle_ms))
    }

    /// The read buffer holds a whole head of the largest size, so that it is this crate that refuses a larger one.
    fn buffer_bytes(&self) -> usize {
        let head = self.limits.header_bytes as usize + self.limits.target_bytes as usize;
        head + head / 2 + BUFFER_BYTES
    }

    async fn run_h1<IO>(self, io: Watched<IO>)
    where
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = service_fn(|request| self.call(request));
        let mut serving = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(None)
            .max_headers((self.limits.header_count as usize).min(MAX_LINES) + 1)
            .max_buf_size(self.buffer_bytes())
            .serve_connection(TokioIo::new(io), service)
            .with_upgrades();
        let (head, idle) = self.head_and_idle();
        // One waits for the other: a future that is not due yet is not polled at each request.
        let mut told = pin!(drained(&self.connection, &self.activity));
        let mut overtime = pin!(overtime(&self.connection, &self.worker));
        let mut draining = false;
        loop {
            tokio::select! {
                biased;
                _ = &mut serving => return,
                overdue = self.activity.overdue(head, idle) => {
                    // No request is in flight, so the stream is ours.
                    if overdue == Overdue::Head && let Some(parts) = serving.into_parts() {
                        self.worker.shared.stats.head_timeout();
                        let mut io = parts.io.into_inner();
                        let _ = io.write_all(REQUEST_TIMEOUT).await;
                        let _ = io.shutdown().await;
                    }
                    return;
                }
                () = &mut told, if !draining => {
                    draining = true;
                    Pin::new(&mut serving).graceful_shutdown();
                }
                () = &mut overtime, if draining => return self.worker.shared.stats.connection_cut(),
            }
        }
    }

    async fn run_h2<IO>(self, io: Watched<IO>)
    where
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        // Any frame looks like the beginning of a head here, so only the idle limit applies.
        let (_, idle) = self.head_and_idle();
        let streams = self.limits.http2_streams;
        // A list counts 32 bytes a line more than its text (RFC 9113 §6.5.2); the checks of our own come after.
        let lines = self.limits.header_count.saturating_mul(32);
        let bytes = self.limits.header_bytes.saturating_mul(2);
        let list = bytes
            .saturating_add(self.limits.target_bytes)
            .saturating_add(lines);
        let served = Rc::new(self);
        let activity = served.activity.clone();
        let serves = served.clone();
        let service = service_fn(move |request| {
            let served = serves.clone();
            async move { served.call(request).await }
        });
        let mut serving = pin!(
            http2::Builder::new(LocalExec)
                .timer(TokioTimer::new())
                .max_concurrent_streams(streams)
                .max_header_list_size(list)
                .max_pending_accept_reset_streams(20)
                .initial_stream_window_size(256 << 10)
                .initial_connection_window_size(1 << 20)
                .keep_alive_interval(Duration::from_secs(20))
                .keep_alive_timeout(Duration::from_secs(20))
                .serve_connection(TokioIo::new(io), service)
        );
        let mut told = pin!(drained(&served.connection, &activity));
        let mut overtime = pin!(overtime(&served.connection, &served.worker));
        let (mut closing, mut draining) = (false, false);
        loop {
            tokio::select! {
                biased;
                _ = serving.as_mut() => return,
                _ = activity.overdue(idle, idle) => match closing {
                    false => {
                        closing = true;
                        serving.as_mut().graceful_shutdown();
                        // One more limit's time for the client to take the GOAWAY.
                        activity.begin();
                        activity.end();
                    }
                    true => return,
                },
                () = &mut told, if !draining => {
                    (closing, draining) = (true, true);
                    serving.as_mut().graceful_shutdown();
                }
                () = &mut overtime, if draining => return served.worker.shared.stats.connection_cut(),
            }
        }
    }

    async fn call(&self, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
        self.activity.begin();
        let (mut parts, incoming) = request.into_parts();
        let upgrade = parts.extensions.remove::<hyper::upgrade::OnUpgrade>();
        let exchange = Exchange {
            connection: self.connection.clone(),
            worker: self.worker.clone(),
            activity: self.activity.clone(),
            upgrade: upgrade.map(super::tunnel::Upgrade::new),
        };
        Ok(forward::serve(exchange, parts, Body::incoming(incoming)).await)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test may fail
mod tests {
    use super::*;
    use crate::conn::ListenerContext;

    /// A connection that is to end.
    fn told() -> Connection {
        let address = ([127, 0, 0, 1], 1).into();
        Connection {
            peer: address,
            local: address,
            listener: Arc::new(ListenerContext {
                name: "default/default/http".into(),
                profile: "default/default".into(),
                port: 80,
                https: false,
            }),
            tls: None,
            drain: tokio::sync::watch::channel(true).1,
        }
    }

    #[test]
    fn a_first_request_may_still_come_when_the_drain_begins() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        runtime.unwrap().block_on(async {
            let connection = told();
            let activity = Activity::new();
            let began = tokio::time::Instant::now();
            drained(&connection, &activity).await;
            assert!(began.elapsed() >= FIRST_REQUEST_GRACE);
            activity.begin();
            let soon = tokio::time::timeout(FIRST_REQUEST_GRACE / 2, drained(&connection, &activity));
            soon.await.unwrap();
        });
    }
}
