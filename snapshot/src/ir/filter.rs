//! Filters as data: edits, rewrites, redirects, answers, copies.

use serde::{Deserialize, Serialize};

use super::is_default;

/// Edits of header fields, applied in the order set, add, remove (Gateway API HTTPHeaderFilter).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeaderEdits {
    /// Replaces all lines of the name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<HeaderPair>,
    /// Adds a line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add: Vec<HeaderPair>,
    /// Removes all lines of the name (lower-case).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
}

impl HeaderEdits {
    /// True where nothing is edited.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.add.is_empty() && self.remove.is_empty()
    }
}

/// A header field; the name is a valid token in lower case, the value a valid field value (RFC 9110 §5.5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderPair {
    /// Name, lower-case.
    pub name: String,
    /// Value.
    pub value: String,
}

/// Change of the request's authority and path (Gateway API HTTPURLRewriteFilter).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rewrite {
    /// New Host, as written (it may carry a port).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Host becomes the chosen backend's own name, with its port unless it is the scheme's default (RFC 9110 §7.2).
    #[serde(default, skip_serializing_if = "is_default")]
    pub host_from_backend: bool,
    /// New path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathModifier>,
}

/// A new path (Gateway API HTTPPathModifier). The query is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "PascalCase")]
pub enum PathModifier {
    /// The whole path.
    ReplaceFullPath(String),
    /// The matched prefix; exactly one slash at the seam, never an empty path.
    ReplacePrefixMatch(String),
}

/// A redirect (Gateway API HTTPRequestRedirectFilter). Absent parts are the request's own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Redirect {
    /// `http` or `https`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    /// Host of the Location.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Path of the Location.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathModifier>,
    /// Port of the Location; absent: the well-known one of a given scheme, else the listener's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
}

/// A listener's redirect of plain HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RedirectToHttps {
    /// Port of the Location; 443 is left out of the URL.
    pub port: u16,
    /// 301, 302, 307 or 308.
    pub status: u16,
}

/// An answer made by the router.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DirectResponse {
    /// Status, 200 to 599.
    pub status: u16,
    /// Body, at most 64 KiB.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub body: String,
    /// Content type of the body; `text/plain; charset=utf-8` where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
}

/// Cross-origin policy (Gateway API HTTPCORSFilter, Fetch standard).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cors {
    /// `*`, or `scheme://host[:port]` where the host may begin with `*.`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_origins: Vec<String>,
    /// `*` or methods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_methods: Vec<String>,
    /// `*` or header names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_headers: Vec<String>,
    /// `*` or header names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expose_headers: Vec<String>,
    /// Whether `Access-Control-Allow-Credentials: true` is sent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub allow_credentials: bool,
    /// Seconds a preflight may be cached. Default 5.
    pub max_age_s: u32,
}

/// A copy of the request to another backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mirror {
    /// Name of a backend of the snapshot.
    pub backend: String,
    /// Share of requests copied, in parts of `denominator`.
    pub numerator: u32,
    /// What `numerator` counts in; 100 for a percentage.
    pub denominator: u32,
}
