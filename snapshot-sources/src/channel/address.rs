//! Where a control plane is.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use http::Uri;

/// `http://host:port`, `https://host:port` or `unix:/path`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// TCP.
    Tcp {
        /// A name or an IP address.
        host: String,
        /// Port; 80 or 443 where none was given.
        port: u16,
        /// Whether TLS is spoken.
        tls: bool,
    },
    /// A Unix socket.
    Unix(PathBuf),
}

/// Why a text is no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected http://host:port, https://host:port or unix:/path: {0}")]
pub struct AddressError(&'static str);

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Address, AddressError> {
        if let Some(path) = text.strip_prefix("unix:") {
            // `unix://` must be followed by an absolute path, as a URL's authority would be.
            let path = path.strip_prefix("//").unwrap_or(path);
            return match path.starts_with('/') {
                true => Ok(Address::Unix(path.into())),
                false => Err(AddressError("the path of the socket is not absolute")),
            };
        }
        let uri: Uri = text.parse().map_err(|_| AddressError("not a URL"))?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(AddressError("the scheme is neither http nor https")),
        };
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(AddressError("there must be no path"));
        }
        let authority = uri.authority().ok_or(AddressError("there is no host"))?;
        if authority.as_str().contains('@') {
            return Err(AddressError("there must be no user"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(AddressError("there is no host"));
        }
        let port = match (authority.port_u16(), tls) {
            (Some(port), _) if port > 0 => port,
            // The parser takes what is no port for none.
            _ if authority.as_str() != authority.host() => return Err(AddressError("the port is none")),
            (_, true) => 443,
            (_, false) => 80,
        };
        let host = host.to_owned();
        Ok(Address::Tcp { host, port, tls })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Tcp { host, port, tls } => {
                let scheme = if *tls { "https" } else { "http" };
                if host.contains(':') {
                    write!(f, "{scheme}://[{host}]:{port}")
                } else {
                    write!(f, "{scheme}://{host}:{port}")
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, written) in [
            ("http://127.0.0.1:9000", "http://127.0.0.1:9000"),
            ("https://operator.routed.svc", "https://operator.routed.svc:443"),
            ("http://operator/", "http://operator:80"),
            ("https://[::1]:7000", "https://[::1]:7000"),
            ("unix:/run/routed.sock", "unix:/run/routed.sock"),
            ("unix:///run/routed.sock", "unix:/run/routed.sock"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), written);
        }
        for wrong in [
            "",
            "operator:9000",
            "ftp://a",
            "http://",
            "http://a/b",
            "http://a?b",
            "http://u@a",
            "unix:run",
            "unix:",
            "unix://run/x",
            "http://a:99999",
            "http://a:0",
            "http://a:",
            "http://a b",
        ] {
            assert!(wrong.parse::<Address>().is_err(), "{wrong}");
        }
    }
}
