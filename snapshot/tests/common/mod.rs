//! Small snapshots for tests.
#![allow(dead_code)] // each test uses some of it

use std::collections::BTreeMap;
use std::sync::Arc;

use routed_snapshot::ir::{
    Action, Backend, BackendsPart, FieldMatch, HttpMatch, HttpTable, Listener, ListenerProtocol, PathMatch,
    Profile, ProfilesPart, RoutesPart, Rule, Target, ValueMatch, WeightedBackend,
};
use routed_snapshot::snapshot::{PartContent, bucket_of};
use routed_snapshot::{Facts, Index, Part, PartName, Snapshot};

pub(crate) const LISTENER: &str = "default/default/http";

pub(crate) fn field(name: &str, value: ValueMatch) -> FieldMatch {
    FieldMatch {
        name: name.into(),
        value,
    }
}

pub(crate) fn path_match(path: PathMatch, rule: &str) -> HttpMatch {
    HttpMatch {
        path,
        method: None,
        headers: Vec::new(),
        query_params: Vec::new(),
        cookies: Vec::new(),
        rule: rule.into(),
        index: 0,
    }
}

pub(crate) fn prefix(path: &str, rule: &str) -> HttpMatch {
    path_match(PathMatch::PathPrefix(path.into()), rule)
}

pub(crate) fn table(host: &str, matches: Vec<HttpMatch>) -> HttpTable {
    HttpTable {
        host: host.into(),
        listeners: vec![LISTENER.into()],
        matches,
    }
}

pub(crate) fn rule(action: Action) -> Rule {
    Rule {
        name: None,
        action,
        request_headers: Default::default(),
        response_headers: Default::default(),
        rewrite: None,
        cors: None,
        mirrors: Vec::new(),
        timeouts: Default::default(),
        retry: None,
    }
}

/// Forwards to backends by name and weight; a name beginning with `!` is an invalid target with that reason.
pub(crate) fn forward(shares: &[(&str, u32)]) -> Action {
    let share = |(name, weight): &(&str, u32)| WeightedBackend {
        weight: *weight,
        target: match name.strip_prefix('!') {
            Some(reason) => Target::Invalid(reason.into()),
            None => Target::Backend((*name).into()),
        },
        request_headers: Default::default(),
        response_headers: Default::default(),
    };
    Action::Forward {
        backends: shares.iter().map(share).collect(),
    }
}

/// A snapshot of one HTTP listener with these rules and tables; the backends that the rules name exist.
pub(crate) fn snapshot_of(rules: &[(&str, Action)], tables: Vec<HttpTable>) -> Snapshot {
    let listener = Listener {
        address: "0.0.0.0".into(),
        port: 80,
        protocol: ListenerProtocol::Http,
        tls: None,
        redirect_to_https: None,
    };
    let profile = Profile {
        listeners: BTreeMap::from([("http".into(), listener)]),
        ..Profile::default()
    };
    let profiles = ProfilesPart {
        profiles: BTreeMap::from([("default/default".into(), profile)]),
    };
    let mut contents = BTreeMap::from([(PartName::Profiles, PartContent::Profiles(profiles))]);
    let mut backends: BTreeMap<u8, BackendsPart> = BTreeMap::new();
    for (_, action) in rules {
        let Action::Forward { backends: shares } = action else {
            continue;
        };
        for share in shares {
            if let Target::Backend(name) = &share.target {
                let part = backends.entry(bucket_of(name)).or_default();
                part.backends.insert(name.clone(), Backend::default());
            }
        }
    }
    for (bucket, part) in backends {
        contents.insert(PartName::Backends(bucket), PartContent::Backends(part));
    }
    let rules: BTreeMap<&str, Rule> = rules
        .iter()
        .map(|(name, action)| (*name, rule(action.clone())))
        .collect();
    let mut routes: BTreeMap<u8, RoutesPart> = BTreeMap::new();
    for table in tables {
        let part = routes.entry(bucket_of(&table.host)).or_default();
        for entry in &table.matches {
            if let Some(rule) = rules.get(entry.rule.as_str()) {
                part.rules.insert(entry.rule.clone(), rule.clone());
            }
        }
        part.tables.push(table);
    }
    for (bucket, part) in routes {
        contents.insert(PartName::Routes(bucket), PartContent::Routes(part));
    }
    snapshot_of_parts(contents)
}

pub(crate) fn snapshot_of_parts(contents: BTreeMap<PartName, PartContent>) -> Snapshot {
    let part = |(name, content)| (name, Arc::new(Part::from_content(content).unwrap()));
    Snapshot::new(contents.into_iter().map(part).collect(), None)
}

/// A GET on the one listener.
pub(crate) fn listener_facts<'a>(index: &Index, host: &'a str, path: &'a str) -> Facts<'a> {
    Facts {
        listener: index.listener(LISTENER).unwrap(),
        https: false,
        method: "GET",
        host,
        path,
        query: None,
        headers: &[],
    }
}
