//! One request's answer.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::{Deserialize, Deserializer};
use tokio::time::{Instant, sleep, sleep_until};

use super::body::Filler;
use super::connection::Line;
use super::websocket;
use crate::args::units;
use crate::args::upstream::{Answer, Fault, MAX_SIZE};

/// Says how many bytes of a request's body arrived.
const RECEIVED: &str = "x-received-bytes";

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Plan {
    answer: Answer,
    stall: Option<Stall>,
    /// Requests so far that might have failed.
    asked: AtomicU64,
}

/// A span of time in which nothing is answered.
#[derive(Debug)]
struct Stall {
    after: Duration,
    length: Duration,
    /// When the first request came.
    first: OnceLock<Instant>,
}

/// Why a connection or a stream ends without an answer.
#[derive(Debug, thiserror::Error)]
#[error("told to fail")]
pub(crate) struct Told;

/// What a query may override.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Overrides {
    status: Option<u16>,
    size: Option<u64>,
    #[serde(default, deserialize_with = "duration")]
    delay: Option<Duration>,
    fail: Option<f64>,
    fail_with: Option<Fault>,
}

fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(from)?;
    units::duration(&text).map(Some).map_err(serde::de::Error::custom)
}

impl Plan {
    /// Answers so; `stall` is when, after the first request, nothing is answered, and for how long.
    pub(crate) fn new(answer: Answer, stall: Option<(Duration, Duration)>) -> Plan {
        Plan {
            answer,
            stall: stall.map(|(after, length)| Stall {
                after,
                length,
                first: OnceLock::new(),
            }),
            asked: AtomicU64::new(0),
        }
    }

    /// The flags, as far as the query does not say otherwise.
    fn asked_for(&self, query: Option<&str>) -> Result<Answer, String> {
        let Some(query) = query else {
            return Ok(self.answer.clone());
        };
        let given: Overrides = serde_urlencoded::from_str(query).map_err(|error| error.to_string())?;
        let plan = &self.answer;
        let answer = Answer {
            status: given.status.unwrap_or(plan.status),
            size: given.size.unwrap_or(plan.size),
            delay: given.delay.unwrap_or(plan.delay),
            fail: given.fail.unwrap_or(plan.fail),
            fail_with: given.fail_with.unwrap_or(plan.fail_with),
        };
        let possible = (200..600).contains(&answer.status)
            && answer.size <= MAX_SIZE
            && (0.0..=1.0).contains(&answer.fail);
        possible
            .then_some(answer)
            .ok_or_else(|| "a value is out of its range".to_owned())
    }

    /// Whether this request is one of those that fail: as many of the first n as the share says, rounded down.
    fn is_chosen(&self, share: f64) -> bool {
        if share <= 0.0 {
            return false;
        }
        let before = self.asked.fetch_add(1, Relaxed) as f64;
        ((before + 1.0) * share).floor() > (before * share).floor()
    }

    async fn wait_for_the_end_of_a_stall(&self) {
        let Some(stall) = &self.stall else { return };
        let now = Instant::now();
        let start = *stall.first.get_or_init(|| now) + stall.after;
        let end = start + stall.length;
        if start <= now && now < end {
            sleep_until(end).await;
        }
    }
}

/// Answers one request that came on `line`.
pub(crate) async fn answer(
    plan: Arc<Plan>,
    line: Line,
    mut request: Request<Incoming>,
) -> Result<Response<Filler>, Told> {
    if websocket::is_handshake(request.headers()) {
        return Ok(websocket::switch(&mut request));
    }
    let answer = match plan.asked_for(request.uri().query()) {
        Ok(answer) => answer,
        Err(complaint) => return Ok(refusal(complaint)),
    };
    let received = drain(request.into_body()).await?;
    plan.wait_for_the_end_of_a_stall().await;
    if !answer.delay.is_zero() {
        sleep(answer.delay).await;
    }
    let mut status = answer.status;
    let mut body = Filler::of(answer.size);
    if plan.is_chosen(answer.fail) {
        match answer.fail_with {
            Fault::Status => status = 503,
            Fault::Truncate => body = Filler::truncated(answer.size.max(2)),
            Fault::Hang => std::future::pending().await,
            Fault::Reset => {
                line.reset_when_closed();
                return Err(Told);
            }
        }
    }
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    if received > 0 {
        headers.insert(RECEIVED, received.into());
    }
    Ok(response)
}

fn refusal(complaint: String) -> Response<Filler> {
    let mut response = Response::new(Filler::text(format!("{complaint}\n")));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response
}

/// Reads a body to its end; how many bytes it had.
async fn drain(mut body: Incoming) -> Result<u64, Told> {
    let mut received = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Told)?;
        received += frame.data_ref().map_or(0, |data| data.len() as u64);
    }
    Ok(received)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        let answer = Answer {
            status: 200,
            size: 128,
            delay: Duration::ZERO,
            fail: 0.0,
            fail_with: Fault::Status,
        };
        Plan::new(answer, None)
    }

    #[test]
    fn a_query_overrides_what_it_names() {
        let answer = plan()
            .asked_for(Some("status=404&delay=20ms&fail-with=reset"))
            .unwrap();
        assert_eq!((answer.status, answer.size), (404, 128));
        assert_eq!(answer.delay, Duration::from_millis(20));
        assert_eq!(answer.fail_with, Fault::Reset);
    }

    #[test]
    fn a_query_that_means_nothing_is_refused() {
        for query in [
            "stauts=404",
            "status=20",
            "status=99999",
            "delay=5",
            "fail=2",
            "fail-with=luck",
            "size=-1",
        ] {
            assert!(plan().asked_for(Some(query)).is_err(), "{query}");
        }
    }

    #[test]
    fn failures_are_spread_evenly() {
        let plan = plan();
        let chosen: Vec<u32> = (1..=100).filter(|_| plan.is_chosen(0.05)).collect();
        assert_eq!(chosen, [20, 40, 60, 80, 100]);
        assert!((0..10).all(|_| plan.is_chosen(1.0)));
        assert!((0..10).all(|_| !plan.is_chosen(0.0)));
    }
}
