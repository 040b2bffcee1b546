//! Object metadata as the compiler needs it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// What is kept of an object's metadata. Lenient: Kubernetes' own kinds may carry fields that came later.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Meta {
    /// Name, required.
    #[serde(default)]
    pub name: String,
    /// Namespace; absent: `default`.
    #[serde(default)]
    pub namespace: Option<String>,
    /// Labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// When the API server made it; absent in files.
    #[serde(default)]
    pub creation_timestamp: Option<Timestamp>,
}

/// The same for our own kinds: an unknown field is an error.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "fields that are known and not needed")]
pub(crate) struct StrictMeta {
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: Option<String>,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
    #[serde(default)]
    creation_timestamp: Option<Timestamp>,
    #[serde(default)]
    uid: Option<IgnoredAny>,
    #[serde(default)]
    resource_version: Option<IgnoredAny>,
    #[serde(default)]
    generation: Option<IgnoredAny>,
    #[serde(default)]
    generate_name: Option<IgnoredAny>,
    #[serde(default)]
    deletion_timestamp: Option<IgnoredAny>,
    #[serde(default)]
    deletion_grace_period_seconds: Option<IgnoredAny>,
    #[serde(default)]
    finalizers: Option<IgnoredAny>,
    #[serde(default)]
    owner_references: Option<IgnoredAny>,
    #[serde(default)]
    managed_fields: Option<IgnoredAny>,
    #[serde(default)]
    self_link: Option<IgnoredAny>,
}

impl From<StrictMeta> for Meta {
    fn from(strict: StrictMeta) -> Meta {
        Meta {
            name: strict.name,
            namespace: strict.namespace,
            labels: strict.labels.unwrap_or_default(),
            creation_timestamp: strict.creation_timestamp,
        }
    }
}
