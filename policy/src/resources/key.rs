//! What tells objects apart.

use std::fmt;

/// The kinds that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// routed.io EdgeRoute
    EdgeRoute,
    /// routed.io Backend
    Backend,
    /// routed.io RoutingPolicy
    RoutingPolicy,
    /// routed.io RouterProfile
    RouterProfile,
    /// v1 Service
    Service,
    /// discovery.k8s.io/v1 EndpointSlice
    EndpointSlice,
    /// v1 Secret
    Secret,
    /// v1 ConfigMap
    ConfigMap,
    /// v1 Namespace
    Namespace,
}

impl Kind {
    /// The kinds of our group.
    pub(super) const OURS: [Kind; 4] = [
        Kind::EdgeRoute,
        Kind::Backend,
        Kind::RoutingPolicy,
        Kind::RouterProfile,
    ];

    /// The kind of a name.
    pub(super) fn named(name: &str) -> Option<Kind> {
        let foreign = [
            Kind::Service,
            Kind::EndpointSlice,
            Kind::Secret,
            Kind::ConfigMap,
            Kind::Namespace,
        ];
        let mut all = Kind::OURS.into_iter().chain(foreign);
        all.find(|kind| kind.to_string() == name)
    }
}

impl Kind {
    /// The kind of our group that a misspelt name most probably means; none where it is like none of them.
    pub(crate) fn nearest(name: &str) -> Option<Kind> {
        let name = name.to_ascii_lowercase();
        let distance =
            |kind: &Kind| strsim::damerau_levenshtein(&kind.to_string().to_ascii_lowercase(), &name);
        let nearest = Kind::OURS.into_iter().map(|kind| (distance(&kind), kind));
        let (distance, kind) = nearest.min_by_key(|(distance, _)| *distance)?;
        (distance <= 3).then_some(kind)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What tells objects apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Kind.
    pub kind: Kind,
    /// Namespace; empty for a Namespace itself.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl ObjectKey {
    /// A key; an absent namespace is `default`.
    pub fn new(kind: Kind, namespace: Option<&str>, name: &str) -> ObjectKey {
        let namespace = match kind {
            Kind::Namespace => "",
            _ => namespace.unwrap_or("default"),
        };
        ObjectKey {
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// `namespace/name`.
    pub fn path(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}
