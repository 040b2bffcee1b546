//! Raw bytes both ways once both sides have switched protocols (101).
//!
//! A tunnel ends as its sides do: each one's end of stream is passed on to the other. Where it is told to end (its
//! listener is gone and the time for that is over), each side gets a Close frame that says "going away" (RFC 6455
//! §7.4.1) and then the end of the stream. The frame stands between two frames, never within one, and not behind a
//! Close of the side itself; so a client comes again instead of reporting an abnormal end. What the sides still say
//! is read and thrown away until they have closed: a socket that is closed with unread bytes is reset, and a reset
//! may overtake the Close frame.
//!
//! WebSocket is the only protocol that is switched to (`forward::headers`), so frames can be told by their heads.
//! What is in them is never looked at. Rejected: the end of the stream alone, which clients report as an error (1006).

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional, sink};
use tokio::time::{Instant, timeout_at};

use super::frames::Frames;

/// How long a tunnel that was told to end may take for it: a frame under way, and the answers of both sides.
pub const LAST_WORDS: Duration = Duration::from_secs(1);

/// Close, 1001: to a client, and to a backend (with a mask, as RFC 6455 §5.3 asks of clients; this one is zero).
const CLOSE_TO_CLIENT: &[u8] = &[0x88, 2, 0x03, 0xe9];
const CLOSE_TO_BACKEND: &[u8] = &[0x88, 0x80 | 2, 0, 0, 0, 0, 0x03, 0xe9];

/// One side's promise of a raw stream.
#[derive(Debug)]
pub struct Upgrade(OnUpgrade);

impl Upgrade {
    pub(super) fn new(promise: OnUpgrade) -> Upgrade {
        Upgrade(promise)
    }

    /// The promise that came with a backend's 101.
    pub fn of_response<B>(response: &mut http::Response<B>) -> Option<Upgrade> {
        response.extensions_mut().remove::<OnUpgrade>().map(Upgrade)
    }
}

/// How a tunnel went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ended {
    /// Bytes from the client.
    pub from_client: u64,
    /// Bytes to it.
    pub to_client: u64,
    /// Whether it was told to end.
    pub told: bool,
}

/// Copies until both sides have ended, or for a little while after `leave` has.
pub async fn run(client: Upgrade, backend: Upgrade, leave: impl Future<Output = ()>) -> Ended {
    let (Ok(client), Ok(backend)) = tokio::join!(client.0, backend.0) else {
        return Ended::default();
    };
    copy(TokioIo::new(client), TokioIo::new(backend), leave).await
}

async fn copy<C, B>(client: C, backend: B, leave: impl Future<Output = ()>) -> Ended
where
    C: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    let told = Cell::new(false);
    let mut client = Side::new(client, CLOSE_TO_BACKEND, &told);
    let mut backend = Side::new(backend, CLOSE_TO_CLIENT, &told);
    let mut copying = Box::pin(copy_bidirectional(&mut client, &mut backend));
    tokio::select! {
        biased;
        // How it failed says no more than that a side is gone.
        _ = &mut copying => {}
        () = leave => told.set(true),
    }
    if told.get() {
        let end = Instant::now() + LAST_WORDS;
        let _ = timeout_at(end, copying).await;
        let (mut client_sink, mut backend_sink) = (sink(), sink());
        let rest = async {
            tokio::join!(
                tokio::io::copy(&mut client.io, &mut client_sink),
                tokio::io::copy(&mut backend.io, &mut backend_sink),
            )
        };
        let _ = timeout_at(end, rest).await;
    } else {
        drop(copying);
    }
    Ended {
        from_client: client.bytes,
        to_client: backend.bytes,
        told: told.get(),
    }
}

/// One side's stream, as the other is to get it: its bytes; once the tunnel was told to end, those of the frame under
/// way, a Close frame, and the end.
struct Side<'t, IO> {
    io: IO,
    frames: Frames,
    /// What is left to say in its place.
    close: &'static [u8],
    told: &'t Cell<bool>,
    bytes: u64,
}

impl<'t, IO> Side<'t, IO> {
    fn new(io: IO, close: &'static [u8], told: &'t Cell<bool>) -> Side<'t, IO> {
        Side {
            io,
            frames: Frames::default(),
            close,
            told,
            bytes: 0,
        }
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Side<'_, IO> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let side = self.get_mut();
        if !side.told.get() {
            let before = buf.filled().len();
            ready!(Pin::new(&mut side.io).poll_read(cx, buf))?;
            side.took(buf.filled().get(before..).unwrap_or_default());
            return Poll::Ready(Ok(()));
        }
        let Some(due) = side.frames.due() else {
            let close = match side.frames.closed() {
                true => &[],
                false => side.close,
            };
            let (now, later) = close.split_at(close.len().min(buf.remaining()));
            buf.put_slice(now);
            side.close = later;
            return Poll::Ready(Ok(()));
        };
        // Not a byte of the next frame.
        let mut chunk = [0; 4096];
        let room = chunk
            .len()
            .min(buf.remaining())
            .min(usize::try_from(due).unwrap_or(usize::MAX));
        let mut chunk = ReadBuf::new(chunk.get_mut(..room).unwrap_or_default());
        ready!(Pin::new(&mut side.io).poll_read(cx, &mut chunk))?;
        side.took(chunk.filled());
        buf.put_slice(chunk.filled());
        Poll::Ready(Ok(()))
    }
}

impl<IO> Side<'_, IO> {
    fn took(&mut self, bytes: &[u8]) {
        self.frames.advance(bytes);
        self.bytes += bytes.len() as u64;
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Side<'_, IO> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test may fail
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
    use tokio::sync::oneshot;

    use super::*;

    /// Runs `ends` with the client's and the backend's end of a tunnel and what tells it to end. How it went.
    async fn tunnel<F>(ends: impl FnOnce(DuplexStream, DuplexStream, oneshot::Sender<()>) -> F) -> Ended
    where
        F: Future<Output = ()>,
    {
        let (client, ours) = duplex(64);
        let (backend, theirs) = duplex(64);
        let (tell, told) = oneshot::channel::<()>();
        let leave = async {
            // Dropped unused, it tells nothing.
            if told.await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let (ended, ()) = tokio::join!(copy(ours, theirs, leave), ends(client, backend, tell));
        ended
    }

    async fn all(stream: &mut DuplexStream) -> Vec<u8> {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.unwrap();
        all
    }

    #[tokio::test]
    async fn what_the_sides_end_ends_without_a_word_of_ours() {
        let ended = tunnel(|mut client, mut backend, _tell| async move {
            client.write_all(b"\x81\x02hi").await.unwrap();
            client.shutdown().await.unwrap();
            assert_eq!(all(&mut backend).await, b"\x81\x02hi");
            backend.write_all(b"\x81\x03you").await.unwrap();
            drop(backend);
            assert_eq!(all(&mut client).await, b"\x81\x03you");
        });
        let (from_client, to_client, told) = (4, 5, false);
        let expected = Ended {
            from_client,
            to_client,
            told,
        };
        assert_eq!(ended.await, expected);
    }

    #[tokio::test]
    async fn told_to_end_it_finishes_the_frame_under_way_and_says_that_it_goes() {
        let ended = tunnel(|mut client, mut backend, tell| async move {
            // The backend is in the middle of a frame of 100 bytes, the client between two.
            backend.write_all(b"\x82\x64half").await.unwrap();
            client.read_exact(&mut [0; 6]).await.unwrap();
            tell.send(()).unwrap();
            assert_eq!(all(&mut backend).await, CLOSE_TO_BACKEND);
            let rest = [b'x'; 96];
            // The frame behind it comes too late.
            let late = [&rest[..], b"\x81\x02no"].concat();
            let (wrote, read) = tokio::join!(backend.write_all(&late), all(&mut client));
            wrote.unwrap();
            assert_eq!(read, [&rest[..], CLOSE_TO_CLIENT].concat());
        });
        let ended = ended.await;
        assert_eq!((ended.from_client, ended.to_client, ended.told), (0, 102, true));
    }

    #[tokio::test]
    async fn a_side_that_has_said_close_is_not_spoken_for_again() {
        let ended = tunnel(|mut client, mut backend, tell| async move {
            backend.write_all(CLOSE_TO_CLIENT).await.unwrap();
            client.read_exact(&mut [0; 4]).await.unwrap();
            tell.send(()).unwrap();
            assert_eq!(all(&mut client).await, b"");
            assert_eq!(all(&mut backend).await, CLOSE_TO_BACKEND);
        });
        assert!(ended.await.told);
    }

    #[tokio::test]
    async fn told_to_end_it_ends_whatever_the_sides_do() {
        let mut held = Vec::new();
        let ended = tunnel(|mut client, mut backend, tell| {
            let held = &mut held;
            async move {
                // A frame that never ends, and two sides that never close.
                client.write_all(b"\x82\x7f\xff").await.unwrap();
                backend.read_exact(&mut [0; 3]).await.unwrap();
                tell.send(()).unwrap();
                held.extend([client, backend]);
            }
        });
        assert!(ended.await.told);
    }
}
