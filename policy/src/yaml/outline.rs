//! What can be read of an EdgeRoute that can't be read.
//!
//! Its requests must not fall through to a broader rule because of a misspelt field: which hosts and paths it is for
//! is read as far as it goes, and the compiler answers 500 there. What can't be read makes it wider, never narrower,
//! but a route of which neither a host nor a path can be read says nothing of any request.

use routed_snapshot::Hash;
use serde_json::{Map, Value};
use serde_saphyr::options::DuplicateKeyPolicy;

use super::{From, Item, base_of, options};
use crate::kinds::edge_route::{EdgeRouteSpec, PathCondition, PathType, RouteMatch, RouteRule};
use crate::kinds::meta::Meta;
use crate::resources::{Body, Kind, ObjectKey};

/// Reads what can be read, where it is an EdgeRoute of any version or nearly so.
pub(super) fn outline(from: &From<'_>) -> Option<Item> {
    let value = value(from)?;
    let word = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    let ours = word("apiVersion").split('/').next() == Some(crate::kinds::GROUP);
    if !ours || Kind::nearest(word("kind")) != Some(Kind::EdgeRoute) {
        return None;
    }
    let spec = spec(
        value
            .get("spec")
            .and_then(Value::as_object)
            .or(value.as_object())?,
    )?;
    let meta = meta(value.get("metadata").unwrap_or(&Value::Null), &value);
    Some(Item {
        key: ObjectKey::new(Kind::EdgeRoute, meta.namespace.as_deref(), &meta.name),
        meta,
        body: Body::UnreadEdgeRoute(spec),
        base: base_of(from),
    })
}

fn value(from: &From<'_>) -> Option<Value> {
    match from {
        From::Document(text) => {
            let mut options = options();
            options.duplicate_keys = DuplicateKeyPolicy::LastWins;
            serde_saphyr::from_str_with_options(text, options).ok()
        }
        From::Entry { value, .. } => Some((*value).clone()),
    }
}

/// The metadata; a name that is missing is made of the content, and what can't stand in one is replaced.
fn meta(written: &Value, whole: &Value) -> Meta {
    let text = |name: &str| written.get(name).and_then(Value::as_str).map(plain);
    let rest = serde_json::from_value::<Meta>(written.clone()).unwrap_or_default();
    let unnamed = || {
        let hash = Hash::of(whole.to_string().as_bytes()).to_string();
        format!("unnamed-{}", hash.get(..8).unwrap_or(&hash))
    };
    Meta {
        name: text("name")
            .filter(|name| !name.is_empty())
            .unwrap_or_else(unnamed),
        namespace: text("namespace").filter(|name| !name.is_empty()),
        ..rest
    }
}

fn plain(name: &str) -> String {
    let stands = |char: char| char.is_ascii_alphanumeric() || ".-_".contains(char);
    let plain = name.chars().take(253);
    plain.map(|char| if stands(char) { char } else { '-' }).collect()
}

fn spec(written: &Map<String, Value>) -> Option<EdgeRouteSpec> {
    let hosts = begins(written, "host");
    let mut rules: Vec<RouteRule> = begins(written, "rule")
        .map(|rules| list(rules).iter().map(|written| rule(written)).collect())
        .unwrap_or_default();
    // The old version has its one path in the spec.
    let prefix = begins(written, "prefix").or(begins(written, "path"));
    if let Some(path) = prefix.and_then(path).filter(|_| rules.is_empty()) {
        rules.push(RouteRule {
            matches: vec![of_path(path)],
            ..RouteRule::default()
        });
    }
    let read = |name: &str| written.get(name).cloned();
    let spec = EdgeRouteSpec {
        profile_ref: read("profileRef").and_then(|value| serde_json::from_value(value).ok()),
        listeners: read("listeners")
            .and_then(|value| serde_json::from_value(value).ok())
            .unwrap_or_default(),
        hostnames: hosts.map(strings).unwrap_or_default(),
        rules,
    };
    let any_path = spec.rules.iter().any(|rule| !rule.matches.is_empty());
    if spec.hostnames.is_empty() && (hosts.is_some() || !any_path) {
        return None;
    }
    Some(match spec.rules.is_empty() {
        true => EdgeRouteSpec {
            rules: vec![RouteRule::default()],
            ..spec
        },
        false => spec,
    })
}

/// A rule with its matches; without any that can be read it takes every path.
fn rule(written: &Value) -> RouteRule {
    let matches = written.as_object().and_then(|rule| begins(rule, "match"));
    let matches: Vec<Option<RouteMatch>> = matches
        .map(|matches| list(matches).iter().map(|written| one_match(written)).collect())
        .unwrap_or_default();
    RouteRule {
        matches: matches.into_iter().collect::<Option<_>>().unwrap_or_default(),
        ..RouteRule::default()
    }
}

/// A match as written, or its path alone.
fn one_match(written: &Value) -> Option<RouteMatch> {
    serde_json::from_value(written.clone()).ok().or_else(|| {
        let written = written.as_object()?;
        let found = begins(written, "path").or(begins(written, "prefix"))?;
        path(found).map(of_path)
    })
}

fn of_path(path: PathCondition) -> RouteMatch {
    RouteMatch {
        path: Some(path),
        ..RouteMatch::default()
    }
}

/// A path as a text or as a condition. One whose type can't be read is taken for a prefix, unless it looks like
/// more: then nothing is known of it.
fn path(written: &Value) -> Option<PathCondition> {
    let value = match written {
        Value::String(text) => text.clone(),
        Value::Object(map) => begins(map, "value")?.as_str()?.to_owned(),
        _ => return None,
    };
    let kind = written.get("type").cloned();
    let kind: Option<PathType> = match kind.map(serde_json::from_value) {
        None => None,
        Some(Ok(kind)) => Some(kind),
        Some(Err(_)) if value.contains(['*', '(', '[', '\\']) => Some(PathType::RegularExpression),
        Some(Err(_)) => Some(PathType::PathPrefix),
    };
    Some(PathCondition {
        r#type: kind,
        value: Some(value),
    })
}

/// The member whose name begins so, however it goes on: `hostname`, `hosts`, `Hostnames`.
fn begins<'v>(map: &'v Map<String, Value>, name: &str) -> Option<&'v Value> {
    let found = map
        .iter()
        .find(|(key, _)| key.to_ascii_lowercase().starts_with(name));
    found.map(|(_, value)| value)
}

/// A list, or one thing that should have been in one.
fn list(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(list) => list.iter().collect(),
        Value::Null => Vec::new(),
        one => vec![one],
    }
}

fn strings(value: &Value) -> Vec<String> {
    let texts = list(value).into_iter().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}
