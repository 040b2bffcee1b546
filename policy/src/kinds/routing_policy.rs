//! RoutingPolicy: chooses among backends at decision time. The type is whole; evaluation isn't built yet, so every
//! object is refused with a diagnostic.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{NotBuilt, ObjectStatus};

/// Chooses a Backend for requests by tenant, agent, path and attributes.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "routed.io",
    version = "v1",
    kind = "RoutingPolicy",
    doc = "Not built yet: every object of this kind is refused and has no effect. Will choose a Backend for requests by tenant, agent, path and attributes.",
    plural = "routingpolicies",
    namespaced,
    shortname = "rp",
    category = "routed",
    status = "ObjectStatus",
    printcolumn = r#"{"name":"Priority","type":"integer","jsonPath":".spec.priority"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RoutingPolicySpec {
    /// Policies are tried by priority, highest first, then by namespace and name.
    #[serde(default)]
    pub priority: i32,
    /// Which requests; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r#match: Option<PolicyMatch>,
    /// Which Backends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidates: Option<PolicyCandidates>,
    /// What a candidate must satisfy, by attribute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constraints: Option<NotBuilt>,
    /// What the choice optimises.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<PolicyObjective>,
    /// Backends tried in this order where no candidate is left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub fallback: Vec<String>,
    /// Answer 403.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deny: bool,
    /// Evaluate and record, don't enforce.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// Which requests a policy is about: each list that is not empty must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicyMatch {
    /// Tenants.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<String>,
    /// Agents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
    /// Hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Path prefixes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Methods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<String>,
    /// Headers by name and exact value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

/// Which Backends a policy chooses among.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicyCandidates {
    /// Labels that a Backend must carry.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub selector: BTreeMap<String, String>,
    /// Names added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
    /// Names taken away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
}

/// What the choice optimises.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicyObjective {
    /// For instance `LowestCost`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Weights by attribute.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub weights: BTreeMap<String, u32>,
    /// Least quality.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality_floor: Option<u32>,
}
