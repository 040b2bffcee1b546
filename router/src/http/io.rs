//! The byte stream of an accepted connection, and a watch on clients that are slow or idle.
//!
//! hyper's own time limit for heads also ends idle connections and can't answer 408, so the watch is kept here: bytes
//! that arrive while no request is in flight begin a head; a request begins when its head is complete. The state is
//! atomic only because upgrades demand a `Send` stream; one thread uses it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::Instant;

/// What the client is doing.
#[derive(Debug)]
pub struct Activity {
    accepted: Instant,
    in_flight: AtomicU32,
    /// Milliseconds after `accepted` since when a head has been arriving, or the connection has been idle.
    since: AtomicU64,
    /// Whether a head is due: its first bytes have arrived, or the connection is new.
    head: AtomicBool,
    begun: Notify,
    ended: Notify,
}

/// What a client was too slow with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overdue {
    /// A head that is under way.
    Head,
    /// The next request.
    Idle,
}

impl Activity {
    /// A connection that was just accepted: its first head is due.
    pub fn new() -> Arc<Activity> {
        Arc::new(Activity {
            accepted: Instant::now(),
            in_flight: AtomicU32::new(0),
            since: AtomicU64::new(0),
            head: AtomicBool::new(true),
            begun: Notify::new(),
            ended: Notify::new(),
        })
    }

    /// A request's head is complete.
    pub fn begin(&self) {
        self.in_flight.fetch_add(1, Relaxed);
        self.head.store(false, Relaxed);
        self.begun.notify_one();
    }

    /// Waits for the first request; returns at once where there has been one. For one caller.
    pub async fn first_request(&self) {
        self.begun.notified().await;
    }

    /// A request is done.
    pub fn end(&self) {
        self.in_flight.fetch_sub(1, Relaxed);
        self.restart(false);
        self.ended.notify_one();
    }

    /// Waits until no request is in flight: the last tunnel has ended.
    pub async fn quiet(&self) {
        while self.in_flight.load(Relaxed) > 0 {
            self.ended.notified().await;
        }
    }

    fn restart(&self, head: bool) {
        let now = self.accepted.elapsed().as_millis();
        self.since.store(u64::try_from(now).unwrap_or(u64::MAX), Relaxed);
        self.head.store(head, Relaxed);
    }

    fn received(&self) {
        if self.in_flight.load(Relaxed) == 0 && !self.head.load(Relaxed) {
            self.restart(true);
        }
    }

    /// Waits until the client is too slow. A limit of 0, or of more than ten years, is none.
    pub async fn overdue(&self, head: Duration, idle: Duration) -> Overdue {
        const LOOK_AGAIN: Duration = Duration::from_secs(1);
        // Beyond it the sum below could leave the clock's range.
        const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
        loop {
            let (limit, what) = match self.head.load(Relaxed) {
                true => (head, Overdue::Head),
                false => (idle, Overdue::Idle),
            };
            if self.in_flight.load(Relaxed) > 0 || limit.is_zero() || limit > LONGEST {
                tokio::time::sleep(LOOK_AGAIN).await;
                continue;
            }
            let due = self.accepted + Duration::from_millis(self.since.load(Relaxed)) + limit;
            let now = Instant::now();
            if due <= now {
                return what;
            }
            tokio::time::sleep_until(due.min(now + LOOK_AGAIN)).await;
        }
    }
}

/// The stream, with what was already read of it, telling [`Activity`] of arrivals.
#[derive(Debug)]
pub struct Watched<IO> {
    io: IO,
    read_ahead: Vec<u8>,
    activity: Arc<Activity>,
    /// Bytes read since the reader last had to wait.
    at_once: usize,
}

/// Bytes that a connection may read before others of its worker have their turn. A codec goes on for as long as its
/// stream has bytes, and a flood of frames that cost the sender nothing (PING, SETTINGS) always has.
const TURN_BYTES: usize = 64 << 10;

/// The connection preface of HTTP/2 up to its first blank line (RFC 9113 §3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\n";

impl<IO: AsyncRead + AsyncWrite + Unpin> Watched<IO> {
    /// Watches a stream.
    pub fn new(io: IO, activity: Arc<Activity>) -> Watched<IO> {
        Watched {
            io,
            read_ahead: Vec::new(),
            activity,
            at_once: 0,
        }
    }

    /// Reads as many bytes as it takes to tell whether the client speaks HTTP/2 at once. They are read again later.
    pub async fn sniff_h2(&mut self) -> io::Result<bool> {
        let mut byte = [0; PREFACE.len()];
        while PREFACE.starts_with(&self.read_ahead) && self.read_ahead.len() < PREFACE.len() {
            let room = byte.get_mut(self.read_ahead.len()..).unwrap_or_default();
            let length = self.io.read(room).await?;
            if length == 0 {
                return Ok(false);
            }
            self.read_ahead
                .extend_from_slice(room.get(..length).unwrap_or_default());
        }
        Ok(self.read_ahead == PREFACE)
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Watched<IO> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.read_ahead.is_empty() {
            let length = this.read_ahead.len().min(buf.remaining());
            buf.put_slice(this.read_ahead.get(..length).unwrap_or_default());
            this.read_ahead.drain(..length);
            return Poll::Ready(Ok(()));
        }
        if this.at_once >= TURN_BYTES {
            this.at_once = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buf.filled().len();
        let polled = Pin::new(&mut this.io).poll_read(cx, buf);
        if polled.is_pending() {
            this.at_once = 0;
        }
        ready!(polled)?;
        let read = buf.filled().len() - before;
        this.at_once += read;
        if read > 0 {
            this.activity.received();
        }
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Watched<IO> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test may fail
mod tests {
    use super::*;

    /// A client that sends without end.
    struct Endless;

    impl AsyncRead for Endless {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            buf.put_slice(&vec![0; buf.remaining()]);
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn a_client_that_always_has_more_leaves_others_their_turn() {
        let mut stream = Watched {
            io: Endless,
            read_ahead: Vec::new(),
            activity: Activity::new(),
            at_once: 0,
        };
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let mut space = [0; 1000];
        for _turn in 0..3 {
            let mut read = 0;
            loop {
                let mut buf = ReadBuf::new(&mut space);
                match Pin::new(&mut stream).poll_read(&mut cx, &mut buf) {
                    Poll::Ready(result) => result.unwrap(),
                    Poll::Pending => break,
                }
                read += buf.filled().len();
                assert!(read < TURN_BYTES + 1000);
            }
            assert!(read >= TURN_BYTES);
        }
    }
}
