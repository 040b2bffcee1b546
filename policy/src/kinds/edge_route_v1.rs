//! EdgeRoute v1: one host, one prefix, one Service. Deprecated.

use kube::CustomResource;
use routed_snapshot::limits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ObjectStatus;

/// Sends requests for a host and a path prefix to one Service.
#[derive(CustomResource, Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "routed.io",
    version = "v1",
    kind = "EdgeRoute",
    doc = "Sends requests for one host and one path prefix to one Service. Deprecated: use routed.io/v2.",
    namespaced,
    shortname = "er",
    category = "routed",
    status = "ObjectStatus",
    deprecated = "routed.io/v1 EdgeRoute is deprecated; use routed.io/v2",
    printcolumn = r#"{"name":"Hostname","type":"string","jsonPath":".spec.hostname"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EdgeRouteSpec {
    /// Host name, `*.` in front for any subdomain. Absent: any host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub hostname: Option<String>,
    /// Path prefix, whole elements. Absent: `/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024), regex(pattern = "^/"))]
    pub prefix: Option<String>,
    /// Name of a Service (or of a Backend) in the same namespace.
    #[schemars(length(min = 1, max = 253))]
    pub service: String,
    /// Port of the Service.
    #[schemars(range(min = limits::PORT.least, max = limits::PORT.most))]
    pub port: u16,
}
