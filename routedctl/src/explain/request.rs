//! The request to explain, as typed.

use anyhow::{Context, Result, bail, ensure};
use http::Uri;
use http::uri::PathAndQuery;

use crate::args::Explain;

/// A request, taken apart but not normalised: normalising is the router's, which this program doesn't link.
#[derive(Debug)]
pub(crate) struct Request {
    /// By TLS.
    pub(crate) https: bool,
    /// Lower-case, without port and trailing dot.
    pub(crate) host: String,
    /// The port, where one is typed.
    pub(crate) port: Option<u16>,
    /// Path.
    pub(crate) path: String,
    /// Query without `?`.
    pub(crate) query: Option<String>,
    /// Method.
    pub(crate) method: String,
    /// Header lines, names lower-case.
    pub(crate) headers: Vec<(String, String)>,
    /// Number for weighted shares.
    pub(crate) draw: u64,
    /// The listener, where one is named.
    pub(crate) listener: Option<String>,
}

impl Request {
    /// Of the command line.
    pub(crate) fn of(options: &Explain) -> Result<Request> {
        let method = http::Method::from_bytes(options.method.as_bytes());
        let method = method.with_context(|| format!("`{}` is no method", options.method))?;
        let (scheme, _) = options.url.split_once("://").unwrap_or_default();
        let https = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => bail!("`{}` begins with neither http:// nor https://", options.url),
        };
        // A fragment never leaves a browser.
        let url = options.url.split('#').next().unwrap_or_default();
        let url = url
            .parse::<Uri>()
            .with_context(|| format!("`{}` is no URL", options.url))?;
        let authority = url.authority().context("the URL has no host")?;
        ensure!(
            !authority.as_str().contains('@'),
            "the URL has a user; routers refuse that"
        );
        let host = authority.host().to_ascii_lowercase();
        let host = host.strip_suffix('.').unwrap_or(&host).to_owned();
        ensure!(!host.is_empty(), "the URL has no host");
        let path = url.path_and_query().map_or("/", PathAndQuery::path);
        Ok(Request {
            https,
            host,
            port: authority.port_u16(),
            path: path.to_owned(),
            query: url.query().map(str::to_owned),
            method: method.as_str().to_owned(),
            headers: options.headers.clone(),
            draw: options.draw,
            listener: options.listener.clone(),
        })
    }

    /// What a router would do to the path first, where it would.
    pub(crate) fn normalization_hint(&self) -> Option<String> {
        let changed = changed_by_normalization(&self.path)?;
        let path = &self.path;
        Some(format!(
            "the path `{path}` {changed}; a router normalises it before it decides, here it is taken as typed"
        ))
    }
}

fn changed_by_normalization(path: &str) -> Option<&'static str> {
    if path.split('/').any(|segment| matches!(segment, "." | "..")) {
        return Some("has dot segments");
    }
    if path.contains("//") {
        return Some("has empty segments (merged where the profile says mergeSlashes)");
    }
    let escapes = path.split('%').skip(1).filter_map(|rest| rest.get(..2));
    for escape in escapes {
        let byte = u8::from_str_radix(escape, 16).unwrap_or(0);
        if byte == b'/' || byte == b'\\' {
            return Some("has escaped slashes (kept, refused or decoded as the profile says)");
        }
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            return Some("has escapes of characters that need none");
        }
        if escape.bytes().any(|digit| digit.is_ascii_lowercase()) {
            return Some("has escapes in lower case");
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_given_only_where_a_router_would_change_the_path() {
        for plain in ["/", "/cart/items", "/a%20b", "/%C3%A4", "/a..b", "/100%"] {
            assert_eq!(changed_by_normalization(plain), None, "{plain}");
        }
        for changed in [
            "/a/../b", "/./a", "//a", "/a%2Fb", "/%5c", "/%41", "/%c3%a4", "/a/..",
        ] {
            assert!(changed_by_normalization(changed).is_some(), "{changed}");
        }
    }
}
