//! The connection's bytes, and when the last of them came.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// When the peer was last heard of. Pings are answered every few seconds, so on a stream that is up this is never
/// long ago, however seldom a snapshot comes.
#[derive(Debug, Clone)]
pub(crate) struct Contact {
    begun: Instant,
    /// Milliseconds after the beginning.
    last: Arc<AtomicU64>,
}

impl Contact {
    /// Heard of now.
    pub(super) fn new() -> Contact {
        Contact {
            begun: Instant::now(),
            last: Arc::default(),
        }
    }

    /// How long ago the last byte came.
    pub(crate) fn age(&self) -> Duration {
        let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
        self.begun.elapsed().saturating_sub(last)
    }

    fn note(&self) {
        let millis = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(millis, Ordering::Relaxed);
    }
}

/// Any stream of bytes. Three kinds exist; what is done with them is the same and rare.
pub(super) trait Bytes: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Bytes for T {}

/// A stream that notes when bytes come.
pub(super) struct Noted {
    pub(super) io: Box<dyn Bytes>,
    pub(super) contact: Contact,
}

impl AsyncRead for Noted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.io).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.contact.note();
        }
        read
    }
}

impl AsyncWrite for Noted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
