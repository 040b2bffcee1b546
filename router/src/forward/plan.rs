//! From a head to what is to be done, on one index and without an await: the guard ends with [`plan`], and what has
//! to live longer is cloned out of it.

use std::time::Duration;

use http::header::{CONNECTION, CONTENT_TYPE};
use http::header::{HOST, HeaderValue, LOCATION, UPGRADE};
use http::{HeaderMap, Response, Version, request};
use routed_snapshot::decision::Matched;
use routed_snapshot::index::{ListenerId, RuleExtras, WeightedTarget};
use routed_snapshot::ir::{self, Profile};
use routed_snapshot::request::Refusal;
use routed_snapshot::request::head::Target;
use routed_snapshot::{Availability, Decision, Facts, Index, decide};

use super::{Exchange, headers};
use crate::filter::redirect::{self, Asked};
use crate::filter::{cors, rewrite};
use crate::http::{Body, Head, HeadEdits, head};
use crate::parse::head::check;
use crate::record::Record;
use crate::respond::{Error, answer};
use crate::upstream::Upstream;

/// What is to be done with a request.
#[derive(Debug)]
pub struct Plan {
    /// The thing itself.
    pub outcome: Outcome,
    /// Edits of whatever response there will be (cross-origin fields).
    pub edits: HeadEdits,
    /// Most bytes of the body; 0: no limit.
    pub body_limit: u64,
    /// Whether the response tells the decision.
    pub decision_headers: bool,
}

/// What becomes of a request.
#[derive(Debug)]
pub enum Outcome {
    /// The router answers.
    Answer(Box<Response<Body>>),
    /// The router answers that something is wrong.
    Fail(Error),
    /// A backend answers.
    Forward(Box<Route>),
}

/// Where a request goes and in what form.
#[derive(Debug)]
pub struct Route {
    /// The backend.
    pub backend: Upstream,
    /// The head as it is sent.
    pub head: Head,
    /// Edits of the response's head.
    pub response_edits: HeadEdits,
    /// Backends that get a copy.
    pub mirrors: Vec<Upstream>,
    /// Whether a switch to WebSocket was asked for.
    pub websocket: bool,
    /// How long connecting to an endpoint may take, a mirror's too; zero: no limit.
    pub connect: Duration,
    /// Time limits.
    pub timeouts: ir::RuleTimeouts,
    /// Retries.
    pub retry: Option<ir::Retry>,
}

/// Decides on the published index.
pub fn plan(exchange: &Exchange, parts: request::Parts, no_body: bool, record: &mut Record) -> Plan {
    let mut plan = Plan {
        outcome: Outcome::Fail(Error::NotReady),
        edits: HeadEdits::default(),
        body_limit: 0,
        decision_headers: false,
    };
    record.method = parts.method.as_str().to_owned();
    let live = exchange.worker.shared.live.load();
    let Some(index) = live.as_ref() else {
        return plan;
    };
    let profile = index.profile_run(&exchange.connection.listener.profile);
    record.snapshot = Some(index.hash());
    if profile.access_log.enabled {
        record.log(profile.access_log.format);
    }
    plan.body_limit = profile.limits.body_bytes;
    plan.decision_headers = profile.decision_headers;
    let planner = Planner {
        exchange,
        index,
        profile: &profile,
        no_body,
    };
    plan.outcome = planner
        .run(parts, record, &mut plan.edits)
        .unwrap_or_else(Outcome::Fail);
    plan
}

struct Planner<'a> {
    exchange: &'a Exchange,
    index: &'a Index,
    profile: &'a Profile,
    no_body: bool,
}

/// A request that was accepted.
struct Request {
    parts: request::Parts,
    target: Target,
    origin: headers::Origin,
}

impl Planner<'_> {
    fn run(
        &self,
        mut parts: request::Parts,
        record: &mut Record,
        edits: &mut HeadEdits,
    ) -> Result<Outcome, Error> {
        let limits = &self.profile.limits;
        let rules = &self.profile.normalization;
        let target = check(
            &parts.method,
            &parts.uri,
            parts.version,
            &parts.headers,
            limits,
            rules,
        )?;
        if parts.version == Version::HTTP_2 {
            headers::join_cookies(&mut parts.headers);
        }
        headers::set_host(&mut parts.headers, &target.authority);
        record.host.clone_from(&target.host.name);
        record.path.clone_from(&target.path);
        let connection = &self.exchange.connection;
        let trust = self.exchange.worker.trust(self.index.config_hash(), self.profile);
        let origin = headers::origin(
            connection.peer,
            connection.tls.is_some(),
            &parts.headers,
            &trust,
            connection.listener.port,
        );
        record.client = origin.client;
        let request = Request {
            parts,
            target,
            origin,
        };
        let lines = head::lines(&request.parts.headers);
        let facts = Facts {
            listener: self.listener()?,
            https: origin.https,
            method: request.parts.method.as_str(),
            host: &request.target.host.name,
            path: &request.target.path,
            query: request.target.query.as_deref(),
            headers: &lines,
        };
        let draw = self.exchange.worker.draw();
        let decision = decide(self.index, &facts, draw, &Availability::default());
        record.rule = decision.matched.as_ref().map(|matched| matched.rule.clone());
        drop(lines);
        self.act(request, &decision, record, edits)
    }

    /// The connection's listener in this table. One that was renamed, removed or changed its protocol since is no
    /// reason to say that there is no such route: its connections are about to end, and the client is to come again.
    fn listener(&self) -> Result<ListenerId, Error> {
        let context = &self.exchange.connection.listener;
        let own = context
            .name
            .strip_prefix(&*context.profile)
            .and_then(|own| own.strip_prefix('/'));
        let https = own
            .and_then(|own| self.profile.listeners.get(own))
            .map(|listener| listener.protocol == ir::ListenerProtocol::Https);
        if https != Some(context.https) {
            return Err(Error::ListenerGone);
        }
        self.index.listener(&context.name).ok_or(Error::NoRoute)
    }

    fn act(
        &self,
        request: Request,
        decision: &Decision<'_>,
        record: &mut Record,
        edits: &mut HeadEdits,
    ) -> Result<Outcome, Error> {
        use routed_snapshot::Outcome as Decided;
        let extras = decision
            .matched
            .as_ref()
            .and_then(|matched| matched.rule.extras.as_deref());
        if let Some(policy) = extras.and_then(|extras| extras.cors.as_ref()) {
            if cors::is_preflight(&request.parts.method, &request.parts.headers) {
                let headers = cors::preflight(policy, &request.parts.headers);
                return Ok(Outcome::Answer(Box::new(answer(204, headers, ""))));
            }
            cors::response(policy, &request.parts.headers, edits);
        }
        let response_edits = |headers: &mut HeaderMap| {
            if let Some(extras) = extras {
                let mut edits = HeadEdits::default();
                edits.extend_from(&extras.response_headers);
                edits.apply(headers);
            }
        };
        let asked = Self::asked(&request, decision.matched.as_ref());
        match decision.outcome {
            Decided::NotFound => Err(Error::NoRoute),
            Decided::Fail { status, reason } => Err(Error::Rule {
                status,
                reason: reason.into(),
            }),
            Decided::RedirectToHttps(to) => located(to.status, redirect::to_https(to, &asked), |_| {}),
            Decided::Redirect(to) => located(to.status, redirect::location(to, &asked), response_edits),
            Decided::DirectResponse(direct) => {
                let mut headers = HeaderMap::new();
                let kind = direct.content_type.as_deref().map(HeaderValue::from_str);
                if let Some(Ok(kind)) = kind {
                    headers.insert(CONTENT_TYPE, kind);
                }
                response_edits(&mut headers);
                Ok(Outcome::Answer(Box::new(answer(
                    direct.status,
                    headers,
                    &direct.body,
                ))))
            }
            Decided::Forward { target, backend } => {
                let upstream = self.exchange.worker.upstream(self.index, backend);
                record.backend = Some(upstream.clone());
                let matched = decision.matched.as_ref();
                let route = self.route(request, matched, extras, target, upstream)?;
                Ok(Outcome::Forward(Box::new(route)))
            }
        }
    }

    fn asked<'r>(request: &'r Request, matched: Option<&Matched<'r>>) -> Asked<'r> {
        Asked {
            https: request.origin.https,
            host: &request.target.host.name,
            port: request.origin.port,
            path: &request.target.path,
            query: request.target.query.as_deref(),
            prefix: matched.and_then(|matched| matched.prefix),
        }
    }

    fn route(
        &self,
        request: Request,
        matched: Option<&Matched<'_>>,
        extras: Option<&RuleExtras>,
        target: &WeightedTarget,
        backend: Upstream,
    ) -> Result<Route, Error> {
        if backend.entry.endpoints.is_empty() {
            return Err(Error::NoEndpoints);
        }
        let connection = &self.exchange.connection;
        let Request {
            parts,
            target: asked,
            origin,
        } = request;
        let mut lines = parts.headers;
        let websocket = self.exchange.upgrade.is_some() && headers::wants_websocket(&lines);
        headers::strip_hop_by_hop(&mut lines);
        headers::set_forwarded(&mut lines, &origin, connection.peer, &asked.authority);
        let (request_edits, response_edits) = edits_of(extras, target);
        let change = extras.and_then(|extras| extras.rewrite.as_ref());
        let host = change.and_then(|change| match change.host_from_backend {
            true => rewrite::backend_host(&backend.entry.config),
            false => change.hostname.clone(),
        });
        let host_of_endpoint = host.is_none() && change.is_some_and(|change| change.host_from_backend);
        let host = host.as_deref().unwrap_or(&asked.authority);
        lines.insert(HOST, HeaderValue::from_str(host).map_err(|_| Error::Internal)?);
        request_edits.apply(&mut lines);
        if websocket {
            lines.insert(UPGRADE, HeaderValue::from_static("websocket"));
            lines.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        }
        let prefix = matched.and_then(|matched| matched.prefix);
        let path = change.and_then(|change| change.path.as_ref());
        let uri = new_target(asked.path, asked.query.as_deref(), prefix, path);
        Ok(Route {
            backend,
            head: Head {
                method: parts.method,
                target: uri,
                headers: lines,
                host_of_endpoint,
            },
            response_edits,
            mirrors: self.mirrors(extras),
            websocket: websocket && self.no_body,
            connect: Duration::from_millis(self.profile.timeouts.connect_ms),
            timeouts: extras.map(|extras| extras.timeouts.clone()).unwrap_or_default(),
            retry: extras.and_then(|extras| extras.retry.clone()),
        })
    }

    /// The mirrors drawn for this request.
    fn mirrors(&self, extras: Option<&RuleExtras>) -> Vec<Upstream> {
        let mirrors = extras.map_or(&[][..], |extras| &extras.mirrors);
        let drawn = mirrors.iter().filter(|(mirror, _)| {
            let draw = self.exchange.worker.draw() % u64::from(mirror.denominator.max(1));
            draw < u64::from(mirror.numerator)
        });
        drawn
            .filter_map(|(_, backend)| self.index.backend(*backend))
            .map(|backend| self.exchange.worker.upstream(self.index, backend))
            .collect()
    }
}

/// Edits of request and response: the rule's, then the share's.
fn edits_of(extras: Option<&RuleExtras>, target: &WeightedTarget) -> (HeadEdits, HeadEdits) {
    let (mut request, mut response) = (HeadEdits::default(), HeadEdits::default());
    if let Some(extras) = extras {
        request.extend_from(&extras.request_headers);
        response.extend_from(&extras.response_headers);
    }
    if let Some(edits) = &target.edits {
        request.extend_from(&edits.0);
        response.extend_from(&edits.1);
    }
    (request, response)
}

/// The target that is sent: the path, rewritten where the rule says so, and the query as it came.
fn new_target(
    path: String,
    query: Option<&str>,
    prefix: Option<&str>,
    modifier: Option<&ir::PathModifier>,
) -> String {
    let mut target = match modifier {
        Some(modifier) => rewrite::path(&path, prefix, modifier),
        None => path,
    };
    if let Some(query) = query {
        target.push('?');
        target.push_str(query);
    }
    target
}

fn located(
    status: u16,
    location: Option<String>,
    edits: impl FnOnce(&mut HeaderMap),
) -> Result<Outcome, Error> {
    let location = location.ok_or(Refusal::BadRequest("a redirect needs a host"))?;
    let mut headers = HeaderMap::new();
    edits(&mut headers);
    headers.insert(
        LOCATION,
        HeaderValue::from_str(&location).map_err(|_| Error::Internal)?,
    );
    Ok(Outcome::Answer(Box::new(answer(status, headers, ""))))
}
