//! Conditions on header fields, query parameters and cookies.

use std::iter;

use smallvec::SmallVec;

use super::{Field, FieldTest};
use crate::facts::Facts;

/// Room for a value that must be put together before an expression can look at it; longer ones go to the heap.
type Scratch = SmallVec<[u8; 512]>;

/// Whether a header condition holds. Several lines of a name count as one value, joined by `, ` (RFC 9110 §5.3).
pub(crate) fn header_holds(field: &Field, facts: &Facts<'_>) -> bool {
    let lines = || {
        let own = facts.headers.iter().filter(|header| *header.name == *field.name);
        own.map(|header| header.value)
    };
    match &field.test {
        FieldTest::Present => lines().next().is_some(),
        FieldTest::Absent => lines().next().is_none(),
        FieldTest::Exact(value) => joined_equals(lines(), value.as_bytes()),
        FieldTest::Regex(pattern) => {
            let mut own = lines();
            match (own.next(), own.next()) {
                (None, _) => false,
                (Some(only), None) => pattern.matches(only),
                _ => pattern.matches(&joined(lines())),
            }
        }
    }
}

/// Compares lines joined by `, ` piece by piece.
fn joined_equals<'a>(lines: impl Iterator<Item = &'a [u8]>, value: &[u8]) -> bool {
    let mut rest = value;
    let mut first = true;
    for line in lines {
        let separator: &[u8] = if first { b"" } else { b", " };
        let after = rest
            .strip_prefix(separator)
            .and_then(|rest| rest.strip_prefix(line));
        let Some(after) = after else {
            return false;
        };
        rest = after;
        first = false;
    }
    !first && rest.is_empty()
}

fn joined<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Scratch {
    let mut whole = Scratch::new();
    for (at, line) in lines.enumerate() {
        if at > 0 {
            whole.extend_from_slice(b", ");
        }
        whole.extend_from_slice(line);
    }
    whole
}

/// Whether a query parameter condition holds. Names and values are compared decoded; the first of the name counts.
pub(crate) fn query_holds(field: &Field, facts: &Facts<'_>) -> bool {
    let mut pairs = facts
        .query
        .unwrap_or_default()
        .split('&')
        .filter(|pair| !pair.is_empty());
    let value = pairs.find_map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        decoded(name).eq(field.name.bytes()).then_some(value)
    });
    match (&field.test, value) {
        (FieldTest::Absent, value) => value.is_none(),
        (_, None) => false,
        (FieldTest::Present, Some(_)) => true,
        (FieldTest::Exact(expected), Some(value)) => decoded(value).eq(expected.bytes()),
        (FieldTest::Regex(pattern), Some(value)) => {
            if value.contains(['%', '+']) {
                pattern.matches(&decoded(value).collect::<Scratch>())
            } else {
                pattern.matches(value.as_bytes())
            }
        }
    }
}

/// The bytes of a query name or value (WHATWG URL, application/x-www-form-urlencoded): `+` is a blank, a `%` that two
/// hex digits don't follow stands for itself.
fn decoded(text: &str) -> impl Iterator<Item = u8> {
    let mut rest = text.as_bytes();
    iter::from_fn(move || {
        let (byte, taken) = match *rest {
            [b'%', high, low, ..] => match (hex(high), hex(low)) {
                (Some(high), Some(low)) => (high << 4 | low, 3),
                _ => (b'%', 1),
            },
            [b'+', ..] => (b' ', 1),
            [byte, ..] => (byte, 1),
            [] => return None,
        };
        rest = &rest[taken..];
        Some(byte)
    })
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

/// Whether a cookie condition holds. All `cookie` lines count (HTTP/2 may split them, RFC 9113 §8.2.3); the first
/// cookie of the name does. Names and values are compared as they are, case and quotes included.
pub(crate) fn cookie_holds(field: &Field, facts: &Facts<'_>) -> bool {
    let lines = facts.headers.iter().filter(|header| header.name == "cookie");
    let mut cookies = lines.flat_map(|line| line.value.split(|byte| *byte == b';'));
    let value = cookies.find_map(|cookie| {
        let equals = cookie.iter().position(|byte| *byte == b'=')?;
        let (name, value) = (&cookie[..equals], &cookie[equals + 1..]);
        (name.trim_ascii() == field.name.as_bytes()).then(|| value.trim_ascii())
    });
    match (&field.test, value) {
        (FieldTest::Absent, value) => value.is_none(),
        (_, None) => false,
        (FieldTest::Present, Some(_)) => true,
        (FieldTest::Exact(expected), Some(value)) => value == expected.as_bytes(),
        (FieldTest::Regex(pattern), Some(value)) => pattern.matches(value),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test may fail
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::facts::Header;
    use crate::index::ListenerId;
    use crate::matching::pattern::Pattern;

    fn exact(name: &str, value: &str) -> Field {
        test(name, FieldTest::Exact(value.into()))
    }

    fn regex(name: &str, pattern: &str) -> Field {
        test(
            name,
            FieldTest::Regex(Arc::new(Pattern::compile(pattern).unwrap())),
        )
    }

    fn test(name: &str, test: FieldTest) -> Field {
        Field {
            name: name.into(),
            test,
        }
    }

    fn with<T>(query: Option<&str>, lines: &[(&str, &str)], ask: impl Fn(&Facts<'_>) -> T) -> T {
        let headers: Vec<Header<'_>> = lines
            .iter()
            .map(|(name, value)| Header {
                name,
                value: value.as_bytes(),
            })
            .collect();
        ask(&Facts {
            listener: ListenerId(0),
            https: false,
            method: "GET",
            host: "a.test",
            path: "/",
            query,
            headers: &headers,
        })
    }

    #[test]
    fn header_lines_of_a_name_are_compared_joined() {
        let two = [("x-a", "1"), ("x-b", "9"), ("x-a", "2")];
        let holds = |field: Field| with(None, &two, |facts| header_holds(&field, facts));
        assert!(holds(exact("x-a", "1, 2")));
        assert!(holds(regex("x-a", "1, [0-9]")));
        for other in ["1", "2", "1,2", "1, 2, ", "1, 23", ""] {
            assert!(!holds(exact("x-a", other)), "{other}");
        }
        assert!(holds(test("x-c", FieldTest::Absent)) && holds(test("x-b", FieldTest::Present)));
    }

    #[test]
    fn an_empty_header_is_present_and_empty() {
        let holds = |field: Field| with(None, &[("x-a", "")], |facts| header_holds(&field, facts));
        assert!(holds(exact("x-a", "")) && holds(test("x-a", FieldTest::Present)));
        assert!(!holds(exact("x-b", "")));
    }

    #[test]
    fn query_parameters_are_decoded_and_the_first_counts() {
        let query = Some("a=1&&a=2&b+c=%41+x&%64&e=%zz%4");
        let holds = |field: Field| with(query, &[], |facts| query_holds(&field, facts));
        assert!(holds(exact("a", "1")) && !holds(exact("a", "2")));
        assert!(holds(exact("b c", "A x")) && holds(regex("b c", "[A-Z] x")));
        assert!(holds(exact("d", "")) && holds(exact("e", "%zz%4")));
        assert!(holds(test("f", FieldTest::Absent)) && holds(test("", FieldTest::Absent)));
    }

    #[test]
    fn cookies_of_all_lines_count_and_the_first_of_a_name_does() {
        let lines = [("cookie", "a=1; b=x=y"), ("cookie", "a=2;c=\"q\"; d")];
        let holds = |field: Field| with(None, &lines, |facts| cookie_holds(&field, facts));
        assert!(holds(exact("a", "1")) && !holds(exact("a", "2")));
        assert!(holds(exact("b", "x=y")) && holds(exact("c", "\"q\"")));
        assert!(holds(test("A", FieldTest::Absent)) && holds(test("d", FieldTest::Absent)));
        assert!(holds(regex("b", "x.y")) && !holds(regex("b", "x")));
    }
}
