//! The files of a folder that a router started with `--resources` would read, and no others.
//!
//! `*.yaml` and `*.yml`, in the folders below too. Hidden names are skipped: that leaves out the `..data` of a mounted
//! ConfigMap, whose files are read by the links beside it. Links are followed, and a folder reached twice is read
//! once. What a router would complain about is a problem here: a verdict on the rest alone would be none.
//!
//! The files' names begin with the folder's own, so their order is the router's, which knows them without it.

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Folders within folders are followed this far.
const MAX_DEPTH: usize = 16;

/// Most files of a folder with those below.
const MAX_FILES: usize = 200_000;

/// One listing of everything.
#[derive(Debug, Default)]
pub(super) struct Walk {
    /// Files to read.
    pub(super) files: Vec<PathBuf>,
    /// What can't be listed, and why.
    pub(super) problems: Vec<(PathBuf, String)>,
    visited: BTreeSet<(u64, u64)>,
}

impl Walk {
    /// Lists `root`, a folder.
    pub(super) fn run(root: &Path, metadata: &Metadata) -> io::Result<Walk> {
        let mut walk = Walk::default();
        walk.folder(root, metadata, 0)?;
        Ok(walk)
    }

    fn folder(&mut self, folder: &Path, metadata: &Metadata, depth: usize) -> io::Result<()> {
        if !self.visited.insert((metadata.dev(), metadata.ino())) {
            return Ok(());
        }
        let mut entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name();
            if let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) {
                self.entry(entry.path(), name, depth);
            }
        }
        Ok(())
    }

    fn entry(&mut self, path: PathBuf, name: &str, depth: usize) {
        let wanted = name.ends_with(".yaml") || name.ends_with(".yml");
        let problem = match fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() && depth >= MAX_DEPTH => {
                format!("more than {MAX_DEPTH} folders deep")
            }
            Ok(metadata) if metadata.is_dir() => match self.folder(&path, &metadata, depth + 1) {
                Ok(()) => return,
                Err(error) => error.to_string(),
            },
            Ok(_) if !wanted => return,
            Ok(_) if self.files.len() >= MAX_FILES => format!("more than {MAX_FILES} files"),
            Ok(_) => return self.files.push(path),
            // Gone since it was listed.
            Err(_) if fs::symlink_metadata(&path).is_err() => return,
            Err(error) => error.to_string(),
        };
        self.problems.push((path, problem));
    }
}
