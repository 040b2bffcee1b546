//! The rules about a request head as a whole: sizes, method, version, authority, path. Pure, and the same for both
//! versions of HTTP.

use http::header::{CONTENT_LENGTH, HOST};
use http::{HeaderMap, Method, Uri, Version};
use routed_snapshot::ir::{Limits, Normalization};

use super::{host, path};
use crate::respond::Error;

/// A request's target once it is accepted.
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

/// Accepts a head or says how it is answered. Order: sizes, version, method, authority, path.
pub fn check(
    method: &Method,
    uri: &Uri,
    version: Version,
    headers: &HeaderMap,
    limits: &Limits,
    rules: &Normalization,
) -> Result<Target, Error> {
    check_sizes(uri, headers, limits)?;
    if !matches!(version, Version::HTTP_10 | Version::HTTP_11 | Version::HTTP_2) {
        return Err(Error::Version);
    }
    if matches!(*method, Method::CONNECT | Method::TRACE) {
        return Err(Error::Method);
    }
    if uri.scheme().is_none() && uri.authority().is_some() {
        // `GET example.com` (RFC 9112 §3.2.3): what is meant for CONNECT names no resource.
        return Err(Error::BadRequest("the target is not a path"));
    }
    let authority = authority(uri, version, headers)?;
    let host = match authority {
        "" if version == Version::HTTP_10 => host::Host {
            name: String::new(),
            port: None,
        },
        text => host::parse(text.as_bytes()).ok_or(Error::BadRequest("the host is not valid"))?,
    };
    let raw = uri.path();
    let path = match raw {
        "*" if method == Method::OPTIONS => "*".to_owned(),
        // The absolute form of a host alone (RFC 9112 §3.2.2).
        "" => "/".to_owned(),
        _ => path::normalize(raw, rules)
            .map_err(Error::BadRequest)?
            .into_owned(),
    };
    Ok(Target {
        authority: authority.to_owned(),
        host,
        path,
        query: uri.query().map(str::to_owned),
    })
}

fn check_sizes(uri: &Uri, headers: &HeaderMap, limits: &Limits) -> Result<(), Error> {
    let authority = uri.authority().map_or(0, |authority| authority.as_str().len());
    let rest = uri.path_and_query().map_or(0, |rest| rest.as_str().len());
    if authority + rest > limits.target_bytes as usize {
        return Err(Error::TargetTooLong);
    }
    let bytes: usize = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len())
        .sum();
    if headers.len() > limits.header_count as usize || bytes > limits.header_bytes as usize {
        return Err(Error::HeadTooLarge);
    }
    let announced = headers
        .get(CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if limits.body_bytes > 0 && announced.is_some_and(|length| length > limits.body_bytes) {
        return Err(Error::BodyTooLarge);
    }
    Ok(())
}

/// The one authority of a request. The target's wins over Host on HTTP/1.1 (RFC 9112 §3.2.2); on HTTP/2 the two have
/// to agree (RFC 9113 §8.3.1).
fn authority<'a>(uri: &'a Uri, version: Version, headers: &'a HeaderMap) -> Result<&'a str, Error> {
    let mut lines = headers.get_all(HOST).iter();
    let line = lines.next();
    if lines.next().is_some() {
        return Err(Error::BadRequest("more than one Host"));
    }
    let line = match line {
        Some(value) => Some(
            value
                .to_str()
                .map_err(|_| Error::BadRequest("the host is not valid"))?,
        ),
        None => None,
    };
    let target = uri.authority().map(|authority| authority.as_str());
    match (version, target, line) {
        (Version::HTTP_2, Some(target), Some(line)) if !target.eq_ignore_ascii_case(line) => {
            Err(Error::BadRequest(":authority and host differ"))
        }
        (Version::HTTP_2, Some(one), _) | (Version::HTTP_2, None, Some(one)) => Ok(one),
        (Version::HTTP_10, target, line) => Ok(target.or(line).unwrap_or("")),
        (_, _, None) => Err(Error::BadRequest("no Host")),
        // Even where the target's authority counts, a Host that is no host is refused.
        (_, _, Some(line)) if target.is_some() && host::parse(line.as_bytes()).is_none() => {
            Err(Error::BadRequest("the host is not valid"))
        }
        (_, target, Some(line)) => Ok(target.unwrap_or(line)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test may fail
mod tests {
    use super::*;

    fn ask(method: &str, uri: &str, version: Version, hosts: &[&str]) -> Result<String, u16> {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(HOST, host.parse().unwrap());
        }
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let uri: Uri = uri.parse().unwrap();
        let limits = Limits::default();
        let target = check(
            &method,
            &uri,
            version,
            &headers,
            &limits,
            &Normalization::default(),
        );
        target
            .map(|target| format!("{} {} {}", target.authority, target.host.name, target.path))
            .map_err(|error| error.status())
    }

    #[test]
    fn one_authority_counts() {
        type Case = (
            &'static str,
            &'static str,
            Version,
            &'static [&'static str],
            Result<&'static str, u16>,
        );
        let table: &[Case] = &[
            ("GET", "/x", Version::HTTP_11, &["A.b:81"], Ok("A.b:81 a.b /x")),
            ("GET", "/x", Version::HTTP_11, &[], Err(400)),
            ("GET", "/x", Version::HTTP_11, &["a", "a"], Err(400)),
            ("GET", "/x", Version::HTTP_11, &["a/b"], Err(400)),
            ("GET", "/x", Version::HTTP_11, &["a,b"], Err(400)),
            ("GET", "/x", Version::HTTP_11, &[""], Err(400)),
            ("GET", "/x", Version::HTTP_10, &[], Ok("  /x")),
            ("GET", "http://a/x", Version::HTTP_11, &["b"], Ok("a a /x")),
            ("GET", "http://a/x", Version::HTTP_11, &["b/c"], Err(400)),
            ("GET", "http://u@a/x", Version::HTTP_11, &["a"], Err(400)),
            ("GET", "https://a/x", Version::HTTP_2, &[], Ok("a a /x")),
            ("GET", "https://a/x", Version::HTTP_2, &["b"], Err(400)),
            ("GET", "https://a/x", Version::HTTP_2, &["A"], Ok("a a /x")),
            ("OPTIONS", "*", Version::HTTP_11, &["a"], Ok("a a *")),
            ("GET", "*", Version::HTTP_11, &["a"], Err(400)),
            ("TRACE", "/", Version::HTTP_11, &["a"], Err(405)),
            ("CONNECT", "a:1", Version::HTTP_11, &["a"], Err(405)),
            ("GET", "/", Version::HTTP_09, &["a"], Err(505)),
        ];
        for (method, uri, version, hosts, expected) in table {
            let expected = expected.map(str::to_owned);
            assert_eq!(
                ask(method, uri, *version, hosts),
                expected,
                "{method} {uri} {hosts:?}"
            );
        }
    }
}
