//! The seam to the HTTP codecs.

use std::rc::Rc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use crate::conn::Connection;
use crate::worker::Worker;

/// Serves one connection to its end. When `drain` turns true the request in flight finishes, with
/// `Connection: close` or GOAWAY, and idle connections close.
pub async fn serve_connection<IO>(
    io: IO,
    connection: Connection,
    worker: Rc<Worker>,
    drain: watch::Receiver<bool>,
) where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let _ = (io, connection, worker, drain);
}
