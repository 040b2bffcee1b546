//! Matches: conditions in the form the index compares, and their precedence.
//!
//! Precedence is [`Rank`]'s order (Gateway API HTTPRouteRule): exact path, regular expression (longer pattern first),
//! longest prefix, method, most headers, most query parameters, most cookies, oldest route, namespace/name, order of
//! rules, order of matches. Regular expressions stand above prefixes because they are written to single something out.

use std::cmp::Reverse;

use jiff::Timestamp;
use routed_snapshot::ir::{FieldMatch, PathMatch, ValueMatch};

use super::world::Findings;
use super::{check, salvage};
use crate::diag::Reason;
use crate::kinds::edge_route::{FieldCondition, FieldMatchType, PathCondition, PathType, RouteMatch};

/// Most conditions of one kind in a match.
const MAX_CONDITIONS: usize = 16;

/// The place of a match among all matches of its host; the least is tried first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    path: (u8, Reverse<usize>),
    method: Reverse<bool>,
    headers: Reverse<usize>,
    query_params: Reverse<usize>,
    cookies: Reverse<usize>,
    /// An absent time sorts last.
    created: (bool, Option<Timestamp>),
    route: (String, String),
    rule: usize,
    index: usize,
}

impl Rank {
    /// Number of the rule and of the match within its route.
    pub(crate) fn at(&self) -> (usize, usize) {
        (self.rule, self.index)
    }
}

/// Conditions of one match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Conditions {
    pub(crate) path: PathMatch,
    pub(crate) method: Option<String>,
    pub(crate) headers: Vec<FieldMatch>,
    pub(crate) query_params: Vec<FieldMatch>,
    pub(crate) cookies: Vec<FieldMatch>,
}

impl Conditions {
    pub(crate) fn rank(
        &self,
        created: Option<Timestamp>,
        route: (String, String),
        at: (usize, usize),
    ) -> Rank {
        let path = match &self.path {
            PathMatch::Exact(path) => (0, path),
            PathMatch::RegularExpression(pattern) => (1, pattern),
            PathMatch::PathPrefix(path) => (2, path),
        };
        Rank {
            path: (path.0, Reverse(path.1.chars().count())),
            method: Reverse(self.method.is_some()),
            headers: Reverse(self.headers.len()),
            query_params: Reverse(self.query_params.len()),
            cookies: Reverse(self.cookies.len()),
            created: (created.is_none(), created),
            route,
            rule: at.0,
            index: at.1,
        }
    }
}

/// Which names a condition may have, and when two are the same.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    Header,
    Query,
    Cookie,
}

/// A compiled match.
pub(crate) struct Compiled {
    /// Its place.
    pub(crate) rank: Rank,
    /// The usable conditions: they take at least the requests that the written ones would have.
    pub(crate) conditions: Conditions,
    /// Whether they are all that was written.
    pub(crate) whole: bool,
}

/// Compiles one match: the one of number `at` within its rule.
pub(crate) fn compiled(
    written: &RouteMatch,
    at: (usize, usize),
    field: &str,
    findings: &mut Findings<'_>,
) -> Compiled {
    let path = path(written.path.as_ref(), &format!("{field}.path.value"), findings);
    let mut whole = path.is_ok();
    let method = written.method.as_ref().and_then(|method| {
        let checked = check::token(method).map(|()| method.clone());
        let method = findings.check(Reason::InvalidMatch, &format!("{field}.method"), checked);
        whole &= method.is_some();
        method
    });
    let mut fields = |list: &[FieldCondition], member: &str, names: Names| {
        let (matches, all) = field_matches(list, &format!("{field}.{member}"), names, findings);
        whole &= all;
        matches
    };
    let headers = fields(&written.headers, "headers", Names::Header);
    let query_params = fields(&written.query_params, "queryParams", Names::Query);
    let cookies = fields(&written.cookies, "cookies", Names::Cookie);
    let conditions = Conditions {
        path: path.unwrap_or_else(|nearest| nearest),
        method,
        headers,
        query_params,
        cookies,
    };
    let key = findings.object.key();
    let route = (key.namespace.clone(), key.name.clone());
    let mut rank = conditions.rank(findings.object.meta().creation_timestamp, route, at);
    if let (PathMatch::RegularExpression(_), Some(path)) = (&conditions.path, &written.path) {
        // An expression in error has the place of what was written, not of what stands for it.
        rank.path.1 = Reverse(path.value.as_deref().unwrap_or("/").chars().count());
    }
    Compiled {
        rank,
        conditions,
        whole,
    }
}

/// The path condition. The error is the one that stands for it where it can't be used.
fn path(
    written: Option<&PathCondition>,
    field: &str,
    findings: &mut Findings<'_>,
) -> Result<PathMatch, PathMatch> {
    let kind = written.and_then(|path| path.r#type).unwrap_or_default();
    let value = written.and_then(|path| path.value.as_deref()).unwrap_or("/");
    let checked = match kind {
        PathType::Exact => check::match_path(value).map(PathMatch::Exact),
        PathType::PathPrefix => {
            check::match_path(value).map(|path| PathMatch::PathPrefix(without_slash(path)))
        }
        PathType::RegularExpression => {
            check::pattern(value).map(|()| PathMatch::RegularExpression(value.to_owned()))
        }
    };
    let checked = findings.check(Reason::InvalidMatch, field, checked);
    checked.ok_or_else(|| salvage::path(kind, value))
}

fn without_slash(mut path: String) -> String {
    if path.len() > 1 && path.ends_with('/') {
        path.pop();
    }
    path
}

/// The usable conditions, and whether they are all that was written.
fn field_matches(
    written: &[FieldCondition],
    field: &str,
    names: Names,
    findings: &mut Findings<'_>,
) -> (Vec<FieldMatch>, bool) {
    let mut whole = written.len() <= MAX_CONDITIONS;
    if !whole {
        let message = format!(
            "{} conditions; {MAX_CONDITIONS} are taken, and the rule answers 500",
            written.len()
        );
        findings.error(Reason::TooMany, field, message);
    }
    let mut matches: Vec<FieldMatch> = Vec::new();
    for (at, condition) in written.iter().take(MAX_CONDITIONS).enumerate() {
        let field = format!("{field}[{at}]");
        let checked = name_of(&condition.name, names);
        let Some(name) = findings.check(Reason::InvalidMatch, &format!("{field}.name"), checked) else {
            whole = false;
            continue;
        };
        if matches.iter().any(|known| known.name == name) {
            let message = format!("a second condition for `{name}`; the first one counts");
            findings.warning(Reason::DuplicateCondition, &format!("{field}.name"), message);
            continue;
        }
        let checked = value_of(condition);
        match findings.check(Reason::InvalidMatch, &format!("{field}.value"), checked) {
            Some(value) => matches.push(FieldMatch { name, value }),
            None => whole = false,
        }
    }
    (matches, whole)
}

fn name_of(name: &str, names: Names) -> Result<String, String> {
    match names {
        Names::Header => check::token(name).map(|()| name.to_ascii_lowercase()),
        Names::Cookie => check::token(name).map(|()| name.to_owned()),
        Names::Query if name.is_empty() => Err("a name is needed".into()),
        Names::Query => Ok(name.to_owned()),
    }
}

fn value_of(condition: &FieldCondition) -> Result<ValueMatch, String> {
    let kind = condition.r#type.unwrap_or_default();
    match (kind, &condition.value) {
        (FieldMatchType::Exact, Some(value)) => Ok(ValueMatch::Exact(value.clone())),
        (FieldMatchType::RegularExpression, Some(value)) => {
            check::pattern(value).map(|()| ValueMatch::RegularExpression(value.clone()))
        }
        (FieldMatchType::Exact | FieldMatchType::RegularExpression, None) => Err("a value is needed".into()),
        (FieldMatchType::Present, None) => Ok(ValueMatch::Present),
        (FieldMatchType::Absent, None) => Ok(ValueMatch::Absent),
        (_, Some(_)) => Err(format!("{kind:?} has no value")),
    }
}
