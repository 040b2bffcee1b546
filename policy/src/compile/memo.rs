//! The compiler's memory: what each object became, what it looked at, and the parts made of it.

mod parts;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use routed_snapshot::ir::HttpTable;
use routed_snapshot::snapshot::bucket_of;
use routed_snapshot::{Part, PartName};

use super::Report;
use super::backend::{self, Pool, backend_name};
use super::profile::{self, ProfileFragment};
use super::route::{self, RouteFragment};
use super::world::{Findings, World};
use crate::diag::{Diag, Reason};
use crate::resources::{Body, Cursor, Kind, Object, ObjectKey, Resources};

/// Compiles again and again at the cost of what changed. The result is always the one from zero.
#[derive(Debug, Default)]
pub struct Compiler {
    cursor: Option<Cursor>,
    /// Objects that are written and can't be read.
    unread: BTreeSet<ObjectKey>,
    seen: BTreeMap<ObjectKey, Arc<Object>>,
    /// What each unit looked at, and the other way round.
    looked_at: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    dependents: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    slices: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    usable: BTreeMap<ObjectKey, bool>,
    profiles: BTreeMap<ObjectKey, ProfileFragment>,
    routes: BTreeMap<ObjectKey, RouteFragment>,
    /// Names of the pools that each Backend and Service gave.
    pool_names: BTreeMap<ObjectKey, Vec<String>>,
    /// Pools by bucket and name.
    pools: BTreeMap<u8, BTreeMap<String, Pool>>,
    /// Routes by bucket and host.
    hosts: BTreeMap<u8, BTreeMap<String, Host>>,
    diags: BTreeMap<ObjectKey, Vec<Diag>>,
    host_diags: BTreeMap<String, Vec<Diag>>,
    parts: BTreeMap<PartName, Arc<Part>>,
}

/// A host with the routes that serve it and what became of them.
#[derive(Debug, Default)]
struct Host {
    routes: BTreeSet<ObjectKey>,
    tables: Vec<HttpTable>,
}

/// What has to be done again, stage by stage.
#[derive(Debug, Default)]
struct Dirty {
    units: BTreeMap<Kind, BTreeSet<ObjectKey>>,
    hosts: BTreeSet<String>,
    pool_buckets: BTreeSet<u8>,
    profiles: bool,
}

impl Dirty {
    fn add(&mut self, key: &ObjectKey) {
        self.units.entry(key.kind).or_default().insert(key.clone());
    }

    fn take(&mut self, kind: Kind) -> BTreeSet<ObjectKey> {
        self.units.remove(&kind).unwrap_or_default()
    }
}

impl Compiler {
    /// A compiler without memory.
    pub fn new() -> Compiler {
        Compiler::default()
    }

    /// Compiles.
    pub fn compile(&mut self, resources: &Resources) -> Report {
        let mut dirty = Dirty::default();
        let mut changed = self.changed(resources);
        let unread = resources.unread();
        changed.extend(unread.symmetric_difference(&self.unread).cloned());
        self.unread.clone_from(unread);
        for key in changed {
            self.note(&key, resources.get(&key), &mut dirty);
        }
        if self.cursor.is_none() {
            dirty.profiles = true;
        }
        self.cursor = Some(resources.cursor());
        self.compile_backends(resources, &mut dirty);
        self.compile_profiles(resources, &mut dirty);
        self.compile_routes(resources, &mut dirty);
        self.compile_services(resources, &mut dirty);
        for key in dirty.take(Kind::RoutingPolicy) {
            self.compile_policy(resources, &key);
        }
        self.build_parts(resources, &dirty);
        self.report(resources)
    }

    fn changed(&self, resources: &Resources) -> BTreeSet<ObjectKey> {
        if let Some(changed) = self.cursor.and_then(|cursor| resources.changed_since(cursor)) {
            return changed.iter().cloned().collect();
        }
        let mut changed: BTreeSet<ObjectKey> = BTreeSet::new();
        for object in resources.objects() {
            let known = self.seen.get(object.key());
            if !known.is_some_and(|known| Arc::ptr_eq(known, object)) {
                changed.insert(object.key().clone());
            }
        }
        let gone = self.seen.keys().filter(|key| resources.get(key).is_none());
        changed.extend(gone.cloned());
        changed
    }

    /// Takes notice of a changed object: what has to be compiled again because of it.
    fn note(&mut self, key: &ObjectKey, new: Option<&Arc<Object>>, dirty: &mut Dirty) {
        let old = match new {
            Some(object) => self.seen.insert(key.clone(), Arc::clone(object)),
            None => self.seen.remove(key),
        };
        if key.kind == Kind::EndpointSlice {
            for (object, present) in [(old.as_ref(), false), (new, true)] {
                let Some(service) = object.and_then(|object| service_of(object)) else {
                    continue;
                };
                let slices = self.slices.entry(service.clone()).or_default();
                if present {
                    slices.insert(key.clone());
                } else {
                    slices.remove(key);
                }
                dirty.add(&service);
                let users = self.dependents.get(&service).into_iter().flatten();
                users
                    .filter(|user| user.kind == Kind::Backend)
                    .for_each(|user| dirty.add(user));
            }
            return;
        }
        dirty.add(key);
        // Routes see a Backend and a profile through their results, which later stages compare; appearing and going
        // shows there too.
        if !matches!(key.kind, Kind::Backend | Kind::RouterProfile) || old.is_none() || new.is_none() {
            self.wake(key, dirty);
        }
    }

    fn wake(&self, key: &ObjectKey, dirty: &mut Dirty) {
        self.dependents
            .get(key)
            .into_iter()
            .flatten()
            .for_each(|user| dirty.add(user));
    }

    /// Compiles one unit in a world that records what it looks at.
    fn in_world<T>(
        &mut self,
        resources: &Resources,
        unit: &ObjectKey,
        work: impl FnOnce(&World<'_>) -> T,
    ) -> T {
        let world = World {
            resources,
            slices: &self.slices,
            usable: &self.usable,
            profiles: &self.profiles,
            seen: RefCell::default(),
        };
        let result = work(&world);
        let seen = world.seen.into_inner();
        self.set_looked_at(unit, seen);
        result
    }

    fn set_looked_at(&mut self, unit: &ObjectKey, seen: BTreeSet<ObjectKey>) {
        let old = if seen.is_empty() {
            self.looked_at.remove(unit)
        } else {
            self.looked_at.insert(unit.clone(), seen.clone())
        };
        let old = old.unwrap_or_default();
        for key in old.difference(&seen) {
            if let Some(users) = self.dependents.get_mut(key) {
                users.remove(unit);
                if users.is_empty() {
                    self.dependents.remove(key);
                }
            }
        }
        for key in seen.difference(&old) {
            self.dependents
                .entry(key.clone())
                .or_default()
                .insert(unit.clone());
        }
    }

    fn set_diags(&mut self, unit: &ObjectKey, diags: Vec<Diag>) {
        if diags.is_empty() {
            self.diags.remove(unit);
        } else {
            self.diags.insert(unit.clone(), diags);
        }
    }

    fn compile_backends(&mut self, resources: &Resources, dirty: &mut Dirty) {
        for key in dirty.take(Kind::Backend) {
            let object = resources.get(&key);
            let (pool, diags) = match object.map(|object| (object, object.body())) {
                Some((object, Body::Backend(spec))) => self.in_world(resources, &key, |world| {
                    let mut findings = Findings::new(object);
                    let pool = backend::backend(object, spec, world, &mut findings);
                    (pool, findings.diags)
                }),
                _ => {
                    self.set_looked_at(&key, BTreeSet::new());
                    (None, Vec::new())
                }
            };
            self.set_diags(&key, diags);
            let usable = object.map(|_| pool.is_some());
            let before = match usable {
                Some(usable) => self.usable.insert(key.clone(), usable),
                None => self.usable.remove(&key),
            };
            if before != usable {
                self.wake(&key, dirty);
            }
            let pools = pool.map(|pool| (backend_name(&key.namespace, &key.name), pool));
            self.set_pools(&key, pools.into_iter().collect(), dirty);
        }
    }

    fn set_pools(&mut self, unit: &ObjectKey, pools: Vec<(String, Pool)>, dirty: &mut Dirty) {
        for name in self.pool_names.remove(unit).unwrap_or_default() {
            let bucket = bucket_of(&name);
            if let Some(named) = self.pools.get_mut(&bucket) {
                named.remove(&name);
            }
            dirty.pool_buckets.insert(bucket);
        }
        if pools.is_empty() {
            return;
        }
        let names = pools.iter().map(|(name, _)| name.clone()).collect();
        self.pool_names.insert(unit.clone(), names);
        for (name, pool) in pools {
            let bucket = bucket_of(&name);
            self.pools.entry(bucket).or_default().insert(name, pool);
            dirty.pool_buckets.insert(bucket);
        }
    }

    fn compile_profiles(&mut self, resources: &Resources, dirty: &mut Dirty) {
        for key in dirty.take(Kind::RouterProfile) {
            dirty.profiles = true;
            let object = resources.get(&key);
            let compiled = match object.map(|object| (object, object.body())) {
                Some((object, Body::RouterProfile(spec))) => Some(self.in_world(resources, &key, |world| {
                    let mut findings = Findings::new(object);
                    let fragment = profile::profile(spec, world, &mut findings);
                    (fragment, findings.diags)
                })),
                _ => {
                    self.set_looked_at(&key, BTreeSet::new());
                    None
                }
            };
            let (fragment, diags) =
                compiled.map_or((None, Vec::new()), |(fragment, diags)| (Some(fragment), diags));
            self.set_diags(&key, diags);
            let before = match &fragment {
                Some(fragment) => self.profiles.insert(key.clone(), fragment.clone()),
                None => self.profiles.remove(&key),
            };
            let same = match (&before, &fragment) {
                (Some(before), Some(after)) => before.admits_like(after),
                (None, None) => true,
                _ => false,
            };
            if !same {
                self.wake(&key, dirty);
            }
        }
    }

    fn compile_routes(&mut self, resources: &Resources, dirty: &mut Dirty) {
        for key in dirty.take(Kind::EdgeRoute) {
            // A Service is compiled where a route uses it, so a route's change may bring one in or take one out.
            let uses = |looked_at: &BTreeMap<ObjectKey, BTreeSet<ObjectKey>>| -> BTreeSet<ObjectKey> {
                let seen = looked_at.get(&key).into_iter().flatten();
                seen.filter(|seen| seen.kind == Kind::Service).cloned().collect()
            };
            let before = uses(&self.looked_at);
            let fragment = match resources.get(&key) {
                Some(object) => {
                    let (fragment, diags) =
                        self.in_world(resources, &key, |world| route::route(object, world));
                    self.set_diags(&key, diags);
                    Some(fragment)
                }
                None => {
                    self.set_looked_at(&key, BTreeSet::new());
                    self.set_diags(&key, Vec::new());
                    None
                }
            };
            for service in before.symmetric_difference(&uses(&self.looked_at)) {
                dirty.add(service);
            }
            let old = match fragment {
                Some(fragment) => self.routes.insert(key.clone(), fragment),
                None => self.routes.remove(&key),
            };
            self.move_hosts(&key, old.as_ref(), dirty);
        }
    }

    fn move_hosts(&mut self, key: &ObjectKey, old: Option<&RouteFragment>, dirty: &mut Dirty) {
        for host in old.into_iter().flat_map(|old| old.attachment.all_hosts()) {
            if let Some(entry) = self
                .hosts
                .get_mut(&bucket_of(host))
                .and_then(|hosts| hosts.get_mut(host))
            {
                entry.routes.remove(key);
            }
            dirty.hosts.insert(host.clone());
        }
        let new = self.routes.get(key);
        for host in new.into_iter().flat_map(|new| new.attachment.all_hosts()) {
            let hosts = self.hosts.entry(bucket_of(host)).or_default();
            hosts.entry(host.clone()).or_default().routes.insert(key.clone());
            dirty.hosts.insert(host.clone());
        }
    }

    fn compile_services(&mut self, resources: &Resources, dirty: &mut Dirty) {
        for key in dirty.take(Kind::Service) {
            let users = self.dependents.get(&key).into_iter().flatten();
            let used = users.into_iter().any(|user| user.kind == Kind::EdgeRoute);
            let pools = match resources.get(&key).map(|object| (object, object.body())) {
                Some((object, Body::Service(spec))) if used => {
                    let world = World {
                        resources,
                        slices: &self.slices,
                        usable: &self.usable,
                        profiles: &self.profiles,
                        seen: RefCell::default(),
                    };
                    backend::service(object, spec, &world)
                }
                _ => Vec::new(),
            };
            self.set_pools(&key, pools, dirty);
        }
    }

    fn compile_policy(&mut self, resources: &Resources, key: &ObjectKey) {
        let Some(object) = resources.get(key) else {
            return self.set_diags(key, Vec::new());
        };
        let mut findings = Findings::new(object);
        findings.error(
            Reason::NotBuilt,
            "kind",
            "policies are not evaluated yet; this one has no effect",
        );
        self.set_diags(key, findings.diags);
    }
}

/// The Service that an EndpointSlice belongs to.
fn service_of(object: &Object) -> Option<ObjectKey> {
    let name = object.meta().labels.get("kubernetes.io/service-name")?;
    Some(ObjectKey::new(Kind::Service, Some(&object.key().namespace), name))
}
