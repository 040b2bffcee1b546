//! Regular expressions of a snapshot: whole-value, linear in time, bounded in size.
//!
//! A match borrows scratch memory from a pool that the expression owns; a thread's first match makes it, later ones
//! allocate nothing. The lazy DFA is off: it would allocate states while requests are decided. Small expressions get
//! a full DFA, others run on a one-pass automaton or a bounded simulation.

use std::fmt;

use regex_automata::meta::Regex;
use regex_automata::{Anchored, Input};

use crate::limits::{PATTERN_BYTES, PATTERN_NFA_BYTES};

/// Why an expression is none that a router takes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// The text is too long.
    #[error("the regular expression is longer than {PATTERN_BYTES} bytes")]
    TooLong,
    /// It is not valid, or uses what can't be done in linear time; one line.
    #[error("bad regular expression: {0}")]
    Invalid(String),
    /// Its automaton is too large.
    #[error("the regular expression is larger than {PATTERN_NFA_BYTES} bytes once compiled")]
    TooLarge,
}

/// Whether a router takes an expression.
pub fn check_pattern(text: &str) -> Result<(), PatternError> {
    Pattern::compile(text).map(|_| ())
}

/// An expression that must match a whole value.
pub(crate) struct Pattern {
    text: Box<str>,
    regex: Regex,
}

impl Pattern {
    /// Compiles an expression.
    pub(crate) fn compile(text: &str) -> Result<Pattern, PatternError> {
        if text.len() > PATTERN_BYTES {
            return Err(PatternError::TooLong);
        }
        // On its own first: only then can nothing in it (`a)|(b`) reach out of the group put around it.
        regex_automata::util::syntax::parse(text).map_err(|error| invalid(&error))?;
        let config = Regex::config()
            .nfa_size_limit(Some(PATTERN_NFA_BYTES))
            .hybrid(false);
        let build = |whole: &str| match Regex::builder().configure(config.clone()).build(whole) {
            Ok(regex) => Ok(regex),
            Err(error) if error.size_limit().is_some() => Err(PatternError::TooLarge),
            Err(error) => Err(invalid(&error)),
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

/// The library draws the expression with the place marked, on several lines; the last one says what is wrong.
fn invalid(error: &dyn fmt::Display) -> PatternError {
    let text = error.to_string();
    let line = text.lines().last().unwrap_or_default().trim();
    PatternError::Invalid(line.strip_prefix("error: ").unwrap_or(line).to_owned())
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
        for pattern in ["a)|(b", "a)", "(?=a)"] {
            let error = check_pattern(pattern).unwrap_err();
            assert!(matches!(error, PatternError::Invalid(_)), "{pattern}: {error}");
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }

    #[test]
    fn length_and_compiled_size_are_bounded() {
        assert_eq!(check_pattern(&"a".repeat(PATTERN_BYTES)), Ok(()));
        assert_eq!(
            check_pattern(&"a".repeat(PATTERN_BYTES + 1)),
            Err(PatternError::TooLong)
        );
        assert_eq!(check_pattern(r"\w{1000}{100}"), Err(PatternError::TooLarge));
    }
}
