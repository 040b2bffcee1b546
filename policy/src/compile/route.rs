//! EdgeRoutes: rules with their matches, ready to be sorted into host tables.
//!
//! # What an error leaves of a rule
//! A rule in error stays where it is and answers 500: what it would have caught must not fall through to a broader
//! rule. Every way by which an error could take a rule away, and what happens instead:
//!
//! | error | what happens |
//! | --- | --- |
//! | backend, filter, timeout or retry | the rule answers 500 (its share does, where one backend of several is in error) |
//! | header, query or cookie condition, method | 500 to what the usable conditions take, which is more |
//! | path, or expression that doesn't compile | 500 to the nearest path, or to all that begins like the expression ([`salvage`]) |
//! | host name | 500 on the host that can be read in it ([`salvage`]), the other hosts are served; diagnosed only where none can |
//! | too many rules, matches, host names | those above the limit answer 500 (matches and hosts up to 1024) |
//! | EdgeRoute that can't be read | its last good version; without one 500 on the hosts and paths that can be read of it ([`crate::yaml`]) |
//! | document that isn't YAML | its file's last good documents; without them diagnosed only: it says nothing of any request |
//! | second definition of a name | diagnosed only: the object of the name is served as the first one says |
//! | listener that the profile hasn't | the other listeners named; diagnosed only where there are none, since no listener of the profile was meant |
//! | profile that is missing or can't be read | diagnosed only: no listener is open that its requests could come by |
//! | profile that doesn't admit the route | a warning: the profile's word, not an error of the route |

use routed_snapshot::ir::{Action, Retry, Rule, RuleTimeouts};
use routed_snapshot::limits;

use super::attach::{Attachment, attach};
use super::check;
use super::filter::{Filters, filters};
use super::matching::{Conditions, Rank, compiled};
use super::reference::{mirror, share};
use super::world::{Findings, World};
use crate::diag::{Diag, Reason};
use crate::kinds::edge_route::{BackendRef, EdgeRouteSpec, PathType, RouteMatch, RouteRule};
use crate::kinds::{edge_route, edge_route_v1};
use crate::resources::{Body, Object};

/// Most rules of a route, matches of a rule, backends of a rule.
const MAX_ENTRIES: usize = 64;

/// Most matches of a rule that has too many of them and answers 500 to all.
const MAX_FAILING_MATCHES: usize = 1024;

/// A compiled route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RouteFragment {
    pub(crate) attachment: Attachment,
    pub(crate) rules: Vec<RuleFragment>,
}

/// A compiled rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RuleFragment {
    pub(crate) name: String,
    pub(crate) rule: Rule,
    pub(crate) matches: Vec<(Rank, Conditions)>,
}

impl RuleFragment {
    /// Name of what stands for the rule on hosts whose names are in error.
    pub(crate) fn failing_name(&self) -> String {
        format!("{}/{}", self.name, Reason::InvalidHostname)
    }
}

/// Turns a v2 field path into the v1 field it stands for.
pub(crate) fn v1_field(field: &str) -> String {
    let field = if field.starts_with("spec.hostnames") {
        "spec.hostname"
    } else if field.contains(".matches") {
        "spec.prefix"
    } else if field.ends_with(".port") {
        "spec.port"
    } else if field.contains(".backends") {
        "spec.service"
    } else {
        field
    };
    field.to_owned()
}

/// The v2 form of a v1 route.
pub(crate) fn upgrade(old: &edge_route_v1::EdgeRouteSpec) -> EdgeRouteSpec {
    let path = edge_route::PathCondition {
        r#type: None,
        value: old.prefix.clone(),
    };
    let rule = RouteRule {
        matches: vec![RouteMatch {
            path: Some(path),
            ..RouteMatch::default()
        }],
        backends: vec![BackendRef {
            service: Some(old.service.clone()),
            port: Some(old.port),
            ..BackendRef::default()
        }],
        ..RouteRule::default()
    };
    EdgeRouteSpec {
        hostnames: old.hostname.clone().into_iter().collect(),
        rules: vec![rule],
        ..EdgeRouteSpec::default()
    }
}

/// Compiles a route.
pub(crate) fn route(object: &Object, world: &World<'_>) -> (RouteFragment, Vec<Diag>) {
    let mut findings = Findings::new(object);
    let fragment = match object.body() {
        Body::EdgeRoute(spec) => compile(spec, world, &mut findings),
        Body::UnreadEdgeRoute(spec) => return (unread(object, spec, world), Vec::new()),
        Body::EdgeRouteV1(old) => {
            findings.rename = v1_field;
            let fragment = compile(&upgrade(old), world, &mut findings);
            findings.warning(
                Reason::Deprecated,
                "apiVersion",
                "routed.io/v1 EdgeRoute is deprecated; use routed.io/v2",
            );
            fragment
        }
        _ => RouteFragment {
            attachment: Attachment::default(),
            rules: Vec::new(),
        },
    };
    (fragment, findings.diags)
}

/// What can be read of a route that can't: all of it answers 500. Its faults were found when it was read.
fn unread(object: &Object, spec: &EdgeRouteSpec, world: &World<'_>) -> RouteFragment {
    let mut fragment = compile(spec, world, &mut Findings::new(object));
    for rule in &mut fragment.rules {
        rule.rule = failure(Reason::Malformed);
    }
    fragment
}

fn compile(spec: &EdgeRouteSpec, world: &World<'_>, findings: &mut Findings<'_>) -> RouteFragment {
    let attachment = attach(spec, world, findings);
    if spec.rules.is_empty() {
        findings.error(Reason::InvalidValue, "spec.rules", "at least one rule is needed");
    }
    if spec.rules.len() > MAX_ENTRIES {
        let message = format!(
            "{} rules; {MAX_ENTRIES} are taken, the others answer 500",
            spec.rules.len()
        );
        findings.error(Reason::TooMany, "spec.rules", message);
    }
    let rules = spec.rules.iter().enumerate();
    RouteFragment {
        attachment,
        rules: rules
            .map(|(at, rule)| one_rule(at, rule, world, findings))
            .collect(),
    }
}

fn one_rule(at: usize, written: &RouteRule, world: &World<'_>, findings: &mut Findings<'_>) -> RuleFragment {
    let field = format!("spec.rules[{at}]");
    let mut failed: Option<Reason> = (at >= MAX_ENTRIES).then_some(Reason::TooMany);
    let default = [RouteMatch::default()];
    let list = if written.matches.is_empty() {
        &default[..]
    } else {
        &written.matches
    };
    if list.len() > MAX_ENTRIES {
        let message = format!(
            "{} matches; a rule may have {MAX_ENTRIES}, so this one answers 500",
            list.len()
        );
        findings.error(Reason::TooMany, &format!("{field}.matches"), message);
        failed = failed.or(Some(Reason::TooMany));
    }
    let mut matches = Vec::with_capacity(list.len().min(MAX_FAILING_MATCHES));
    for (index, one) in list.iter().take(MAX_FAILING_MATCHES).enumerate() {
        let compiled = compiled(one, (at, index), &format!("{field}.matches[{index}]"), findings);
        if !compiled.whole {
            failed = failed.or(Some(Reason::InvalidMatch));
        }
        matches.push((compiled.rank, compiled.conditions));
    }
    let rule = rule(written, &field, failed, world, findings);
    RuleFragment {
        name: format!("EdgeRoute/{}/{at}", findings.object.key().path()),
        rule,
        matches,
    }
}

fn rule(
    written: &RouteRule,
    field: &str,
    mut failed: Option<Reason>,
    world: &World<'_>,
    findings: &mut Findings<'_>,
) -> Rule {
    let mut fail = |reason: Reason| failed = failed.or(Some(reason));
    if findings.not_built(&format!("{field}.policyRef"), written.policy_ref.is_some())
        | findings.not_built(&format!("{field}.policies"), written.policies.is_some())
    {
        fail(Reason::NotBuilt);
    }
    let prefix = |one: &RouteMatch| {
        let kind = one.path.as_ref().and_then(|path| path.r#type).unwrap_or_default();
        kind == PathType::PathPrefix
    };
    let prefixes_only = written.matches.iter().all(prefix);
    let filters = filters(
        &written.filters,
        &format!("{field}.filters"),
        prefixes_only,
        findings,
    );
    let filters = filters.unwrap_or_else(|| {
        fail(Reason::InvalidFilter);
        Filters::default()
    });
    let timeouts = timeouts(written, field, findings).unwrap_or_else(|reason| {
        fail(reason);
        RuleTimeouts::default()
    });
    let retry = retry(written, field, findings).unwrap_or_else(|reason| {
        fail(reason);
        None
    });
    let action = action(written, field, &filters, failed, world, findings);
    if let Action::Fail { .. } = action {
        return Rule {
            name: written.name.clone(),
            ..failing(action)
        };
    }
    let mirrors = filters.mirrors.iter();
    let mirrors = mirrors
        .filter_map(|(field, written)| mirror(written, field, world, findings))
        .collect();
    Rule {
        name: written.name.clone(),
        action,
        request_headers: filters.request_headers,
        response_headers: filters.response_headers,
        rewrite: filters.rewrite,
        cors: filters.cors,
        mirrors,
        timeouts,
        retry,
    }
}

/// What stands for a rule that answers 500.
pub(crate) fn failure(reason: Reason) -> Rule {
    failing(Action::Fail {
        status: 500,
        reason: reason.to_string(),
    })
}

fn failing(action: Action) -> Rule {
    Rule {
        name: None,
        action,
        request_headers: Default::default(),
        response_headers: Default::default(),
        rewrite: None,
        cors: None,
        mirrors: Vec::new(),
        timeouts: RuleTimeouts::default(),
        retry: None,
    }
}

fn action(
    written: &RouteRule,
    field: &str,
    filters: &Filters<'_>,
    failed: Option<Reason>,
    world: &World<'_>,
    findings: &mut Findings<'_>,
) -> Action {
    let fail = |reason: Reason| Action::Fail {
        status: 500,
        reason: reason.to_string(),
    };
    let answers = filters.redirect.is_some() || filters.direct.is_some();
    if answers && !written.backends.is_empty() {
        let message = "a rule that answers by itself has no backends";
        findings.error(Reason::InvalidFilter, &format!("{field}.backends"), message);
        return fail(failed.unwrap_or(Reason::InvalidFilter));
    }
    if let Some(reason) = failed {
        return fail(reason);
    }
    if let Some(redirect) = &filters.redirect {
        return Action::Redirect(redirect.clone());
    }
    if let Some(direct) = &filters.direct {
        return Action::DirectResponse(direct.clone());
    }
    let field = format!("{field}.backends");
    if written.backends.len() > MAX_ENTRIES {
        let message = format!("{} backends; {MAX_ENTRIES} are taken", written.backends.len());
        findings.error(Reason::TooMany, &field, message);
        return fail(Reason::TooMany);
    }
    let list = written.backends.iter().enumerate();
    let backends: Vec<_> = list
        .map(|(at, backend)| share(backend, &format!("{field}[{at}]"), world, findings))
        .collect();
    if backends.iter().all(|share| share.weight == 0) {
        let message = if backends.is_empty() {
            "nothing to forward to"
        } else {
            "all weights are 0"
        };
        findings.error(Reason::NoBackends, &field, message);
        return fail(Reason::NoBackends);
    }
    Action::Forward { backends }
}

fn timeouts(written: &RouteRule, field: &str, findings: &mut Findings<'_>) -> Result<RuleTimeouts, Reason> {
    let Some(written) = &written.timeouts else {
        return Ok(RuleTimeouts::default());
    };
    let mut time = |text: &Option<String>, member: &str| match text {
        None => Ok(0),
        Some(text) => {
            let field = format!("{field}.timeouts.{member}");
            findings
                .check(Reason::InvalidDuration, &field, check::duration(text))
                .ok_or(Reason::InvalidDuration)
        }
    };
    let (request_ms, backend_request_ms) = (
        time(&written.request, "request")?,
        time(&written.backend_request, "backendRequest")?,
    );
    if request_ms != 0 && backend_request_ms > request_ms {
        let field = format!("{field}.timeouts.backendRequest");
        findings.error(Reason::InvalidDuration, &field, "longer than `request`");
        return Err(Reason::InvalidDuration);
    }
    Ok(RuleTimeouts {
        request_ms,
        backend_request_ms,
    })
}

fn retry(written: &RouteRule, field: &str, findings: &mut Findings<'_>) -> Result<Option<Retry>, Reason> {
    let Some(written) = &written.retry else {
        return Ok(None);
    };
    let mut checked = |number: u32, range, member: &str| {
        let field = format!("{field}.retry.{member}");
        let checked = findings.check(Reason::InvalidValue, &field, check::within(number, range));
        checked.ok_or(Reason::InvalidValue)
    };
    let attempts = checked(written.attempts.unwrap_or(1), limits::RETRY_ATTEMPTS, "attempts")?;
    for (at, code) in written.codes.iter().enumerate() {
        checked((*code).into(), limits::RETRY_CODE, &format!("codes[{at}]"))?;
    }
    let backoff_ms = match &written.backoff {
        None => 0,
        Some(text) => {
            let field = format!("{field}.retry.backoff");
            let checked = findings.check(Reason::InvalidDuration, &field, check::duration(text));
            checked.ok_or(Reason::InvalidDuration)?
        }
    };
    let mut codes = written.codes.clone();
    codes.sort_unstable();
    codes.dedup();
    Ok(Some(Retry {
        attempts,
        codes,
        backoff_ms,
    }))
}
