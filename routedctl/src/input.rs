//! Reading what is named on the command line.
//!
//! A path is a file, `-` (stdin), or a folder, which is read as [`folder`] says. A named file may be a pipe
//! (`<(helm template ...)`); in a folder only regular files are opened, since a pipe there would block for ever.
//!
//! What can't be read is kept beside what can: all of it is told at once.

mod folder;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Serialize;

use self::folder::Walk;

/// Most bytes of one file. A file above it is refused by its size, before it is read.
const MAX_FILE_BYTES: u64 = 64 << 20;
/// Most bytes of all files together.
const MAX_TOTAL_BYTES: u64 = 256 << 20;

/// The name that stdin has in diagnostics.
const STDIN: &str = "<stdin>";

/// What was read.
#[derive(Debug, Default)]
pub(crate) struct Input {
    /// Name and content of each file, in order of name.
    pub(crate) files: Vec<(String, Vec<u8>)>,
    /// What could not be used.
    pub(crate) unusable: Vec<Unusable>,
    pub(crate) total: u64,
}

/// An input that can't be judged.
#[derive(Debug, Serialize)]
pub(crate) struct Unusable {
    /// Which.
    pub(crate) file: String,
    /// Why.
    pub(crate) message: String,
}

/// Reads all of them.
pub(crate) fn read(paths: &[PathBuf]) -> Input {
    let mut input = Input::default();
    let mut seen = BTreeSet::new();
    for path in paths {
        input.add(path, &mut seen);
    }
    // Whatever the order on the command line, equal files compile to equal bytes and equal diagnostics.
    input.files.sort();
    if input.unusable.is_empty() && !input.files.iter().any(|(_, content)| has_document(content)) {
        let names = paths.iter().map(|path| path.display().to_string());
        input.refuse(names.collect::<Vec<_>>().join(", "), "no document in it");
    }
    input
}

impl Input {
    fn add(&mut self, path: &Path, seen: &mut BTreeSet<PathBuf>) {
        if !seen.insert(path.to_owned()) {
            return;
        }
        let name = path.display().to_string();
        if name == "-" {
            return self.take(STDIN.to_owned(), io::stdin().lock());
        }
        match fs::metadata(path) {
            Err(error) => self.refuse(name, error),
            Ok(metadata) if metadata.is_dir() => match Walk::run(path, &metadata) {
                Err(error) => self.refuse(name, error),
                Ok(walk) => self.walked(walk, seen),
            },
            Ok(metadata) => self.open(path, name, metadata.len()),
        }
    }

    fn walked(&mut self, walk: Walk, seen: &mut BTreeSet<PathBuf>) {
        for (path, why) in walk.problems {
            self.refuse(path.display().to_string(), why);
        }
        for path in walk.files {
            if !seen.insert(path.clone()) {
                continue;
            }
            let name = path.display().to_string();
            match fs::metadata(&path) {
                Err(error) => self.refuse(name, error),
                Ok(metadata) if !metadata.is_file() => self.refuse(name, "not a regular file"),
                Ok(metadata) => self.open(&path, name, metadata.len()),
            }
        }
    }

    fn open(&mut self, path: &Path, name: String, length: u64) {
        if length > MAX_FILE_BYTES {
            return self.refuse(name, too_large());
        }
        match File::open(path) {
            Err(error) => self.refuse(name, error),
            Ok(file) => self.take(name, file),
        }
    }

    fn take(&mut self, name: String, from: impl Read) {
        let mut content = Vec::new();
        // One byte more than allowed tells that there is more.
        if let Err(error) = from.take(MAX_FILE_BYTES + 1).read_to_end(&mut content) {
            return self.refuse(name, error);
        }
        let length = content.len() as u64;
        if length > MAX_FILE_BYTES {
            return self.refuse(name, too_large());
        }
        if self.total + length > MAX_TOTAL_BYTES {
            return self.refuse(
                name,
                format!("with it there are more than {} MiB in all", MAX_TOTAL_BYTES >> 20),
            );
        }
        self.total += length;
        self.files.push((name, content));
    }

    fn refuse(&mut self, file: String, why: impl ToString) {
        let message = why.to_string();
        self.unusable.push(Unusable { file, message });
    }
}

fn too_large() -> String {
    format!("larger than {} MiB", MAX_FILE_BYTES >> 20)
}

/// Whether anything stands in it beside blanks, comments and document markers.
fn has_document(content: &[u8]) -> bool {
    let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
    let mut lines = content.split(|byte| *byte == b'\n').map(|line| line.trim_ascii());
    lines.any(|line| !(line.is_empty() || line.starts_with(b"#") || line == b"---" || line == b"..."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_markers_are_no_document() {
        for empty in ["", "\n\n", "# nothing\n", "---\n---\n", "\u{feff}--- \n...\n"] {
            assert!(!has_document(empty.as_bytes()), "{empty:?}");
        }
        assert!(has_document(b"---\nkind: Backend\n"));
        assert!(has_document(b"{}"));
    }
}
