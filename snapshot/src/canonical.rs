//! Canonical JSON (RFC 8785): one value, one sequence of bytes.
//!
//! The standard differs from what `serde_json` writes of a sorted tree in three things: numbers that no double holds
//! exactly, numbers that are no integers, and keys sorted by UTF-16 code units, which is another order than that of
//! their bytes from U+E000 on. Parts have none of these but perhaps a key, so they are written by `serde_json`, at a
//! fraction of the cost, and whatever has one of the three by `serde_json_canonicalizer`.

use serde::Serialize;
use serde_json::Value;

/// The largest integer up to which a double holds every one (2^53 - 1).
const LARGEST_EXACT: u64 = (1 << 53) - 1;

/// The first byte of the UTF-8 form of U+E000.
const UNLIKE_FROM: u8 = 0xee;

/// A value in its canonical form.
///
/// # Errors
/// Where the value can't be written as JSON: a map whose keys are no strings.
pub(crate) fn to_vec<T: Serialize>(value: &T) -> serde_json::Result<Vec<u8>> {
    let tree = serde_json::to_value(value)?;
    if is_plain(&tree) {
        serde_json::to_vec(&tree)
    } else {
        serde_json_canonicalizer::to_vec(&tree)
    }
}

/// True where the two ways of writing give the same.
fn is_plain(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => true,
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(positive), _) => positive <= LARGEST_EXACT,
            (None, Some(negative)) => negative.unsigned_abs() <= LARGEST_EXACT,
            (None, None) => false,
        },
        Value::Array(values) => values.iter().all(is_plain),
        Value::Object(fields) => fields
            .iter()
            .all(|(key, value)| key.bytes().all(|byte| byte < UNLIKE_FROM) && is_plain(value)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test may fail
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Any JSON: strings and keys of all planes, numbers of all kinds.
    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-1e21..1e21).prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..8)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn it_is_what_the_reference_writes(value in any_json()) {
            prop_assert_eq!(to_vec(&value).unwrap(), serde_json_canonicalizer::to_vec(&value).unwrap());
        }
    }

    #[test]
    fn fields_are_sorted_whatever_the_order_of_a_type() {
        #[derive(Serialize)]
        struct Unsorted {
            z: u8,
            a: &'static str,
        }
        assert_eq!(
            to_vec(&Unsorted {
                z: 1,
                a: "\u{1}\u{8}\u{7f}é/"
            })
            .unwrap(),
            "{\"a\":\"\\u0001\\b\u{7f}é/\",\"z\":1}".as_bytes()
        );
    }

    #[test]
    fn keys_are_sorted_by_code_units() {
        let value = json!({"\u{fb33}": 1, "\u{1f600}": 2});
        assert_eq!(
            to_vec(&value).unwrap(),
            "{\"\u{1f600}\":2,\"\u{fb33}\":1}".as_bytes()
        );
    }
}
