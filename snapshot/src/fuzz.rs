//! Entry points of the fuzz targets: anything may come in, nothing may panic.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ir::{
    Action, EscapedSlashes, FieldMatch, HttpMatch, HttpTable, Normalization, PathMatch, RoutesPart, Rule,
    Target, ValueMatch, WeightedBackend,
};
use crate::request::path::normalize;
use crate::snapshot::{PartContent, bucket_of};
use crate::{Availability, Facts, Header, Index, Part, PartName, Snapshot, decide, explain};

const LISTENER: &str = "default/default/http";

/// Decodes a document, builds its index and decides a request. The bytes are also read as a part alone, since few
/// inputs have the right hashes.
pub fn document(document: &[u8]) {
    if let Ok(snapshot) = Snapshot::decode(document) {
        build_and_decide(&snapshot, "a.test", "/a", None, &[]);
    }
    for name in [
        PartName::Routes(0),
        PartName::Backends(0),
        PartName::Endpoints(0),
        PartName::Profiles,
    ] {
        if let Ok(part) = Part::from_bytes(name, document) {
            let snapshot = Snapshot::new(BTreeMap::from([(name, Arc::new(part))]), None);
            build_and_decide(&snapshot, "a.test", "/a", None, &[]);
        }
    }
}

/// Makes a table and a request of the input's lines and decides. Of the lines, the first five are the request's host,
/// path, query, header and cookie; each further one is a match, its first byte says of which kind.
pub fn request(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let mut lines = text.split('\n');
    let mut next = || lines.next().unwrap_or_default();
    let (host, path, query, header, cookie) = (next(), next(), next(), next(), next());
    let headers = [("x-a", header), ("cookie", cookie), ("x-a", query)];
    let headers = headers.map(|(name, value)| Header {
        name,
        value: value.as_bytes(),
    });
    let pattern = host.find('.').map(|dot| format!("*{}", &host[dot..]));
    let host_of_table = pattern.unwrap_or_else(|| host.to_owned());
    let matches: Vec<HttpMatch> = lines.take(64).map(match_of).collect();
    let Some(snapshot) = snapshot_of(host_of_table, matches) else {
        return;
    };
    build_and_decide(&snapshot, host, path, Some(query), &headers);
}

/// The one form of a path stays as it is, and holds no dot segment.
pub fn path(raw: &str) {
    for escaped_slashes in [
        EscapedSlashes::Keep,
        EscapedSlashes::Reject,
        EscapedSlashes::Decode,
    ] {
        for merge_slashes in [false, true] {
            let rules = Normalization {
                merge_slashes,
                escaped_slashes,
            };
            let Ok(once) = normalize(raw, &rules) else {
                continue;
            };
            assert!(once.starts_with('/'), "{raw:?} became {once:?}");
            assert!(
                once.split('/').all(|segment| segment != "." && segment != ".."),
                "{raw:?} became {once:?}"
            );
            assert_eq!(normalize(&once, &rules).as_deref(), Ok(&*once), "{raw:?}");
        }
    }
}

fn match_of(line: &str) -> HttpMatch {
    let kind = line.bytes().next().unwrap_or_default();
    let rest = line.get(1..).unwrap_or_default().to_owned();
    let (name, value) = rest.split_once('=').unwrap_or(("x-a", &rest));
    let field = FieldMatch {
        name: name.to_owned(),
        value: match kind % 4 {
            0 => ValueMatch::Exact(value.to_owned()),
            1 => ValueMatch::RegularExpression(value.to_owned()),
            2 => ValueMatch::Present,
            _ => ValueMatch::Absent,
        },
    };
    let fields = |wanted: u8| {
        if kind / 4 % 4 == wanted {
            vec![field.clone()]
        } else {
            Vec::new()
        }
    };
    HttpMatch {
        method: None,
        headers: fields(1),
        query_params: fields(2),
        cookies: fields(3),
        rule: "R".into(),
        index: 0,
        path: match kind / 16 % 3 {
            0 => PathMatch::PathPrefix(rest),
            1 => PathMatch::Exact(rest),
            _ => PathMatch::RegularExpression(rest),
        },
    }
}

fn snapshot_of(host: String, matches: Vec<HttpMatch>) -> Option<Snapshot> {
    let share = WeightedBackend {
        weight: 1,
        target: Target::Invalid("ServiceNotFound".into()),
        request_headers: Default::default(),
        response_headers: Default::default(),
    };
    let rule = Rule {
        name: None,
        action: Action::Forward {
            backends: vec![share],
        },
        request_headers: Default::default(),
        response_headers: Default::default(),
        rewrite: None,
        cors: None,
        mirrors: Vec::new(),
        timeouts: Default::default(),
        retry: None,
    };
    let name = PartName::Routes(bucket_of(&host));
    let content = RoutesPart {
        rules: BTreeMap::from([("R".to_owned(), rule)]),
        tables: vec![HttpTable {
            host,
            listeners: vec![LISTENER.to_owned()],
            matches,
        }],
    };
    let part = Part::from_content(PartContent::Routes(content)).ok()?;
    Some(Snapshot::new(BTreeMap::from([(name, Arc::new(part))]), None))
}

fn build_and_decide(
    snapshot: &Snapshot,
    host: &str,
    path: &str,
    query: Option<&str>,
    headers: &[Header<'_>],
) {
    let Ok(index) = Index::build(snapshot, None) else {
        return;
    };
    let Some(listener) = index.listener(LISTENER) else {
        return;
    };
    let facts = Facts {
        listener,
        https: true,
        method: "GET",
        host,
        path,
        query,
        headers,
    };
    let availability = Availability::default();
    let decision = decide(&index, &facts, 7, &availability);
    let explained = explain(&index, &facts, 7, &availability);
    let taken = explained
        .candidates
        .iter()
        .any(|candidate| candidate.verdict == "taken");
    assert_eq!(taken, decision.matched.is_some(), "explain and decide differ");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without a fuzzer: inputs made of the bytes that mean something.
    #[test]
    fn inputs_of_telling_bytes_do_not_panic() {
        let alphabet = b"/a.*=%+ ;,\n\n\n&()[]{}\"\\:x-0134AQ\xc3\xa9\xff";
        let mut state: u64 = 7;
        for _ in 0..5_000 {
            let mut input = Vec::new();
            for _ in 0..state % 200 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                input.push(alphabet[(state >> 33) as usize % alphabet.len()]);
            }
            state = state.wrapping_add(input.len() as u64 + 1);
            request(&input);
            document(&input);
        }
    }

    /// What the fuzzer looks for, over every short sequence of the pieces that matter.
    #[test]
    fn every_short_spelling_of_a_path_has_one_form() {
        const PIECES: [&str; 12] = [
            "/", ".", "..", "%2e", "%2F", "%5c", "%25", "2f", "a", ";", "%", "\u{e9}",
        ];
        for length in 0..=5u32 {
            for mut number in 0..PIECES.len().pow(length) {
                let mut raw = String::from("/");
                for _ in 0..length {
                    raw.push_str(PIECES[number % PIECES.len()]);
                    number /= PIECES.len();
                }
                path(&raw);
            }
        }
    }
}
