//! A folder of YAML, compiled here.
//!
//! The folder is looked at as [`crate::disk::tree`] says; on a change everything is handed to the compiler, which
//! parses and compiles again only what differs. An object in error is the compiler's affair: it hurts only itself.
//!
//! # Decisions
//! - **A file that stops being YAML keeps its last good documents**, with the error reported. The compiler would
//!   leave the damaged document's objects out, and a save in an editor or a copy cut short must not answer 404 for
//!   the routes of a whole file. A file that never was good contributes the documents that can be read.
//! - **So does an object that stops being readable** (an unknown field, a wrong type): it stays what it was, with the
//!   error reported. A misspelt profile must not close its ports, nor open those of the built-in one.
//! - **So does the profile that is served, once nothing defines it any more**, until it is back or the router starts
//!   again: the built-in one listens on all addresses, which a router of the loopback never asked for.
//! - **So does the pair of a Secret that is gone or damaged**, for as long as a listener names it.
//! - **Keys are stored in two steps**: old and new together before the table is published, the new ones alone
//!   after it, so that no handshake of either table lacks its pair.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use routed_policy::resources::MAX_FILE_BYTES;
use routed_policy::{Compiler, Diag, Kind, ObjectKey, Reason, Report, Resources, Severity};

use crate::admit::Refusal;
use crate::disk::tree::{Seen, Tree};
use crate::feed::Feed;
use crate::keys::{KeyPair, KeyTable, Keys};
use crate::source::{Next, Polling};
use crate::status::{CompileStatus, MAX_DIAGNOSTICS};

/// Most diagnostics written to the log at a change; the status has more, `routedctl validate` all.
const MAX_LOGGED: usize = 20;

/// `--resources`.
#[derive(Debug, Clone)]
pub struct ResourcesConfig {
    /// The folder, or a single file.
    pub path: PathBuf,
    /// When to look.
    pub polling: Polling,
    /// Whether a table without routes is taken.
    pub allow_empty: bool,
    /// `namespace/name` of the profile that is served: its last version stays when nothing defines it any more.
    pub profile: Option<String>,
}

impl ResourcesConfig {
    /// The defaults for a folder.
    pub fn new(path: impl Into<PathBuf>) -> ResourcesConfig {
        ResourcesConfig {
            path: path.into(),
            polling: Polling::default(),
            allow_empty: false,
            profile: None,
        }
    }
}

/// The source's state between looks.
#[derive(Debug)]
pub(crate) struct ResourcesLook {
    config: ResourcesConfig,
    tree: Tree,
    compile: Compile,
    verdict: Result<(), String>,
}

/// What is kept from compile to compile.
#[derive(Default)]
struct Compile {
    resources: Resources,
    compiler: Compiler,
    /// The last content of each file that was YAML throughout.
    last_good: BTreeMap<String, Arc<[u8]>>,
    diags: Vec<Diag>,
}

impl std::fmt::Debug for Compile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compile").finish_non_exhaustive()
    }
}

impl ResourcesLook {
    /// Before the first look.
    pub(crate) fn new(config: ResourcesConfig) -> ResourcesLook {
        let wanted: fn(&str) -> bool = |name| name.ends_with(".yaml") || name.ends_with(".yml");
        ResourcesLook {
            tree: Tree::new(config.path.clone(), wanted, MAX_FILE_BYTES as u64),
            compile: Compile::new(&config),
            config,
            verdict: Ok(()),
        }
    }

    /// Looks once.
    pub(crate) fn look(&mut self, feed: &Feed, keys: &Keys) -> Next {
        let next = match self.tree.look(feed.serves()) {
            Ok(Seen::Same) => Next::Poll,
            Ok(Seen::Unsettled) => Next::Soon,
            Ok(Seen::Changed) => {
                self.take(feed, keys);
                Next::Poll
            }
            Err(error) => {
                feed.status().fail_reading(&error);
                return Next::Poll;
            }
        };
        match (&self.verdict, self.tree.problems().first()) {
            (Err(problem), _) => feed.status().fail(problem),
            (_, Some(problem)) => feed.status().fail(problem),
            _ => feed.status().succeed(),
        }
        next
    }

    /// Folders whose change notices are worth a look.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        self.tree.folders().to_vec()
    }

    fn take(&mut self, feed: &Feed, keys: &Keys) {
        let files: Vec<(String, Arc<[u8]>)> = self
            .tree
            .files()
            .map(|(name, file)| (name.clone(), file.bytes.clone()))
            .collect();
        // A compiler bug costs one change, never the process. What it remembered is not to be trusted afterwards.
        let compiled = catch_unwind(AssertUnwindSafe(|| self.compile.run(&files)));
        let result = match compiled {
            Ok(report) => {
                feed.status().compiled(summary(&self.compile.diags));
                publish(report, feed, keys, self.config.allow_empty)
            }
            Err(_) => {
                self.compile.forget(&self.config);
                Err(Refusal::Panicked)
            }
        };
        self.verdict = result.map_err(|refusal| {
            let problem = format!("{}: {refusal}", self.config.path.display());
            feed.status().count_refusal(refusal.reason(), &problem);
            problem
        });
    }
}

impl Compile {
    fn new(config: &ResourcesConfig) -> Compile {
        let mut compile = Compile::default();
        compile.forget(config);
        compile
    }

    fn forget(&mut self, config: &ResourcesConfig) {
        self.resources = Resources::default();
        self.compiler = Compiler::new();
        if let Some((namespace, name)) = config
            .profile
            .as_deref()
            .and_then(|profile| profile.split_once('/'))
        {
            let key = ObjectKey::new(Kind::RouterProfile, Some(namespace), name);
            self.resources.hold(key);
        }
    }

    fn run(&mut self, files: &[(String, Arc<[u8]>)]) -> Report {
        let as_is = files.iter().map(|(name, bytes)| (name.clone(), bytes.to_vec()));
        self.resources.reload_keeping(as_is);
        let broken: Vec<Diag> = self
            .resources
            .diags()
            .iter()
            .filter(|diag| is_not_yaml(diag))
            .cloned()
            .collect();
        let broken_files: BTreeSet<&str> = broken.iter().filter_map(file_of).collect();
        let kept = |name: &str| broken_files.contains(name) && self.last_good.contains_key(name);
        let mut kept_diags = Vec::new();
        if files.iter().any(|(name, _)| kept(name)) {
            let mended = files.iter().map(|(name, bytes)| {
                let good = self
                    .last_good
                    .get(name)
                    .filter(|_| broken_files.contains(name.as_str()));
                (name.clone(), good.unwrap_or(bytes).to_vec())
            });
            self.resources.reload_keeping(mended.collect::<Vec<_>>());
            kept_diags = broken
                .iter()
                .filter(|diag| file_of(diag).is_some_and(kept))
                .cloned()
                .map(|diag| Diag {
                    message: format!("{} (the file's last good documents stay in use)", diag.message),
                    ..diag
                })
                .collect();
        }
        let present: BTreeSet<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        self.last_good.retain(|name, _| present.contains(name.as_str()));
        for (name, bytes) in files {
            if !broken_files.contains(name.as_str()) {
                self.last_good.insert(name.clone(), bytes.clone());
            }
        }
        let mut report = self.compiler.compile(&self.resources);
        kept_diags.append(&mut report.diags);
        report.diags = kept_diags;
        if report.diags != self.diags {
            log(&report.diags);
            self.diags.clone_from(&report.diags);
        }
        report
    }
}

/// A document that can't be read at all belongs to no object.
fn is_not_yaml(diag: &Diag) -> bool {
    let unread = matches!(diag.reason, Reason::Malformed | Reason::TooLarge);
    unread && diag.kind.is_empty() && diag.object.is_empty()
}

fn file_of(diag: &Diag) -> Option<&str> {
    diag.place.as_ref().map(|place| place.file.as_str())
}

fn publish(report: Report, feed: &Feed, keys: &Keys, allow_empty: bool) -> Result<(), Refusal> {
    let new: KeyTable = report
        .keys
        .into_iter()
        .map(|(name, pair)| {
            let pair = KeyPair {
                fingerprint: pair.fingerprint,
                certificate_pem: pair.certificate_pem,
                key_pem: pair.key_pem,
            };
            (name, Arc::new(pair))
        })
        .collect();
    let held = keys.load();
    let mut both = (*held).clone();
    both.extend(new.iter().map(|(name, pair)| (name.clone(), pair.clone())));
    feed.store_keys(keys, both);
    let offered = feed.offer(&report.snapshot, allow_empty)?;
    // The pair of a Secret that is gone serves on for as long as a listener names it.
    let gone = held.iter().filter(|(name, _)| feed.needs_pair(name));
    let mut kept: KeyTable = gone.map(|(name, pair)| (name.clone(), pair.clone())).collect();
    kept.extend(new);
    feed.store_keys(keys, kept);
    tracing::info!(hash = %report.snapshot.hash(), ?offered, "resources taken");
    Ok(())
}

fn summary(diags: &[Diag]) -> CompileStatus {
    let errors = diags
        .iter()
        .filter(|diag| diag.severity == Severity::Error)
        .count();
    CompileStatus {
        errors,
        warnings: diags.len() - errors,
        diagnostics: diags.iter().take(MAX_DIAGNOSTICS).cloned().collect(),
    }
}

fn log(diags: &[Diag]) {
    for diag in diags.iter().take(MAX_LOGGED) {
        let place = diag.place.as_ref();
        let file = place.map_or("", |place| place.file.as_str());
        let line = place.map_or(0, |place| place.line);
        let (kind, object, field, reason) = (&diag.kind, &diag.object, &diag.field, &diag.reason);
        match diag.severity {
            Severity::Error => {
                tracing::error!(kind, object, field, %reason, file, line, "{}", diag.message);
            }
            Severity::Warning => {
                tracing::warn!(kind, object, field, %reason, file, line, "{}", diag.message);
            }
        }
    }
    if let Some(more) = diags.len().checked_sub(MAX_LOGGED + 1) {
        tracing::warn!(more = more + 1, "further diagnostics are in the status only");
    }
}
