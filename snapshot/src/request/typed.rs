//! A request as a person types it: method, URL and header lines. It is explained as if it came by HTTP/1.1, its
//! target in origin form.

use super::head::{Head, Target, Version, accept};
use super::{Refusal, host};
use crate::facts::Header;
use crate::ir::{Listener, ListenerProtocol, Profile};
use crate::limits::{is_field_value, is_token};

/// A request, taken apart but not normalised: that is done by the rules of the profile it is explained under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Typed {
    /// By TLS.
    pub https: bool,
    /// The URL's port, where one is written.
    pub port: Option<u16>,
    /// The URL's host and port.
    pub authority: String,
    /// Path.
    pub path: String,
    /// Query without `?`.
    pub query: Option<String>,
    /// Method.
    pub method: String,
    /// Header lines, names lower-case. A Host among them is sent instead of the URL's, as by curl.
    pub headers: Vec<(String, String)>,
}

/// Why something is no request at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoRequest {
    /// The scheme is missing or another.
    #[error("the URL begins with neither http:// nor https://")]
    Scheme,
    /// Nothing stands between scheme and path.
    #[error("the URL has no host")]
    Host,
    /// A header line without colon, or with a name or value that can't be sent.
    #[error("a header line is NAME:VALUE")]
    Header,
}

/// Why it isn't known where a request arrives.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoListener {
    /// None has the name.
    #[error("there is no listener `{0}`")]
    Unknown(String),
    /// None speaks the scheme, or none on the port.
    #[error("no listener speaks {scheme}{port}; name the one that is meant", port = on_port(.port))]
    NoneFits {
        /// `http` or `https`.
        scheme: &'static str,
        /// The URL's port.
        port: Option<u16>,
    },
    /// Guessing among these would explain a decision that nobody asked about.
    #[error("several listeners would do, name one: {}", .0.join(", "))]
    Several(Vec<String>),
}

fn on_port(port: &Option<u16>) -> String {
    port.map(|port| format!(" on port {port}")).unwrap_or_default()
}

/// `NAME:VALUE` as a codec would hand it over: the name lower-case, no blanks around the value.
pub fn header(text: &str) -> Result<(String, String), NoRequest> {
    let (name, value) = text.split_once(':').ok_or(NoRequest::Header)?;
    let (name, value) = (name.trim(), value.trim_matches([' ', '\t']));
    if !is_token(name) || !is_field_value(value) {
        return Err(NoRequest::Header);
    }
    Ok((name.to_ascii_lowercase(), value.to_owned()))
}

impl Typed {
    /// Takes a URL apart. `headers` are as [`header`] gives them.
    pub fn new(method: &str, url: &str, headers: Vec<(String, String)>) -> Result<Typed, NoRequest> {
        let (scheme, rest) = url.split_once("://").ok_or(NoRequest::Scheme)?;
        let https = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return Err(NoRequest::Scheme),
        };
        // A fragment never leaves a browser.
        let rest = rest.split('#').next().unwrap_or_default();
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query)),
            None => (rest, None),
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.is_empty() {
            return Err(NoRequest::Host);
        }
        Ok(Typed {
            https,
            port: host::parse(authority.as_bytes()).and_then(|host| host.port),
            authority: authority.to_owned(),
            path: if path.is_empty() { "/" } else { path }.to_owned(),
            query: query.map(str::to_owned),
            method: method.to_owned(),
            headers,
        })
    }

    /// The header lines as they would arrive.
    pub fn lines(&self) -> Vec<Header<'_>> {
        let typed = self.headers.iter();
        let typed = typed.map(|(name, value)| Header {
            name,
            value: value.as_bytes(),
        });
        let own = Header {
            name: "host",
            value: self.authority.as_bytes(),
        };
        let own = (!self.headers.iter().any(|(name, _)| name == "host")).then_some(own);
        own.into_iter().chain(typed).collect()
    }

    /// The request in its one form under a profile, or why a router refuses it.
    pub fn accepted(&self, profile: &Profile) -> Result<Target, Refusal> {
        let head = Head {
            version: Version::Http11,
            method: &self.method,
            has_scheme: false,
            authority: None,
            path: &self.path,
            query: self.query.as_deref(),
        };
        accept(
            &head,
            self.lines().into_iter(),
            &profile.limits,
            &profile.normalization,
        )
    }

    /// The listener it arrives at, of these by their full names (`namespace/profile/listener`): the one named in full
    /// or by its own name, else the only one that speaks the URL's scheme, on the URL's port where it has one.
    pub fn listener<'a>(
        &self,
        listeners: impl Iterator<Item = (String, &'a Listener)>,
        named: Option<&str>,
    ) -> Result<String, NoListener> {
        let protocol = match self.https {
            true => ListenerProtocol::Https,
            false => ListenerProtocol::Http,
        };
        let has_name = |full: &str, name: &str| {
            full == name || full.rsplit_once('/').is_some_and(|(_, own)| own == name)
        };
        // Port 0 is any free one; which one it became is not written here.
        let on_port =
            |listener: &Listener| listener.port == 0 || self.port.is_none_or(|port| port == listener.port);
        let fitting = listeners.filter(|(full, listener)| match named {
            Some(name) => has_name(full, name),
            None => listener.protocol == protocol && on_port(listener),
        });
        let mut names: Vec<String> = fitting.map(|(full, _)| full).collect();
        match (names.len(), named) {
            (1, _) => Ok(names.remove(0)),
            (0, Some(name)) => Err(NoListener::Unknown(name.to_owned())),
            (0, None) => Err(NoListener::NoneFits {
                scheme: if self.https { "https" } else { "http" },
                port: self.port,
            }),
            _ => Err(NoListener::Several(names)),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test may fail
mod tests {
    use super::*;

    fn typed(url: &str) -> Result<Typed, NoRequest> {
        Typed::new("GET", url, Vec::new())
    }

    #[test]
    fn a_url_is_taken_apart_and_not_changed() {
        let parts = |url: &str| {
            let typed = typed(url).unwrap();
            (typed.https, typed.authority, typed.port, typed.path, typed.query)
        };
        let some = |text: &str| Some(text.to_owned());
        let table = [
            ("http://a", (false, "a", None, "/", None)),
            ("HTTPS://A.b:81/x/..", (true, "A.b:81", Some(81), "/x/..", None)),
            ("http://a?q=/x", (false, "a", None, "/", some("q=/x"))),
            ("http://[::1]:80/", (false, "[::1]:80", Some(80), "/", None)),
            ("http://u@a/b?#c", (false, "u@a", None, "/b", some(""))),
            ("http://a b/c d", (false, "a b", None, "/c d", None)),
        ];
        for (url, (https, authority, port, path, query)) in table {
            let expected = (https, authority.to_owned(), port, path.to_owned(), query);
            assert_eq!(parts(url), expected, "{url}");
        }
        assert_eq!(typed("a.example/x"), Err(NoRequest::Scheme));
        assert_eq!(typed("ftp://a/x"), Err(NoRequest::Scheme));
        assert_eq!(typed("http:///x"), Err(NoRequest::Host));
    }

    #[test]
    fn a_header_is_trimmed_and_lower_cased() {
        assert_eq!(header("X-Plan:  gold "), Ok(("x-plan".into(), "gold".into())));
        for wrong in ["no colon", "bad name: x", ": x", "x: line\nbreak", "x\u{e9}: y"] {
            assert_eq!(header(wrong), Err(NoRequest::Header), "{wrong}");
        }
    }

    #[test]
    fn a_host_line_stands_for_the_host_of_the_url() {
        let profile = Profile::built_in();
        let with = |hosts: &[&str]| {
            let headers = hosts.iter().map(|host| ("host".to_owned(), (*host).to_owned()));
            Typed::new("GET", "http://127.0.0.1:8080/", headers.collect()).unwrap()
        };
        assert_eq!(with(&[]).accepted(&profile).unwrap().host.name, "127.0.0.1");
        assert_eq!(
            with(&["A.example"]).accepted(&profile).unwrap().host.name,
            "a.example"
        );
        let refused = with(&["a", "b"]).accepted(&profile);
        assert_eq!(refused, Err(Refusal::BadRequest("more than one Host")));
    }

    #[test]
    fn one_listener_is_found_or_none() {
        let listener = |protocol, port| Listener {
            address: "::".into(),
            port,
            protocol,
            tls: None,
            redirect_to_https: None,
        };
        let (http, https) = (ListenerProtocol::Http, ListenerProtocol::Https);
        let all = [
            ("n/p/web", listener(http, 80)),
            ("n/p/alt", listener(http, 8080)),
            ("n/p/tls", listener(https, 443)),
        ];
        let find = |url: &str, named: Option<&str>| {
            let all = all.iter().map(|(name, listener)| ((*name).to_owned(), listener));
            typed(url).unwrap().listener(all, named)
        };
        assert_eq!(find("https://a/", None).unwrap(), "n/p/tls");
        assert_eq!(find("http://a:8080/", None).unwrap(), "n/p/alt");
        assert_eq!(find("http://a/", Some("web")).unwrap(), "n/p/web");
        assert_eq!(find("http://a/", Some("n/p/alt")).unwrap(), "n/p/alt");
        let several = find("http://a/", None).unwrap_err().to_string();
        assert_eq!(several, "several listeners would do, name one: n/p/web, n/p/alt");
        let none = find("https://a:8443/", None).unwrap_err().to_string();
        assert!(
            none.starts_with("no listener speaks https on port 8443"),
            "{none}"
        );
        assert_eq!(
            find("http://a/", Some("p/web")).unwrap_err(),
            NoListener::Unknown("p/web".into())
        );
        let any = [("n/p/any".to_owned(), &listener(http, 0))];
        assert_eq!(
            typed("http://a:9/")
                .unwrap()
                .listener(any.into_iter(), None)
                .unwrap(),
            "n/p/any"
        );
    }
}
