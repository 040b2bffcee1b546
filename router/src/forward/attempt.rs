//! Tries on endpoints.
//!
//! One try: the endpoint whose turn it is; where it can't be connected to, the next one. An idle connection that the
//! backend closed just then costs nothing where the request was not sent, or can be sent twice: it goes again on a
//! fresh connection, once. Further tries are the rule's `retry`.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use http::header::{CONTENT_LENGTH, HOST, HeaderValue, TRANSFER_ENCODING};
use http::{Method, Request, Response, Version};
use routed_snapshot::request::Refusal;
use tokio::time::timeout;

use super::plan::Route;
use crate::filter::rewrite;
use crate::http::client::{SendError, Sender};
use crate::http::{Body, Head};
use crate::record::Record;
use crate::respond::Error;
use crate::upstream::connect::connect;
use crate::upstream::pool::PoolKey;
use crate::upstream::state::BackendState;
use crate::worker::Worker;

/// Most endpoints that one try connects to.
const MAX_ENDPOINTS: usize = 8;

/// A request on its way, with all its tries.
pub struct Try<'a> {
    /// The worker.
    pub worker: &'a Rc<Worker>,
    /// Where it goes.
    pub route: &'a Route,
    /// Its record.
    pub record: &'a mut Record,
}

impl Try<'_> {
    /// Tries until there is a response head, the tries are used up, or the time is.
    pub async fn run(&mut self, body: Body) -> Result<Response<Body>, Error> {
        let limit = Duration::from_millis(self.route.timeouts.request_ms);
        let tries = self.all(body);
        let result = within(limit, Error::RequestTimeout, tries).await;
        // Where the client's own body was the cause, that is what it is told.
        let received = &self.record.received;
        match result {
            Err(_) if received.too_large.get() => Err(Refusal::BodyTooLarge.into()),
            Err(Error::UpstreamReset) if received.broken.get() => Err(Error::ClientBody),
            result => result,
        }
    }

    async fn all(&mut self, body: Body) -> Result<Response<Body>, Error> {
        let replayable = body.is_empty() && is_idempotent(&self.route.head.method);
        let retry = self.route.retry.as_ref();
        let mut left = retry.map_or(0, |retry| retry.attempts);
        let mut body = Some(body);
        let limit = Duration::from_millis(self.route.timeouts.backend_request_ms);
        loop {
            let empty = body.as_ref().is_some_and(Body::is_empty);
            let record = &mut *self.record;
            let mut note = |address: SocketAddr| {
                record.endpoint = Some(address);
                record.tries += 1;
            };
            let sending = send(
                self.worker,
                &self.route.backend,
                self.route.connect,
                &self.route.head,
                &mut body,
                &mut note,
            );
            let result = within(limit, Error::BackendTimeout, sending).await;
            let again = match &result {
                Ok(response) => replayable && is_retried(retry, response.status().as_u16()),
                // Nothing was sent, so anything can be sent again that is still there.
                Err(Error::UpstreamConnect) => body.is_some(),
                Err(_) => replayable,
            };
            if left == 0 || !again {
                return result;
            }
            left -= 1;
            if empty {
                body = Some(Body::empty());
            }
            self.worker.shared.stats.retry();
            let backoff = retry.map_or(0, |retry| retry.backoff_ms);
            tokio::time::sleep(Duration::from_millis(backoff)).await;
        }
    }
}

async fn within<T>(
    limit: Duration,
    late: Error,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    if limit.is_zero() {
        return work.await;
    }
    timeout(limit, work).await.unwrap_or(Err(late))
}

fn is_retried(retry: Option<&routed_snapshot::ir::Retry>, status: u16) -> bool {
    retry.is_some_and(|retry| retry.codes.contains(&status))
}

fn is_idempotent(method: &Method) -> bool {
    method.is_idempotent()
}

/// One try, connecting to each endpoint within `limit`. The body stays in its place as long as it has not been sent.
pub async fn send(
    worker: &Rc<Worker>,
    backend: &BackendState,
    limit: Duration,
    head: &Head,
    body: &mut Option<Body>,
    note: &mut impl FnMut(SocketAddr),
) -> Result<Response<Body>, Error> {
    let endpoints = &worker.shared.endpoints;
    for endpoint in backend.in_turn().take(MAX_ENDPOINTS) {
        let key = endpoint.key;
        note(key.address);
        if let Some(sender) = worker.pool.take(&key) {
            let replay = body.as_ref().is_some_and(Body::is_empty) && is_idempotent(&head.method);
            match once(worker, sender, key, head, body).await {
                Err(SendError::Reset) if replay => *body = Some(Body::empty()),
                Err(SendError::Unsent(_)) if body.is_some() => {}
                result => return result.map_err(error_of),
            }
        }
        // Rare, and large: kept out of the future of every request.
        let connected = Box::pin(connect(endpoints, &backend.entry, endpoint, limit)).await;
        worker.shared.stats.upstream_connect(connected.is_some());
        if let Some(sender) = connected {
            return once(worker, sender, key, head, body).await.map_err(error_of);
        }
    }
    Err(Error::UpstreamConnect)
}

/// Sends on one connection. A request that was not sent puts its body back.
async fn once(
    worker: &Rc<Worker>,
    sender: Sender,
    key: PoolKey,
    head: &Head,
    body: &mut Option<Body>,
) -> Result<Response<Body>, SendError> {
    let mut request = Request::new(body.take().unwrap_or_default());
    *request.method_mut() = head.method.clone();
    *request.version_mut() = Version::HTTP_11;
    *request.uri_mut() = head.target.parse().map_err(|_| SendError::Invalid)?;
    *request.headers_mut() = head.headers.clone();
    if !request.body().is_empty() && !head.headers.contains_key(CONTENT_LENGTH) {
        // hyper drops a body of unknown length, of GET and HEAD, unless it is said how it is framed.
        let chunked = HeaderValue::from_static("chunked");
        request.headers_mut().insert(TRANSFER_ENCODING, chunked);
    }
    if head.host_of_endpoint {
        let host = rewrite::endpoint_host(key.address, key.tls.is_some());
        let host = HeaderValue::from_str(&host).map_err(|_| SendError::Invalid)?;
        request.headers_mut().insert(HOST, host);
    }
    let sent = sender.send(request, &worker.pool, key).await;
    sent.map_err(|error| match error {
        SendError::Unsent(request) => {
            *body = Some(request.into_body());
            SendError::Unsent(Box::default())
        }
        error => error,
    })
}

fn error_of(error: SendError) -> Error {
    match error {
        SendError::Unsent(_) | SendError::Reset => Error::UpstreamReset,
        SendError::Invalid => Error::UpstreamInvalid,
        SendError::TooLarge => Error::UpstreamHeadTooLarge,
        SendError::RequestBody => Error::ClientBody,
    }
}
