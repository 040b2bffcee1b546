//! From a field path back to a line and column.

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::{narrow, options};

/// A document as spans: only what [`locate`] needs.
enum Node {
    Map(Vec<(String, Spanned<Node>)>),
    List(Vec<Spanned<Node>>),
    Scalar,
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

macro_rules! scalars {
    ($($name:ident: $of:ty),*) => {
        $(fn $name<E>(self, _: $of) -> Result<Node, E> { Ok(Node::Scalar) })*
    };
}

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any value")
    }

    scalars!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str, visit_i128: i128,
        visit_u128: u128, visit_bytes: &[u8]);

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = access.next_element()? {
            list.push(value);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = access.next_entry()? {
            map.push(entry);
        }
        Ok(Node::Map(map))
    }
}

/// Line and column (from 1) of a field within a document, or of the nearest thing around it that is written.
pub(crate) fn locate(document: &str, field: &str) -> (u32, u32) {
    let Ok(root) = serde_saphyr::from_str_with_options::<Spanned<Node>>(document, options()) else {
        return (1, 1);
    };
    let mut node = &root;
    for step in field.split(['.', '[']).filter(|step| !step.is_empty()) {
        let next = match &node.value {
            Node::Map(map) => map.iter().find(|(key, _)| key == step).map(|(_, value)| value),
            Node::List(list) => {
                let index = step.trim_end_matches(']').parse::<usize>().ok();
                index.and_then(|index| list.get(index))
            }
            Node::Scalar => None,
        };
        let Some(next) = next else { break };
        node = next;
    }
    (
        narrow(node.referenced.line()).max(1),
        narrow(node.referenced.column()).max(1),
    )
}
