//! A message head, and edits of it as data.

use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Method};
use routed_snapshot::Header;
use routed_snapshot::ir;
use smallvec::SmallVec;

/// A request head once it is accepted: what is decided on and forwarded.
#[derive(Debug, Clone)]
pub struct Head {
    /// Method.
    pub method: Method,
    /// Path in its one form and query.
    pub target: String,
    /// Header lines; lines of one name in the order of arrival.
    pub headers: HeaderMap,
    /// Host is the address of the endpoint that a try goes to, known only then.
    pub host_of_endpoint: bool,
}

/// Header lines as the decision reads them.
pub type Lines<'a> = SmallVec<[Header<'a>; 24]>;

/// The lines of a header map, borrowed.
pub fn lines(headers: &HeaderMap) -> Lines<'_> {
    headers
        .iter()
        .map(|(name, value)| Header {
            name: name.as_str(),
            value: value.as_bytes(),
        })
        .collect()
}

/// One edit.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Edit {
    Set(HeaderName, HeaderValue),
    Add(HeaderName, HeaderValue),
    Remove(HeaderName),
}

/// Edits of a header section, in order. Filters make them; they are applied once, when the head is written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeadEdits {
    edits: Vec<Edit>,
}

impl HeadEdits {
    /// Replaces all lines of the name.
    pub fn set(&mut self, name: HeaderName, value: HeaderValue) {
        self.edits.push(Edit::Set(name, value));
    }

    /// Adds a line.
    pub fn add(&mut self, name: HeaderName, value: HeaderValue) {
        self.edits.push(Edit::Add(name, value));
    }

    /// Removes all lines of the name.
    pub fn remove(&mut self, name: HeaderName) {
        self.edits.push(Edit::Remove(name));
    }

    /// The edits of a rule or a share, in the order set, add, remove. The compiler has checked names and values;
    /// what is not valid all the same is left out.
    pub fn extend_from(&mut self, edits: &ir::HeaderEdits) {
        let pair = |pair: &ir::HeaderPair| {
            let name = HeaderName::from_bytes(pair.name.as_bytes()).ok()?;
            Some((name, HeaderValue::from_str(&pair.value).ok()?))
        };
        for (name, value) in edits.set.iter().filter_map(pair) {
            self.set(name, value);
        }
        for (name, value) in edits.add.iter().filter_map(pair) {
            self.add(name, value);
        }
        for name in &edits.remove {
            if let Ok(name) = HeaderName::from_bytes(name.as_bytes()) {
                self.remove(name);
            }
        }
    }

    /// Applies them.
    pub fn apply(&self, headers: &mut HeaderMap) {
        for edit in &self.edits {
            match edit {
                Edit::Set(name, value) => {
                    headers.insert(name.clone(), value.clone());
                }
                Edit::Add(name, value) => {
                    headers.append(name.clone(), value.clone());
                }
                Edit::Remove(name) => {
                    headers.remove(name);
                }
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test may fail
mod tests {
    use super::*;

    #[test]
    fn edits_apply_in_the_order_set_add_remove() {
        let pair = |name: &str, value: &str| ir::HeaderPair {
            name: name.into(),
            value: value.into(),
        };
        let mut edits = HeadEdits::default();
        edits.extend_from(&ir::HeaderEdits {
            set: vec![pair("x-a", "new")],
            add: vec![pair("x-a", "more"), pair("x-b", "1")],
            remove: vec!["x-c".into()],
        });
        let mut headers = HeaderMap::new();
        headers.append("x-a", HeaderValue::from_static("old"));
        headers.append("x-a", HeaderValue::from_static("older"));
        headers.append("x-c", HeaderValue::from_static("gone"));
        edits.apply(&mut headers);
        let values: Vec<_> = headers.get_all("x-a").iter().collect();
        assert_eq!(values, ["new", "more"]);
        assert_eq!(headers.get("x-b").unwrap(), "1");
        assert!(!headers.contains_key("x-c"));
    }
}
