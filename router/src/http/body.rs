//! A body: frames of data, then perhaps trailers; pulled by whoever writes it, so a slow reader slows the sender.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;

use super::client::Lease;
use crate::record::Record;

/// What is wrong with a body, as the codecs want to hear it.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// Counts a request body that is read elsewhere.
#[derive(Debug, Default)]
pub struct Meter {
    /// Bytes read so far.
    pub bytes: Cell<u64>,
    /// Whether the body was longer than allowed.
    pub too_large: Cell<bool>,
    /// Whether the client broke off.
    pub broken: Cell<bool>,
}

/// A request or response body.
#[derive(Debug, Default)]
pub struct Body {
    source: Source,
    meter: Option<(Rc<Meter>, u64)>,
    /// The request's record: complete once the response body is; dropped unfinished it says `cancelled`.
    record: Option<Box<Record>>,
    /// The connection to the backend, given back once the body has been read to its end.
    lease: Option<Lease>,
}

#[derive(Debug, Default)]
enum Source {
    #[default]
    Empty,
    Full(Bytes),
    Incoming(Incoming),
}

impl Body {
    /// No body.
    pub fn empty() -> Body {
        Body::default()
    }

    /// These bytes.
    pub fn full(bytes: Bytes) -> Body {
        Body {
            source: Source::Full(bytes),
            ..Body::default()
        }
    }

    /// What the codec receives.
    pub(super) fn incoming(incoming: Incoming) -> Body {
        match incoming.is_end_stream() {
            true => Body::empty(),
            false => Body {
                source: Source::Incoming(incoming),
                ..Body::default()
            },
        }
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        matches!(self.source, Source::Empty)
    }

    /// Counts what passes into `meter` and fails after `limit` bytes (0: no limit).
    pub fn metered(mut self, meter: Rc<Meter>, limit: u64) -> Body {
        self.meter = Some((meter, limit));
        self
    }

    /// Ties the request's record to this response body.
    pub fn recorded(mut self, record: Box<Record>) -> Body {
        self.record = Some(record);
        if self.is_empty() {
            self.finish();
        }
        self
    }

    /// Ties the backend connection to this response body.
    pub(super) fn leased(mut self, lease: Lease) -> Body {
        self.lease = Some(lease);
        if self.is_empty() {
            self.finish();
        }
        self
    }

    /// Reads it to its end and throws it away.
    pub async fn drain(mut self) {
        while let Some(Ok(_)) = std::future::poll_fn(|cx| Pin::new(&mut self).poll_frame(cx)).await {}
    }

    fn finish(&mut self) {
        self.source = Source::Empty;
        if let Some(lease) = self.lease.take() {
            lease.give_back();
        }
        if let Some(record) = self.record.take() {
            record.finish();
        }
    }

    fn fail(&mut self) {
        self.lease = None;
        if let Some(mut record) = self.record.take() {
            record.reason("UpstreamBody");
            record.finish();
        }
        if let Some((meter, _)) = &self.meter {
            meter.broken.set(true);
        }
    }

    fn count(&mut self, data: &Bytes) -> Result<(), BodyError> {
        let length = data.len() as u64;
        if let Some(record) = &mut self.record {
            record.sent(length);
        }
        if let Some((meter, limit)) = &self.meter {
            let total = meter.bytes.get() + length;
            meter.bytes.set(total);
            if *limit > 0 && total > *limit {
                meter.too_large.set(true);
                return Err("the body is too large".into());
            }
        }
        Ok(())
    }

    fn poll_incoming(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Source::Incoming(incoming) = &mut self.source else {
            return Poll::Ready(None);
        };
        let polled = Pin::new(&mut *incoming).poll_frame(cx);
        let ended = incoming.is_end_stream();
        match polled {
            Poll::Pending => Poll::Pending,
            Poll::Ready(None) => {
                self.finish();
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(error))) => {
                self.fail();
                Poll::Ready(Some(Err(error.into())))
            }
            Poll::Ready(Some(Ok(mut frame))) => {
                if let Some(data) = frame.data_ref() {
                    let data = data.clone();
                    if let Err(error) = self.count(&data) {
                        return Poll::Ready(Some(Err(error)));
                    }
                }
                if let Some(trailers) = frame.trailers_mut() {
                    strip_trailers(trailers);
                }
                if ended {
                    self.finish();
                }
                Poll::Ready(Some(Ok(frame)))
            }
        }
    }
}

/// Trailers never carry what frames, routes or authenticates a message (RFC 9110 §6.5.1).
fn strip_trailers(trailers: &mut HeaderMap) {
    const REFUSED: [&str; 18] = [
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "upgrade",
        "te",
        "trailer",
        "keep-alive",
        "authorization",
        "cookie",
        "set-cookie",
        "forwarded",
        "x-forwarded-for",
        "x-forwarded-proto",
        "x-forwarded-host",
        "x-forwarded-port",
        "content-encoding",
        "content-type",
    ];
    for name in REFUSED {
        trailers.remove(name);
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match std::mem::take(&mut self.source) {
            Source::Empty => Poll::Ready(None),
            Source::Full(bytes) => {
                let counted = self.count(&bytes);
                self.finish();
                Poll::Ready(Some(counted.map(|()| Frame::data(bytes))))
            }
            Source::Incoming(incoming) => {
                self.source = Source::Incoming(incoming);
                self.poll_incoming(cx)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Empty => SizeHint::with_exact(0),
            Source::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Source::Incoming(incoming) => incoming.size_hint(),
        }
    }
}
