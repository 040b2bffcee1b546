//! One request from its head to its response: accept, decide, filter, forward, record.
//!
//! - [`plan`]: everything up to the decision's consequences, in one go and on one index.
//! - [`attempt`]: tries on endpoints, with time limits and retries.
//! - [`headers`]: fields of one hop, and forwarding fields.
//!
//! Copies to mirrors are made of requests without body only: a copy of a body would either hold the original back at
//! the pace of the slower side or be kept in memory whole. Requests with one are counted as skipped.

pub mod attempt;
pub mod headers;
pub mod plan;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONNECTION, HeaderName, HeaderValue, UPGRADE};
use http::{Response, StatusCode, request};

use crate::conn::Connection;
use crate::http::io::Activity;
use crate::http::server::overtime;
use crate::http::tunnel::{self, Upgrade};
use crate::http::{Body, Head, HeadEdits};
use crate::record::Record;
use crate::respond::Error;
use crate::upstream::Upstream;
use crate::worker::Worker;
use attempt::Try;
use plan::{Outcome, Route};

/// Most copies under way in one worker. A slow mirror must not take the memory and sockets of the originals.
const MAX_MIRRORING: usize = 64;

/// A mirror that does not answer is given up after this.
const MIRROR_LIMIT: Duration = Duration::from_secs(10);

const X_ROUTE: HeaderName = HeaderName::from_static("x-routed-route");
const X_BACKEND: HeaderName = HeaderName::from_static("x-routed-backend");
const X_SNAPSHOT: HeaderName = HeaderName::from_static("x-routed-snapshot");

/// What surrounds a request.
#[derive(Debug)]
pub struct Exchange {
    /// The connection it came on.
    pub connection: Rc<Connection>,
    /// The worker that serves it.
    pub worker: Rc<Worker>,
    /// The connection's watch.
    pub activity: Arc<Activity>,
    /// The client's promise of a raw stream, for a switch of protocols.
    pub upgrade: Option<Upgrade>,
}

/// Serves a request: exactly one response, exactly one record.
pub async fn serve(mut exchange: Exchange, parts: request::Parts, body: Body) -> Response<Body> {
    let listener = exchange.connection.listener.clone();
    let shared = exchange.worker.shared.clone();
    let peer = exchange.connection.peer.ip().to_canonical();
    let mut record = Record::new(shared, exchange.activity.clone(), listener, peer);
    let planned = plan::plan(&exchange, parts, body.is_empty(), &mut record);
    let outcome = planned.outcome;
    let answered = match outcome {
        Outcome::Answer(response) => Ok(*response),
        Outcome::Fail(error) => Err(error),
        Outcome::Forward(route) => {
            forward(&mut exchange, *route, body, planned.body_limit, &mut record).await
        }
    };
    let mut response = answered.unwrap_or_else(|error| {
        record.reason(error.reason());
        error.response()
    });
    planned.edits.apply(response.headers_mut());
    if planned.decision_headers {
        tell_decision(&record, &mut response);
    }
    record.status = response.status().as_u16();
    finish(exchange, response, record)
}

/// Ties the record to what is left of the exchange: the response body, or the tunnel.
fn finish(exchange: Exchange, mut response: Response<Body>, record: Box<Record>) -> Response<Body> {
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return response.map(|body| body.recorded(record));
    }
    let backend = Upgrade::of_response(&mut response);
    if let (Some(client), Some(backend)) = (exchange.upgrade, backend) {
        let (connection, worker) = (exchange.connection, exchange.worker);
        tokio::task::spawn_local(async move {
            let mut record = record;
            let ended = tunnel::run(client, backend, overtime(&connection, &worker)).await;
            record.received.bytes.set(ended.from_client);
            record.sent(ended.to_client);
            if ended.told {
                record.reason("GoingAway");
            }
            record.finish();
        });
    }
    response
}

async fn forward(
    exchange: &mut Exchange,
    route: Route,
    body: Body,
    body_limit: u64,
    record: &mut Record,
) -> Result<Response<Body>, Error> {
    let worker = &exchange.worker;
    for mirror in &route.mirrors {
        let copied = body.is_empty() && Rc::strong_count(&worker.mirroring) <= MAX_MIRRORING;
        worker.shared.stats.mirror(copied);
        if copied {
            mirror_request(worker.clone(), mirror.clone(), route.connect, route.head.clone());
        }
    }
    let body = body.metered(record.received.clone(), body_limit);
    let mut tries = Try {
        worker,
        route: &route,
        record,
    };
    let mut response = tries.run(body).await?;
    let switched = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    if switched && !(route.websocket && exchange.upgrade.is_some()) {
        return Err(Error::UpstreamInvalid);
    }
    let protocol = response.headers().get(UPGRADE).cloned();
    headers::strip_hop_by_hop(response.headers_mut());
    if switched {
        response
            .headers_mut()
            .insert(CONNECTION, HeaderValue::from_static("upgrade"));
        if let Some(protocol) = protocol {
            response.headers_mut().insert(UPGRADE, protocol);
        }
    }
    route.response_edits.apply(response.headers_mut());
    Ok(response)
}

/// Sends a copy and throws the answer away.
fn mirror_request(worker: Rc<Worker>, backend: Upstream, connect: Duration, head: Head) {
    let counted = worker.mirroring.clone();
    tokio::task::spawn_local(async move {
        let copied = async {
            let mut body = Some(Body::empty());
            let answer = attempt::send(&worker, &backend, connect, &head, &mut body, &mut |_| {}).await;
            if let Ok(response) = answer {
                response.into_body().drain().await;
            }
        };
        let _ = tokio::time::timeout(MIRROR_LIMIT, copied).await;
        drop(counted);
    });
}

fn tell_decision(record: &Record, response: &mut Response<Body>) {
    let route = record.rule.as_ref().map(|rule| rule.name.to_string());
    let backend = record
        .backend
        .as_ref()
        .map(|backend| backend.entry.name.to_string());
    let snapshot = record.snapshot.map(|hash| hash.to_string());
    let mut edits = HeadEdits::default();
    for (name, value) in [(X_ROUTE, route), (X_BACKEND, backend), (X_SNAPSHOT, snapshot)] {
        match value.and_then(|value| HeaderValue::from_str(&value).ok()) {
            Some(value) => edits.set(name, value),
            None => edits.remove(name),
        }
    }
    edits.apply(response.headers_mut());
}
