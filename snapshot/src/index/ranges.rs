//! Ranges of the numbers and texts that the data plane takes as they are.
//!
//! The compiler checks what people write and its ranges lie within these; a snapshot file may come from elsewhere, or
//! from a compiler of another version. What is outside would not be served oddly but cost the process: a time that
//! overflows a clock, a status that is none, a header that splits a response.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use super::IndexError;
use crate::ir::{
    Action, DirectResponse, HeaderEdits, Limits, Listener, Profile, ProfilesPart, Retry, Rule, RuleTimeouts,
    Timeouts,
};
use crate::snapshot::PartName;

/// The longest time that can be written as a duration of the Gateway API (GEP-2257): four times 99999h.
const MAX_MS: u64 = 4 * 99_999 * 3_600_000;
/// Numbers of the document are exact in every JSON reader.
const MAX_NUMBER: u64 = (1 << 53) - 1;
/// Longest header name.
const MAX_NAME_BYTES: usize = 256;
/// Longest header value.
const MAX_VALUE_BYTES: usize = 8 << 10;
/// Longest body of a direct response.
const MAX_BODY_BYTES: usize = 64 << 10;

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
    within("trustedProxies.hops", profile.trusted_proxies.hops, 0..=32)?;
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
            within("redirectToHttps.port", redirect.port, 1..=65_535)?;
            one_of("redirectToHttps.status", redirect.status, &[301, 302, 307, 308])
        }
    }
}

fn limits(limits: &Limits) -> Checked {
    within("targetBytes", limits.target_bytes, 16..=1 << 20)?;
    within("headerBytes", limits.header_bytes, 256..=16 << 20)?;
    within("headerCount", limits.header_count, 1..=10_000)?;
    within("http2Streams", limits.http2_streams, 1..=100_000)?;
    within("bodyBytes", limits.body_bytes, 0..=MAX_NUMBER)
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
    within("attempts", retry.attempts, 0..=100)?;
    for code in &retry.codes {
        within("codes", *code, 400..=599)?;
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
                within("port", port, 1..=65_535)?;
            }
            one_of("status", redirect.status, &[301, 302, 303, 307, 308])
        }
        Action::DirectResponse(answer) => direct_response(answer),
        Action::Fail { status, .. } => within("status", *status, 500..=599),
    }
}

fn direct_response(answer: &DirectResponse) -> Checked {
    within("status", answer.status, 200..=599)?;
    if answer.body.len() > MAX_BODY_BYTES {
        return Err(("body".into(), format!("longer than {MAX_BODY_BYTES} bytes")));
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

/// A token (RFC 9110 §5.6.2) in lower case.
fn is_name(name: &str) -> bool {
    let allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"!#$%&'*+-.^_`|~".contains(&byte);
    (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(allowed)
}

/// A field value (RFC 9110 §5.5).
fn is_value(value: &str) -> bool {
    let allowed = |byte: u8| byte == b'\t' || (byte >= b' ' && byte != 0x7f);
    value.len() <= MAX_VALUE_BYTES && value.bytes().all(allowed)
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
    within(at, milliseconds, 0..=MAX_MS)
}

fn within(at: &str, number: impl Into<u64>, range: RangeInclusive<u64>) -> Checked {
    let number = number.into();
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
