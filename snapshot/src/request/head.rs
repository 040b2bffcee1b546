//! The rules about a request head as a whole: sizes, version, method, authority, path, query. The same for every
//! version of HTTP.

use super::{Refusal, host, path};
use crate::facts::Header;
use crate::ir::{Limits, Normalization};
use crate::limits::is_token;

/// The versions of HTTP, as far as the rules differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0: Host may be absent.
    Http10,
    /// HTTP/1.1: one Host.
    Http11,
    /// HTTP/2: `:authority`, Host, or both alike.
    Http2,
    /// Any other.
    Other,
}

/// A head as a codec read it, header lines apart.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// Version.
    pub version: Version,
    /// Method.
    pub method: &'a str,
    /// Whether the target has a scheme: the absolute form, and every request of HTTP/2.
    pub has_scheme: bool,
    /// The target's authority, where it has one.
    pub authority: Option<&'a str>,
    /// The target's path, or `*`; empty where an absolute target ends with its authority.
    pub path: &'a str,
    /// The query without `?`.
    pub query: Option<&'a str>,
}

/// A request's target once its head is accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The authority as the client wrote it; empty where an HTTP/1.0 client sent none.
    pub authority: String,
    /// The authority taken apart.
    pub host: host::Host,
    /// The path in its one form, or `*`.
    pub path: String,
    /// The query without `?`, untouched.
    pub query: Option<String>,
}

/// Accepts a head or says how it is answered. Order: sizes, version, method, authority, path, query. Names of `lines`
/// are lower-case.
pub fn accept<'a>(
    head: &Head<'a>,
    lines: impl Iterator<Item = Header<'a>>,
    limits: &Limits,
    rules: &Normalization,
) -> Result<Target, Refusal> {
    let hosts = check_sizes(head, lines, limits)?;
    if head.version == Version::Other {
        return Err(Refusal::Version);
    }
    check_method(head.method)?;
    if !head.has_scheme && head.authority.is_some() {
        // `GET example.com` (RFC 9112 §3.2.3): what is meant for CONNECT names no resource.
        return Err(Refusal::BadRequest("the target is not a path"));
    }
    let authority = authority(head, &hosts)?;
    let host = match authority {
        "" if head.version == Version::Http10 => host::Host {
            name: String::new(),
            port: None,
        },
        text => host::parse(text.as_bytes()).ok_or(BAD_HOST)?,
    };
    let path = match head.path {
        "*" if head.method == "OPTIONS" => "*".to_owned(),
        // The absolute form of a host alone (RFC 9112 §3.2.2).
        "" => "/".to_owned(),
        raw => path::normalize(raw, rules)
            .map_err(Refusal::BadRequest)?
            .into_owned(),
    };
    check_query(head.query.unwrap_or_default())?;
    Ok(Target {
        authority: authority.to_owned(),
        host,
        path,
        query: head.query.map(str::to_owned),
    })
}

const BAD_HOST: Refusal = Refusal::BadRequest("the host is not valid");

/// The Host lines of a head: none, one, or too many.
struct Hosts<'a> {
    first: Option<&'a [u8]>,
    more: bool,
}

fn check_sizes<'a>(
    head: &Head<'a>,
    lines: impl Iterator<Item = Header<'a>>,
    limits: &Limits,
) -> Result<Hosts<'a>, Refusal> {
    let query = head.query.map_or(0, |query| 1 + query.len());
    let target = head.authority.map_or(0, str::len) + head.path.len() + query;
    if target > limits.target_bytes as usize {
        return Err(Refusal::TargetTooLong);
    }
    let mut hosts = Hosts {
        first: None,
        more: false,
    };
    let (mut count, mut bytes, mut announced) = (0, 0, None);
    for line in lines {
        count += 1;
        bytes += line.name.len() + line.value.len();
        match line.name {
            "host" if hosts.first.is_none() => hosts.first = Some(line.value),
            "host" => hosts.more = true,
            "content-length" if announced.is_none() => announced = Some(line.value),
            _ => {}
        }
    }
    if count > limits.header_count as usize || bytes > limits.header_bytes as usize {
        return Err(Refusal::HeadTooLarge);
    }
    let announced = announced.and_then(|length| std::str::from_utf8(length).ok()?.parse::<u64>().ok());
    if limits.body_bytes > 0 && announced.is_some_and(|length| length > limits.body_bytes) {
        return Err(Refusal::BodyTooLarge);
    }
    Ok(hosts)
}

fn check_method(method: &str) -> Result<(), Refusal> {
    match method {
        "CONNECT" | "TRACE" => Err(Refusal::Method),
        _ if !is_token(method) => Err(Refusal::BadRequest("the method is no token")),
        _ => Ok(()),
    }
}

/// The one authority of a request. The target's wins over Host on HTTP/1.1 (RFC 9112 §3.2.2); on HTTP/2 the two have
/// to agree (RFC 9113 §8.3.1).
fn authority<'a>(head: &Head<'a>, hosts: &Hosts<'a>) -> Result<&'a str, Refusal> {
    if hosts.more {
        return Err(Refusal::BadRequest("more than one Host"));
    }
    let visible = |value: &[u8]| value.iter().all(|byte| matches!(byte, b'\t' | b' '..=b'~'));
    let line = match hosts.first {
        Some(value) if !visible(value) => return Err(BAD_HOST),
        Some(value) => Some(std::str::from_utf8(value).map_err(|_| BAD_HOST)?),
        None => None,
    };
    match (head.version, head.authority, line) {
        (Version::Http2, Some(target), Some(line)) if !target.eq_ignore_ascii_case(line) => {
            Err(Refusal::BadRequest(":authority and host differ"))
        }
        (Version::Http2, Some(one), _) | (Version::Http2, None, Some(one)) => Ok(one),
        (Version::Http10, target, line) => Ok(target.or(line).unwrap_or("")),
        (_, _, None) => Err(Refusal::BadRequest("no Host")),
        // Even where the target's authority counts, a Host that is no host is refused.
        (_, _, Some(line)) if head.authority.is_some() && host::parse(line.as_bytes()).is_none() => {
            Err(BAD_HOST)
        }
        (_, target, Some(line)) => Ok(target.unwrap_or(line)),
    }
}

/// Codecs let no other octets through; a request that is typed has met none. Text outside ASCII is sent by some
/// clients and harms nobody.
fn check_query(query: &str) -> Result<(), Refusal> {
    let refused = |byte: u8| byte <= b' ' || matches!(byte, b'"' | b'#' | b'<' | b'>' | 0x7f);
    match query.bytes().any(refused) {
        true => Err(Refusal::BadRequest(
            "the query holds a character that must be escaped",
        )),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(head: Head<'_>, hosts: &[&str]) -> Result<String, u16> {
        let lines = hosts.iter().map(|host| Header {
            name: "host",
            value: host.as_bytes(),
        });
        let accepted = accept(&head, lines, &Limits::default(), &Normalization::default());
        accepted
            .map(|target| format!("{} {} {}", target.authority, target.host.name, target.path))
            .map_err(|refusal| refusal.describe().0)
    }

    fn head<'a>(version: Version, method: &'a str, authority: Option<&'a str>, path: &'a str) -> Head<'a> {
        Head {
            version,
            method,
            has_scheme: authority.is_some(),
            authority,
            path,
            query: None,
        }
    }

    #[test]
    fn one_authority_counts() {
        use Version::{Http2, Http10, Http11, Other};
        type Case = (
            Version,
            &'static str,
            Option<&'static str>,
            &'static str,
            &'static [&'static str],
            Result<&'static str, u16>,
        );
        let table: &[Case] = &[
            (Http11, "GET", None, "/x", &["A.b:81"], Ok("A.b:81 a.b /x")),
            (Http11, "GET", None, "/x", &[], Err(400)),
            (Http11, "GET", None, "/x", &["a", "a"], Err(400)),
            (Http11, "GET", None, "/x", &["a/b"], Err(400)),
            (Http11, "GET", None, "/x", &["a,b"], Err(400)),
            (Http11, "GET", None, "/x", &["a\u{e9}"], Err(400)),
            (Http11, "GET", None, "/x", &[""], Err(400)),
            (Http10, "GET", None, "/x", &[], Ok("  /x")),
            (Http11, "GET", Some("a"), "/x", &["b"], Ok("a a /x")),
            (Http11, "GET", Some("a"), "", &["a"], Ok("a a /")),
            (Http11, "GET", Some("a"), "/x", &["b/c"], Err(400)),
            (Http11, "GET", Some("u@a"), "/x", &["a"], Err(400)),
            (Http2, "GET", Some("a"), "/x", &[], Ok("a a /x")),
            (Http2, "GET", Some("a"), "/x", &["b"], Err(400)),
            (Http2, "GET", Some("a"), "/x", &["A"], Ok("a a /x")),
            (Http11, "OPTIONS", None, "*", &["a"], Ok("a a *")),
            (Http11, "GET", None, "*", &["a"], Err(400)),
            (Http11, "TRACE", None, "/", &["a"], Err(405)),
            (Http11, "CONNECT", None, "/", &["a"], Err(405)),
            (Http11, "G T", None, "/", &["a"], Err(400)),
            (Other, "GET", None, "/", &["a"], Err(505)),
        ];
        for (version, method, authority, path, hosts, expected) in table {
            let got = ask(head(*version, method, *authority, path), hosts);
            let expected = expected.map(str::to_owned);
            assert_eq!(got, expected, "{method} {authority:?} {path} {hosts:?}");
        }
        let connect = Head {
            has_scheme: false,
            ..head(Http11, "GET", Some("a:1"), "")
        };
        assert_eq!(ask(connect, &["a"]), Err(400));
    }

    #[test]
    fn sizes_are_counted_with_everything_that_was_sent() {
        let limits = Limits {
            target_bytes: 10,
            header_bytes: 30,
            header_count: 3,
            body_bytes: 5,
            ..Limits::default()
        };
        let status = |path: &str, query: Option<&str>, lines: &[(&str, &str)]| {
            let head = Head {
                query,
                ..head(Version::Http11, "GET", None, path)
            };
            let lines = lines.iter().map(|(name, value)| Header {
                name,
                value: value.as_bytes(),
            });
            let accepted = accept(&head, lines, &limits, &Normalization::default());
            accepted.map_or_else(|refusal| refusal.describe().0, |_| 200)
        };
        let host = ("host", "a");
        assert_eq!(status("/23456789", Some(""), &[host]), 200);
        assert_eq!(status("/23456789", Some("q"), &[host]), 414);
        assert_eq!(status("/", None, &[host, ("b", ""), ("c", "")]), 200);
        assert_eq!(status("/", None, &[host, ("b", ""), ("c", ""), ("d", "")]), 431);
        assert_eq!(
            status("/", None, &[host, ("b", "0123456789012345678901234")]),
            431
        );
        assert_eq!(status("/", None, &[host, ("content-length", "5")]), 200);
        assert_eq!(status("/", None, &[host, ("content-length", "6")]), 413);
    }

    #[test]
    fn a_query_holds_no_character_that_a_codec_would_refuse() {
        let status = |query| {
            let head = Head {
                query: Some(query),
                ..head(Version::Http11, "GET", None, "/")
            };
            ask(head, &["a"]).map(|_| ())
        };
        for taken in ["", "a=b&c", "'{|}`^\\[]", "\u{e9}=%"] {
            assert_eq!(status(taken), Ok(()), "{taken}");
        }
        for refused in ["a b", "\"", "<", ">", "#", "\u{7f}", "\t"] {
            assert_eq!(status(refused), Err(400), "{refused}");
        }
    }
}
