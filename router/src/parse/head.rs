//! A head as the codec's library holds it, handed to the rules.

use http::{HeaderMap, Method, Uri, Version};
use routed_snapshot::Header;
use routed_snapshot::ir::{Limits, Normalization};
use routed_snapshot::request::Refusal;
use routed_snapshot::request::head::{self, Head, Target};

/// Accepts a head or says how it is answered.
pub fn check(
    method: &Method,
    uri: &Uri,
    version: Version,
    headers: &HeaderMap,
    limits: &Limits,
    rules: &Normalization,
) -> Result<Target, Refusal> {
    let head = Head {
        version: match version {
            Version::HTTP_10 => head::Version::Http10,
            Version::HTTP_11 => head::Version::Http11,
            Version::HTTP_2 => head::Version::Http2,
            _ => head::Version::Other,
        },
        method: method.as_str(),
        has_scheme: uri.scheme().is_some(),
        authority: uri.authority().map(|authority| authority.as_str()),
        path: uri.path(),
        query: uri.query(),
    };
    let lines = headers.iter().map(|(name, value)| Header {
        name: name.as_str(),
        value: value.as_bytes(),
    });
    head::accept(&head, lines, limits, rules)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test may fail
mod tests {
    use super::*;

    /// Host and path of a GET by HTTP/1.1 whose target is this, or the status it is answered with.
    fn ask(target: &[u8]) -> Result<String, u16> {
        let uri = Uri::try_from(target).map_err(|_| 0_u16)?;
        let mut headers = HeaderMap::new();
        headers.append("host", "b".parse().unwrap());
        let (limits, rules) = (Limits::default(), Normalization::default());
        check(&Method::GET, &uri, Version::HTTP_11, &headers, &limits, &rules)
            .map(|target| format!("{} {}", target.host.name, target.path))
            .map_err(|refusal| refusal.describe().0)
    }

    #[test]
    fn each_form_of_a_target_is_told_from_the_others() {
        assert_eq!(ask(b"/x"), Ok("b /x".into()));
        assert_eq!(ask(b"http://a/x"), Ok("a /x".into()));
        assert_eq!(ask(b"http://a"), Ok("a /".into()));
        assert_eq!(ask(b"a:80"), Err(400));
        assert_eq!(ask(b"*"), Err(400));
    }

    /// An explanation meets no codec: what the codec would not let through must be refused by the rules themselves.
    #[test]
    fn whatever_the_codec_refuses_the_rules_refuse() {
        let mut refused = 0;
        for octet in (1..0x7f).filter(|octet| !b"#?".contains(octet)) {
            for target in [
                [b"/a".as_slice(), &[octet], b"b"].concat(),
                [b"/?a".as_slice(), &[octet]].concat(),
            ] {
                let text = std::str::from_utf8(&target).unwrap();
                let (path, query) = text
                    .split_once('?')
                    .map_or((text, None), |(path, query)| (path, Some(query)));
                let head = Head {
                    version: head::Version::Http11,
                    method: "GET",
                    has_scheme: false,
                    authority: None,
                    path,
                    query,
                };
                let host = Header {
                    name: "host",
                    value: b"b",
                };
                let rules = head::accept(
                    &head,
                    [host].into_iter(),
                    &Limits::default(),
                    &Normalization::default(),
                );
                let by_rules = rules.map(|target| format!("{} {}", target.host.name, target.path));
                match (ask(&target), by_rules) {
                    (Err(0), by_rules) => {
                        refused += 1;
                        assert!(by_rules.is_err(), "{text:?}");
                    }
                    (by_codec, by_rules) => assert_eq!(
                        by_codec,
                        by_rules.map_err(|refusal| refusal.describe().0),
                        "{text:?}"
                    ),
                }
            }
        }
        assert!(refused > 60, "{refused}");
    }
}
