//! Backend: a pool of endpoints and how to talk to them.

use std::collections::BTreeMap;

use kube::CustomResource;
use routed_snapshot::limits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{NotBuilt, ObjectStatus};

/// A pool of endpoints: addresses, or those of a Service.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "routed.io",
    version = "v1",
    kind = "Backend",
    doc = "A pool of endpoints, and how to talk to them: fixed addresses, or those of a Service.",
    namespaced,
    shortname = "be",
    category = "routed",
    status = "ObjectStatus",
    printcolumn = r#"{"name":"Hostname","type":"string","jsonPath":".spec.hostname"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BackendSpec {
    /// Fixed addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub addresses: Option<Vec<BackendAddress>>,
    /// A Service of the same namespace, whose endpoints are taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceRef>,
    /// Not built yet: a name that is resolved again and again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns: Option<NotBuilt>,
    /// What is spoken. Absent: `h1`, the only one built yet; `h2`, `h2c` and `auto` are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<BackendProtocol>,
    /// The host name that belongs to the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub hostname: Option<String>,
    /// TLS to the endpoints. Absent: plain TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<BackendTls>,
    /// How an endpoint is chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub balancing: Option<BackendBalancing>,
    /// Not built yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<NotBuilt>,
    /// Not built yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<NotBuilt>,
    /// What policies will select by: region, cost, quality and the like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "attributes_schema")]
    pub attributes: Option<BTreeMap<String, serde_json::Value>>,
}

fn attributes_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "description": "What policies will select by: region, cost, quality and the like.",
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

/// An address of a pool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BackendAddress {
    /// IP address.
    #[schemars(length(min = 2, max = 45))]
    pub address: String,
    /// TCP port.
    #[schemars(range(min = limits::PORT.least, max = limits::PORT.most))]
    pub port: u16,
    /// Share among the addresses. Absent: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = limits::WEIGHT.most))]
    pub weight: Option<u32>,
}

/// A port of a Service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServiceRef {
    /// Name of the Service.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Its port.
    #[schemars(range(min = limits::PORT.least, max = limits::PORT.most))]
    pub port: u16,
}

/// What is spoken to a pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BackendProtocol {
    /// HTTP/1.1.
    #[default]
    H1,
    /// HTTP/2 over TLS; not built yet.
    H2,
    /// HTTP/2 with prior knowledge; not built yet.
    H2c,
    /// By ALPN; not built yet.
    Auto,
}

/// TLS to a pool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BackendTls {
    /// Server name. Absent: `hostname`, else the endpoint's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub sni: Option<String>,
    /// Certificates that are trusted, inline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<CaPem>,
    /// Certificates that are trusted, in a ConfigMap or Secret of the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_ref: Option<CaRef>,
}

/// PEM certificates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CaPem {
    /// The PEM text.
    pub pem: String,
}

/// Where PEM certificates are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CaRef {
    /// ConfigMap or Secret.
    pub kind: CaKind,
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The entry. Absent: `ca.crt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// What may hold certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CaKind {
    /// v1 ConfigMap.
    ConfigMap,
    /// v1 Secret.
    Secret,
}

/// How an endpoint is chosen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BackendBalancing {
    /// The method.
    pub r#type: BalancingType,
}

/// The methods there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum BalancingType {
    /// In turn, by weight.
    #[default]
    RoundRobin,
}
