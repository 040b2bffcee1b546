//! The path of a request target in its one form (RFC 3986 §6.2.2).
//!
//! In this order: unreserved octets are decoded and other escapes get upper-case digits; escaped slashes are kept,
//! refused or decoded as the profile says; dot segments are resolved; empty segments are merged where the profile
//! says so. What comes out is matched and forwarded, and coming in again it stays as it is.
//!
//! Refused, because backends are known to read more into them than we do:
//! - a backslash (some servers take it for `/`), octets outside visible ASCII, `<`, `>`, a backtick, `#`, `%00`, broken
//!   escapes;
//! - a segment that is `.` or `..` once its `;parameters` are taken off (servlet containers do that);
//! - while escaped slashes are kept: a segment that holds a dot segment once they are decoded (`..%2Fprivate`).
//!
//! Not touched: double encoding (`%252e` stays; whoever decodes twice does so on his own account) and the query.

use std::borrow::Cow;

use crate::ir::{EscapedSlashes, Normalization};

/// Why a path was refused: one phrase, for the answer and the log.
pub type PathError = &'static str;

/// The path in its one form. `raw` is the target up to `?`.
pub fn normalize<'a>(raw: &'a str, rules: &Normalization) -> Result<Cow<'a, str>, PathError> {
    if !raw.starts_with('/') {
        return Err("the path does not begin with a slash");
    }
    check_octets(raw.as_bytes())?;
    if is_plain(raw.as_bytes(), rules) {
        return Ok(Cow::Borrowed(raw));
    }
    let decoded = decode(raw.as_bytes(), rules.escaped_slashes)?;
    let resolved = resolve(&decoded, rules)?;
    // Only ASCII was let in, and escapes decode to unreserved characters or a slash.
    String::from_utf8(resolved)
        .map(Cow::Owned)
        .map_err(|_| "the path is not ASCII")
}

fn check_octets(raw: &[u8]) -> Result<(), PathError> {
    for byte in raw {
        match byte {
            b'\\' => return Err("the path holds a backslash"),
            b'#' => return Err("the target holds a fragment"),
            b'<' | b'>' | b'`' => return Err("the path holds a character that must be escaped"),
            0x21..=0x7e => {}
            _ => return Err("the path holds a control character, a blank or an octet outside ASCII"),
        }
    }
    Ok(())
}

/// True where nothing can change: no escape, no segment that begins with a dot, no parameter after one, and no empty
/// segment that would be merged.
fn is_plain(raw: &[u8], rules: &Normalization) -> bool {
    let mut before = 0;
    for byte in raw {
        let changes = match byte {
            b'%' => true,
            b'.' => before == b'/',
            b'/' => rules.merge_slashes && before == b'/',
            _ => false,
        };
        if changes {
            return false;
        }
        before = *byte;
    }
    true
}

fn decode(raw: &[u8], slashes: EscapedSlashes) -> Result<Vec<u8>, PathError> {
    let mut out = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((byte, tail)) = rest.split_first() {
        rest = tail;
        if *byte != b'%' {
            out.push(*byte);
            continue;
        }
        let (Some(high), Some(low)) = (hex(tail.first()), hex(tail.get(1))) else {
            return Err("the path holds a broken percent escape");
        };
        rest = tail.get(2..).unwrap_or_default();
        match (high << 4 | low, slashes) {
            (0, _) => return Err("the path holds %00"),
            (b'/' | b'\\', EscapedSlashes::Reject) => return Err("the path holds an escaped slash"),
            (b'/' | b'\\', EscapedSlashes::Decode) => out.push(b'/'),
            (value, _) if is_unreserved(value) => out.push(value),
            (value, _) => {
                const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
                let digit = |nibble: u8| DIGITS[usize::from(nibble & 0xf)];
                out.extend_from_slice(&[b'%', digit(value >> 4), digit(value)]);
            }
        }
    }
    Ok(out)
}

fn hex(digit: Option<&u8>) -> Option<u8> {
    let value = char::from(*digit?).to_digit(16)?;
    u8::try_from(value).ok()
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

fn resolve(path: &[u8], rules: &Normalization) -> Result<Vec<u8>, PathError> {
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut segments = path
        .get(1..)
        .unwrap_or_default()
        .split(|byte| *byte == b'/')
        .peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            b"." => {}
            b".." => {
                kept.pop();
            }
            b"" if last || !rules.merge_slashes => {
                kept.push(segment);
                continue;
            }
            b"" => continue,
            _ if hides_dots(segment) => return Err("the path holds a disguised dot segment"),
            _ => {
                kept.push(segment);
                continue;
            }
        }
        if last {
            // What is left of `/a/.` is the directory `/a/`.
            kept.push(b"");
        }
    }
    let mut out = Vec::with_capacity(path.len());
    for segment in kept {
        out.push(b'/');
        out.extend_from_slice(segment);
    }
    Ok(out)
}

/// Whether a segment would be, or hold, `.` or `..` to someone who decodes slashes or takes parameters off.
fn hides_dots(segment: &[u8]) -> bool {
    let mut rest = segment;
    loop {
        let cut = rest
            .windows(3)
            .position(|escape| matches!(escape, b"%2F" | b"%5C"));
        let piece = cut.and_then(|at| rest.get(..at)).unwrap_or(rest);
        let parameters = piece
            .iter()
            .position(|byte| *byte == b';')
            .into_iter()
            .chain(piece.windows(3).position(|escape| escape == b"%3B"))
            .min();
        let name = parameters.and_then(|at| piece.get(..at)).unwrap_or(piece);
        if matches!(name, b"." | b"..") {
            return true;
        }
        match cut.and_then(|at| rest.get(at + 3..)) {
            Some(tail) => rest = tail,
            None => return false,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test may fail
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn with(merge_slashes: bool, escaped_slashes: EscapedSlashes) -> Normalization {
        Normalization {
            merge_slashes,
            escaped_slashes,
        }
    }

    #[test]
    fn a_path_has_one_form() {
        let keep = with(false, EscapedSlashes::Keep);
        let merge = with(true, EscapedSlashes::Keep);
        let decode = with(false, EscapedSlashes::Decode);
        let reject = with(false, EscapedSlashes::Reject);
        let table: &[(&Normalization, &str, Option<&str>)] = &[
            (&keep, "/", Some("/")),
            (&keep, "/a/b", Some("/a/b")),
            (&keep, "/%61%7e%2d", Some("/a~-")),
            (&keep, "/a%3fb%e4", Some("/a%3Fb%E4")),
            (&keep, "/info/../private", Some("/private")),
            (&keep, "/info/%2e%2E/private", Some("/private")),
            (&keep, "/info/.%2E/private", Some("/private")),
            (&keep, "/../../private", Some("/private")),
            (&keep, "/info/..", Some("/")),
            (&keep, "/info/.", Some("/info/")),
            (&keep, "/a/b/../", Some("/a/")),
            (&keep, "/...", Some("/...")),
            (&keep, "/.well-known/x", Some("/.well-known/x")),
            (&keep, "/info/..%2fprivate", None),
            (&keep, "/info/%2e%2e%2fprivate", None),
            (&keep, "/info%2f..%2fprivate", None),
            (&keep, "/info/x%5c..", None),
            (&keep, "/info/..;/private", None),
            (&keep, "/info/..;x=1/private", None),
            (&keep, "/info/..%3b/private", None),
            (&keep, "/info/.;x", None),
            (&keep, "/x;y/..", Some("/")),
            (&keep, "/a%2Fb", Some("/a%2Fb")),
            (&keep, "/%252e%252e/x", Some("/%252e%252e/x")),
            (&keep, "/a\\b", None),
            (&keep, "/a%00", None),
            (&keep, "/a%", None),
            (&keep, "/a%2", None),
            (&keep, "/a%zz", None),
            (&keep, "/a%2%35", None),
            (&keep, "/a\u{7f}", None),
            (&keep, "/ä", None),
            (&keep, "/a b", None),
            (&keep, "/a#b", None),
            (&keep, "/a<b", None),
            (&keep, "/a>b", None),
            (&keep, "/a`b", None),
            (&keep, "/\"{|}^", Some("/\"{|}^")),
            (&keep, "a", None),
            (&keep, "", None),
            (&keep, "/a//b", Some("/a//b")),
            (&keep, "//a/b", Some("//a/b")),
            (&keep, "/a/b//", Some("/a/b//")),
            (&keep, "/a//../b", Some("/a/b")),
            (&merge, "/a//b", Some("/a/b")),
            (&merge, "//a/b", Some("/a/b")),
            (&merge, "/a/b//", Some("/a/b/")),
            (&merge, "/a//../b", Some("/b")),
            (&merge, "//", Some("/")),
            (&decode, "/info%2f..%2fprivate", Some("/private")),
            (&decode, "/a%5Cb", Some("/a/b")),
            (&reject, "/a%2fb", None),
            (&reject, "/a%5Cb", None),
        ];
        for (rules, raw, expected) in table {
            let got = normalize(raw, rules).ok();
            assert_eq!(got.as_deref(), *expected, "{raw} under {rules:?}");
        }
    }

    proptest! {
        #[test]
        fn the_one_form_stays_as_it_is(
            raw in "/([a./%25;]|%2[eEfF5]|%5[cC]|%3[bB]|%41|/\\.\\.?){0,14}",
            merge in any::<bool>(),
            slashes in 0..3,
        ) {
            let slashes = [EscapedSlashes::Keep, EscapedSlashes::Reject, EscapedSlashes::Decode][slashes as usize];
            let rules = with(merge, slashes);
            if let Ok(once) = normalize(&raw, &rules) {
                let twice = normalize(&once, &rules);
                prop_assert_eq!(twice.as_deref(), Ok(&*once));
                prop_assert!(once.split('/').all(|segment| segment != "." && segment != ".."));
            }
        }
    }
}
