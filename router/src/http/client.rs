//! The backend's side of the seam: HTTP/1.1 over a connected byte stream.

use std::fmt;
use std::rc::{Rc, Weak};

use http::{Request, Response};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::Body;
use crate::upstream::pool::{Pool, PoolKey};

/// Largest response head in bytes, and most lines in it.
const MAX_RESPONSE_HEAD: usize = 256 << 10;
const MAX_RESPONSE_LINES: usize = 256;

/// The sending end of a connection to a backend. The receiving end runs as a task of the worker.
pub struct Sender(http1::SendRequest<Body>);

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sender")
    }
}

/// Why no response came.
#[derive(Debug)]
pub enum SendError {
    /// Nothing was sent; here is the request again.
    Unsent(Box<Request<Body>>),
    /// The connection ended.
    Reset,
    /// What came is no valid response.
    Invalid,
    /// The response head is too large.
    TooLarge,
    /// The request's own body failed.
    RequestBody,
}

/// Begins HTTP/1.1 on a connected stream. `None` where it fails at once.
pub async fn handshake<IO>(io: IO) -> Option<Sender>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let built = http1::Builder::new()
        .max_headers(MAX_RESPONSE_LINES)
        .max_header_size(MAX_RESPONSE_HEAD)
        .handshake(TokioIo::new(io))
        .await;
    let (sender, connection) = built.ok()?;
    tokio::task::spawn_local(async move {
        // How it ended is seen by the request in flight, if any.
        let _ = connection.with_upgrades().await;
    });
    Some(Sender(sender))
}

impl Sender {
    /// Whether a request can be sent at once.
    pub fn is_ready(&self) -> bool {
        self.0.is_ready()
    }

    /// Whether the connection has ended.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Sends a request and waits for the final response head. The connection goes back to the pool once the body
    /// has been read.
    pub async fn send(
        mut self,
        request: Request<Body>,
        pool: &Rc<Pool>,
        key: PoolKey,
    ) -> Result<Response<Body>, SendError> {
        let sent = self.0.try_send_request(request).await;
        let response = sent.map_err(|mut failed| match failed.take_message() {
            Some(request) => SendError::Unsent(Box::new(request)),
            None => classify(failed.error()),
        })?;
        let switching = response.status() == http::StatusCode::SWITCHING_PROTOCOLS;
        let lease = Lease {
            sender: self,
            pool: Rc::downgrade(pool),
            key,
        };
        Ok(response.map(|incoming| match switching {
            true => Body::empty(),
            false => Body::incoming(incoming).leased(lease),
        }))
    }
}

fn classify(error: &hyper::Error) -> SendError {
    if error.is_parse_too_large() {
        SendError::TooLarge
    } else if error.is_parse() {
        SendError::Invalid
    } else if error.is_user() {
        SendError::RequestBody
    } else {
        SendError::Reset
    }
}

/// A connection that is in use by one response body.
#[derive(Debug)]
pub(super) struct Lease {
    sender: Sender,
    pool: Weak<Pool>,
    key: PoolKey,
}

impl Lease {
    /// Back to the pool. Dropped otherwise, the connection ends.
    pub(super) fn give_back(self) {
        if let Some(pool) = self.pool.upgrade() {
            pool.put(self.key, self.sender);
        }
    }
}
