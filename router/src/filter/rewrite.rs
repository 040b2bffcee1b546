//! New path and host of a forwarded request (Gateway API HTTPURLRewriteFilter).

use std::net::{IpAddr, SocketAddr};

use routed_snapshot::ir::{Backend, PathModifier};

/// The new path. `prefix` is the matched prefix without trailing slash (`/` stays); without one nothing is replaced
/// by [`PathModifier::ReplacePrefixMatch`]. The result begins with a slash and never with two that the request or
/// the rule did not mean: at the seam there is exactly one.
pub fn path(path: &str, prefix: Option<&str>, modifier: &PathModifier) -> String {
    match modifier {
        PathModifier::ReplaceFullPath(full) if full.starts_with('/') => full.clone(),
        PathModifier::ReplaceFullPath(full) => format!("/{full}"),
        PathModifier::ReplacePrefixMatch(replacement) => {
            let Some(prefix) = prefix else {
                return path.to_owned();
            };
            let rest = path.strip_prefix(prefix.trim_end_matches('/')).unwrap_or(path);
            let front = replacement.trim_matches('/');
            let seam = match (rest, replacement.ends_with('/')) {
                ("", false) => "",
                _ => "/",
            };
            let slash = if front.is_empty() { "" } else { "/" };
            let joined = format!("{slash}{front}{seam}{}", rest.trim_start_matches('/'));
            if joined.is_empty() { "/".to_owned() } else { joined }
        }
    }
}

/// The Host that stands for a backend itself: its name, and its port unless it is the scheme's default (RFC 9110
/// §7.2).
pub fn backend_host(backend: &Backend) -> Option<String> {
    let name = backend.hostname.as_deref()?;
    let default = if backend.tls.is_some() { 443 } else { 80 };
    // An IPv6 literal needs its brackets.
    let name = match name.contains(':') && !name.starts_with('[') {
        true => format!("[{name}]"),
        false => name.to_owned(),
    };
    Some(match backend.port {
        Some(port) if port != default => format!("{name}:{port}"),
        _ => name,
    })
}

/// The Host of an endpoint whose backend has no name: its address, with the port unless it is the scheme's default.
pub fn endpoint_host(address: SocketAddr, tls: bool) -> String {
    let default = if tls { 443 } else { 80 };
    match (address.port() == default, address.ip()) {
        (false, _) => address.to_string(),
        (true, IpAddr::V4(ip)) => ip.to_string(),
        (true, IpAddr::V6(ip)) => format!("[{ip}]"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test may fail
mod tests {
    use super::*;
    use routed_snapshot::ir::BackendTls;

    #[test]
    fn a_replaced_prefix_has_one_slash_at_the_seam() {
        let requests = ["/foo", "/foo/", "/foo/bar", "/foo//bar"];
        for (replacement, expected) in [
            ("", ["/", "/", "/bar", "/bar"]),
            ("/", ["/", "/", "/bar", "/bar"]),
            ("/xyz", ["/xyz", "/xyz/", "/xyz/bar", "/xyz/bar"]),
            ("/xyz/", ["/xyz/", "/xyz/", "/xyz/bar", "/xyz/bar"]),
        ] {
            let modifier = PathModifier::ReplacePrefixMatch(replacement.into());
            for (request, expected) in requests.iter().zip(expected) {
                for prefix in ["/foo", "/foo/"] {
                    assert_eq!(
                        path(request, Some(prefix), &modifier),
                        expected,
                        "{request} {replacement}"
                    );
                }
            }
        }
        let to = PathModifier::ReplacePrefixMatch("/v2".into());
        assert_eq!(path("/a", Some("/"), &to), "/v2/a");
        assert_eq!(path("/", Some("/"), &to), "/v2/");
        assert_eq!(path("/a", None, &to), "/a");
        let full = PathModifier::ReplaceFullPath("one".into());
        assert_eq!(path("/a/b", Some("/a"), &full), "/one");
    }

    #[test]
    fn a_backends_host_carries_an_unusual_port() {
        let backend = |name: &str, port, tls: bool| Backend {
            hostname: Some(name.into()),
            port: Some(port),
            tls: tls.then(BackendTls::default),
            ..Backend::default()
        };
        assert_eq!(
            backend_host(&backend("b.example", 80, false)).unwrap(),
            "b.example"
        );
        assert_eq!(
            backend_host(&backend("b.example", 443, true)).unwrap(),
            "b.example"
        );
        assert_eq!(
            backend_host(&backend("b.example", 443, false)).unwrap(),
            "b.example:443"
        );
        assert_eq!(
            backend_host(&backend("b.example", 7448, true)).unwrap(),
            "b.example:7448"
        );
        assert_eq!(backend_host(&backend("::1", 7448, false)).unwrap(), "[::1]:7448");
        assert_eq!(backend_host(&Backend::default()), None);
    }

    #[test]
    fn an_endpoint_without_a_name_is_named_by_its_address() {
        for (address, tls, host) in [
            ("10.0.0.1:80", false, "10.0.0.1"),
            ("10.0.0.1:80", true, "10.0.0.1:80"),
            ("[::1]:443", true, "[::1]"),
            ("[::1]:7448", false, "[::1]:7448"),
        ] {
            assert_eq!(endpoint_host(address.parse().unwrap(), tls), host);
        }
    }
}
