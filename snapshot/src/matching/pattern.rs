//! Regular expressions of a snapshot: whole-value, linear in time, bounded in size.
//!
//! A match borrows scratch memory from a pool that the expression owns; a thread's first match makes it, later ones
//! allocate nothing. The lazy DFA is off: it would allocate states while requests are decided. Small expressions get
//! a full DFA, others run on a one-pass automaton or a bounded simulation.

use std::fmt;

use regex_automata::meta::Regex;
use regex_automata::{Anchored, Input};

/// Longest expression that is compiled.
pub(crate) const MAX_BYTES: usize = 4 << 10;

/// Largest automaton of one expression.
const MAX_NFA_BYTES: usize = 1 << 20;

/// An expression that must match a whole value.
pub(crate) struct Pattern {
    text: Box<str>,
    regex: Regex,
}

impl Pattern {
    /// Compiles an expression.
    pub(crate) fn compile(text: &str) -> Result<Pattern, String> {
        if text.len() > MAX_BYTES {
            return Err(format!("the regular expression is longer than {MAX_BYTES} bytes"));
        }
        // On its own first: only then can nothing in it (`a)|(b`) reach out of the group put around it.
        let bad = |why: &dyn fmt::Display| format!("bad regular expression `{text}`: {why}");
        regex_automata::util::syntax::parse(text).map_err(|error| bad(&error))?;
        let config = Regex::config().nfa_size_limit(Some(MAX_NFA_BYTES)).hybrid(false);
        let build = |whole: &str| match Regex::builder().configure(config.clone()).build(whole) {
            Ok(regex) => Ok(regex),
            Err(error) => Err(match error.size_limit() {
                Some(limit) => bad(&format_args!("compiled it is larger than {limit} bytes")),
                None => bad(&error),
            }),
        };
        // In verbose mode a comment may end the expression; it must not swallow what follows.
        let regex = build(&format!(r"\A(?:{text})\z"))
            .or_else(|error| build(&format!("\\A(?:{text}\n)\\z")).map_err(|_| error))?;
        Ok(Pattern {
            text: text.into(),
            regex,
        })
    }

    /// As written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether the whole value matches.
    pub(crate) fn matches(&self, value: &[u8]) -> bool {
        self.regex.is_match(Input::new(value).anchored(Anchored::Yes))
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}/", self.text)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test may fail
mod tests {
    use super::*;

    fn matches(pattern: &str, value: &str) -> bool {
        Pattern::compile(pattern).unwrap().matches(value.as_bytes())
    }

    #[test]
    fn the_whole_value_must_match() {
        assert!(matches("/a|/ab", "/ab"));
        assert!(!matches("/a", "/ab"));
        assert!(!matches("b", "/ab"));
        assert!(!matches("a$", "a\n"));
    }

    #[test]
    fn flags_and_comments_stay_inside() {
        assert!(matches("(?i)/ABC", "/abc"));
        assert!(matches("(?x) /a  # to the end", "/a"));
        assert!(!matches("(?x) /a  # to the end", "/a\n"));
    }

    #[test]
    fn a_pattern_cannot_reach_out_of_its_group() {
        assert!(Pattern::compile("a)|(b").is_err());
        assert!(Pattern::compile("a)").is_err());
    }

    #[test]
    fn length_and_compiled_size_are_bounded() {
        assert!(Pattern::compile(&"a".repeat(MAX_BYTES)).is_ok());
        assert!(Pattern::compile(&"a".repeat(MAX_BYTES + 1)).is_err());
        assert!(Pattern::compile(r"\w{1000}{100}").is_err());
    }
}
