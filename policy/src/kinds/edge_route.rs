//! EdgeRoute v2: hosts, and rules of matches, filters and backends.

use kube::CustomResource;
use routed_snapshot::limits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{NotBuilt, ObjectStatus};

/// Says what happens to requests for some hosts.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "routed.io",
    version = "v2",
    kind = "EdgeRoute",
    doc = "Says what happens to requests for some hosts: matches, filters, and the backends that they go to.",
    namespaced,
    shortname = "er",
    category = "routed",
    status = "ObjectStatus",
    printcolumn = r#"{"name":"Hostnames","type":"string","jsonPath":".spec.hostnames"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EdgeRouteSpec {
    /// The RouterProfile whose listeners carry the route. Absent: `default/default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_ref: Option<ProfileRef>,
    /// Names of listeners of the profile. Empty: all that admit the route.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub listeners: Vec<String>,
    /// Host names, `*.` in front for any subdomain. Empty: any host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 253)))]
    pub hostnames: Vec<String>,
    /// The rules, 1 to 64.
    #[schemars(length(min = 1, max = 64))]
    pub rules: Vec<RouteRule>,
}

/// Reference to a RouterProfile, in any namespace: its `allowedRoutes` decide.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProfileRef {
    /// Namespace. Absent: the route's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// Some matches and what they lead to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RouteRule {
    /// A name for logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub name: Option<String>,
    /// Any of them suffices. Empty: every path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub matches: Vec<RouteMatch>,
    /// What is changed, or answered at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub filters: Vec<RouteFilter>,
    /// Where requests go, by weight.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub backends: Vec<BackendRef>,
    /// Time limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<RouteTimeouts>,
    /// When a request is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RouteRetry>,
    /// Not built yet: hands the choice to a RoutingPolicy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_ref: Option<NotBuilt>,
    /// Not built yet: hands the choice to the policies that match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policies: Option<NotBuilt>,
}

/// Conditions that must all hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RouteMatch {
    /// Condition on the path. Absent: prefix `/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathCondition>,
    /// Method, case-sensitive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub method: Option<String>,
    /// Conditions on headers; of several for one name the first counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub headers: Vec<FieldCondition>,
    /// Conditions on query parameters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub query_params: Vec<FieldCondition>,
    /// Conditions on cookies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub cookies: Vec<FieldCondition>,
}

/// A condition on the path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PathCondition {
    /// How it is compared. Absent: PathPrefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r#type: Option<PathType>,
    /// The path or pattern. Absent: `/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::PATTERN_BYTES))]
    pub value: Option<String>,
}

/// How a path is compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PathType {
    /// Octet by octet.
    Exact,
    /// By whole path elements.
    #[default]
    PathPrefix,
    /// The whole path must match the expression (Rust `regex` syntax).
    RegularExpression,
}

/// A condition on a named value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FieldCondition {
    /// Name.
    #[schemars(length(min = 1, max = limits::HEADER_NAME_BYTES))]
    pub name: String,
    /// How it is compared. Absent: Exact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r#type: Option<FieldMatchType>,
    /// The value or pattern.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::PATTERN_BYTES))]
    pub value: Option<String>,
}

/// How a named value is compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FieldMatchType {
    /// Present and equal.
    #[default]
    Exact,
    /// Present, and the whole value matches the expression.
    RegularExpression,
    /// Present with any value.
    Present,
    /// Not present.
    Absent,
}

/// One filter: `type` says which of the members is set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RouteFilter {
    /// Which filter.
    pub r#type: FilterType,
    /// Edits of the request's headers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_header_modifier: Option<HeaderModifier>,
    /// Edits of the response's headers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_header_modifier: Option<HeaderModifier>,
    /// Change of host and path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url_rewrite: Option<UrlRewrite>,
    /// An answer that sends the client elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_redirect: Option<RequestRedirect>,
    /// An answer made by the router.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direct_response: Option<DirectAnswer>,
    /// Cross-origin policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cors: Option<CorsFilter>,
    /// A copy to another backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_mirror: Option<RequestMirror>,
}

/// The filters there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FilterType {
    /// `requestHeaderModifier`
    RequestHeaderModifier,
    /// `responseHeaderModifier`
    ResponseHeaderModifier,
    /// `urlRewrite`
    #[serde(rename = "URLRewrite")]
    UrlRewrite,
    /// `requestRedirect`
    RequestRedirect,
    /// `directResponse`
    DirectResponse,
    /// `cors`
    #[serde(rename = "CORS")]
    Cors,
    /// `requestMirror`
    RequestMirror,
}

/// Edits of header fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeaderModifier {
    /// Replaces all lines of the name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub set: Vec<HeaderField>,
    /// Adds a line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub add: Vec<HeaderField>,
    /// Removes all lines of the name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub remove: Vec<String>,
}

/// A header field.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeaderField {
    /// Name, a token.
    #[schemars(length(min = 1, max = limits::HEADER_NAME_BYTES))]
    pub name: String,
    /// Value.
    #[schemars(length(max = limits::HEADER_VALUE_BYTES))]
    pub value: String,
}

/// Change of host and path before forwarding.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UrlRewrite {
    /// New Host; it may carry a port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 261))]
    pub hostname: Option<String>,
    /// Host becomes the chosen backend's own name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub host_from_backend: bool,
    /// New path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathReplacement>,
}

/// A new path: `type` says which member is set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PathReplacement {
    /// Which replacement.
    pub r#type: PathReplacementType,
    /// The whole new path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub replace_full_path: Option<String>,
    /// What stands for the matched prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub replace_prefix_match: Option<String>,
}

/// The path replacements there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PathReplacementType {
    /// `replaceFullPath`
    ReplaceFullPath,
    /// `replacePrefixMatch`
    ReplacePrefixMatch,
}

/// A redirect. Absent parts are the request's own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequestRedirect {
    /// `http` or `https`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    /// Host of the Location.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub hostname: Option<String>,
    /// Path of the Location.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathReplacement>,
    /// Port of the Location.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = limits::PORT.least, max = limits::PORT.most))]
    pub port: Option<u16>,
    /// 301, 302 (default), 303, 307 or 308.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = limits::REDIRECT_STATUS))]
    pub status_code: Option<u16>,
}

/// An answer made by the router.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DirectAnswer {
    /// Status, 200 to 599.
    #[schemars(range(min = limits::ANSWER_STATUS.least, max = limits::ANSWER_STATUS.most))]
    pub status_code: u16,
    /// Body, at most 64 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::ANSWER_BODY_BYTES))]
    pub body: Option<String>,
    /// Content type of the body. Absent: `text/plain; charset=utf-8`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = limits::HEADER_VALUE_BYTES))]
    pub content_type: Option<String>,
}

/// Cross-origin policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CorsFilter {
    /// `*`, or `scheme://host[:port]` where the host may begin with `*.`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub allow_origins: Vec<String>,
    /// `*` or methods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub allow_methods: Vec<String>,
    /// `*` or header names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub allow_headers: Vec<String>,
    /// `*` or header names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub expose_headers: Vec<String>,
    /// Whether credentials are allowed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_credentials: bool,
    /// Seconds a preflight may be cached. Absent: 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age: Option<u32>,
}

/// A copy of the request to another backend.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequestMirror {
    /// Where the copy goes.
    pub backend: MirrorTarget,
    /// Share of requests in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 100))]
    pub percent: Option<u32>,
    /// Share of requests as a fraction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fraction: Option<Fraction>,
}

/// Where a copy goes: a Service with port, or a Backend.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MirrorTarget {
    /// Name of a Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Port of the Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = limits::PORT.least, max = limits::PORT.most))]
    pub port: Option<u16>,
    /// Name of a Backend.
    #[serde(default, alias = "name", skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// Namespace; another than the route's is an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// A share.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fraction {
    /// How many.
    pub numerator: u32,
    /// Of how many. Absent: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub denominator: Option<u32>,
}

/// One share of a rule's traffic: a Service with port, or a Backend.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BackendRef {
    /// Name of a Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Port of the Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = limits::PORT.least, max = limits::PORT.most))]
    pub port: Option<u16>,
    /// Name of a Backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// Namespace; another than the route's is an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Share of the traffic. Absent: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = limits::WEIGHT.most))]
    pub weight: Option<u32>,
    /// Header edits for this share only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub filters: Vec<RouteFilter>,
}

/// Time limits as Gateway API durations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RouteTimeouts {
    /// For the whole request, all tries together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// For one try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend_request: Option<String>,
}

/// When a request is tried again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RouteRetry {
    /// Most tries after the first. Absent: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = limits::RETRY_ATTEMPTS.most))]
    pub attempts: Option<u32>,
    /// Response codes that are tried again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        inner(range(min = limits::RETRY_CODE.least, max = limits::RETRY_CODE.most))
    )]
    pub codes: Vec<u16>,
    /// Least wait between tries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<String>,
}
