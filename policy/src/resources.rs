//! The objects that are compiled, from files or from memory.
//!
//! # Decisions
//! - **A journal of changed keys** lets a compiler find what changed without looking at every object. It belongs to
//!   one instance; a clone is another instance, which a compiler compares object by object (by pointer).
//! - **The first of two definitions counts**, in the order of file names, and the later one is an error: a copy that
//!   was left behind must not silently replace what is served.
//! - **An object that can't be read is not an absent one** ([`unread`]): see [`Resources::reload_keeping`].

mod key;
mod unread;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::diag::{Diag, Place, Reason, Severity};
use crate::kinds::backend::BackendSpec;
use crate::kinds::kubernetes::{ConfigMap, EndpointSlice, Secret, ServiceSpec};
use crate::kinds::meta::Meta;
use crate::kinds::router_profile::RouterProfileSpec;
use crate::kinds::routing_policy::RoutingPolicySpec;
use crate::kinds::{edge_route, edge_route_v1};
use crate::yaml::{self, Parsed};
pub use key::{Kind, ObjectKey};
use unread::Unread;

/// Largest file that is read (64 MiB).
pub const MAX_FILE_BYTES: usize = 64 << 20;

/// What an object says.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "named after the kinds")]
pub enum Body {
    EdgeRouteV1(edge_route_v1::EdgeRouteSpec),
    EdgeRoute(edge_route::EdgeRouteSpec),
    /// What can be read of an EdgeRoute that can't be read: it answers 500.
    UnreadEdgeRoute(edge_route::EdgeRouteSpec),
    Backend(BackendSpec),
    RoutingPolicy(RoutingPolicySpec),
    RouterProfile(RouterProfileSpec),
    Service(ServiceSpec),
    EndpointSlice(EndpointSlice),
    Secret(Secret),
    ConfigMap(ConfigMap),
    Namespace,
}

/// Where an object is written.
#[derive(Debug, Clone)]
struct Source {
    file: Arc<str>,
    document: Arc<str>,
    /// Line of the file that the document begins at, from 0.
    line: u32,
}

/// One object. Immutable and shared.
#[derive(Debug, Clone)]
pub struct Object {
    key: ObjectKey,
    parsed: Arc<Parsed>,
    at: usize,
    source: Option<Source>,
}

impl Object {
    /// An object that isn't in a file.
    pub fn new(kind: Kind, meta: Meta, body: Body) -> Object {
        let key = ObjectKey::new(kind, meta.namespace.as_deref(), &meta.name);
        let item = yaml::Item {
            key: key.clone(),
            meta,
            body,
            base: String::new(),
        };
        let parsed = Parsed {
            items: vec![item],
            problems: Vec::new(),
        };
        Object {
            key,
            parsed: Arc::new(parsed),
            at: 0,
            source: None,
        }
    }

    /// Kind, namespace and name.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// Metadata.
    pub fn meta(&self) -> &Meta {
        &self.item().meta
    }

    /// What it says.
    pub fn body(&self) -> &Body {
        &self.item().body
    }

    fn item(&self) -> &yaml::Item {
        &self.parsed.items[self.at]
    }

    /// A finding about a field of this object, with its place where it is in a file.
    pub(crate) fn diag(&self, severity: Severity, reason: Reason, field: &str, message: String) -> Diag {
        let place = self.source.as_ref().map(|source| {
            let path = format!("{}{field}", self.item().base);
            let (line, column) = yaml::locate(&source.document, &path);
            Place {
                file: source.file.to_string(),
                line: source.line.saturating_add(line),
                column,
            }
        });
        Diag {
            kind: self.key.kind.to_string(),
            object: self.key.path(),
            place,
            field: field.to_owned(),
            severity,
            reason,
            message,
        }
    }

    /// Whether it is only what can be read of an object.
    fn is_outline(&self) -> bool {
        matches!(self.body(), Body::UnreadEdgeRoute(_))
    }

    fn is_from(&self, file: &str) -> bool {
        self.source.as_ref().is_some_and(|source| &*source.file == file)
    }

    fn same_source(&self, file: &str, line: u32) -> bool {
        self.source
            .as_ref()
            .is_some_and(|source| source.line == line && &*source.file == file)
    }
}

/// All objects, and what could not be read.
#[derive(Debug)]
pub struct Resources {
    objects: BTreeMap<ObjectKey, Arc<Object>>,
    diags: Vec<Diag>,
    unread: Unread,
    /// Objects that stay though nothing defines them any more.
    held: BTreeSet<ObjectKey>,
    memo: HashMap<Arc<str>, Arc<Parsed>>,
    instance: u64,
    journal: Vec<ObjectKey>,
}

impl Default for Resources {
    fn default() -> Resources {
        Resources {
            objects: BTreeMap::new(),
            diags: Vec::new(),
            unread: Unread::default(),
            held: BTreeSet::new(),
            memo: HashMap::new(),
            instance: next_instance(),
            journal: Vec::new(),
        }
    }
}

impl Clone for Resources {
    fn clone(&self) -> Resources {
        Resources {
            objects: self.objects.clone(),
            diags: self.diags.clone(),
            unread: self.unread.clone(),
            held: self.held.clone(),
            memo: self.memo.clone(),
            instance: next_instance(),
            journal: Vec::new(),
        }
    }
}

/// Tells instances apart within the process; it never reaches a result.
fn next_instance() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// How much of a [`Resources`] a compiler has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cursor {
    instance: u64,
    length: usize,
}

impl Resources {
    /// Reads files of YAML documents. What can't be read is kept as diagnostics.
    pub fn from_files(files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Resources {
        let mut resources = Resources::default();
        resources.reload(files);
        resources
    }

    /// Replaces everything by what these files hold. Documents whose text is unchanged are not parsed again.
    pub fn reload(&mut self, files: impl IntoIterator<Item = (String, Vec<u8>)>) {
        self.unread = Unread::default();
        self.load(files, None);
    }

    /// The same, but an object that is written and can't be read stays what it was when it last could: a slip of the
    /// pen in something that is served must not take it away. The fault is reported all the same.
    pub fn reload_keeping(&mut self, files: impl IntoIterator<Item = (String, Vec<u8>)>) {
        let before = std::mem::take(&mut self.unread);
        let nameless = self.load(files, Some(&before));
        self.unread.keep_on(before, nameless);
    }

    /// The answer says whether some document doesn't say which object it is.
    fn load(&mut self, files: impl IntoIterator<Item = (String, Vec<u8>)>, keeping: Option<&Unread>) -> bool {
        let mut files: Vec<_> = files.into_iter().collect();
        files.sort_by(|a, b| a.0.cmp(&b.0));
        let old = std::mem::take(&mut self.memo);
        let mut found = BTreeMap::new();
        let mut nameless = false;
        self.diags.clear();
        for (name, bytes) in files {
            let name: Arc<str> = name.into();
            match text_of(&bytes) {
                Ok(text) => nameless |= self.read_file(&name, text, &old, keeping, &mut found),
                Err((reason, message)) => {
                    nameless = true;
                    self.diags.push(file_diag(&name, reason, message));
                }
            }
        }
        self.keep_unread(keeping, &mut found);
        self.replace(found);
        nameless
    }

    fn read_file(
        &mut self,
        file: &Arc<str>,
        text: &str,
        old: &HashMap<Arc<str>, Arc<Parsed>>,
        keeping: Option<&Unread>,
        found: &mut BTreeMap<ObjectKey, Arc<Object>>,
    ) -> bool {
        let mut nameless = false;
        for (line, document) in yaml::split(text) {
            let (document, parsed) = match self
                .memo
                .get_key_value(document)
                .or_else(|| old.get_key_value(document))
            {
                Some((document, parsed)) => (Arc::clone(document), Arc::clone(parsed)),
                None => (Arc::from(document), Arc::new(yaml::parse(document))),
            };
            self.memo.insert(Arc::clone(&document), Arc::clone(&parsed));
            for problem in &parsed.problems {
                nameless |= unread::is_nameless(problem);
                self.note_unread(file, problem, keeping, found);
                self.diags.push(diag_of(file, line, problem));
            }
            for (at, item) in parsed.items.iter().enumerate() {
                let object = match self.objects.get(&item.key) {
                    Some(known)
                        if Arc::ptr_eq(&known.parsed, &parsed)
                            && known.at == at
                            && known.same_source(file, line) =>
                    {
                        Arc::clone(known)
                    }
                    _ => Arc::new(Object {
                        key: item.key.clone(),
                        parsed: Arc::clone(&parsed),
                        at,
                        source: Some(Source {
                            file: Arc::clone(file),
                            document: Arc::clone(&document),
                            line,
                        }),
                    }),
                };
                if object.is_outline() {
                    self.unread.outlines.entry(item.key.clone()).or_insert(object);
                } else if let Some(first) = found.get(&item.key) {
                    self.diags.push(already_defined(&object, first));
                } else {
                    found.insert(item.key.clone(), object);
                }
            }
        }
        nameless
    }

    fn replace(&mut self, found: BTreeMap<ObjectKey, Arc<Object>>) {
        let mut changed = Vec::new();
        for (key, object) in &found {
            if !self
                .objects
                .get(key)
                .is_some_and(|known| Arc::ptr_eq(known, object))
            {
                changed.push(key.clone());
            }
        }
        changed.extend(
            self.objects
                .keys()
                .filter(|key| !found.contains_key(*key))
                .cloned(),
        );
        self.objects = found;
        for key in changed {
            self.note(key);
        }
    }

    /// Adds an object or replaces the one of its key.
    pub fn insert(&mut self, object: Object) {
        let key = object.key.clone();
        self.unread.missing.remove(&key);
        self.objects.insert(key.clone(), Arc::new(object));
        self.note(key);
    }

    /// Takes an object away. True where there was one.
    pub fn remove(&mut self, key: &ObjectKey) -> bool {
        let removed = self.objects.remove(key).is_some();
        if removed {
            self.note(key.clone());
        }
        removed
    }

    /// The object of a key.
    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<Object>> {
        self.objects.get(key)
    }

    /// All objects in order of their keys.
    pub fn objects(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.objects.values()
    }

    /// The keys of objects that are written and can't be read, where no earlier version stands in for them.
    pub(crate) fn unread(&self) -> &BTreeSet<ObjectKey> {
        &self.unread.missing
    }

    /// What could not be read.
    pub fn diags(&self) -> &[Diag] {
        &self.diags
    }

    /// A journal longer than the table costs more than a comparison of everything: it starts again.
    fn note(&mut self, key: ObjectKey) {
        if self.journal.len() > self.objects.len() + 1024 {
            self.instance = next_instance();
            self.journal.clear();
        } else {
            self.journal.push(key);
        }
    }

    pub(crate) fn cursor(&self) -> Cursor {
        Cursor {
            instance: self.instance,
            length: self.journal.len(),
        }
    }

    /// The keys changed since, or none where the cursor is another instance's.
    pub(crate) fn changed_since(&self, cursor: Cursor) -> Option<&[ObjectKey]> {
        (cursor.instance == self.instance).then(|| self.journal.get(cursor.length..).unwrap_or_default())
    }
}

fn text_of(bytes: &[u8]) -> Result<&str, (Reason, String)> {
    if bytes.len() > MAX_FILE_BYTES {
        let message = format!("{} bytes; a file may have {MAX_FILE_BYTES}", bytes.len());
        return Err((Reason::TooLarge, message));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let message = format!("not UTF-8 from byte {} on", error.valid_up_to());
        (Reason::Malformed, message)
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

fn file_diag(file: &str, reason: Reason, message: String) -> Diag {
    Diag {
        kind: String::new(),
        object: String::new(),
        place: Some(Place {
            file: file.to_owned(),
            line: 1,
            column: 1,
        }),
        field: String::new(),
        severity: Severity::Error,
        reason,
        message,
    }
}

fn diag_of(file: &str, line: u32, problem: &yaml::Problem) -> Diag {
    Diag {
        kind: problem.kind.clone(),
        object: problem.object.clone(),
        place: Some(Place {
            file: file.to_owned(),
            line: line.saturating_add(problem.at.0),
            column: problem.at.1,
        }),
        field: problem.field.clone(),
        severity: problem.severity,
        reason: problem.reason,
        message: problem.message.clone(),
    }
}

fn already_defined(later: &Object, first: &Object) -> Diag {
    let file = first.source.as_ref().map_or("", |source| &*source.file);
    let message = format!("already defined in {file}; that one counts");
    later.diag(Severity::Error, Reason::AlreadyDefined, "metadata.name", message)
}
