//! Parts of the snapshot from what the stages left in memory: only those that something changed in.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use routed_snapshot::ir::{BackendsPart, EndpointsPart, Profile, ProfilesPart, RoutesPart};
use routed_snapshot::snapshot::{PartContent, bucket_of};
use routed_snapshot::{Part, PartName, Snapshot};

use super::{Compiler, Dirty};
use crate::compile::route::failure;
use crate::compile::table::host_tables;
use crate::compile::{Report, TlsPair};
use crate::diag::{Diag, Reason};
use crate::resources::{Kind, Resources};

impl Compiler {
    pub(super) fn build_parts(&mut self, resources: &Resources, dirty: &Dirty) {
        if dirty.profiles {
            let profiles = self.profiles_part();
            self.set_part(PartName::Profiles, Some(PartContent::Profiles(profiles)));
        }
        for bucket in &dirty.pool_buckets {
            self.build_pools(*bucket);
        }
        let mut buckets = BTreeSet::new();
        for host in &dirty.hosts {
            buckets.insert(self.build_host(host, resources));
        }
        for bucket in buckets {
            self.build_routes(bucket);
        }
    }

    fn profiles_part(&self) -> ProfilesPart {
        let named = self.profiles.iter();
        let mut profiles: BTreeMap<_, _> = named.map(|(key, of)| (key.path(), of.profile.clone())).collect();
        // Nothing listens for a profile that can't be read: a router runs the built-in one only where there is none.
        let unread = self.unread.iter();
        let unread = unread.filter(|key| key.kind == Kind::RouterProfile);
        profiles.extend(unread.map(|key| (key.path(), Profile::default())));
        profiles
            .entry("default/default".to_owned())
            .or_insert_with(Profile::built_in);
        ProfilesPart { profiles }
    }

    fn build_pools(&mut self, bucket: u8) {
        let (mut backends, mut endpoints) = (BackendsPart::default(), EndpointsPart::default());
        for (name, pool) in self.pools.get(&bucket).into_iter().flatten() {
            backends.backends.insert(name.clone(), pool.backend.clone());
            if !pool.endpoints.is_empty() {
                endpoints.endpoints.insert(name.clone(), pool.endpoints.clone());
            }
        }
        let backends = (!backends.backends.is_empty()).then_some(PartContent::Backends(backends));
        let endpoints = (!endpoints.endpoints.is_empty()).then_some(PartContent::Endpoints(endpoints));
        self.set_part(PartName::Backends(bucket), backends);
        self.set_part(PartName::Endpoints(bucket), endpoints);
    }

    fn build_host(&mut self, host: &str, resources: &Resources) -> u8 {
        let bucket = bucket_of(host);
        self.host_diags.remove(host);
        let hosts = self.hosts.entry(bucket).or_default();
        if let Some(entry) = hosts.get_mut(host) {
            if entry.routes.is_empty() {
                hosts.remove(host);
            } else {
                let built = host_tables(host, &entry.routes, &self.routes, resources);
                entry.tables = built.tables;
                if !built.diags.is_empty() {
                    self.host_diags.insert(host.to_owned(), built.diags);
                }
            }
        }
        bucket
    }

    fn build_routes(&mut self, bucket: u8) {
        let mut part = RoutesPart::default();
        for (name, host) in self.hosts.get(&bucket).into_iter().flatten() {
            part.tables.extend(host.tables.iter().cloned());
            let fragments = host.routes.iter().filter_map(|key| self.routes.get(key));
            for fragment in fragments.filter(|fragment| !fragment.attachment.listeners.is_empty()) {
                let rules = fragment.rules.iter().filter(|rule| !rule.matches.is_empty());
                if fragment.attachment.failing.contains(name) {
                    let failing = rules.map(|rule| (rule.failing_name(), failure(Reason::InvalidHostname)));
                    part.rules.extend(failing);
                    continue;
                }
                for rule in rules {
                    if !part.rules.contains_key(&rule.name) {
                        part.rules.insert(rule.name.clone(), rule.rule.clone());
                    }
                }
            }
        }
        let part = (!part.tables.is_empty()).then_some(PartContent::Routes(part));
        self.set_part(PartName::Routes(bucket), part);
    }

    /// Writing a part fails for no content that the stages make (all keys are strings, no floats).
    fn set_part(&mut self, name: PartName, content: Option<PartContent>) {
        match content.and_then(|content| Part::from_content(content).ok()) {
            Some(part) => self.parts.insert(name, Arc::new(part)),
            None => self.parts.remove(&name),
        };
    }

    /// All that is known, in order.
    pub(super) fn report(&self, resources: &Resources) -> Report {
        let mut keys: BTreeMap<String, TlsPair> = BTreeMap::new();
        for profile in self.profiles.values() {
            keys.extend(
                profile
                    .keys
                    .iter()
                    .map(|(name, pair)| (name.clone(), pair.clone())),
            );
        }
        let of_objects = self.diags.values().chain(self.host_diags.values()).flatten();
        let mut diags: Vec<Diag> = resources.diags().iter().chain(of_objects).cloned().collect();
        diags.sort_by(|a, b| a.order().cmp(&b.order()));
        Report {
            snapshot: Snapshot::new(self.parts.clone(), None),
            keys,
            diags,
        }
    }
}
