//! Everything that can go wrong with a request, and the one place that says how it is answered.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use routed_snapshot::request::Refusal;

use crate::http::Body;

/// Why the router answers a request itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// No index has been published yet.
    NotReady,
    /// The table no longer has the listener that accepted the connection.
    ListenerGone,
    /// The head, or the body, is refused.
    Refused(Refusal),
    /// No route.
    NoRoute,
    /// The rule is in error.
    Rule {
        /// 500 or 503.
        status: u16,
        /// The compiler's reason.
        reason: Box<str>,
    },
    /// The backend has no endpoint.
    NoEndpoints,
    /// No endpoint could be connected to.
    UpstreamConnect,
    /// The connection ended before a response.
    UpstreamReset,
    /// What came is no valid response, or a switch of protocols that nobody asked for.
    UpstreamInvalid,
    /// The response head is too large.
    UpstreamHeadTooLarge,
    /// The rule's time for the whole request is over.
    RequestTimeout,
    /// The rule's time for one try is over.
    BackendTimeout,
    /// The client stopped sending its body.
    ClientBody,
    /// A bug: something that was built from valid parts was not valid.
    Internal,
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Error {
        Error::Refused(refusal)
    }
}

impl Error {
    /// The status, the reason in log and metrics, and the sentence in the body.
    fn describe(&self) -> (u16, &str, &str) {
        match self {
            Error::NotReady => (503, "NotReady", "no routes have been loaded yet"),
            Error::ListenerGone => (503, "ListenerGone", "the listener has changed; connect again"),
            Error::Refused(refusal) => refusal.describe(),
            Error::NoRoute => (404, "NoRoute", "no route"),
            Error::Rule { status, reason } => (*status, reason, "the route is not usable"),
            Error::NoEndpoints => (503, "NoEndpoints", "no endpoint is available"),
            Error::UpstreamConnect => (503, "UpstreamConnect", "no endpoint could be reached"),
            Error::UpstreamReset => (502, "UpstreamReset", "the backend closed the connection"),
            Error::UpstreamInvalid => (502, "UpstreamInvalid", "the backend's answer is not valid"),
            Error::UpstreamHeadTooLarge => (502, "UpstreamHeadTooLarge", "the backend's answer is too large"),
            Error::RequestTimeout => (504, "RequestTimeout", "the backend did not answer in time"),
            Error::BackendTimeout => (504, "BackendTimeout", "the backend did not answer in time"),
            Error::ClientBody => (400, "ClientBody", "the request body ended early"),
            Error::Internal => (500, "Internal", "internal error"),
        }
    }

    /// The status it is answered with.
    pub fn status(&self) -> u16 {
        self.describe().0
    }

    /// One word for the log.
    pub fn reason(&self) -> &str {
        self.describe().1
    }

    /// The answer.
    pub fn response(&self) -> Response<Body> {
        let (status, _, sentence) = self.describe();
        let mut headers = HeaderMap::new();
        if *self == Error::Refused(Refusal::Method) {
            let allowed = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
            headers.insert(http::header::ALLOW, allowed);
        }
        if matches!(self, Error::Refused(Refusal::BodyTooLarge) | Error::ListenerGone) {
            // The rest of the body is not read, or the listener is gone: the connection can't be used again.
            headers.insert(http::header::CONNECTION, HeaderValue::from_static("close"));
        }
        answer(status, headers, &format!("{sentence}\n"))
    }
}

/// A text answer made by the router.
pub fn answer(status: u16, mut headers: HeaderMap, body: &str) -> Response<Body> {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let no_body = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) || body.is_empty();
    let mut response = Response::new(match no_body {
        true => Body::empty(),
        false => Body::full(Bytes::copy_from_slice(body.as_bytes())),
    });
    if !no_body {
        headers
            .entry(CONTENT_TYPE)
            .or_insert(HeaderValue::from_static("text/plain; charset=utf-8"));
    }
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test may fail
mod tests {
    use super::*;

    #[test]
    fn each_error_has_a_final_status() {
        for (error, status) in [
            (Error::NotReady, 503),
            (Error::ListenerGone, 503),
            (Error::UpstreamConnect, 503),
            (Error::UpstreamReset, 502),
            (Error::RequestTimeout, 504),
            (
                Error::Rule {
                    status: 500,
                    reason: "BackendNotFound".into(),
                },
                500,
            ),
        ] {
            assert_eq!(error.response().status().as_u16(), status);
        }
    }
}
