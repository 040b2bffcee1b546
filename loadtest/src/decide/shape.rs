//! The tables that are measured, written as a snapshot by hand: no compiler takes part.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result};
use routed_snapshot::ir;
use routed_snapshot::snapshot::{PartContent, bucket_of};
use routed_snapshot::{Part, PartName, Snapshot};

use crate::args::Shape;

/// The only listener.
pub(crate) const LISTENER: &str = "load/load/http";

/// The host of [`Shape::OneHost`].
const ONE_HOST: &str = "www.example.com";

/// How many routes share a backend.
const ROUTES_PER_BACKEND: u32 = 100;

/// A table's size and form; every name in it follows from a route's number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Table {
    /// How many routes.
    pub(crate) routes: u32,
    /// How they are spread.
    pub(crate) shape: Shape,
}

impl Table {
    /// The host of a route.
    pub(crate) fn host(&self, route: u32) -> String {
        match self.shape {
            Shape::OneHost => ONE_HOST.to_owned(),
            Shape::ManyHosts => format!("h{route}.example.com"),
        }
    }

    /// The path prefix of a route: one element of a few, one of many, and for every second route a third.
    pub(crate) fn prefix(&self, route: u32) -> String {
        match (self.shape, route % 2) {
            (Shape::ManyHosts, _) => "/app".to_owned(),
            (Shape::OneHost, 0) => format!("/s{}/t{route}", route % 64),
            (Shape::OneHost, _) => format!("/s{}/t{route}/u{}", route % 64, route % 7),
        }
    }

    /// The whole table as a snapshot.
    pub(crate) fn snapshot(&self) -> Result<Snapshot> {
        let mut parts = BTreeMap::new();
        let mut add = |name, content| -> Result<()> {
            parts.insert(name, Arc::new(Part::from_content(content)?));
            Ok(())
        };
        add(PartName::Profiles, PartContent::Profiles(profiles()))?;
        for (bucket, part) in self.routes() {
            add(PartName::Routes(bucket), PartContent::Routes(part))?;
        }
        let (backends, endpoints) = self.backends();
        for (bucket, part) in backends {
            add(PartName::Backends(bucket), PartContent::Backends(part))?;
        }
        for (bucket, part) in endpoints {
            add(PartName::Endpoints(bucket), PartContent::Endpoints(part))?;
        }
        Ok(Snapshot::new(parts, None))
    }

    /// The content of the part that holds a route, with that route sent to the backend `to`.
    pub(crate) fn edited(&self, snapshot: &Snapshot, route: u32, to: u32) -> Result<(PartName, PartContent)> {
        let name = PartName::Routes(bucket_of(&self.host(route)));
        let part = snapshot.parts().get(&name).context("the route has no part")?;
        let PartContent::Routes(mut routes) = part.content()?.into_owned() else {
            anyhow::bail!("{name} holds no routes");
        };
        routes.rules.insert(rule_name(route), rule(to));
        Ok((name, PartContent::Routes(routes)))
    }

    /// How many backends there are.
    pub(crate) fn backend_count(&self) -> u32 {
        self.routes.div_ceil(ROUTES_PER_BACKEND)
    }

    fn routes(&self) -> BTreeMap<u8, ir::RoutesPart> {
        let mut matches: BTreeMap<String, Vec<ir::HttpMatch>> = BTreeMap::new();
        let mut parts: BTreeMap<u8, ir::RoutesPart> = BTreeMap::new();
        for route in 0..self.routes {
            let host = self.host(route);
            let part = parts.entry(bucket_of(&host)).or_default();
            part.rules
                .insert(rule_name(route), rule(route / ROUTES_PER_BACKEND));
            matches.entry(host).or_default().push(ir::HttpMatch {
                path: ir::PathMatch::PathPrefix(self.prefix(route)),
                method: None,
                headers: Vec::new(),
                query_params: Vec::new(),
                cookies: Vec::new(),
                rule: rule_name(route),
                index: 0,
            });
        }
        for (host, mut matches) in matches {
            // Precedence: the longer prefix first.
            matches.sort_by_key(|entry| match &entry.path {
                ir::PathMatch::PathPrefix(prefix) => (usize::MAX - prefix.len(), prefix.clone()),
                _ => (0, String::new()),
            });
            parts
                .entry(bucket_of(&host))
                .or_default()
                .tables
                .push(ir::HttpTable {
                    host,
                    listeners: vec![LISTENER.to_owned()],
                    matches,
                });
        }
        parts
    }

    fn backends(&self) -> (BTreeMap<u8, ir::BackendsPart>, BTreeMap<u8, ir::EndpointsPart>) {
        let mut backends: BTreeMap<u8, ir::BackendsPart> = BTreeMap::new();
        let mut endpoints: BTreeMap<u8, ir::EndpointsPart> = BTreeMap::new();
        for number in 0..self.backend_count() {
            let name = backend_name(number);
            let bucket = bucket_of(&name);
            let [_, high, middle, low] = number.to_be_bytes();
            let pods = [0, 128].map(|half| ir::Endpoint {
                address: format!("10.{}.{middle}.{low}", half | (high & 127)),
                port: 8080,
                weight: 1,
            });
            let by_name = &mut endpoints.entry(bucket).or_default().endpoints;
            by_name.insert(name.clone(), pods.into());
            let by_name = &mut backends.entry(bucket).or_default().backends;
            by_name.insert(name, ir::Backend::default());
        }
        (backends, endpoints)
    }
}

fn profiles() -> ir::ProfilesPart {
    ir::ProfilesPart {
        profiles: BTreeMap::from([("load/load".to_owned(), ir::Profile::built_in())]),
    }
}

fn rule_name(route: u32) -> String {
    format!("EdgeRoute/load/r{route}/0")
}

fn backend_name(number: u32) -> String {
    format!("Service/load/b{number}/80")
}

fn rule(backend: u32) -> ir::Rule {
    let share = ir::WeightedBackend {
        weight: 1,
        target: ir::Target::Backend(backend_name(backend)),
        request_headers: ir::HeaderEdits::default(),
        response_headers: ir::HeaderEdits::default(),
    };
    ir::Rule {
        name: None,
        action: ir::Action::Forward {
            backends: vec![share],
        },
        request_headers: ir::HeaderEdits::default(),
        response_headers: ir::HeaderEdits::default(),
        rewrite: None,
        cors: None,
        mirrors: Vec::new(),
        timeouts: ir::RuleTimeouts::default(),
        retry: None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test fails by panicking
mod tests {
    use super::*;

    #[test]
    fn a_table_has_as_many_matches_as_routes() {
        for shape in [Shape::OneHost, Shape::ManyHosts] {
            let table = Table { routes: 250, shape };
            let snapshot = table.snapshot().unwrap();
            let matches = snapshot
                .parts()
                .values()
                .map(|part| match part.content().unwrap().as_ref() {
                    PartContent::Routes(part) => part.tables.iter().map(|table| table.matches.len()).sum(),
                    _ => 0,
                });
            assert_eq!(matches.sum::<usize>(), 250);
            assert_eq!(table.backend_count(), 3);
        }
    }

    #[test]
    fn an_edit_changes_one_part() {
        let table = Table {
            routes: 250,
            shape: Shape::ManyHosts,
        };
        let snapshot = table.snapshot().unwrap();
        let (name, content) = table.edited(&snapshot, 7, 2).unwrap();
        let part = Part::from_content(content).unwrap();
        assert_ne!(snapshot.parts()[&name].hash(), part.hash());
    }
}
