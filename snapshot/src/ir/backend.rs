//! Backends: pools of endpoints and how to talk to them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::is_default;

/// A part `backends/<bucket>`: backends by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendsPart {
    /// Backends by name, see [`super`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub backends: BTreeMap<String, Backend>,
}

/// A part `endpoints/<bucket>`: the endpoints of backends, by the backend's name. Its parts are left out of
/// `configHash`: an endpoint that comes or goes is no change of configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointsPart {
    /// Endpoints by backend name, sorted by address and port. A backend without entry has none: 503.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub endpoints: BTreeMap<String, Vec<Endpoint>>,
}

/// One backend, endpoints apart.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Backend {
    /// What is spoken to it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub protocol: Protocol,
    /// The host name that `hostFromBackend` writes, and the default TLS server name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// The port that belongs to `hostname`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// TLS to the endpoints; absent: plain TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<BackendTls>,
    /// How an endpoint is chosen.
    #[serde(default, skip_serializing_if = "is_default")]
    pub balancing: Balancing,
}

/// What is spoken to a backend. HTTP/2 comes as further values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Protocol {
    /// HTTP/1.1.
    #[default]
    H1,
}

/// How an endpoint is chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub enum Balancing {
    /// In turn, by weight where endpoints have one.
    #[default]
    RoundRobin,
}

/// TLS to a backend. The server's certificate is always verified.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendTls {
    /// Server name for SNI and verification; absent: the backend's `hostname`, else the endpoint's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sni: Option<String>,
    /// PEM certificates that are trusted; absent: the machine's own trust store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_pem: Option<String>,
}

/// One address of a backend.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// IP address.
    pub address: String,
    /// TCP port.
    pub port: u16,
    /// Share among the backend's endpoints; left out where it is 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub weight: u32,
}

fn one() -> u32 {
    1
}

fn is_one(weight: &u32) -> bool {
    *weight == 1
}
