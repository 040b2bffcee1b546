//! What each path answers.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Response, StatusCode, Uri};
use serde::Serialize;
use serde_json::json;

use super::{Admin, explain, text};

/// A whole response.
pub(super) type Answer = Response<Full<Bytes>>;

const JSON: &str = "application/json";
const PATHS: [&str; 6] = [
    "/livez",
    "/readyz",
    "/metrics",
    "/snapshot",
    "/explain",
    "/config",
];

/// Answers one request. Everything here is in memory and quick, but for an explanation of a large table.
pub(super) fn answer(admin: &Admin, method: &Method, uri: &Uri) -> Answer {
    if !PATHS.contains(&uri.path()) {
        return problem(
            StatusCode::NOT_FOUND,
            "no such path; there are /livez /readyz /metrics /snapshot /explain /config",
        );
    }
    if !matches!(*method, Method::GET | Method::HEAD) {
        let mut answer = problem(StatusCode::METHOD_NOT_ALLOWED, "only GET");
        answer
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return answer;
    }
    match uri.path() {
        "/livez" => json(StatusCode::OK, &json!({"live": true})),
        "/readyz" => ready(admin),
        "/metrics" => whole(
            StatusCode::OK,
            "text/plain; version=0.0.4; charset=utf-8",
            text::metrics(admin),
        ),
        "/snapshot" => snapshot(admin),
        "/config" => config(admin),
        _ => match explain::explain(admin, uri.query().unwrap_or_default()) {
            Ok(explanation) => json(StatusCode::OK, &explanation),
            Err((status, why)) => problem(status, &why),
        },
    }
}

fn ready(admin: &Admin) -> Answer {
    let reasons = admin.reasons();
    let status = if reasons.is_empty() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    json(status, &json!({"ready": reasons.is_empty(), "reasons": reasons}))
}

fn snapshot(admin: &Admin) -> Answer {
    let status = admin.shared.live.status().view();
    let age_ms = status
        .applied_at
        .map(|at| jiff::Timestamp::now().duration_since(at).as_millis().max(0) as u64);
    let routes = admin.shared.live.load_full().map(|index| index.route_count());
    let mut shown = match serde_json::to_value(&status) {
        Ok(serde_json::Value::Object(shown)) => shown,
        _ => serde_json::Map::new(),
    };
    let view = admin.view().clone();
    shown.insert("profile".into(), json!(admin.shared.profile));
    shown.insert("profileProblem".into(), json!(view.problem));
    shown.insert("routes".into(), json!(routes));
    shown.insert("ageMs".into(), json!(age_ms));
    shown.insert("listeners".into(), json!(view.listeners));
    shown.insert("certificates".into(), json!(view.certificates));
    json(StatusCode::OK, &shown)
}

fn config(admin: &Admin) -> Answer {
    let index = admin.shared.live.load_full();
    let profile = index
        .as_ref()
        .and_then(|index| index.profile(&admin.shared.profile));
    json(StatusCode::OK, &json!({"flags": admin.flags, "profile": profile}))
}

/// An error, for people.
pub(super) fn problem(status: StatusCode, why: &str) -> Answer {
    json(status, &json!({"error": why}))
}

fn json(status: StatusCode, value: &impl Serialize) -> Answer {
    match serde_json::to_string(value) {
        Ok(text) => whole(status, JSON, text + "\n"),
        Err(_) => whole(StatusCode::INTERNAL_SERVER_ERROR, JSON, String::new()),
    }
}

fn whole(status: StatusCode, content_type: &'static str, body: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}
