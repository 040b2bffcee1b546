//! Routes: host tables of matches in precedence order, and the rules they lead to.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Cors, DirectResponse, HeaderEdits, Mirror, Redirect, Rewrite, is_default};

/// A part `routes/<bucket>`. TLS, TCP and UDP tables come as further optional lists beside `tables`, each announced
/// in the snapshot's `requires`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RoutesPart {
    /// The rules that this bucket's tables lead to, by rule name. A rule that serves hosts of several buckets stands
    /// in each of them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rules: BTreeMap<String, Rule>,
    /// HTTP host tables, sorted by host, then by listeners. For one listener a host occurs once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<HttpTable>,
}

/// All matches of one host on the listeners named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpTable {
    /// `shop.example.com`, `*.example.com` (one or more labels in front) or `*` (any host), lower-case A-labels.
    pub host: String,
    /// Listeners (`namespace/profile/listener`) that this table serves, sorted.
    pub listeners: Vec<String>,
    /// Matches, highest precedence first: the first that matches a request is taken.
    pub matches: Vec<HttpMatch>,
}

/// One match: every condition must hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpMatch {
    /// The path condition.
    pub path: PathMatch,
    /// Method, exact and case-sensitive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Header conditions; names lower-case, each at most once. Repeated lines are compared joined by `, `.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<FieldMatch>,
    /// Query parameter conditions on percent-decoded names and values; the first occurrence counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub query_params: Vec<FieldMatch>,
    /// Cookie conditions; the first cookie of the name counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cookies: Vec<FieldMatch>,
    /// Key in [`RoutesPart::rules`].
    pub rule: String,
    /// Which entry of the rule's `matches` this is, from 0.
    #[serde(default, skip_serializing_if = "is_default")]
    pub index: u32,
}

/// A condition on the normalised path, without query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "PascalCase")]
pub enum PathMatch {
    /// Equal, octet by octet.
    Exact(String),
    /// Equal or followed by `/`: whole elements. Stored without trailing slash, except `/` itself.
    PathPrefix(String),
    /// A regular expression (Rust `regex` syntax) that must match the whole path.
    RegularExpression(String),
}

/// A condition on a named value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldMatch {
    /// Name; header names lower-case.
    pub name: String,
    /// The condition on the value.
    #[serde(flatten)]
    pub value: ValueMatch,
}

/// A condition on a value that may be absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "PascalCase")]
pub enum ValueMatch {
    /// Present and equal.
    Exact(String),
    /// Present, and the whole value matches the regular expression.
    RegularExpression(String),
    /// Present with any value.
    Present,
    /// Not present.
    Absent,
}

/// What happens to a request that a match led here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// The rule's own name, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where the request goes.
    pub action: Action,
    /// Edits of the request's headers before it is forwarded.
    #[serde(default, skip_serializing_if = "is_default")]
    pub request_headers: HeaderEdits,
    /// Edits of the response's headers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub response_headers: HeaderEdits,
    /// Rewrite of host and path before forwarding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rewrite: Option<Rewrite>,
    /// Cross-origin policy; preflights are answered by the router.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cors: Option<Cors>,
    /// Backends that get a copy of the request; their answers are thrown away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mirrors: Vec<Mirror>,
    /// Time limits.
    #[serde(default, skip_serializing_if = "is_default")]
    pub timeouts: RuleTimeouts,
    /// When and how often a request is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
}

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "PascalCase")]
pub enum Action {
    /// To one of the backends, by weight. At least one weight is above 0.
    Forward {
        /// Candidates in the order written.
        backends: Vec<WeightedBackend>,
    },
    /// Answered with a redirect.
    Redirect(Redirect),
    /// Answered by the router itself.
    DirectResponse(DirectResponse),
    /// The rule is in error; it answers in its place and lets nothing fall through to a broader rule.
    Fail {
        /// 500 to 599; the compiler writes 500.
        status: u16,
        /// A reason of one word, for instance `BackendNotFound`, `NoBackends`, `InvalidFilter`.
        reason: String,
    },
}

/// One share of a rule's traffic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WeightedBackend {
    /// Share of the traffic: weight / sum of weights. 0 gets none.
    pub weight: u32,
    /// Where the share goes.
    pub target: Target,
    /// Edits of the request's headers for this share only, after the rule's.
    #[serde(default, skip_serializing_if = "is_default")]
    pub request_headers: HeaderEdits,
    /// Edits of the response's headers for this share only, after the rule's.
    #[serde(default, skip_serializing_if = "is_default")]
    pub response_headers: HeaderEdits,
}

/// A share's backend, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Target {
    /// Name of a backend of the snapshot.
    Backend(String),
    /// An invalid reference: its share is answered with 500 and this reason.
    Invalid(String),
}

/// Time limits of a rule in milliseconds; absent or 0: none (Gateway API HTTPRouteTimeouts).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleTimeouts {
    /// From the end of the request head to the end of the response head, all tries together; above it 504.
    #[serde(default, skip_serializing_if = "is_default")]
    pub request_ms: u64,
    /// The same for one try.
    #[serde(default, skip_serializing_if = "is_default")]
    pub backend_request_ms: u64,
}

/// Retries (Gateway API HTTPRouteRetry). Only requests that can be sent again are: no body, and a safe or idempotent
/// method unless nothing reached the backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Retry {
    /// Most tries after the first.
    pub attempts: u32,
    /// Response codes that are tried again. Failures to connect always are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub codes: Vec<u16>,
    /// Least wait between tries in milliseconds.
    #[serde(default, skip_serializing_if = "is_default")]
    pub backoff_ms: u64,
}
