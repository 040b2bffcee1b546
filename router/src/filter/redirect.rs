//! The Location of a redirect (Gateway API HTTPRequestRedirectFilter). It is always absolute, so that a path that
//! begins with two slashes can't be taken for another host.

use routed_snapshot::ir::{Redirect, RedirectToHttps};

use super::rewrite;

/// The request as it was asked for.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// Whether the client reached the edge by TLS.
    pub https: bool,
    /// Host without port.
    pub host: &'a str,
    /// The port that the client reached.
    pub port: u16,
    /// Path in its one form.
    pub path: &'a str,
    /// Query without `?`.
    pub query: Option<&'a str>,
    /// The matched prefix.
    pub prefix: Option<&'a str>,
}

/// The Location of a rule's redirect. `None` where there is no host to name (HTTP/1.0 without Host).
pub fn location(redirect: &Redirect, asked: &Asked<'_>) -> Option<String> {
    let scheme = redirect
        .scheme
        .as_deref()
        .unwrap_or(if asked.https { "https" } else { "http" });
    let host = redirect.hostname.as_deref().unwrap_or(asked.host);
    let port = match (redirect.port, &redirect.scheme) {
        (Some(port), _) => port,
        (None, Some(_)) => well_known(scheme),
        (None, None) => asked.port,
    };
    let path = match &redirect.path {
        Some(modifier) => rewrite::path(asked.path, asked.prefix, modifier),
        None => asked.path.to_owned(),
    };
    absolute(scheme, host, port, &path, asked.query)
}

/// The Location of a listener's redirect to HTTPS.
pub fn to_https(redirect: &RedirectToHttps, asked: &Asked<'_>) -> Option<String> {
    absolute("https", asked.host, redirect.port, asked.path, asked.query)
}

fn well_known(scheme: &str) -> u16 {
    if scheme == "https" { 443 } else { 80 }
}

fn absolute(scheme: &str, host: &str, port: u16, path: &str, query: Option<&str>) -> Option<String> {
    if host.is_empty() {
        return None;
    }
    let mut url = format!("{scheme}://{host}");
    if port != well_known(scheme) {
        url.push_str(&format!(":{port}"));
    }
    // `*` (OPTIONS) stands for the server as a whole.
    url.push_str(if path == "*" { "/" } else { path });
    if let Some(query) = query {
        url.push('?');
        url.push_str(query);
    }
    Some(url)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test may fail
mod tests {
    use super::*;
    use routed_snapshot::ir::PathModifier;

    const ASKED: Asked<'_> = Asked {
        https: false,
        host: "a.example",
        port: 8080,
        path: "/foo/bar",
        query: Some("q=1"),
        prefix: Some("/foo"),
    };

    fn to(redirect: Redirect) -> String {
        location(&redirect, &ASKED).unwrap()
    }

    #[test]
    fn a_location_names_the_port_only_where_it_must() {
        let plain = Redirect::default;
        assert_eq!(to(plain()), "http://a.example:8080/foo/bar?q=1");
        let https = Redirect {
            scheme: Some("https".into()),
            ..plain()
        };
        assert_eq!(to(https), "https://a.example/foo/bar?q=1");
        let port = Redirect {
            port: Some(8443),
            scheme: Some("https".into()),
            ..plain()
        };
        assert_eq!(to(port), "https://a.example:8443/foo/bar?q=1");
        let eighty = Redirect {
            port: Some(80),
            hostname: Some("b.example".into()),
            ..plain()
        };
        assert_eq!(to(eighty), "http://b.example/foo/bar?q=1");
        let path = PathModifier::ReplacePrefixMatch("/".into());
        let path = Redirect {
            path: Some(path),
            port: Some(80),
            ..plain()
        };
        assert_eq!(to(path), "http://a.example/bar?q=1");
    }

    #[test]
    fn two_slashes_are_a_path() {
        let asked = Asked {
            path: "//evil.example/x",
            prefix: Some("/"),
            ..ASKED
        };
        let location = location(&Redirect::default(), &asked).unwrap();
        assert_eq!(location, "http://a.example:8080//evil.example/x?q=1");
        let https = RedirectToHttps {
            port: 443,
            status: 301,
        };
        assert_eq!(
            to_https(&https, &asked).unwrap(),
            "https://a.example//evil.example/x?q=1"
        );
        assert_eq!(to_https(&https, &Asked { host: "", ..asked }), None);
    }
}
