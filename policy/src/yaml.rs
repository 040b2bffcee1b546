//! One YAML document: into objects, and back from a field path to a line and column.
//!
//! # Decisions
//! - **Documents are split before they are parsed.** A line `---` at column 1 is always a document mark (YAML 1.2.2
//!   §9.1.2), so a document that isn't YAML costs one diagnostic, not the rest of its file.
//! - **Strict scalars.** A string field takes no unquoted number or boolean, as the API server wouldn't.
//! - **An EdgeRoute that can't be read leaves an outline** ([`outline`]): the hosts and paths it was meant for.
//! - **Positions are found when they are asked for.** Keeping a span per field would double the memory of a table of
//!   100,000 routes, nearly all without a diagnostic; the document is parsed again instead.

mod locate;
mod outline;

pub(crate) use locate::locate;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_saphyr::Options;

use crate::diag::{Reason, Severity};
use crate::kinds::meta::{Meta, StrictMeta};
use crate::resources::{Body, Kind, ObjectKey};

/// What a document holds.
#[derive(Debug, Default)]
pub(crate) struct Parsed {
    pub(crate) items: Vec<Item>,
    pub(crate) problems: Vec<Problem>,
}

/// One object of a document.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) key: ObjectKey,
    pub(crate) meta: Meta,
    pub(crate) body: Body,
    /// Path of the object within the document: empty, or `items[3].` in a List.
    pub(crate) base: String,
}

/// A fault of a document. The line counts from the document's first one.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) kind: String,
    pub(crate) object: String,
    pub(crate) severity: Severity,
    pub(crate) reason: Reason,
    pub(crate) field: String,
    pub(crate) message: String,
    pub(crate) at: (u32, u32),
}

/// The documents of a file with the line (from 0) each one begins at. Empty ones are left out.
pub(crate) fn split(text: &str) -> Vec<(u32, &str)> {
    let mut documents = Vec::new();
    let (mut start, mut start_line) = (0, 0);
    let mut offset = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        if is_mark(line, "---") {
            documents.push((start_line, &text[start..offset]));
            (start, start_line) = (offset, number);
        } else if is_mark(line, "...") {
            documents.push((start_line, &text[start..offset]));
            (start, start_line) = (offset + line.len(), number + 1);
        }
        offset += line.len();
    }
    documents.push((start_line, &text[start..]));
    documents.retain(|(_, document)| !is_blank(document));
    documents
}

fn is_mark(line: &str, mark: &str) -> bool {
    line.strip_prefix(mark)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

fn is_blank(document: &str) -> bool {
    document.lines().all(|line| {
        let line = if is_mark(line, "---") { &line[3..] } else { line };
        let line = line.trim();
        line.is_empty() || line.starts_with('#') || line.starts_with('%')
    })
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_aliases: 100,
            max_anchors: 100,
            max_depth: 64,
            max_documents: 1,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 10_000,
            max_replay_stack_depth: 8,
            max_alias_expansions_per_anchor: 100,
        },
        strict_booleans: true,
        no_schema: true,
        with_snippet: false,
    }
}

/// What is read of every document first.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    #[serde(default)]
    api_version: Option<String>,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    metadata: Option<HeadMeta>,
}

#[derive(Deserialize)]
struct HeadMeta {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    namespace: Option<String>,
}

/// Any of our own kinds: unknown fields are errors, `status` is of no interest.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Own<S> {
    #[serde(rename = "apiVersion")]
    _api_version: IgnoredAny,
    #[serde(rename = "kind")]
    _kind: IgnoredAny,
    metadata: StrictMeta,
    spec: S,
    #[serde(default, rename = "status")]
    _status: IgnoredAny,
}

/// A foreign kind with a `spec`.
#[derive(Deserialize)]
struct WithSpec<S> {
    metadata: Meta,
    spec: S,
}

/// A foreign kind whose fields stand beside its metadata.
#[derive(Deserialize)]
struct Flat {
    metadata: Meta,
}

/// A `List` of anything.
#[derive(Deserialize)]
struct List {
    #[serde(default)]
    items: Vec<serde_json::Value>,
}

/// Where an object is read from: a document, or an entry of a List.
enum From<'a> {
    Document(&'a str),
    Entry {
        document: &'a str,
        value: &'a serde_json::Value,
        base: String,
    },
}

impl From<'_> {
    fn read<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        match self {
            From::Document(text) => serde_saphyr::from_str_with_options(text, options()).map_err(|error| {
                let at = error
                    .location()
                    .map_or((1, 1), |at| (narrow(at.line()), narrow(at.column())));
                let field = field_of_fault::<T>(text);
                malformed(field.clone(), in_words(&message_of(&error), &field), at)
            }),
            From::Entry {
                document,
                value,
                base,
            } => serde_path_to_error::deserialize(*value).map_err(|error| {
                let field = format!("{base}{}", error.path());
                let at = locate(document, &field);
                let message = in_words(&error.inner().to_string(), &field);
                malformed(field, message, at)
            }),
        }
    }
}

/// Where a document can't be read. It is read again for this: keeping the path while reading would cost every
/// document what only the bad ones need.
fn field_of_fault<T: DeserializeOwned>(text: &str) -> String {
    let mut field = String::new();
    // The fault is known; only the path to it is wanted.
    let _ = serde_saphyr::with_deserializer_from_str_with_options(text, options(), |reader| {
        let read = serde_path_to_error::deserialize::<_, T>(reader);
        read.map(drop).map_err(|error| {
            field = error.path().to_string();
            error.into_inner()
        })
    });
    let known = field.split(".?").next().unwrap_or_default();
    known.trim_matches(['.', '?']).to_owned()
}

/// A message of the reader with its names of number types turned into the numbers that are meant.
fn in_words(message: &str, field: &str) -> String {
    let port = field.rsplit('.').next().is_some_and(|last| last.ends_with("ort"));
    let types = [
        ("u16", if port { "1 to 65535" } else { "0 to 65535" }),
        ("u32", "0 to 4294967295"),
        ("u64", "0 or more"),
        ("i32", "a whole number"),
    ];
    for (name, range) in types {
        if message == format!("invalid {name}") {
            return format!("a number is needed: {range}");
        }
        if let Some(front) = message.strip_suffix(&format!("expected {name}")) {
            return format!("{front}a number is needed: {range}");
        }
    }
    message.to_owned()
}

fn narrow(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The error's text without the position, which stands beside it.
fn message_of(error: &serde_saphyr::Error) -> String {
    let text = error.without_snippet().to_string();
    let text = text.lines().next().unwrap_or_default();
    let text = text.split(" at line ").next().unwrap_or(text);
    // The library's advice is for whoever calls it, not for whoever writes the file.
    text.split(", set DuplicateKeyPolicy")
        .next()
        .unwrap_or(text)
        .trim()
        .to_owned()
}

fn malformed(field: String, message: String, at: (u32, u32)) -> Problem {
    Problem {
        kind: String::new(),
        object: String::new(),
        severity: Severity::Error,
        reason: Reason::Malformed,
        field,
        message,
        at,
    }
}

/// Reads one document.
pub(crate) fn parse(document: &str) -> Parsed {
    let mut parsed = Parsed::default();
    read_object(&From::Document(document), document, &mut parsed);
    parsed
}

fn read_object(from: &From<'_>, document: &str, parsed: &mut Parsed) {
    let known = parsed.items.len();
    read_strictly(from, document, parsed);
    if parsed.items.len() == known
        && !parsed.problems.is_empty()
        && let Some(outline) = outline::outline(from)
    {
        parsed.items.push(outline);
    }
}

fn read_strictly(from: &From<'_>, document: &str, parsed: &mut Parsed) {
    let head: Head = match from.read() {
        Ok(head) => head,
        Err(problem) => return parsed.problems.push(problem),
    };
    let (Some(api_version), Some(kind)) = (&head.api_version, &head.kind) else {
        let base = base_of(from);
        let at = locate(document, &base);
        return parsed
            .problems
            .push(malformed(base, "`apiVersion` and `kind` are required".into(), at));
    };
    if api_version == "v1" && kind == "List" {
        return read_list(from, document, parsed);
    }
    let key = |kind: Kind, meta: &Meta| ObjectKey::new(kind, meta.namespace.as_deref(), &meta.name);
    match read_body(from, api_version, kind) {
        Ok(Some((kind, meta, body))) => {
            let key = key(kind, &meta);
            match fault_of_name(&key) {
                None => parsed.items.push(Item {
                    key,
                    meta,
                    body,
                    base: base_of(from),
                }),
                Some((field, message)) => {
                    let field = format!("{}{field}", base_of(from));
                    let at = locate(document, &field);
                    let problem = malformed(field, message, at);
                    parsed.problems.push(Problem {
                        reason: Reason::InvalidName,
                        ..named(problem, &head)
                    });
                }
            }
        }
        Ok(None) => parsed
            .problems
            .push(unknown_kind(from, document, &head, api_version, kind)),
        Err(problem) => parsed.problems.push(named(problem, &head)),
    }
}

fn base_of(from: &From<'_>) -> String {
    match from {
        From::Document(_) => String::new(),
        From::Entry { base, .. } => base.clone(),
    }
}

fn named(problem: Problem, head: &Head) -> Problem {
    let meta = head.metadata.as_ref();
    let name = meta.and_then(|meta| meta.name.as_deref());
    let namespace = meta
        .and_then(|meta| meta.namespace.as_deref())
        .unwrap_or("default");
    Problem {
        kind: head.kind.clone().unwrap_or_default(),
        object: name.map(|name| format!("{namespace}/{name}")).unwrap_or_default(),
        ..problem
    }
}

fn unknown_kind(from: &From<'_>, document: &str, head: &Head, api_version: &str, kind: &str) -> Problem {
    let field = format!("{}kind", base_of(from));
    let at = locate(document, &field);
    let ours = api_version
        .strip_prefix("routed.io")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let problem = malformed(field, format!("`{api_version}` `{kind}` is ignored"), at);
    let problem = named(problem, head);
    if ours {
        Problem {
            reason: Reason::UnknownKind,
            message: format!("`{api_version}` has no kind `{kind}`"),
            ..problem
        }
    } else {
        Problem {
            reason: Reason::IgnoredKind,
            severity: Severity::Warning,
            ..problem
        }
    }
}

fn read_list(from: &From<'_>, document: &str, parsed: &mut Parsed) {
    let From::Document(_) = from else {
        let base = base_of(from);
        let at = locate(document, &base);
        return parsed
            .problems
            .push(malformed(base, "a List within a List".into(), at));
    };
    match from.read::<List>() {
        Ok(list) => {
            for (at, value) in list.items.iter().enumerate() {
                let base = format!("items[{at}].");
                read_object(
                    &From::Entry {
                        document,
                        value,
                        base,
                    },
                    document,
                    parsed,
                );
            }
        }
        Err(problem) => parsed.problems.push(problem),
    }
}

type Read = (Kind, Meta, Body);

fn own<S: DeserializeOwned>(
    from: &From<'_>,
    kind: Kind,
    body: fn(S) -> Body,
) -> Result<Option<Read>, Problem> {
    let object: Own<S> = from.read()?;
    Ok(Some((kind, object.metadata.into(), body(object.spec))))
}

fn flat<S: DeserializeOwned>(
    from: &From<'_>,
    kind: Kind,
    body: fn(S) -> Body,
) -> Result<Option<Read>, Problem> {
    let meta: Flat = from.read()?;
    Ok(Some((kind, meta.metadata, body(from.read()?))))
}

fn read_body(from: &From<'_>, api_version: &str, kind: &str) -> Result<Option<Read>, Problem> {
    match (api_version, kind) {
        ("routed.io/v1", "EdgeRoute") => own(from, Kind::EdgeRoute, Body::EdgeRouteV1),
        ("routed.io/v2", "EdgeRoute") => own(from, Kind::EdgeRoute, Body::EdgeRoute),
        ("routed.io/v1", "Backend") => own(from, Kind::Backend, Body::Backend),
        ("routed.io/v1", "RoutingPolicy") => own(from, Kind::RoutingPolicy, Body::RoutingPolicy),
        ("routed.io/v1", "RouterProfile") => own(from, Kind::RouterProfile, Body::RouterProfile),
        ("v1", "Service") => {
            let service: WithSpec<_> = from.read()?;
            Ok(Some((
                Kind::Service,
                service.metadata,
                Body::Service(service.spec),
            )))
        }
        ("discovery.k8s.io/v1", "EndpointSlice") => flat(from, Kind::EndpointSlice, Body::EndpointSlice),
        ("v1", "Secret") => flat(from, Kind::Secret, Body::Secret),
        ("v1", "ConfigMap") => flat(from, Kind::ConfigMap, Body::ConfigMap),
        ("v1", "Namespace") => flat(from, Kind::Namespace, |_: IgnoredAny| Body::Namespace),
        _ => Ok(None),
    }
}

fn fault_of_name(key: &ObjectKey) -> Option<(&'static str, String)> {
    let valid = |name: &str| {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let inner = name
            .bytes()
            .all(|byte| plain(byte) || byte == b'-' || byte == b'.');
        let ends = name.bytes().next().is_some_and(plain) && name.bytes().last().is_some_and(plain);
        name.len() <= 253 && inner && ends
    };
    let rule = "lower-case letters, digits, `-` and `.`, at most 253";
    if !valid(&key.name) {
        return Some((
            "metadata.name",
            format!("`{}` is no object name ({rule})", key.name),
        ));
    }
    if key.kind != Kind::Namespace && !valid(&key.namespace) {
        return Some((
            "metadata.namespace",
            format!("`{}` is no namespace ({rule})", key.namespace),
        ));
    }
    None
}
