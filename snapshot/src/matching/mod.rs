//! The conditions of a match, one file per kind.
//!
//! Every condition answers a borrowed view of the request without allocating.

pub(crate) mod field;
pub(crate) mod host;
pub(crate) mod path;
pub(crate) mod pattern;

use std::sync::Arc;

use crate::facts::Facts;
use path::PathCondition;
use pattern::Pattern;

/// A match, compact: most have a path condition only.
#[derive(Debug)]
pub(crate) struct Match {
    pub(crate) path: PathCondition,
    pub(crate) conditions: Option<Box<Conditions>>,
    /// The rule's number in its table.
    pub(crate) rule: u32,
    /// Which entry of the rule's `matches`.
    pub(crate) index: u32,
}

/// What a match asks besides the path.
#[derive(Debug)]
pub(crate) struct Conditions {
    pub(crate) method: Option<Box<str>>,
    pub(crate) headers: Box<[Field]>,
    pub(crate) query: Box<[Field]>,
    pub(crate) cookies: Box<[Field]>,
}

/// A condition on a named value.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: Box<str>,
    pub(crate) test: FieldTest,
}

/// A condition on a value that may be absent.
#[derive(Debug)]
pub(crate) enum FieldTest {
    Exact(Box<str>),
    Regex(Arc<Pattern>),
    Present,
    Absent,
}

/// The first condition of a match that doesn't hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Difference<'i> {
    Path,
    Method,
    Header(&'i str),
    QueryParam(&'i str),
    Cookie(&'i str),
}

impl Conditions {
    pub(crate) fn is_empty(&self) -> bool {
        self.method.is_none() && self.headers.is_empty() && self.query.is_empty() && self.cookies.is_empty()
    }
}

impl Match {
    /// The first condition that doesn't hold; `None` where the request matches.
    pub(crate) fn difference(&self, facts: &Facts<'_>) -> Option<Difference<'_>> {
        if !self.path.holds(facts.path) {
            return Some(Difference::Path);
        }
        self.difference_beside_path(facts)
    }

    /// The same where the path is known to match.
    pub(crate) fn difference_beside_path(&self, facts: &Facts<'_>) -> Option<Difference<'_>> {
        let conditions = self.conditions.as_deref()?;
        if conditions
            .method
            .as_deref()
            .is_some_and(|method| method != facts.method)
        {
            return Some(Difference::Method);
        }
        let header = conditions
            .headers
            .iter()
            .find(|field| !field::header_holds(field, facts));
        if let Some(field) = header {
            return Some(Difference::Header(&field.name));
        }
        let query = conditions
            .query
            .iter()
            .find(|field| !field::query_holds(field, facts));
        if let Some(field) = query {
            return Some(Difference::QueryParam(&field.name));
        }
        let cookie = conditions
            .cookies
            .iter()
            .find(|field| !field::cookie_holds(field, facts));
        cookie.map(|field| Difference::Cookie(&field.name))
    }
}
