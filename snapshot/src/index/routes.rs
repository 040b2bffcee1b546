//! The host tables of one bucket.

use std::collections::BTreeMap;
use std::sync::Arc;

use compact_str::CompactString;
use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;

use super::build::Backends;
use super::listeners::Interner;
use super::rules::Rules;
use super::{BackendId, IndexError, ListenerId, RuleEntry};
use crate::ir::{FieldMatch, HttpMatch, HttpTable, PathMatch, RoutesPart, ValueMatch};
use crate::matching::host::{Lengths, MAX_PATTERN_BYTES};
use crate::matching::path::{PathCondition, PathIndex};
use crate::matching::pattern::Pattern;
use crate::matching::{Conditions, Field, FieldTest, Match};
use crate::snapshot::{Hash, PartName, bucket_of};

/// Longest host table that is searched from top to bottom; a longer one gets a [`PathIndex`].
const LINEAR: usize = 8;

/// The host tables of one bucket. Tables of one host stand side by side; wildcards are found by their own text, like
/// any other host.
#[derive(Debug)]
pub(crate) struct RouteTable {
    source: Hash,
    /// The first table of each host, by the host's hash.
    hosts: HashTable<u32>,
    tables: Box<[HostTable]>,
    /// The matches of all tables, one table after the other.
    matches: Box<[Match]>,
    rules: Box<[Arc<RuleEntry>]>,
    /// Backends that rules name, sorted.
    backends: Box<[BackendId]>,
    wildcards: Lengths,
}

/// The matches of one host on some listeners.
#[derive(Debug)]
pub(crate) struct HostTable {
    /// In place where it is short: it is compared in every decision.
    pub(crate) host: CompactString,
    pub(crate) listeners: Arc<[ListenerId]>,
    start: u32,
    len: u32,
    /// The table behind this one is the same host's.
    more: bool,
    /// Present where the table is long.
    pub(crate) paths: Option<Box<PathIndex>>,
}

impl RouteTable {
    pub(super) fn source(&self) -> Hash {
        self.source
    }

    pub(super) fn backends(&self) -> &[BackendId] {
        &self.backends
    }

    pub(super) fn wildcards(&self) -> &Lengths {
        &self.wildcards
    }

    pub(super) fn route_count(&self) -> usize {
        self.matches.len()
    }

    pub(crate) fn rules(&self) -> &[Arc<RuleEntry>] {
        &self.rules
    }

    /// The tables of a host, none or one per set of listeners.
    pub(crate) fn host(&self, hash: u64, host: &[u8]) -> &[HostTable] {
        let is_host = |at: u32| self.tables[at as usize].host.as_bytes() == host;
        let Some(first) = self.hosts.find(hash, |at| is_host(*at)) else {
            return &[];
        };
        let from = &self.tables[*first as usize..];
        let more = from.iter().take_while(|table| table.more);
        &from[..=more.count()]
    }

    /// A table's matches, highest precedence first.
    pub(crate) fn matches(&self, table: &HostTable) -> &[Match] {
        &self.matches[table.start as usize..][..table.len as usize]
    }

    pub(super) fn build(
        bucket: u8,
        source: Hash,
        content: &RoutesPart,
        backends: &Backends,
        listeners: &mut Interner,
    ) -> Result<RouteTable, IndexError> {
        let part = PartName::Routes(bucket);
        let rules = Rules::build(part, &content.rules, backends)?;
        let count = content.tables.iter().map(|table| table.matches.len()).sum();
        let mut builder = Builder {
            part,
            rules: &rules,
            patterns: BTreeMap::new(),
            matches: Vec::with_capacity(count),
        };
        let mut order: Vec<usize> = (0..content.tables.len()).collect();
        order.sort_by(|a, b| content.tables[*a].host.cmp(&content.tables[*b].host));
        let mut tables: Vec<HostTable> = Vec::with_capacity(content.tables.len());
        let mut wildcards = Lengths::default();
        let mut hosts = Vec::new();
        for at in order {
            let table = &content.tables[at];
            builder.check_host(at, table, bucket)?;
            let entry = builder.table(at, table, listeners)?;
            check_duplicate(part, at, &tables, &entry)?;
            match tables.last_mut() {
                Some(last) if last.host == entry.host => last.more = true,
                _ => hosts.push(tables.len() as u32),
            }
            if entry.host.starts_with("*.") {
                wildcards.add(entry.host.len());
            }
            tables.push(entry);
        }
        let hash_at = |at: &u32| xxh3_64(tables[*at as usize].host.as_bytes());
        let mut by_hash = HashTable::with_capacity(hosts.len());
        for at in hosts {
            by_hash.insert_unique(hash_at(&at), at, hash_at);
        }
        let matches = builder.matches.into_boxed_slice();
        Ok(RouteTable {
            source,
            hosts: by_hash,
            tables: tables.into_boxed_slice(),
            matches,
            rules: rules.entries.into_boxed_slice(),
            backends: rules.named.into_boxed_slice(),
            wildcards,
        })
    }
}

/// One listener must find one table of a host.
fn check_duplicate(
    part: PartName,
    at: usize,
    tables: &[HostTable],
    new: &HostTable,
) -> Result<(), IndexError> {
    let same_host = tables.iter().rev().take_while(|table| table.host == new.host);
    let mut listeners = same_host.flat_map(|table| table.listeners.iter());
    if listeners.any(|id| new.listeners.contains(id)) {
        let why = format!("a second table of host `{}` for the same listener", new.host);
        return Err(IndexError::at(part, format!("tables[{at}]"), why));
    }
    Ok(())
}

struct Builder<'b> {
    part: PartName,
    rules: &'b Rules<'b>,
    /// Patterns of this part by their text: each is compiled once.
    patterns: BTreeMap<&'b str, Arc<Pattern>>,
    matches: Vec<Match>,
}

impl<'b> Builder<'b> {
    fn check_host(&self, at: usize, table: &HttpTable, bucket: u8) -> Result<(), IndexError> {
        let host = &table.host;
        let why = if bucket_of(host) != bucket {
            format!("host `{host}` stands in the wrong bucket")
        } else if host.len() > MAX_PATTERN_BYTES {
            format!("the host is longer than {MAX_PATTERN_BYTES} bytes")
        } else {
            return Ok(());
        };
        Err(IndexError::at(self.part, format!("tables[{at}].host"), why))
    }

    fn table(
        &mut self,
        at: usize,
        table: &'b HttpTable,
        listeners: &mut Interner,
    ) -> Result<HostTable, IndexError> {
        let start = self.matches.len();
        for (number, entry) in table.matches.iter().enumerate() {
            let compiled = self.compile(entry).map_err(|(place, why)| {
                IndexError::at(self.part, format!("tables[{at}].matches[{number}].{place}"), why)
            })?;
            self.matches.push(compiled);
        }
        let own = &self.matches[start..];
        Ok(HostTable {
            host: table.host.as_str().into(),
            listeners: listeners.set(&table.listeners),
            start: start as u32,
            len: own.len() as u32,
            more: false,
            paths: (own.len() > LINEAR).then(|| Box::new(PathIndex::build(own))),
        })
    }

    /// A match; an error is a place within the match and what is wrong there.
    fn compile(&mut self, entry: &'b HttpMatch) -> Result<Match, (String, String)> {
        let rule = self.rules.number(&entry.rule);
        let rule = rule.ok_or_else(|| ("rule".into(), format!("no rule `{}` in this part", entry.rule)))?;
        let path = match &entry.path {
            PathMatch::Exact(path) => PathCondition::Exact(path.as_str().into()),
            PathMatch::PathPrefix(prefix) => PathCondition::Prefix(prefix.as_str().into()),
            PathMatch::RegularExpression(text) => {
                PathCondition::Regex(self.pattern(text).map_err(|why| ("path".into(), why))?)
            }
        };
        let conditions = Conditions {
            method: entry.method.as_deref().map(Box::from),
            headers: self.fields("headers", &entry.headers)?,
            query: self.fields("queryParams", &entry.query_params)?,
            cookies: self.fields("cookies", &entry.cookies)?,
        };
        Ok(Match {
            path,
            conditions: (!conditions.is_empty()).then(|| Box::new(conditions)),
            rule,
            index: entry.index,
        })
    }

    fn fields(&mut self, list: &str, fields: &'b [FieldMatch]) -> Result<Box<[Field]>, (String, String)> {
        let compile = |(at, field): (usize, &'b FieldMatch)| {
            let test = match &field.value {
                ValueMatch::Exact(value) => FieldTest::Exact(value.as_str().into()),
                ValueMatch::Present => FieldTest::Present,
                ValueMatch::Absent => FieldTest::Absent,
                ValueMatch::RegularExpression(text) => FieldTest::Regex(
                    self.pattern(text)
                        .map_err(|why| (format!("{list}[{at}].value"), why))?,
                ),
            };
            Ok(Field {
                name: field.name.as_str().into(),
                test,
            })
        };
        fields.iter().enumerate().map(compile).collect()
    }

    fn pattern(&mut self, text: &'b str) -> Result<Arc<Pattern>, String> {
        if let Some(pattern) = self.patterns.get(text) {
            return Ok(Arc::clone(pattern));
        }
        let pattern = Arc::new(Pattern::compile(text).map_err(|error| error.to_string())?);
        self.patterns.insert(text, Arc::clone(&pattern));
        Ok(pattern)
    }
}
