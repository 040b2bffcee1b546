//! Filters of rules and of backends.

use routed_snapshot::ir::{Cors, DirectResponse, HeaderEdits, HeaderPair, PathModifier, Redirect, Rewrite};
use routed_snapshot::limits;

use super::check;
use super::world::Findings;
use crate::diag::Reason;
use crate::kinds::edge_route::{
    CorsFilter, DirectAnswer, FilterType, HeaderField, HeaderModifier, PathReplacement, PathReplacementType,
    RequestMirror, RequestRedirect, RouteFilter, UrlRewrite,
};

/// Most filters of a rule or backend.
const MAX_FILTERS: usize = 16;

/// The filters of a rule, taken apart.
#[derive(Debug, Default)]
pub(crate) struct Filters<'a> {
    pub(crate) request_headers: HeaderEdits,
    pub(crate) response_headers: HeaderEdits,
    pub(crate) rewrite: Option<Rewrite>,
    pub(crate) redirect: Option<Redirect>,
    pub(crate) direct: Option<DirectResponse>,
    pub(crate) cors: Option<Cors>,
    /// Mirrors with their field paths; their backends are found by the caller.
    pub(crate) mirrors: Vec<(String, &'a RequestMirror)>,
}

/// Compiles filters; none where one of them is invalid.
pub(crate) fn filters<'a>(
    written: &'a [RouteFilter],
    field: &str,
    prefixes_only: bool,
    findings: &mut Findings<'_>,
) -> Option<Filters<'a>> {
    if written.len() > MAX_FILTERS {
        findings.error(
            Reason::TooMany,
            field,
            format!("{} filters; {MAX_FILTERS} are taken", written.len()),
        );
        return None;
    }
    let mut filters = Filters::default();
    let mut whole = true;
    for (at, filter) in written.iter().enumerate() {
        let field = format!("{field}[{at}]");
        let repeated = written[..at]
            .iter()
            .any(|earlier| earlier.r#type == filter.r#type);
        if repeated && filter.r#type != FilterType::RequestMirror {
            let message = format!("a second {} filter", name_of(filter.r#type));
            findings.error(Reason::InvalidFilter, &field, message);
            whole = false;
            continue;
        }
        whole &= one(filter, &field, prefixes_only, &mut filters, findings).is_some();
    }
    let answers = usize::from(filters.redirect.is_some()) + usize::from(filters.direct.is_some());
    if answers > 1 || (answers == 1 && filters.rewrite.is_some()) {
        let message = "RequestRedirect, DirectResponse and URLRewrite exclude one another";
        findings.error(Reason::InvalidFilter, field, message);
        whole = false;
    }
    whole.then_some(filters)
}

fn name_of(kind: FilterType) -> &'static str {
    match kind {
        FilterType::RequestHeaderModifier => "RequestHeaderModifier",
        FilterType::ResponseHeaderModifier => "ResponseHeaderModifier",
        FilterType::UrlRewrite => "URLRewrite",
        FilterType::RequestRedirect => "RequestRedirect",
        FilterType::DirectResponse => "DirectResponse",
        FilterType::Cors => "CORS",
        FilterType::RequestMirror => "RequestMirror",
    }
}

/// A filter has the member that its type names and no other.
fn one_member(filter: &RouteFilter, field: &str, findings: &mut Findings<'_>) -> Option<()> {
    let members = [
        (
            "requestHeaderModifier",
            FilterType::RequestHeaderModifier,
            filter.request_header_modifier.is_some(),
        ),
        (
            "responseHeaderModifier",
            FilterType::ResponseHeaderModifier,
            filter.response_header_modifier.is_some(),
        ),
        ("urlRewrite", FilterType::UrlRewrite, filter.url_rewrite.is_some()),
        (
            "requestRedirect",
            FilterType::RequestRedirect,
            filter.request_redirect.is_some(),
        ),
        (
            "directResponse",
            FilterType::DirectResponse,
            filter.direct_response.is_some(),
        ),
        ("cors", FilterType::Cors, filter.cors.is_some()),
        (
            "requestMirror",
            FilterType::RequestMirror,
            filter.request_mirror.is_some(),
        ),
    ];
    if let Some((member, kind, _)) = members
        .iter()
        .find(|(_, kind, set)| *set != (*kind == filter.r#type))
    {
        let name = name_of(filter.r#type);
        let message = match *kind == filter.r#type {
            true => format!("`type: {name}` needs the member `{member}`, which is missing"),
            false => format!(
                "`type: {name}` has no member `{member}`; take it out, or set `type: {}`",
                name_of(*kind)
            ),
        };
        findings.error(Reason::InvalidFilter, &format!("{field}.{member}"), message);
        return None;
    }
    Some(())
}

fn one<'a>(
    filter: &'a RouteFilter,
    field: &str,
    prefixes_only: bool,
    filters: &mut Filters<'a>,
    findings: &mut Findings<'_>,
) -> Option<()> {
    one_member(filter, field, findings)?;
    let field = |member: &str| format!("{field}.{member}");
    if let Some(edits) = &filter.request_header_modifier {
        filters.request_headers = header_edits(edits, &field("requestHeaderModifier"), findings)?;
    }
    if let Some(edits) = &filter.response_header_modifier {
        filters.response_headers = header_edits(edits, &field("responseHeaderModifier"), findings)?;
    }
    if let Some(rewrite) = &filter.url_rewrite {
        filters.rewrite = Some(url_rewrite(
            rewrite,
            &field("urlRewrite"),
            prefixes_only,
            findings,
        )?);
    }
    if let Some(redirect) = &filter.request_redirect {
        filters.redirect = Some(request_redirect(
            redirect,
            &field("requestRedirect"),
            prefixes_only,
            findings,
        )?);
    }
    if let Some(direct) = &filter.direct_response {
        filters.direct = Some(direct_response(direct, &field("directResponse"), findings)?);
    }
    if let Some(written) = &filter.cors {
        filters.cors = Some(cors(written, &field("cors"), findings)?);
    }
    if let Some(mirror) = &filter.request_mirror {
        filters.mirrors.push((field("requestMirror"), mirror));
    }
    Some(())
}

/// Compiles edits of headers.
pub(crate) fn header_edits(
    written: &HeaderModifier,
    field: &str,
    findings: &mut Findings<'_>,
) -> Option<HeaderEdits> {
    let mut names: Vec<String> = Vec::new();
    let mut pairs = |list: &[HeaderField], member: &str, findings: &mut Findings<'_>| {
        let mut out = Vec::with_capacity(list.len());
        for (at, pair) in list.iter().enumerate() {
            let field = format!("{field}.{member}[{at}]");
            let checked = check::editable_header(&pair.name);
            let name = findings.check(Reason::InvalidFilter, &format!("{field}.name"), checked)?;
            if names.contains(&name) {
                let message = format!("`{name}` is edited twice");
                findings.error(Reason::InvalidFilter, &format!("{field}.name"), message);
                return None;
            }
            names.push(name.clone());
            let checked = check::header_value(&pair.value);
            findings.check(Reason::InvalidFilter, &format!("{field}.value"), checked)?;
            out.push(HeaderPair {
                name,
                value: pair.value.clone(),
            });
        }
        Some(out)
    };
    let set = pairs(&written.set, "set", findings)?;
    let add = pairs(&written.add, "add", findings)?;
    let mut remove = Vec::with_capacity(written.remove.len());
    for (at, name) in written.remove.iter().enumerate() {
        let checked = check::editable_header(name);
        remove.push(findings.check(Reason::InvalidFilter, &format!("{field}.remove[{at}]"), checked)?);
    }
    Some(HeaderEdits { set, add, remove })
}

fn url_rewrite(
    written: &UrlRewrite,
    field: &str,
    prefixes_only: bool,
    findings: &mut Findings<'_>,
) -> Option<Rewrite> {
    if let Some(hostname) = &written.hostname {
        let field = format!("{field}.hostname");
        findings.check(Reason::InvalidFilter, &field, check::authority(hostname))?;
        if written.host_from_backend {
            findings.error(
                Reason::InvalidFilter,
                &field,
                "`hostname` and `hostFromBackend` both change Host",
            );
            return None;
        }
    }
    Some(Rewrite {
        hostname: written.hostname.clone(),
        host_from_backend: written.host_from_backend,
        path: path_modifier(written.path.as_ref(), field, prefixes_only, findings)?,
    })
}

/// The outer option is none where the modifier is invalid.
fn path_modifier(
    written: Option<&PathReplacement>,
    field: &str,
    prefixes_only: bool,
    findings: &mut Findings<'_>,
) -> Option<Option<PathModifier>> {
    let Some(written) = written else {
        return Some(None);
    };
    let (member, value, other) = match written.r#type {
        PathReplacementType::ReplaceFullPath => (
            "replaceFullPath",
            &written.replace_full_path,
            &written.replace_prefix_match,
        ),
        PathReplacementType::ReplacePrefixMatch => (
            "replacePrefixMatch",
            &written.replace_prefix_match,
            &written.replace_full_path,
        ),
    };
    let field = format!("{field}.path.{member}");
    let (Some(value), None) = (value, other) else {
        findings.error(
            Reason::InvalidFilter,
            &field,
            format!("this type needs `{member}` alone"),
        );
        return None;
    };
    let path = findings.check(Reason::InvalidFilter, &field, check::replacement_path(value))?;
    if written.r#type == PathReplacementType::ReplaceFullPath {
        if !path.starts_with('/') {
            findings.error(Reason::InvalidFilter, &field, "a path begins with `/`");
            return None;
        }
        return Some(Some(PathModifier::ReplaceFullPath(path)));
    }
    if !prefixes_only {
        let message = "ReplacePrefixMatch needs PathPrefix in every match of the rule";
        findings.error(Reason::InvalidFilter, &field, message);
        return None;
    }
    Some(Some(PathModifier::ReplacePrefixMatch(path)))
}

fn request_redirect(
    written: &RequestRedirect,
    field: &str,
    prefixes_only: bool,
    findings: &mut Findings<'_>,
) -> Option<Redirect> {
    let mut check = |member: &str, checked: Result<u16, String>| {
        findings.check(Reason::InvalidFilter, &format!("{field}.{member}"), checked)
    };
    let scheme = match written.scheme.as_deref() {
        None | Some("http" | "https") => Ok(0),
        Some(_) => Err("`http` or `https`".to_owned()),
    };
    check("scheme", scheme)?;
    let status = written.status_code.unwrap_or(302);
    check("statusCode", check::one_of(status, limits::REDIRECT_STATUS))?;
    if let Some(port) = written.port {
        check("port", check::within(port, limits::PORT))?;
    }
    if let Some(hostname) = &written.hostname {
        let checked = check::hostname(hostname, false);
        findings.check(Reason::InvalidFilter, &format!("{field}.hostname"), checked)?;
    }
    let changes = written.scheme.is_some() || written.hostname.is_some() || written.port.is_some();
    if !changes && written.path.is_none() {
        let message = "it redirects each request to itself: set `scheme`, `hostname`, `port` or `path`";
        findings.warning(Reason::InvalidFilter, field, message);
    }
    Some(Redirect {
        scheme: written.scheme.clone(),
        hostname: written.hostname.clone(),
        path: path_modifier(written.path.as_ref(), field, prefixes_only, findings)?,
        port: written.port,
        status,
    })
}

fn direct_response(
    written: &DirectAnswer,
    field: &str,
    findings: &mut Findings<'_>,
) -> Option<DirectResponse> {
    let body = written.body.clone().unwrap_or_default();
    let mut refuse = |member: &str, message: &str| {
        findings.error(Reason::InvalidFilter, &format!("{field}.{member}"), message);
        None
    };
    if let Err(message) = check::within(written.status_code, limits::ANSWER_STATUS) {
        return refuse("statusCode", &message);
    }
    if body.len() > limits::ANSWER_BODY_BYTES {
        return refuse(
            "body",
            &format!("longer than {} bytes", limits::ANSWER_BODY_BYTES),
        );
    }
    if !body.is_empty() && matches!(written.status_code, 204 | 205 | 304) {
        return refuse("body", "an answer with this status has no body");
    }
    if let Some(content_type) = &written.content_type {
        let checked = check::header_value(content_type);
        findings.check(Reason::InvalidFilter, &format!("{field}.contentType"), checked)?;
    }
    Some(DirectResponse {
        status: written.status_code,
        body,
        content_type: written.content_type.clone(),
    })
}

fn cors(written: &CorsFilter, field: &str, findings: &mut Findings<'_>) -> Option<Cors> {
    let mut each = |list: &[String], member: &str, one: fn(&str) -> Result<(), String>| {
        for (at, value) in list.iter().enumerate().filter(|(_, value)| *value != "*") {
            findings.check(
                Reason::InvalidFilter,
                &format!("{field}.{member}[{at}]"),
                one(value),
            )?;
        }
        Some(list.to_vec())
    };
    Some(Cors {
        allow_origins: each(&written.allow_origins, "allowOrigins", origin)?,
        allow_methods: each(&written.allow_methods, "allowMethods", check::token)?,
        allow_headers: each(&written.allow_headers, "allowHeaders", check::token)?,
        expose_headers: each(&written.expose_headers, "exposeHeaders", check::token)?,
        allow_credentials: written.allow_credentials,
        max_age_s: written.max_age.unwrap_or(5),
    })
}

/// `scheme://host[:port]`, the host with `*.` in front or not.
fn origin(text: &str) -> Result<(), String> {
    let bad = || format!("`{text}` is no origin (`scheme://host[:port]`, or `*`)");
    let (scheme, rest) = text.split_once("://").ok_or_else(bad)?;
    let letters = scheme
        .bytes()
        .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+-.".contains(&byte));
    if scheme.is_empty() || !letters {
        return Err(bad());
    }
    let (host, port) = rest
        .split_once(':')
        .map_or((rest, None), |(host, port)| (host, Some(port)));
    if port.is_some_and(|port| !matches!(port.parse::<u16>(), Ok(1..))) {
        return Err(bad());
    }
    if host.parse::<std::net::Ipv4Addr>().is_ok() {
        return Ok(());
    }
    check::hostname(host, true)
}
