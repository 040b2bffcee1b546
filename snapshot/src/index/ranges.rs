//! The numbers and texts of a snapshot against [`crate::limits`].
//!
//! The compiler checks what people write; a snapshot file may come from elsewhere, or from a compiler of another
//! version.

use std::net::IpAddr;

use super::IndexError;
use crate::ir::{
    Action, DirectResponse, HeaderEdits, Limits, Listener, Profile, ProfilesPart, Retry, Rule, RuleTimeouts,
    Timeouts,
};
use crate::limits::{self as most, Range, is_field_value, is_token};
use crate::snapshot::PartName;

/// An error is the place and what is wrong there.
type Checked = Result<(), (String, String)>;

/// Checks the profiles.
pub(super) fn profiles(part: &ProfilesPart) -> Result<(), IndexError> {
    for (name, settings) in &part.profiles {
        profile(settings)
            .map_err(|(at, why)| IndexError::at(PartName::Profiles, format!("profiles.{name}.{at}"), why))?;
    }
    Ok(())
}

/// Checks a rule of a part.
pub(super) fn rule(part: PartName, name: &str, rule: &Rule) -> Result<(), IndexError> {
    whole_rule(rule).map_err(|(at, why)| IndexError::at(part, format!("rules.{name}.{at}"), why))
}

fn profile(profile: &Profile) -> Checked {
    for (name, settings) in &profile.listeners {
        listener(settings).map_err(|error| under(&format!("listeners.{name}"), error))?;
    }
    within("trustedProxies.hops", profile.trusted_proxies.hops, most::HOPS)?;
    limits(&profile.limits).map_err(|error| under("limits", error))?;
    timeouts(&profile.timeouts).map_err(|error| under("timeouts", error))
}

fn listener(listener: &Listener) -> Checked {
    if listener.address.parse::<IpAddr>().is_err() {
        let why = format!("`{}` is not an IP address", listener.address.escape_debug());
        return Err(("address".into(), why));
    }
    match &listener.redirect_to_https {
        None => Ok(()),
        Some(redirect) => {
            within("redirectToHttps.port", redirect.port, most::PORT)?;
            one_of(
                "redirectToHttps.status",
                redirect.status,
                most::REDIRECT_TO_HTTPS_STATUS,
            )
        }
    }
}

fn limits(limits: &Limits) -> Checked {
    within("targetBytes", limits.target_bytes, most::TARGET_BYTES)?;
    within("headerBytes", limits.header_bytes, most::HEADER_BYTES)?;
    within("headerCount", limits.header_count, most::HEADER_COUNT)?;
    within("http2Streams", limits.http2_streams, most::HTTP2_STREAMS)?;
    within("bodyBytes", limits.body_bytes, most::BODY_BYTES)
}

fn timeouts(timeouts: &Timeouts) -> Checked {
    time("requestHeadMs", timeouts.request_head_ms)?;
    time("idleMs", timeouts.idle_ms)?;
    time("handshakeMs", timeouts.handshake_ms)?;
    time("connectMs", timeouts.connect_ms)?;
    time("upstreamIdleMs", timeouts.upstream_idle_ms)?;
    time("drainMs", timeouts.drain_ms)
}

fn whole_rule(rule: &Rule) -> Checked {
    action(&rule.action).map_err(|error| under("action", error))?;
    edits(&rule.request_headers).map_err(|error| under("requestHeaders", error))?;
    edits(&rule.response_headers).map_err(|error| under("responseHeaders", error))?;
    rule_timeouts(&rule.timeouts).map_err(|error| under("timeouts", error))?;
    match &rule.retry {
        None => Ok(()),
        Some(settings) => retry(settings).map_err(|error| under("retry", error)),
    }
}

fn rule_timeouts(timeouts: &RuleTimeouts) -> Checked {
    time("requestMs", timeouts.request_ms)?;
    time("backendRequestMs", timeouts.backend_request_ms)
}

fn retry(retry: &Retry) -> Checked {
    within("attempts", retry.attempts, most::RETRY_ATTEMPTS)?;
    for code in &retry.codes {
        within("codes", *code, most::RETRY_CODE)?;
    }
    time("backoffMs", retry.backoff_ms)
}

fn action(action: &Action) -> Checked {
    match action {
        Action::Forward { backends } => {
            for (at, share) in backends.iter().enumerate() {
                let place = |member: &str| format!("backends[{at}].{member}");
                edits(&share.request_headers).map_err(|error| under(&place("requestHeaders"), error))?;
                edits(&share.response_headers).map_err(|error| under(&place("responseHeaders"), error))?;
            }
            Ok(())
        }
        Action::Redirect(redirect) => {
            if let Some(port) = redirect.port {
                within("port", port, most::PORT)?;
            }
            one_of("status", redirect.status, most::REDIRECT_STATUS)
        }
        Action::DirectResponse(answer) => direct_response(answer),
        Action::Fail { status, .. } => within("status", *status, most::FAIL_STATUS),
    }
}

fn direct_response(answer: &DirectResponse) -> Checked {
    within("status", answer.status, most::ANSWER_STATUS)?;
    if answer.body.len() > most::ANSWER_BODY_BYTES {
        return Err((
            "body".into(),
            format!("longer than {} bytes", most::ANSWER_BODY_BYTES),
        ));
    }
    match &answer.content_type {
        Some(value) if !is_value(value) => Err(("contentType".into(), no_value(value))),
        _ => Ok(()),
    }
}

fn edits(edits: &HeaderEdits) -> Checked {
    for (list, pairs) in [("set", &edits.set), ("add", &edits.add)] {
        for (at, pair) in pairs.iter().enumerate() {
            if !is_name(&pair.name) {
                return Err((format!("{list}[{at}].name"), no_name(&pair.name)));
            }
            if !is_value(&pair.value) {
                return Err((format!("{list}[{at}].value"), no_value(&pair.value)));
            }
        }
    }
    match edits.remove.iter().position(|name| !is_name(name)) {
        Some(at) => Err((format!("remove[{at}]"), no_name(&edits.remove[at]))),
        None => Ok(()),
    }
}

/// A header name in lower case.
fn is_name(name: &str) -> bool {
    is_token(name)
        && name.len() <= most::HEADER_NAME_BYTES
        && !name.bytes().any(|byte| byte.is_ascii_uppercase())
}

fn is_value(value: &str) -> bool {
    value.len() <= most::HEADER_VALUE_BYTES && is_field_value(value)
}

fn no_name(name: &str) -> String {
    format!("`{}` is no header name in lower case", shown(name))
}

fn no_value(value: &str) -> String {
    format!("`{}` is no header value", shown(value))
}

/// The beginning, on one line.
fn shown(text: &str) -> String {
    text.chars().take(100).flat_map(char::escape_debug).collect()
}

fn time(at: &str, milliseconds: u64) -> Checked {
    within(at, milliseconds, most::MILLISECONDS)
}

fn within(at: &str, number: impl Into<u64>, range: Range) -> Checked {
    let (number, range) = (number.into(), range.taken());
    if range.contains(&number) {
        return Ok(());
    }
    let why = format!("{number} is not within {} to {}", range.start(), range.end());
    Err((at.to_owned(), why))
}

fn one_of(at: &str, number: u16, allowed: &[u16]) -> Checked {
    if allowed.contains(&number) {
        return Ok(());
    }
    Err((at.to_owned(), format!("{number} is none of {allowed:?}")))
}

fn under(place: &str, (at, why): (String, String)) -> (String, String) {
    (format!("{place}.{at}"), why)
}
