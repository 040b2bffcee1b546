//! The kinds people write, as they stand in YAML and in a cluster.
//!
//! # Decisions
//! - **Plain structs.** A choice is a `type` enum with optional members beside it, as in the Gateway API, not a serde
//!   enum with content: a structural schema has no untagged `oneOf`, and a half-filled choice gets a diagnostic that
//!   names the member instead of "data did not match any variant".
//! - **A field that isn't built is known and refused.** It has the type [`NotBuilt`], so the compiler can say so with
//!   the field's place; leaving it out of the type would call it a misspelling.
//! - **Defaults belong to the compiler.** The schema holds none, so schema and compiler can't disagree.

pub mod backend;
pub mod edge_route;
pub mod edge_route_v1;
pub mod kubernetes;
pub mod meta;
pub mod router_profile;
pub mod routing_policy;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use kube::core::crd::merge_crds;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The API group of every kind here.
pub const GROUP: &str = "routed.io";

/// The content of a field that this version knows and refuses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NotBuilt(pub serde_json::Value);

impl JsonSchema for NotBuilt {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "NotBuilt".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        free_form(&mut SchemaGenerator::default())
    }
}

/// A value of any form, for the schema.
pub(crate) fn free_form(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}

/// What the operator reports of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectStatus {
    /// Conditions by type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// One condition (metav1.Condition).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// For instance `Ready`.
    pub r#type: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The generation that the condition is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When the status last changed (RFC 3339).
    pub last_transition_time: String,
    /// Reason of one word.
    pub reason: String,
    /// For people.
    pub message: String,
}

/// The definitions of all kinds, as `kubectl apply` takes them. EdgeRoute is stored as v2; v1 is served as deprecated.
pub fn crds() -> Vec<CustomResourceDefinition> {
    let routes = vec![edge_route_v1::EdgeRoute::crd(), edge_route::EdgeRoute::crd()];
    // Merging fails only for definitions of different groups or kinds; a test holds that it doesn't.
    let routes = merge_crds(routes, "v2").unwrap_or_else(|_| edge_route::EdgeRoute::crd());
    vec![
        routes,
        backend::Backend::crd(),
        routing_policy::RoutingPolicy::crd(),
        router_profile::RouterProfile::crd(),
    ]
}
