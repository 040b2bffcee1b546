//! What a host, a path or an expression in error stands for: the requests it was meant for, and no fewer.
//!
//! The rule that it belongs to answers 500 to them. Taking too many requests is the lesser evil: too few would let
//! some through to a broader rule, which nobody wrote them for.

use std::net::Ipv4Addr;

use routed_snapshot::ir::PathMatch;

use super::check;
use crate::kinds::edge_route::PathType;

/// Longest path that the index takes.
const MAX_PATH_BYTES: usize = 1024;

/// Characters that mean something in an expression.
const META: &str = r"\.+*?()|[]{}^$#&-~";

/// The host within a text that is more than one (a URL, a port, a dot at the end, capitals), as requests carry it.
pub(crate) fn host(text: &str) -> Option<String> {
    let text = text.trim();
    let text = text.split_once("://").map_or(text, |(_, rest)| rest);
    let text = text.split(['/', '?', '#']).next().unwrap_or_default();
    let text = text.rsplit_once('@').map_or(text, |(_, host)| host);
    let text = text.split_once(':').map_or(text, |(host, _)| host);
    let text = text.strip_suffix('.').unwrap_or(text);
    if text == "*" || text.parse::<Ipv4Addr>().is_ok() {
        return Some(text.to_owned());
    }
    let (wildcard, name) = text.strip_prefix("*.").map_or(("", text), |name| ("*.", name));
    let name = idna::domain_to_ascii(name).ok()?;
    // `_` is in no host name, yet clients send it.
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let usable =
        !name.is_empty() && name.bytes().all(known) && name.split('.').all(|label| !label.is_empty());
    let host = format!("{wildcard}{name}");
    (usable && host.len() <= 253).then_some(host)
}

/// The nearest well-formed path: `/` in front, no `//`, `.` and `..`, nothing behind `?` or `#`, all else escaped.
pub(crate) fn path(kind: PathType, text: &str) -> PathMatch {
    if kind == PathType::RegularExpression {
        return PathMatch::RegularExpression(expression(text));
    }
    let end = text.find(['?', '#']).unwrap_or(text.len());
    let mut elements: Vec<String> = Vec::new();
    for element in text[..end].split('/') {
        match element {
            "" | "." => {}
            ".." => drop(elements.pop()),
            element => elements.push(escaped(element)),
        }
    }
    let joined = |elements: &[String]| format!("/{}", elements.join("/"));
    let whole = joined(&elements);
    let whole = match text[..end].ends_with('/') && whole.len() > 1 {
        true if kind == PathType::Exact => whole + "/",
        _ => whole,
    };
    if whole.len() <= MAX_PATH_BYTES {
        return match kind {
            PathType::Exact => PathMatch::Exact(whole),
            _ => PathMatch::PathPrefix(whole),
        };
    }
    while joined(&elements).len() > MAX_PATH_BYTES {
        elements.pop();
    }
    PathMatch::PathPrefix(joined(&elements))
}

/// One path element with all escaped that can't stand in a path.
fn escaped(element: &str) -> String {
    let bytes = element.as_bytes();
    let mut out = String::with_capacity(bytes.len());
    for (at, byte) in bytes.iter().enumerate() {
        let digits = bytes.get(at + 1..at + 3).unwrap_or_default();
        let stands = match byte {
            b'%' => digits.len() == 2 && digits.iter().all(u8::is_ascii_hexdigit),
            _ => byte.is_ascii_graphic() && !b"\\\"<>^`{|}".contains(byte),
        };
        match stands {
            true => out.push(char::from(*byte)),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    // Resolves escapes that need none, as requests have them resolved.
    let normal = check::match_path(&format!("/{out}"));
    normal.map_or(out, |path| path[1..].to_owned())
}

/// All paths that begin as each match of the expression does.
fn expression(text: &str) -> String {
    let mut common: Option<String> = None;
    for alternative in alternatives(text) {
        let literal = beginning(alternative);
        common = Some(match common {
            None => literal,
            Some(common) => {
                let same = common.chars().zip(literal.chars()).take_while(|(a, b)| a == b);
                same.map(|(char, _)| char).collect()
            }
        });
    }
    let mut out = String::new();
    for char in common.unwrap_or_default().chars().take(MAX_PATH_BYTES) {
        if META.contains(char) {
            out.push('\\');
        }
        out.push(char);
    }
    out + ".*"
}

/// The alternatives that stand in no group.
fn alternatives(text: &str) -> Vec<&str> {
    let (mut depth, mut class, mut skip, mut start) = (0_i32, false, false, 0);
    let mut found = Vec::new();
    for (at, char) in text.char_indices() {
        match char {
            _ if skip => skip = false,
            '\\' => skip = true,
            ']' => class = false,
            _ if class => {}
            '[' => class = true,
            '(' => depth += 1,
            ')' => depth -= 1,
            '|' if depth <= 0 => {
                found.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(&text[start..]);
    found
}

/// The literal that each match of an alternative begins with. What it would never match, since no path does, is
/// taken for a slip: a `/` that is missing in front is put there.
fn beginning(text: &str) -> String {
    let mut literal = String::new();
    let mut chars = text.strip_prefix('^').unwrap_or(text).chars().peekable();
    while let Some(char) = chars.next() {
        let plain = match char {
            '\\' => match chars.peek().copied().filter(char::is_ascii_punctuation) {
                Some(escaped) => {
                    chars.next();
                    escaped
                }
                None => break,
            },
            char if META.contains(char) && !"#&-~".contains(char) => break,
            char if !char.is_ascii_graphic() => break,
            char => char,
        };
        if matches!(chars.peek(), Some('*' | '?' | '{')) {
            break;
        }
        literal.push(plain);
    }
    match literal.starts_with('/') || literal.is_empty() {
        true => literal,
        false => format!("/{literal}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_found_in_what_is_more_than_one() {
        for (text, found) in [
            ("api.test:80", Some("api.test")),
            ("https://User@API.test:443/x?y", Some("api.test")),
            ("api.test.", Some("api.test")),
            (" *.api.test:80", Some("*.api.test")),
            ("bücher.example", Some("xn--bcher-kva.example")),
            ("my_app.test", Some("my_app.test")),
            ("10.0.0.1:80", Some("10.0.0.1")),
            ("*", Some("*")),
            ("a.*.test", None),
            ("a..test", None),
            ("[::1]:80", None),
            ("", None),
            ("://", None),
        ] {
            assert_eq!(host(text).as_deref(), found, "{text}");
        }
    }

    #[test]
    fn a_path_in_error_stands_for_the_nearest_one() {
        let long = format!("/{}/{}", "a".repeat(600), "b".repeat(600));
        for (kind, text, expected) in [
            (PathType::PathPrefix, "v2", "prefix /v2"),
            (PathType::PathPrefix, "//v2//x/", "prefix /v2/x"),
            (PathType::PathPrefix, "/a/../v2/./x?q=1", "prefix /v2/x"),
            (PathType::Exact, "v2/", "exact /v2/"),
            (PathType::Exact, "/a b/%zz%41", "exact /a%20b/%25zzA"),
            (PathType::PathPrefix, "", "prefix /"),
            (PathType::Exact, &long, &format!("prefix /{}", "a".repeat(600))),
        ] {
            let found = match path(kind, text) {
                PathMatch::Exact(path) => format!("exact {path}"),
                PathMatch::PathPrefix(path) => format!("prefix {path}"),
                PathMatch::RegularExpression(pattern) => pattern,
            };
            assert_eq!(found, expected, "{text}");
            let (_, path) = expected.split_once(' ').unwrap_or_default();
            assert_eq!(check::match_path(path).as_deref(), Ok(path), "{text}");
        }
    }

    #[test]
    fn an_expression_in_error_stands_for_all_that_begins_like_it() {
        for (text, expected) in [
            ("/v2/(", "/v2/.*"),
            ("^/v2/[", "/v2/.*"),
            ("v2/(", "/v2/.*"),
            (r"/a\.b\/(", r"/a\.b/.*"),
            (r"/a\d(", "/a.*"),
            ("/ab*(", "/a.*"),
            ("/ab+(", "/ab.*"),
            ("/ab{2}(", "/a.*"),
            ("/abc|/abd(", "/ab.*"),
            ("/v2/(a|b", "/v2/.*"),
            ("/v2/[|](", "/v2/.*"),
            ("/a)|/b(", "/.*"),
            ("/a-b&c(", r"/a\-b\&c.*"),
            ("(", ".*"),
            ("*", ".*"),
        ] {
            assert_eq!(expression(text), expected, "{text}");
            assert_eq!(check::pattern(&expression(text)), Ok(()), "{text}");
        }
    }
}
