//! Bodies that cost nothing to make: slices of one static block.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Sleep, sleep};

use super::answer::Told;

/// What bodies are made of.
static BLOCK: [u8; 64 << 10] = [b'x'; 64 << 10];

/// Time for the first half of a truncated body to leave before the connection is closed.
const FLUSH: Duration = Duration::from_millis(10);

/// A body of any size.
pub(crate) enum Filler {
    /// So many bytes of [`BLOCK`].
    Filled { left: u64 },
    /// The first of so many bytes, and then a failure.
    Truncated {
        left: u64,
        announced: u64,
        wait: Pin<Box<Sleep>>,
    },
    /// A few words.
    Text(Bytes),
}

impl Filler {
    /// A body of this size.
    pub(crate) fn of(size: u64) -> Filler {
        Filler::Filled { left: size }
    }

    /// A body that announces this size and breaks off half way.
    pub(crate) fn truncated(size: u64) -> Filler {
        Filler::Truncated {
            left: size / 2,
            announced: size,
            wait: Box::pin(sleep(FLUSH)),
        }
    }

    /// A body of these words.
    pub(crate) fn text(text: String) -> Filler {
        Filler::Text(text.into())
    }
}

/// The next slice of a body of which so much is left.
fn slice(left: &mut u64) -> Bytes {
    let length = BLOCK.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
    *left -= length as u64;
    Bytes::from_static(&BLOCK[..length])
}

impl Body for Filler {
    type Data = Bytes;
    type Error = Told;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Told>>> {
        let data = match &mut *self {
            Filler::Filled { left: 0 } => return Poll::Ready(None),
            Filler::Filled { left } => slice(left),
            Filler::Truncated { left: 0, wait, .. } => {
                return wait.as_mut().poll(cx).map(|()| Some(Err(Told)));
            }
            Filler::Truncated { left, .. } => slice(left),
            Filler::Text(text) if text.is_empty() => return Poll::Ready(None),
            Filler::Text(text) => std::mem::take(text),
        };
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Filler::Filled { left } => *left == 0,
            Filler::Truncated { .. } => false,
            Filler::Text(text) => text.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match self {
            Filler::Filled { left } => *left,
            Filler::Truncated { announced, .. } => *announced,
            Filler::Text(text) => text.len() as u64,
        })
    }
}
