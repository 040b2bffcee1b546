//! The authority of a request (RFC 9110 §4.2.3 and §7.2, RFC 3986 §3.2.2).

use std::net::Ipv6Addr;

/// An authority taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// What routes are matched against: lower-case, without port and trailing dot; IPv6 in brackets.
    pub name: String,
    /// The port, where one was written.
    pub port: Option<u16>,
}

/// Reads an authority. `None` for anything but `name[:port]` or `[IPv6][:port]`: user names, lists, paths, blanks and
/// octets outside ASCII are refused, since whoever reads them otherwise than we do routes otherwise than we do.
pub fn parse(authority: &[u8]) -> Option<Host> {
    let text = std::str::from_utf8(authority).ok()?;
    let (name, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (literal, port) = rest.split_once(']')?;
            let address: Ipv6Addr = literal.parse().ok()?;
            (format!("[{address}]"), port)
        }
        None => {
            let (name, port) = text.split_at(text.find(':').unwrap_or(text.len()));
            (registered_name(name)?, port)
        }
    };
    let port = match port.strip_prefix(':') {
        None if port.is_empty() => None,
        None => return None,
        // An empty port is the default one (RFC 3986 §3.2.3).
        Some("") => None,
        Some(digits) if digits.bytes().all(|digit| digit.is_ascii_digit()) => Some(digits.parse().ok()?),
        Some(_) => return None,
    };
    Some(Host { name, port })
}

fn registered_name(name: &str) -> Option<String> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let fits = !name.is_empty() && name.len() <= 255 && name.bytes().all(allowed);
    let whole = name.split('.').all(|label| !label.is_empty());
    (fits && whole).then(|| name.to_ascii_lowercase())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test may fail
mod tests {
    use super::*;

    #[test]
    fn an_authority_is_read_or_refused() {
        type Case = (&'static str, Option<(&'static str, Option<u16>)>);
        let table: &[Case] = &[
            ("app.example.com", Some(("app.example.com", None))),
            ("APP.EXAMPLE.COM:8443", Some(("app.example.com", Some(8443)))),
            ("app.example.com.", Some(("app.example.com", None))),
            ("app.example.com.:8080", Some(("app.example.com", Some(8080)))),
            ("app.example.com:", Some(("app.example.com", None))),
            ("XN--BCHER-KVA.example", Some(("xn--bcher-kva.example", None))),
            ("[::1]:8080", Some(("[::1]", Some(8080)))),
            ("[0:0::1]", Some(("[::1]", None))),
            ("127.0.0.1:9", Some(("127.0.0.1", Some(9)))),
            ("app_1.example", Some(("app_1.example", None))),
            ("", None),
            (".", None),
            ("app.example.com..", None),
            ("a..b", None),
            ("a/b", None),
            ("a b", None),
            ("a,b", None),
            ("user@a", None),
            ("a:b", None),
            ("a:+1", None),
            ("a:65536", None),
            ("::1", None),
            ("[::1", None),
            ("[::1]x", None),
            ("[v1.x]", None),
            ("bücher.example", None),
            ("a%2eb", None),
        ];
        for (raw, expected) in table {
            let got = parse(raw.as_bytes());
            let got = got.as_ref().map(|host| (host.name.as_str(), host.port));
            assert_eq!(got, *expected, "{raw}");
        }
        assert_eq!(parse(b"\xff"), None);
    }
}
