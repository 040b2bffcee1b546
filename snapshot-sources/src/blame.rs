//! Which objects are at fault where a snapshot is refused.
//!
//! The names of rules, backends and profiles in a snapshot are made of the objects' own, and an error says its place
//! by them: `rules.EdgeRoute/shop/cart/0.action`, `tables[3].matches[0].path`, `profiles.default/edge.limits`.

use std::fmt;

use routed_snapshot::snapshot::{DecodeError, PartContent};
use routed_snapshot::{PartName, Snapshot};
use serde::Serialize;

use crate::admit::Refusal;

/// A resource that a person wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ObjectName {
    /// For instance `EdgeRoute`.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// The objects at fault; none where the snapshot as a whole is.
pub(crate) fn objects(refusal: &Refusal, snapshot: Option<&Snapshot>) -> Vec<ObjectName> {
    let found = match refusal {
        Refusal::Index(error) => of_place(&error.at).or_else(|| {
            let part: PartName = error.part.parse().ok()?;
            of_content(part, &error.at, snapshot?)
        }),
        Refusal::Decode(DecodeError::Part { at, .. }) => of_place(at),
        _ => None,
    };
    found.into_iter().collect()
}

/// An object that the place itself names.
fn of_place(at: &str) -> Option<ObjectName> {
    let (kind, rest) = at.split_once('.')?;
    match kind {
        "rules" | "backends" | "endpoints" => of_name(rest),
        _ => None,
    }
}

/// `EdgeRoute/shop/cart/0.action…`, `Backend/shop/cart[0].address`, `Service/shop/app/80`.
fn of_name(text: &str) -> Option<ObjectName> {
    let mut words = text.split('/');
    let (kind, namespace, name) = (words.next()?, words.next()?, words.next()?);
    let name = name.split('[').next()?;
    Some(ObjectName {
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
}

/// An object that stands in the part at that place.
fn of_content(part: PartName, at: &str, snapshot: &Snapshot) -> Option<ObjectName> {
    let content = snapshot.parts().get(&part)?.content().ok()?;
    match content.as_ref() {
        PartContent::Profiles(profiles) => {
            let rest = at.strip_prefix("profiles.")?;
            let is_at = |name: &&String| {
                rest.strip_prefix(name.as_str())
                    .is_some_and(|more| more.starts_with('.'))
            };
            let (namespace, name) = profiles.profiles.keys().find(is_at)?.split_once('/')?;
            Some(ObjectName {
                kind: "RouterProfile".to_owned(),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            })
        }
        PartContent::Routes(routes) => {
            let table = routes.tables.get(number(at, "tables[")?)?;
            let entry = number(at, ".matches[").map_or(table.matches.first(), |at| table.matches.get(at))?;
            of_name(&entry.rule)
        }
        _ => None,
    }
}

/// The number after `before`.
fn number(at: &str, before: &str) -> Option<usize> {
    let rest = &at[at.find(before)? + before.len()..];
    rest[..rest.find(']')?].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_name_their_objects() {
        let named = |at: &str| of_place(at).map(|object| object.to_string());
        for (at, object) in [
            (
                "rules.EdgeRoute/shop/cart.v2/0.action.backends[1].target",
                Some("EdgeRoute shop/cart.v2"),
            ),
            ("backends.Backend/shop/a.b", Some("Backend shop/a.b")),
            (
                "endpoints.Service/shop/app/80[0].address",
                Some("Service shop/app"),
            ),
            ("endpoints.Backend/shop/app[0].address", Some("Backend shop/app")),
            ("tables[3].host", None),
            ("rules.odd", None),
            ("", None),
        ] {
            assert_eq!(named(at).as_deref(), object, "{at}");
        }
        assert_eq!(number("tables[3].matches[12].path", ".matches["), Some(12));
    }
}
