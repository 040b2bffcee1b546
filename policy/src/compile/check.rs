//! Checks of single values: host names, header fields, durations, paths, expressions.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use routed_snapshot::limits::{self, is_field_value, is_token};

/// Fields of the connection or the framing: the router writes them itself.
const RESERVED_HEADERS: &[&str] = &[
    "connection",
    "content-length",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// A host name as routes carry it; `*.` in front is allowed where `wildcard` says so.
pub(crate) fn hostname(text: &str, wildcard: bool) -> Result<(), String> {
    if !text.is_ascii() {
        return Err(match idna::domain_to_ascii(text) {
            Ok(ascii) => format!("`{text}` is not ASCII; clients send `{ascii}`: write that"),
            Err(_) => format!("`{text}` is no host name"),
        });
    }
    let name = match text.strip_prefix("*.") {
        Some(rest) if wildcard => rest,
        _ => text,
    };
    if name.contains('*') {
        let where_ = if wildcard {
            "only as the whole first label, `*.`"
        } else {
            "not here"
        };
        return Err(format!("`{text}`: a wildcard stands {where_}"));
    }
    if name.contains(':') {
        return Err(format!("`{text}`: a host name has no port; any port matches"));
    }
    if name.ends_with('.') {
        return Err(format!(
            "`{text}`: leave the dot at the end out; names with it match too"
        ));
    }
    if name.parse::<Ipv4Addr>().is_ok() {
        return Err(format!("`{text}` is an IP address; a host name is needed"));
    }
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Err(format!(
            "`{text}`: write it in lower case; hosts are compared without case"
        ));
    }
    let label = |label: &str| {
        let inner = label
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        (1..=63).contains(&label.len()) && inner && !label.starts_with('-') && !label.ends_with('-')
    };
    if text.len() > 253 || !name.split('.').all(label) {
        return Err(format!("`{text}` is no host name (RFC 1123)"));
    }
    Ok(())
}

/// A host name with an optional port, for Host.
pub(crate) fn authority(text: &str) -> Result<(), String> {
    let (host, port) = text
        .split_once(':')
        .map_or((text, None), |(host, port)| (host, Some(port)));
    if port.is_some_and(|port| !matches!(port.parse::<u16>(), Ok(1..))) {
        return Err(format!("`{text}`: the port is none"));
    }
    hostname(host, false)
}

/// A token (RFC 9110 §5.6.2): header names, methods, cookie names.
pub(crate) fn token(text: &str) -> Result<(), String> {
    if text.len() > limits::HEADER_NAME_BYTES || !is_token(text) {
        return Err(format!("`{}` is no token (RFC 9110)", text.escape_debug()));
    }
    Ok(())
}

/// The name of a header that may be edited, in lower case.
pub(crate) fn editable_header(name: &str) -> Result<String, String> {
    token(name)?;
    let name = name.to_ascii_lowercase();
    if name == "host" {
        return Err("`host` is changed by a URLRewrite filter".into());
    }
    if RESERVED_HEADERS.contains(&name.as_str()) {
        return Err(format!(
            "`{name}` belongs to the connection; the router writes it"
        ));
    }
    Ok(name)
}

/// A field value (RFC 9110 §5.5) without blanks at its ends.
pub(crate) fn header_value(text: &str) -> Result<(), String> {
    if text.len() > limits::HEADER_VALUE_BYTES {
        return Err(format!(
            "the value is longer than {} bytes",
            limits::HEADER_VALUE_BYTES
        ));
    }
    if !is_field_value(text) || text.trim_matches([' ', '\t']) != text {
        return Err(format!("`{}` is no field value (RFC 9110)", text.escape_debug()));
    }
    Ok(())
}

/// A Gateway API duration (GEP-2257) in milliseconds.
pub(crate) fn duration(text: &str) -> Result<u64, String> {
    let bad = || format!("`{text}` is no duration (`10s`, `500ms`, `1m30s`; no fractions)");
    let mut total: u64 = 0;
    let mut rest = text;
    for _ in 0..4 {
        if rest.is_empty() {
            break;
        }
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if !(1..=5).contains(&digits) {
            return Err(bad());
        }
        let number: u64 = rest[..digits].parse().map_err(|_| bad())?;
        rest = &rest[digits..];
        let units = [("ms", 1), ("h", 3_600_000), ("m", 60_000), ("s", 1000)];
        let (unit, factor) = *units
            .iter()
            .find(|(unit, _)| rest.starts_with(unit))
            .ok_or_else(bad)?;
        rest = &rest[unit.len()..];
        total += number * factor;
    }
    if text.is_empty() || !rest.is_empty() {
        Err(bad())
    } else {
        Ok(total)
    }
}

/// A regular expression that the index will take.
pub(crate) fn pattern(text: &str) -> Result<(), String> {
    routed_snapshot::check_pattern(text).map_err(|error| error.to_string())
}

/// One of these numbers.
pub(crate) fn one_of(number: u16, allowed: &[u16]) -> Result<u16, String> {
    match allowed.contains(&number) {
        true => Ok(number),
        false => Err(limits::one_of(allowed)),
    }
}

/// A number within its range.
pub(crate) fn within<N: Copy + Into<u64>>(number: N, range: limits::Range) -> Result<N, String> {
    match range.contains(number) {
        true => Ok(number),
        false => Err(range.to_string()),
    }
}

/// A path to match, in the form that request paths have once normalised: escapes of unreserved characters are
/// resolved, the others are upper-case, and what is not ASCII is escaped. Otherwise it could never match.
pub(crate) fn match_path(text: &str) -> Result<String, String> {
    if !text.starts_with('/') {
        return Err(format!("`{text}`: a path begins with `/`"));
    }
    if text.len() > 1024 {
        return Err("a path has at most 1024 bytes".into());
    }
    if text.contains("//") {
        return Err(format!("`{text}`: `//` in a path"));
    }
    if text.split('/').any(|element| element == "." || element == "..") {
        return Err(format!(
            "`{text}`: requests have no `.` and `..` elements left when they are matched"
        ));
    }
    normal_form(text)
}

/// A path that is written into a request or a Location.
pub(crate) fn replacement_path(text: &str) -> Result<String, String> {
    if text.len() > 1024 {
        return Err("a path has at most 1024 bytes".into());
    }
    if text.split('/').any(|element| element == "." || element == "..") {
        return Err(format!("`{text}`: a `.` or `..` element"));
    }
    normal_form(text)
}

fn normal_form(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'%' => {
                let digits = text
                    .get(at..at + 2)
                    .filter(|digits| digits.bytes().all(|d| d.is_ascii_hexdigit()));
                let value = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
                let value =
                    value.ok_or_else(|| format!("`{text}`: `%` is not followed by two hex digits"))?;
                at += 2;
                if value.is_ascii_alphanumeric() || b"-._~".contains(&value) {
                    out.push(char::from(value));
                } else {
                    let _ = write!(out, "%{value:02X}");
                }
            }
            b'?' | b'#' => return Err(format!("`{text}`: a path has no `{}`", char::from(byte))),
            0x80.. => {
                let _ = write!(out, "%{byte:02X}");
            }
            _ if byte <= b' ' || byte == 0x7f || b"\\\"<>^`{|}".contains(&byte) => {
                return Err(format!(
                    "`{}`: write `%{byte:02X}` for `{}`",
                    text.escape_debug(),
                    char::from(byte).escape_debug()
                ));
            }
            _ => out.push(char::from(byte)),
        }
    }
    Ok(out)
}
