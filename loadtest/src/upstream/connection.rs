//! One connection: a socket that can be told to end with a reset, TLS where asked for, and HTTP on it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::answer::{self, Plan};

/// Streams of one HTTP/2 connection at a time: more than a load generator opens.
const STREAMS: u32 = 10_000;

/// A handle on a connection's socket.
#[derive(Debug, Clone, Default)]
pub(crate) struct Line(Arc<AtomicBool>);

impl Line {
    /// Ends the connection by a reset, once it is closed.
    pub(crate) fn reset_when_closed(&self) {
        self.0.store(true, Relaxed);
    }
}

/// Spawns on the thread that runs the connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Here;

impl<F: Future<Output: 'static> + 'static> Executor<F> for Here {
    fn execute(&self, future: F) {
        tokio::task::spawn_local(future);
    }
}

/// Serves one connection to its end.
pub(crate) async fn serve(stream: TcpStream, tls: Option<TlsAcceptor>, plan: Arc<Plan>) {
    let line = Line::default();
    let socket = Socket {
        stream,
        line: line.clone(),
    };
    match tls {
        None => speak(socket, line, plan).await,
        Some(tls) => {
            // A client that does not like the certificate says so itself.
            if let Ok(stream) = tls.accept(socket).await {
                speak(stream, line, plan).await;
            }
        }
    }
}

async fn speak(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, line: Line, plan: Arc<Plan>) {
    let mut builder = auto::Builder::new(Here);
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(None::<Duration>)
        .pipeline_flush(true);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .initial_connection_window_size(16 << 20)
        .initial_stream_window_size(1 << 20);
    let service = service_fn(move |request| answer::answer(plan.clone(), line.clone(), request));
    // Every failure is either told or the client's.
    drop(
        builder
            .serve_connection_with_upgrades(TokioIo::new(stream), service)
            .await,
    );
}

/// A socket that ends with a reset where its [`Line`] says so.
struct Socket {
    stream: TcpStream,
    line: Line,
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.line.0.load(Relaxed) {
            // Where it fails, the client sees an end of the stream instead of a reset.
            drop(SockRef::from(&self.stream).set_linger(Some(Duration::ZERO)));
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        if self.line.0.load(Relaxed) {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
