//! A folder of files that someone else writes, looked at again and again.
//!
//! - Hidden names are skipped; that leaves out `..data` and the folders it leads to, whose files are read by the
//!   links beside it. Links are resolved anew at each look, and a folder reached twice is read once.
//! - A file that is there but can't be read, or a link that leads nowhere, keeps its last content and is reported.
//! - **A change counts once two looks in a row agree**, so a file written in place, or files read while a link is
//!   swapped, are not taken half. A folder that never comes to rest is taken as it is after some looks. The first
//!   look counts alone only where nothing is served yet that half a folder could spoil.
//! - A file that had content and is empty now is most likely being written by a shell's `>`: its last content stays
//!   for two seconds.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use routed_snapshot::Hash;

use crate::disk::read::{Identity, ReadError, open};

/// Folders within folders are followed this far.
const MAX_DEPTH: usize = 16;

/// Most files of a tree.
const MAX_FILES: usize = 200_000;

/// Trees up to this size are read at every look.
const SMALL: u64 = 1 << 20;

/// Larger ones are read at least every so many looks.
const FULL_LOOK_EVERY: u64 = 10;

/// A tree that changes at each look is taken as it is after so many.
const MAX_UNSETTLED: u32 = 10;

/// How long an emptied file is not believed.
const EMPTY_AFTER: Duration = Duration::from_secs(2);

/// A file of the tree.
#[derive(Debug, Clone)]
pub(crate) struct TreeFile {
    identity: Identity,
    hash: Hash,
    /// Its content.
    pub(crate) bytes: Arc<[u8]>,
}

/// Files by path below the root.
pub(crate) type TreeFiles = BTreeMap<String, TreeFile>;

/// What a look found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Nothing new.
    Same,
    /// Something is being written.
    Unsettled,
    /// [`Tree::files`] are new.
    Changed,
}

/// The tree's state between looks.
#[derive(Debug)]
pub(crate) struct Tree {
    root: PathBuf,
    wanted: fn(&str) -> bool,
    file_limit: u64,
    taken: Option<TreeFiles>,
    candidate: TreeFiles,
    unsettled: u32,
    looks: u64,
    emptied: BTreeMap<String, Instant>,
    folders: Vec<PathBuf>,
    problems: Vec<String>,
}

impl Tree {
    /// Before the first look. `wanted` judges file names; a root that is itself a file is always wanted.
    pub(crate) fn new(root: PathBuf, wanted: fn(&str) -> bool, file_limit: u64) -> Tree {
        Tree {
            folders: vec![root.clone()],
            root,
            wanted,
            file_limit,
            taken: None,
            candidate: TreeFiles::new(),
            unsettled: 0,
            looks: 0,
            emptied: BTreeMap::new(),
            problems: Vec::new(),
        }
    }

    /// Looks once. `serving` says whether something is served already, from a cache or another source.
    ///
    /// # Errors
    /// Where the root itself can't be listed; nothing is changed then.
    pub(crate) fn look(&mut self, serving: bool) -> Result<Seen, ReadError> {
        let walk = Walk::run(&self.root, self.wanted)?;
        self.folders = walk.folders;
        self.problems = walk.problems;
        let total: u64 = self.candidate.values().map(|file| file.identity.length()).sum();
        let first = self.looks == 0;
        self.looks += 1;
        let full = total <= SMALL || self.looks.is_multiple_of(FULL_LOOK_EVERY);
        let mut found = TreeFiles::new();
        for (name, path) in walk.files {
            match self.read(&name, &path, full) {
                Ok(file) => {
                    found.insert(name, file);
                }
                Err(error) => {
                    self.problems.push(error.to_string());
                    if let Some(held) = self.held(&name) {
                        found.insert(name, held.clone());
                    }
                }
            }
        }
        self.emptied.retain(|name, _| found.contains_key(name));
        Ok(self.settle(found, first, serving))
    }

    /// The files as they were when a look last said [`Seen::Changed`].
    pub(crate) fn files(&self) -> impl Iterator<Item = (&String, &TreeFile)> {
        self.taken.iter().flatten()
    }

    /// Folders that were listed.
    pub(crate) fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    /// What the last look could not read.
    pub(crate) fn problems(&self) -> &[String] {
        &self.problems
    }

    fn held(&self, name: &str) -> Option<&TreeFile> {
        self.taken.as_ref().and_then(|taken| taken.get(name))
    }

    fn read(&mut self, name: &str, path: &Path, full: bool) -> Result<TreeFile, ReadError> {
        let mut opened = open(path, self.file_limit)?;
        if let Some(known) = self.candidate.get_mut(name) {
            let same_identity = known.identity == opened.identity;
            if same_identity && !full {
                return Ok(known.clone());
            }
            if opened.hash()? == known.hash {
                known.identity = opened.identity;
                return Ok(known.clone());
            }
        }
        let content = opened.read()?;
        if content.bytes.is_empty() {
            let since = *self.emptied.entry(name.to_owned()).or_insert_with(Instant::now);
            let held = self.held(name).filter(|held| !held.bytes.is_empty());
            if let Some(held) = held.filter(|_| since.elapsed() < EMPTY_AFTER) {
                return Ok(held.clone());
            }
        } else {
            self.emptied.remove(name);
        }
        Ok(TreeFile {
            identity: content.identity,
            hash: content.hash,
            bytes: content.bytes.into(),
        })
    }

    fn settle(&mut self, found: TreeFiles, first: bool, serving: bool) -> Seen {
        let as_before = !first && same(&found, &self.candidate);
        self.candidate = found;
        let at_once = match &self.taken {
            Some(taken) if same(&self.candidate, taken) => {
                self.unsettled = 0;
                return Seen::Same;
            }
            Some(_) => false,
            // Nothing is served yet that a half-written file could spoil.
            None => !serving,
        };
        if !at_once && !as_before && self.unsettled < MAX_UNSETTLED {
            self.unsettled += 1;
            return Seen::Unsettled;
        }
        self.unsettled = 0;
        self.taken = Some(self.candidate.clone());
        Seen::Changed
    }
}

fn same(left: &TreeFiles, right: &TreeFiles) -> bool {
    let list = |files: &TreeFiles| {
        files
            .iter()
            .map(|(name, file)| (name.clone(), file.hash))
            .collect::<Vec<_>>()
    };
    left.len() == right.len() && list(left) == list(right)
}

/// One listing of everything.
struct Walk {
    wanted: fn(&str) -> bool,
    files: BTreeMap<String, PathBuf>,
    folders: Vec<PathBuf>,
    problems: Vec<String>,
    visited: BTreeSet<(u64, u64)>,
}

impl Walk {
    fn run(root: &Path, wanted: fn(&str) -> bool) -> Result<Walk, ReadError> {
        let mut walk = Walk {
            wanted,
            files: BTreeMap::new(),
            folders: Vec::new(),
            problems: Vec::new(),
            visited: BTreeSet::new(),
        };
        let io = |error| ReadError::Io {
            path: root.to_owned(),
            error,
        };
        let metadata = fs::metadata(root).map_err(io)?;
        if metadata.is_dir() {
            walk.folder(root, &metadata, "", 0).map_err(io)?;
        } else {
            let name = root.file_name().unwrap_or(root.as_os_str());
            walk.files
                .insert(name.to_string_lossy().into_owned(), root.to_owned());
            let parent = root.parent().filter(|parent| !parent.as_os_str().is_empty());
            walk.folders.push(parent.unwrap_or(Path::new(".")).to_owned());
        }
        Ok(walk)
    }

    fn folder(&mut self, folder: &Path, metadata: &Metadata, prefix: &str, depth: usize) -> io::Result<()> {
        if !self.visited.insert((metadata.dev(), metadata.ino())) {
            return Ok(());
        }
        let mut entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
        self.folders.push(folder.to_owned());
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            // A name that isn't text can't be shown in a diagnostic; nobody writes one on purpose.
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else {
                continue;
            };
            self.entry(&entry.path(), name, prefix, depth);
        }
        Ok(())
    }

    fn entry(&mut self, path: &Path, name: &str, prefix: &str, depth: usize) {
        let full_name = format!("{prefix}{name}");
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            // Gone since it was listed.
            Err(_) if fs::symlink_metadata(path).is_err() => return,
            // A link that leads nowhere at the moment: reading it fails below, and its last content stays.
            Err(_) if (self.wanted)(name) => {
                self.files.insert(full_name, path.to_owned());
                return;
            }
            Err(error) => {
                self.problems.push(format!("{}: {error}", path.display()));
                return;
            }
        };
        if metadata.is_dir() {
            if depth >= MAX_DEPTH {
                self.problems
                    .push(format!("{}: more than {MAX_DEPTH} folders deep", path.display()));
                return;
            }
            let listed = self.folder(path, &metadata, &format!("{full_name}/"), depth + 1);
            if let Err(error) = listed {
                self.problems.push(format!("{}: {error}", path.display()));
            }
        } else if (self.wanted)(name) {
            if self.files.len() >= MAX_FILES {
                self.problems
                    .push(format!("{}: more than {MAX_FILES} files", path.display()));
                return;
            }
            self.files.insert(full_name, path.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]

    use super::*;

    #[test]
    fn the_first_look_counts_alone_only_where_nothing_is_served() {
        let folder = tempfile::tempdir().unwrap();
        let tree = || Tree::new(folder.path().to_owned(), |_| true, 100);
        let (mut cold, mut serving) = (tree(), tree());
        assert_eq!(cold.look(false).unwrap(), Seen::Changed);
        // An empty folder is no exception: it may not be mounted yet.
        assert_eq!(serving.look(true).unwrap(), Seen::Unsettled);
        fs::write(folder.path().join("a"), "a").unwrap();
        assert_eq!(serving.look(true).unwrap(), Seen::Unsettled);
        assert_eq!(serving.look(true).unwrap(), Seen::Changed);
        assert_eq!(serving.files().count(), 1);
    }
}
