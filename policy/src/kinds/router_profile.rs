//! RouterProfile: what a router as a whole is told.

use std::collections::BTreeMap;

use kube::CustomResource;
use routed_snapshot::limits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{NotBuilt, ObjectStatus};

/// Listeners, trust, limits and logs of a router.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "routed.io",
    version = "v1",
    kind = "RouterProfile",
    doc = "What a router listens on, which routes may attach, and the limits that hold for all of them.",
    namespaced,
    shortname = "rpf",
    category = "routed",
    status = "ObjectStatus",
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RouterProfileSpec {
    /// Addresses and ports, 1 to 64.
    #[schemars(length(min = 1, max = 64))]
    pub listeners: Vec<ListenerSpec>,
    /// Which routes may attach to the listeners.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_routes: Option<AllowedRoutes>,
    /// Whose `X-Forwarded-*` are believed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trusted_proxies: Option<TrustedProxiesSpec>,
    /// How a request target is normalised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub normalization: Option<NormalizationSpec>,
    /// Sizes and counts a client may not exceed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitsSpec>,
    /// Time limits that no rule sets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<ProfileTimeouts>,
    /// The access log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_log: Option<AccessLogSpec>,
    /// Whether responses carry `x-routed-*`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision_headers: Option<bool>,
    /// Not built yet: where the tenant comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<NotBuilt>,
    /// Not built yet: where the agent comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<NotBuilt>,
    /// Not built yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traces: Option<NotBuilt>,
    /// Not built yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policies: Option<NotBuilt>,
}

/// One address and port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ListenerSpec {
    /// Name, unique within the profile.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// IP address. Absent: `0.0.0.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// TCP port.
    pub port: u16,
    /// HTTP or HTTPS.
    pub protocol: ListenerProtocolSpec,
    /// Certificates, for HTTPS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<ListenerTlsSpec>,
    /// Answer everything with a redirect to HTTPS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect_to_https: Option<RedirectToHttpsSpec>,
}

/// What a listener speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum ListenerProtocolSpec {
    /// Without TLS.
    Http,
    /// Over TLS.
    Https,
}

/// Certificates of a listener.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ListenerTlsSpec {
    /// Secrets of type `kubernetes.io/tls`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub certificate_refs: Vec<SecretRef>,
    /// Files on the router's machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub certificate_files: Vec<CertificateFilesSpec>,
}

/// A Secret of the profile's namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecretRef {
    /// Name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Namespace; another than the profile's is an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// A certificate in files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CertificateFilesSpec {
    /// PEM file of the chain.
    #[schemars(length(min = 1, max = 4096))]
    pub certificate: String,
    /// PEM file of the key.
    #[schemars(length(min = 1, max = 4096))]
    pub key: String,
}

/// A redirect of plain HTTP.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RedirectToHttpsSpec {
    /// Port. Absent: 443.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = limits::PORT.least, max = limits::PORT.most))]
    pub port: Option<u16>,
    /// 301 (default), 302, 307 or 308.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = limits::REDIRECT_TO_HTTPS_STATUS))]
    pub status_code: Option<u16>,
}

/// Which routes may attach.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AllowedRoutes {
    /// By namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<AllowedNamespaces>,
    /// By host: a route gets only hosts within these. Empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub hostnames: Vec<String>,
}

/// Which namespaces' routes may attach.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AllowedNamespaces {
    /// All (default), Same or Selector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<NamespacesFrom>,
    /// Which labels a Namespace must carry, for Selector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

/// Where routes may come from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NamespacesFrom {
    /// Any namespace.
    #[default]
    All,
    /// The profile's own.
    Same,
    /// Those with matching labels.
    Selector,
}

/// A label selector (metav1.LabelSelector).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LabelSelector {
    /// Labels that must be equal.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Conditions that must hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelExpression>,
}

/// A condition on a label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LabelExpression {
    /// The label.
    pub key: String,
    /// How it is compared.
    pub operator: LabelOperator,
    /// With what.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// How a label is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LabelOperator {
    /// One of the values.
    In,
    /// None of the values, or absent.
    NotIn,
    /// Present.
    Exists,
    /// Absent.
    DoesNotExist,
}

/// Whose forwarding headers are believed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TrustedProxiesSpec {
    /// Networks in CIDR notation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cidrs: Vec<String>,
    /// How many trusted hops stand in front.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = limits::HOPS.most))]
    pub hops: Option<u32>,
}

/// How a request target is normalised.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NormalizationSpec {
    /// `//` becomes `/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge_slashes: Option<bool>,
    /// What happens to `%2F` and `%5C`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escaped_slashes: Option<EscapedSlashesSpec>,
}

/// What happens to an escaped slash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum EscapedSlashesSpec {
    /// Forwarded as it came.
    Keep,
    /// 400.
    Reject,
    /// Decoded.
    Decode,
}

/// Sizes and counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LimitsSpec {
    /// Longest request target in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = limits::TARGET_BYTES.least, max = limits::TARGET_BYTES.most))]
    pub target_bytes: Option<u32>,
    /// Largest sum of headers in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = limits::HEADER_BYTES.least, max = limits::HEADER_BYTES.most))]
    pub header_bytes: Option<u32>,
    /// Most header lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = limits::HEADER_COUNT.least, max = limits::HEADER_COUNT.most))]
    pub header_count: Option<u32>,
    /// Largest request body in bytes; 0: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_bytes: Option<u64>,
    /// Most streams of an HTTP/2 connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = limits::HTTP2_STREAMS.least, max = limits::HTTP2_STREAMS.most))]
    pub http2_streams: Option<u32>,
}

/// Time limits as Gateway API durations; `0s` switches one off.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProfileTimeouts {
    /// For a request head.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_head: Option<String>,
    /// For an idle client connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<String>,
    /// For a TLS handshake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshake: Option<String>,
    /// For a connect to an endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect: Option<String>,
    /// For an idle connection to an endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream_idle: Option<String>,
    /// For requests in flight at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<String>,
}

/// The access log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AccessLogSpec {
    /// Whether it is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// The form of a line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<LogFormatSpec>,
}

/// The form of an access log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LogFormatSpec {
    /// One JSON object a line.
    Json,
    /// A line for people.
    Text,
}
