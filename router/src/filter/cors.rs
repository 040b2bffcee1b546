//! Cross-origin requests (Fetch standard §3.2, Gateway API HTTPCORSFilter).
//!
//! A preflight is answered here and never reaches the backend. An origin that is not allowed gets an answer without
//! the fields that would allow it; the browser does the rest. With credentials no answer holds a wildcard, since
//! browsers take it literally then: what was asked for is named instead.

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, HeaderValue, ORIGIN, VARY,
};
use http::{HeaderMap, Method};
use routed_snapshot::ir::Cors;

use crate::http::HeadEdits;

/// Whether a request is a preflight.
pub fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS
        && headers.contains_key(ORIGIN)
        && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// The header of the answer to a preflight.
pub fn preflight(cors: &Cors, headers: &HeaderMap) -> HeaderMap {
    let mut out = HeaderMap::new();
    let varying = "origin, access-control-request-method, access-control-request-headers";
    out.insert(VARY, HeaderValue::from_static(varying));
    let Some(origin) = allowed_origin(cors, headers) else {
        return out;
    };
    out.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    if cors.allow_credentials {
        out.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
    }
    for (name, list, asked) in [
        (
            ACCESS_CONTROL_ALLOW_METHODS,
            &cors.allow_methods,
            ACCESS_CONTROL_REQUEST_METHOD,
        ),
        (
            ACCESS_CONTROL_ALLOW_HEADERS,
            &cors.allow_headers,
            ACCESS_CONTROL_REQUEST_HEADERS,
        ),
    ] {
        if let Some(value) = allowed(list, cors.allow_credentials, headers.get(asked)) {
            out.insert(name, value);
        }
    }
    out.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from(cors.max_age_s));
    out
}

/// Edits of the response to a request that is no preflight. What the backend says of origins is replaced.
pub fn response(cors: &Cors, headers: &HeaderMap, edits: &mut HeadEdits) {
    edits.remove(ACCESS_CONTROL_ALLOW_ORIGIN);
    edits.remove(ACCESS_CONTROL_ALLOW_CREDENTIALS);
    edits.add(VARY, HeaderValue::from_static("origin"));
    let Some(origin) = allowed_origin(cors, headers) else {
        return;
    };
    edits.set(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    if cors.allow_credentials {
        edits.set(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
    }
    if let Some(exposed) = join(&cors.expose_headers) {
        edits.set(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    }
}

/// The list as a value; a wildcard with credentials becomes what was asked for.
fn allowed(list: &[String], credentials: bool, asked: Option<&HeaderValue>) -> Option<HeaderValue> {
    match list.iter().any(|item| item == "*") && credentials {
        true => asked.cloned(),
        false => join(list),
    }
}

fn join(list: &[String]) -> Option<HeaderValue> {
    if list.is_empty() {
        return None;
    }
    HeaderValue::from_str(&list.join(", ")).ok()
}

fn allowed_origin(cors: &Cors, headers: &HeaderMap) -> Option<HeaderValue> {
    let origin = headers.get(ORIGIN)?;
    let text = origin.to_str().ok()?;
    if cors.allow_origins.iter().any(|allowed| allowed == "*") {
        return Some(match cors.allow_credentials {
            true => origin.clone(),
            false => HeaderValue::from_static("*"),
        });
    }
    cors.allow_origins
        .iter()
        .any(|allowed| matches_origin(allowed, text))
        .then(|| origin.clone())
}

/// `scheme://host[:port]`, where the pattern's host may begin with `*.` for one or more labels.
fn matches_origin(pattern: &str, origin: &str) -> bool {
    let (Some((want_scheme, want)), Some((scheme, host))) =
        (pattern.split_once("://"), origin.split_once("://"))
    else {
        return pattern.eq_ignore_ascii_case(origin);
    };
    if !want_scheme.eq_ignore_ascii_case(scheme) {
        return false;
    }
    match want.strip_prefix('*') {
        Some(suffix) => {
            let cut = host.len().checked_sub(suffix.len()).filter(|at| *at > 0);
            let end = cut.and_then(|at| host.get(at..));
            suffix.starts_with('.') && end.is_some_and(|end| end.eq_ignore_ascii_case(suffix))
        }
        None => want.eq_ignore_ascii_case(host),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test may fail
mod tests {
    use super::*;

    fn asked(origin: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(ORIGIN, HeaderValue::from_static(origin));
        headers.insert(ACCESS_CONTROL_REQUEST_METHOD, HeaderValue::from_static("PUT"));
        headers.insert(ACCESS_CONTROL_REQUEST_HEADERS, HeaderValue::from_static("x-a"));
        headers
    }

    fn cors(origins: &[&str], credentials: bool) -> Cors {
        Cors {
            allow_origins: origins.iter().map(|origin| (*origin).to_owned()).collect(),
            allow_methods: vec!["*".into()],
            allow_headers: vec!["x-a".into(), "x-b".into()],
            allow_credentials: credentials,
            max_age_s: 5,
            ..Cors::default()
        }
    }

    #[test]
    fn origins_match_whole_labels() {
        for (pattern, origin, expected) in [
            ("https://a.example", "https://A.example", true),
            ("https://a.example", "http://a.example", false),
            ("https://a.example", "https://a.example:444", false),
            ("https://*.a.example", "https://x.y.a.example", true),
            ("https://*.a.example", "https://a.example", false),
            ("https://*.a.example", "https://evila.example", false),
            ("https://*.a.example:8443", "https://x.a.example:8443", true),
            ("https://*.a.example", "null", false),
        ] {
            assert_eq!(matches_origin(pattern, origin), expected, "{pattern} {origin}");
        }
    }

    #[test]
    fn a_preflight_names_what_is_allowed() {
        let out = preflight(&cors(&["https://a.example"], false), &asked("https://a.example"));
        assert_eq!(out[ACCESS_CONTROL_ALLOW_ORIGIN], "https://a.example");
        assert_eq!(out[ACCESS_CONTROL_ALLOW_METHODS], "*");
        assert_eq!(out[ACCESS_CONTROL_ALLOW_HEADERS], "x-a, x-b");
        assert_eq!(out[ACCESS_CONTROL_MAX_AGE], "5");
        let out = preflight(&cors(&["*"], true), &asked("https://b.example"));
        assert_eq!(out[ACCESS_CONTROL_ALLOW_ORIGIN], "https://b.example");
        assert_eq!(out[ACCESS_CONTROL_ALLOW_METHODS], "PUT");
        assert_eq!(out[ACCESS_CONTROL_ALLOW_CREDENTIALS], "true");
        let out = preflight(
            &cors(&["https://a.example"], false),
            &asked("https://evil.example"),
        );
        assert!(out.contains_key(VARY) && !out.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN));
    }
}
