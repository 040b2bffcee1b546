//! Host tables: the matches of all routes of a host in their order, and which of them no request can reach.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use routed_snapshot::ir::{FieldMatch, HttpMatch, HttpTable, PathMatch, ValueMatch};

use super::matching::{Conditions, Rank};
use super::route::{RouteFragment, RuleFragment, v1_field};
use crate::diag::{Diag, Reason, Severity};
use crate::resources::{Body, Object, ObjectKey, Resources};

/// The tables of a host.
#[derive(Debug, Default)]
pub(crate) struct HostTables {
    pub(crate) tables: Vec<HttpTable>,
    pub(crate) diags: Vec<Diag>,
}

/// The last says whether the host is one whose name is in error.
type Entry<'a> = (&'a Rank, &'a Conditions, &'a RuleFragment, &'a ObjectKey, bool);

/// Builds the tables of a host from the routes that serve it. Listeners with the same routes share a table.
pub(crate) fn host_tables(
    host: &str,
    routes: &BTreeSet<ObjectKey>,
    fragments: &BTreeMap<ObjectKey, RouteFragment>,
    resources: &Resources,
) -> HostTables {
    let mut by_listener: BTreeMap<&str, Vec<&ObjectKey>> = BTreeMap::new();
    for key in routes {
        let Some(fragment) = fragments.get(key) else {
            continue;
        };
        for listener in &fragment.attachment.listeners {
            by_listener.entry(listener).or_default().push(key);
        }
    }
    let mut by_routes: BTreeMap<Vec<&ObjectKey>, Vec<String>> = BTreeMap::new();
    for (listener, routes) in by_listener {
        by_routes.entry(routes).or_default().push(listener.to_owned());
    }
    let mut built = HostTables::default();
    for (routes, listeners) in by_routes {
        let mut entries: Vec<Entry<'_>> = Vec::new();
        for key in routes {
            let Some(fragment) = fragments.get(key) else {
                continue;
            };
            let failing = fragment.attachment.failing.contains(host);
            for rule in &fragment.rules {
                let matches = rule.matches.iter();
                entries.extend(matches.map(|(rank, conditions)| (rank, conditions, rule, key, failing)));
            }
        }
        if entries.is_empty() {
            continue;
        }
        entries.sort_by_key(|(rank, ..)| *rank);
        lint(host, &entries, resources, &mut built.diags);
        built.tables.push(HttpTable {
            host: host.to_owned(),
            listeners,
            matches: entries.iter().map(http_match).collect(),
        });
    }
    built.tables.sort_by(|a, b| a.listeners.cmp(&b.listeners));
    built.diags.sort();
    built.diags.dedup();
    built
}

fn http_match((rank, conditions, rule, _, failing): &Entry<'_>) -> HttpMatch {
    HttpMatch {
        path: conditions.path.clone(),
        method: conditions.method.clone(),
        headers: conditions.headers.clone(),
        query_params: conditions.query_params.clone(),
        cookies: conditions.cookies.clone(),
        rule: match failing {
            true => rule.failing_name(),
            false => rule.name.clone(),
        },
        index: u32::try_from(rank.at().1).unwrap_or(u32::MAX),
    }
}

/// Most matches of one path, method and set of names that a later one is compared with.
const MAX_COMPARED: usize = 64;

/// Finds matches that an earlier one leaves nothing to: an equal one, one of the same path, method and names whose
/// every test covers the later one's, or an expression that takes every path. What has fewer conditions on the same
/// path stands later. Whether one expression covers another, or a prefix its paths, is not looked into.
fn lint(host: &str, entries: &[Entry<'_>], resources: &Resources, diags: &mut Vec<Diag>) {
    if entries.len() < 2 {
        return;
    }
    let mut seen: HashSet<String> = HashSet::with_capacity(entries.len());
    let mut wide: HashMap<String, Vec<&Conditions>> = HashMap::new();
    let mut takes_all: Option<&str> = None;
    for (rank, conditions, rule, key, _) in entries {
        let first = seen.insert(identity(conditions));
        let covered = || {
            // Most tables have none, and need no shapes.
            let alike = || wide.get(&shape(conditions)).into_iter().flatten();
            !wide.is_empty() && alike().any(|earlier| covers(earlier, conditions))
        };
        let by = if !first {
            Some("an equal match that stands before it")
        } else if covered() {
            Some("a match before it that tests the same fields less strictly")
        } else {
            takes_all
        };
        if let Some(by) = by
            && let Some(object) = resources.get(key)
        {
            let message = format!("on host `{host}` no request reaches it, because of {by}");
            let field = field_of(object, rank.at());
            diags.push(object.diag(Severity::Warning, Reason::Unreachable, &field, message));
        }
        if first && tests(conditions).any(|test| test.value == ValueMatch::Present) {
            let alike = wide.entry(shape(conditions)).or_default();
            if alike.len() < MAX_COMPARED {
                alike.push(conditions);
            }
        }
        if takes_everything(conditions) {
            takes_all = takes_all.or(Some(&rule.name));
        }
    }
}

fn field_of(object: &Object, (rule, index): (usize, usize)) -> String {
    match object.body() {
        Body::EdgeRoute(spec) if spec.rules.get(rule).is_some_and(|rule| rule.matches.is_empty()) => {
            format!("spec.rules[{rule}]")
        }
        Body::EdgeRouteV1(_) => v1_field(&format!("spec.rules[{rule}].matches[{index}]")),
        _ => format!("spec.rules[{rule}].matches[{index}]"),
    }
}

fn identity(conditions: &Conditions) -> String {
    let mut sorted = conditions.clone();
    for list in [&mut sorted.headers, &mut sorted.query_params, &mut sorted.cookies] {
        list.sort_by(|a, b| a.name.cmp(&b.name));
    }
    format!("{sorted:?}")
}

/// What two matches must have in common for one to cover the other.
fn shape(conditions: &Conditions) -> String {
    let names = |list: &[FieldMatch]| list.iter().map(|test| test.name.clone()).collect::<BTreeSet<_>>();
    let headers = names(&conditions.headers);
    let (query, cookies) = (names(&conditions.query_params), names(&conditions.cookies));
    format!(
        "{:?}",
        (&conditions.path, &conditions.method, headers, query, cookies)
    )
}

/// Whether `earlier` takes each request that `later` does; they have the same shape.
fn covers(earlier: &Conditions, later: &Conditions) -> bool {
    let lists = [
        (&earlier.headers, &later.headers),
        (&earlier.query_params, &later.query_params),
        (&earlier.cookies, &later.cookies),
    ];
    let covered = |wide: &FieldMatch, list: &[FieldMatch]| {
        let narrow = list.iter().find(|test| test.name == wide.name);
        narrow.is_some_and(|narrow| {
            wide.value == narrow.value
                || (wide.value == ValueMatch::Present && narrow.value != ValueMatch::Absent)
        })
    };
    lists
        .iter()
        .all(|(wide, narrow)| wide.iter().all(|test| covered(test, narrow)))
}

fn tests(conditions: &Conditions) -> impl Iterator<Item = &FieldMatch> {
    let (query, cookies) = (&conditions.query_params, &conditions.cookies);
    conditions.headers.iter().chain(query).chain(cookies)
}

fn takes_everything(conditions: &Conditions) -> bool {
    let every_path = match &conditions.path {
        PathMatch::RegularExpression(pattern) => matches!(pattern.as_str(), ".*" | "/.*" | ".+"),
        PathMatch::Exact(_) | PathMatch::PathPrefix(_) => false,
    };
    let conditional = conditions.method.is_some()
        || !conditions.headers.is_empty()
        || !conditions.query_params.is_empty()
        || !conditions.cookies.is_empty();
    every_path && !conditional
}
