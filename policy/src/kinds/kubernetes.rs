//! Kubernetes' own kinds, as far as the compiler reads them. Lenient: their other fields are none of ours.

use std::collections::BTreeMap;

use serde::Deserialize;

/// v1 Service: spec.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceSpec {
    /// Ports.
    #[serde(default)]
    pub ports: Vec<ServicePort>,
    /// `ClusterIP`, `ExternalName`…
    #[serde(default)]
    pub r#type: Option<String>,
}

/// A port of a Service. Its target is found by name in the EndpointSlices, as kube-proxy does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServicePort {
    /// Name; absent where it is the only one.
    #[serde(default)]
    pub name: Option<String>,
    /// Port.
    pub port: u16,
    /// `TCP` where absent.
    #[serde(default)]
    pub protocol: Option<String>,
}

/// discovery.k8s.io/v1 EndpointSlice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointSlice {
    /// `IPv4`, `IPv6` or `FQDN`.
    #[serde(default)]
    pub address_type: String,
    /// Endpoints.
    #[serde(default)]
    pub endpoints: Option<Vec<SliceEndpoint>>,
    /// Ports that every endpoint of the slice has.
    #[serde(default)]
    pub ports: Option<Vec<SlicePort>>,
}

/// An endpoint of a slice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SliceEndpoint {
    /// Addresses; the first one counts.
    #[serde(default)]
    pub addresses: Vec<String>,
    /// State.
    #[serde(default)]
    pub conditions: Option<EndpointConditions>,
}

/// State of an endpoint; absent values mean ready.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointConditions {
    /// Takes traffic.
    #[serde(default)]
    pub ready: Option<bool>,
    /// Would take traffic, terminating or not.
    #[serde(default)]
    pub serving: Option<bool>,
    /// Is being ended.
    #[serde(default)]
    pub terminating: Option<bool>,
}

/// A port of a slice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SlicePort {
    /// The Service port's name.
    #[serde(default)]
    pub name: Option<String>,
    /// Target port.
    #[serde(default)]
    pub port: Option<u16>,
    /// `TCP` where absent.
    #[serde(default)]
    pub protocol: Option<String>,
}

/// v1 Secret. Values are base64 in `data` and plain in `stringData`, which wins.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Secret {
    /// For instance `kubernetes.io/tls`.
    #[serde(default)]
    pub r#type: Option<String>,
    /// Base64 values.
    #[serde(default)]
    pub data: Option<BTreeMap<String, String>>,
    /// Plain values.
    #[serde(default)]
    pub string_data: Option<BTreeMap<String, String>>,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secret").finish_non_exhaustive()
    }
}

/// v1 ConfigMap.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMap {
    /// Values.
    #[serde(default)]
    pub data: Option<BTreeMap<String, String>>,
}
