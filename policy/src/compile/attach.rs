//! Which hosts on which listeners a route serves.

use std::collections::{BTreeMap, BTreeSet};

use super::profile::ProfileFragment;
use super::world::{Findings, World};
use super::{check, salvage};
use crate::diag::Reason;
use crate::kinds::edge_route::EdgeRouteSpec;
use crate::kinds::router_profile::{LabelExpression, LabelOperator, LabelSelector, NamespacesFrom};
use crate::resources::{Kind, ObjectKey};

/// Most host names of a route.
const MAX_HOSTNAMES: usize = 64;

/// Most host names of a route that has too many of them; those above [`MAX_HOSTNAMES`] answer 500.
const MAX_FAILING_HOSTNAMES: usize = 1024;

/// The hosts of a route; each with the listeners (`namespace/profile/listener`), which are the same for all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Attachment {
    pub(crate) hosts: BTreeSet<String>,
    /// Hosts whose names are in error: the route's rules answer 500 there.
    pub(crate) failing: BTreeSet<String>,
    pub(crate) listeners: Vec<String>,
}

impl Attachment {
    /// All hosts whose requests it takes.
    pub(crate) fn all_hosts(&self) -> impl Iterator<Item = &String> {
        self.hosts.iter().chain(&self.failing)
    }
}

/// Finds the hosts and listeners of a route.
pub(crate) fn attach(spec: &EdgeRouteSpec, world: &World<'_>, findings: &mut Findings<'_>) -> Attachment {
    let (hosts, failing) = hostnames(&spec.hostnames, findings);
    let namespace = findings.object.key().namespace.clone();
    let key = match &spec.profile_ref {
        Some(reference) => {
            let of = reference.namespace.as_deref().unwrap_or(&namespace);
            ObjectKey::new(Kind::RouterProfile, Some(of), &reference.name)
        }
        None => ObjectKey::new(Kind::RouterProfile, None, "default"),
    };
    let built_in = ProfileFragment::built_in();
    let profile = match world.profile(&key) {
        Some(profile) => profile,
        None if world.resources.unread().contains(&key) => {
            let message = format!("RouterProfile `{}` can't be read", key.path());
            findings.error(Reason::ProfileNotFound, "spec.profileRef", message);
            return Attachment::default();
        }
        None if key.path() == "default/default" => &built_in,
        None => {
            findings.error(
                Reason::ProfileNotFound,
                "spec.profileRef",
                format!("no RouterProfile `{}`", key.path()),
            );
            return Attachment::default();
        }
    };
    let listeners = listeners(spec, profile, &key, findings);
    if !admits(profile, &key, &namespace, world) {
        let message = format!(
            "RouterProfile `{}` admits no routes of namespace `{namespace}`",
            key.path()
        );
        findings.warning(Reason::NotAttached, "spec.profileRef", message);
        return Attachment::default();
    }
    let hosts = within(hosts, &profile.allowed.hostnames);
    let mut failing = within(failing, &profile.allowed.hostnames);
    failing.retain(|host| !hosts.contains(host));
    if (hosts.is_empty() || listeners.is_empty()) && findings.diags.is_empty() {
        let message = format!("no listener of RouterProfile `{}` admits these hosts", key.path());
        findings.warning(Reason::NotAttached, "spec.hostnames", message);
    }
    let path = key.path();
    Attachment {
        hosts,
        failing,
        listeners: listeners
            .into_iter()
            .map(|name| format!("{path}/{name}"))
            .collect(),
    }
}

/// The listeners that a route names, else all of the profile.
fn listeners(
    spec: &EdgeRouteSpec,
    profile: &ProfileFragment,
    key: &ObjectKey,
    findings: &mut Findings<'_>,
) -> BTreeSet<String> {
    let mut listeners = BTreeSet::new();
    for (at, name) in spec.listeners.iter().enumerate() {
        if profile.profile.listeners.contains_key(name) {
            listeners.insert(name.clone());
        } else {
            let message = format!("RouterProfile `{}` has no listener `{name}`", key.path());
            findings.error(
                Reason::ListenerNotFound,
                &format!("spec.listeners[{at}]"),
                message,
            );
        }
    }
    if spec.listeners.is_empty() {
        listeners.extend(profile.profile.listeners.keys().cloned());
    }
    listeners
}

/// The usable host names, and what can be read in the others. None written means any host; none usable means none.
fn hostnames(written: &[String], findings: &mut Findings<'_>) -> (BTreeSet<String>, BTreeSet<String>) {
    if written.is_empty() {
        return (BTreeSet::from(["*".to_owned()]), BTreeSet::new());
    }
    if written.len() > MAX_HOSTNAMES {
        let message = format!(
            "{} host names; {MAX_HOSTNAMES} are taken, the others answer 500",
            written.len()
        );
        findings.error(Reason::TooMany, "spec.hostnames", message);
    }
    let (mut hosts, mut failing) = (BTreeSet::new(), BTreeSet::new());
    for (at, name) in written.iter().take(MAX_FAILING_HOSTNAMES).enumerate() {
        let checked = check::hostname(name, true).map_err(|message| match salvage::host(name) {
            Some(host) => format!("{message} (requests for `{host}` are answered 500 until then)"),
            None => message,
        });
        let field = format!("spec.hostnames[{at}]");
        let usable =
            at >= MAX_HOSTNAMES || findings.check(Reason::InvalidHostname, &field, checked).is_some();
        if usable && at < MAX_HOSTNAMES {
            hosts.insert(name.clone());
        } else {
            failing.extend(salvage::host(name));
        }
    }
    (hosts, failing)
}

/// The parts of the hosts that lie within the allowed ones (Gateway API: the more specific of two that overlap).
fn within(hosts: BTreeSet<String>, allowed: &[String]) -> BTreeSet<String> {
    if allowed.is_empty() {
        return hosts;
    }
    let allowed = allowed.iter().filter(|name| check::hostname(name, true).is_ok());
    let both = |allowed: &String, host: &String| {
        if covers(allowed, host) {
            Some(host.clone())
        } else if covers(host, allowed) {
            Some(allowed.clone())
        } else {
            None
        }
    };
    allowed
        .flat_map(|allowed| hosts.iter().filter_map(move |host| both(allowed, host)))
        .collect()
}

/// Whether each name that `narrow` stands for is one of `wide`.
fn covers(wide: &str, narrow: &str) -> bool {
    match wide.strip_prefix('*') {
        Some("") => true,
        Some(suffix) => narrow.strip_suffix(suffix).is_some_and(|front| !front.is_empty()),
        None => wide == narrow,
    }
}

fn admits(profile: &ProfileFragment, key: &ObjectKey, namespace: &str, world: &World<'_>) -> bool {
    let Some(allowed) = &profile.allowed.namespaces else {
        return true;
    };
    match allowed.from.unwrap_or_default() {
        NamespacesFrom::All => true,
        NamespacesFrom::Same => key.namespace == namespace,
        NamespacesFrom::Selector => {
            // Every Namespace carries its own name as a label (Kubernetes 1.21), written in the folder or not.
            let mut labels = match world.get(Kind::Namespace, "", namespace) {
                Some(object) => object.meta().labels.clone(),
                None => BTreeMap::new(),
            };
            labels.insert("kubernetes.io/metadata.name".into(), namespace.to_owned());
            // A selector that is left out selects nothing; an empty one selects everything.
            allowed
                .selector
                .as_ref()
                .is_some_and(|selector| selects(selector, &labels))
        }
    }
}

fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let equal = selector
        .match_labels
        .iter()
        .all(|(key, value)| labels.get(key) == Some(value));
    let holds = |expression: &LabelExpression| {
        let value = labels.get(&expression.key);
        let listed = value.is_some_and(|value| expression.values.contains(value));
        match expression.operator {
            LabelOperator::In => listed,
            LabelOperator::NotIn => !listed,
            LabelOperator::Exists => value.is_some(),
            LabelOperator::DoesNotExist => value.is_none(),
        }
    };
    equal && selector.match_expressions.iter().all(holds)
}
