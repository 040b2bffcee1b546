//! `--tls-keys DIR`: pairs from `<namespace>/<name>/{tls.crt,tls.key}`, for a source that brings none.
//!
//! Read by the same rules as a folder of resources. A pair that is damaged or incomplete leaves the one held under
//! its name in place and is reported. One that is gone stays, reported too, for as long as the published table names
//! it: an empty folder is more often a mount that is late than a wish to refuse every handshake.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use crate::disk::tree::{Seen, Tree, TreeFile};
use crate::feed::Feed;
use crate::keys::{KeyPair, KeyTable, Keys};
use crate::pem;
use crate::source::Next;

/// Largest certificate or key file.
const FILE_LIMIT: u64 = 1 << 20;

/// The folder's state between looks.
#[derive(Debug)]
pub(crate) struct TlsKeys {
    tree: Tree,
    problems: Vec<String>,
    /// Pairs that are held and not in the folder.
    gone: BTreeSet<String>,
}

impl TlsKeys {
    /// Before the first look.
    pub(crate) fn new(folder: PathBuf) -> TlsKeys {
        let wanted: fn(&str) -> bool = |name| name == "tls.crt" || name == "tls.key";
        TlsKeys {
            tree: Tree::new(folder, wanted, FILE_LIMIT),
            problems: Vec::new(),
            gone: BTreeSet::new(),
        }
    }

    /// Looks once; the error says what is wrong with the folder or some pairs.
    pub(crate) fn look(&mut self, feed: &Feed, keys: &Keys) -> (Next, Result<(), String>) {
        let next = match self.tree.look(!keys.load().is_empty()) {
            Ok(Seen::Same) if self.gone.iter().any(|name| !feed.needs_pair(name)) => {
                self.take(feed, keys);
                Next::Poll
            }
            Ok(Seen::Same) => Next::Poll,
            Ok(Seen::Unsettled) => Next::Soon,
            Ok(Seen::Changed) => {
                self.take(feed, keys);
                Next::Poll
            }
            Err(error) => return (Next::Poll, Err(error.to_string())),
        };
        let problem = self.tree.problems().iter().chain(&self.problems).next();
        (next, problem.map_or(Ok(()), |problem| Err(problem.clone())))
    }

    /// Folders whose change notices are worth a look.
    pub(crate) fn folders(&self) -> &[PathBuf] {
        self.tree.folders()
    }

    fn take(&mut self, feed: &Feed, keys: &Keys) {
        let held = keys.load();
        let files: BTreeMap<&str, &TreeFile> = self
            .tree
            .files()
            .map(|(name, file)| (name.as_str(), file))
            .collect();
        let folders: BTreeSet<&str> = files
            .keys()
            .filter_map(|path| path.rsplit_once('/'))
            .map(|(folder, _)| folder)
            .filter(|folder| folder.split('/').count() == 2)
            .collect();
        self.problems.clear();
        let mut table = KeyTable::new();
        for folder in folders {
            match pair(&files, folder) {
                Ok(pair) => {
                    table.insert(folder.to_owned(), Arc::new(pair));
                }
                Err(problem) => {
                    self.problems.push(format!("{folder}: {problem}"));
                    if let Some(held) = held.get(folder) {
                        table.insert(folder.to_owned(), held.clone());
                    }
                }
            }
        }
        self.gone.clear();
        for (name, pair) in held.iter() {
            if !table.contains_key(name) && feed.needs_pair(name) {
                self.problems.push(format!(
                    "{name}: gone from the folder; the pair held stays in use"
                ));
                self.gone.insert(name.clone());
                table.insert(name.clone(), pair.clone());
            }
        }
        feed.store_keys(keys, table);
    }
}

fn pair(files: &BTreeMap<&str, &TreeFile>, folder: &str) -> Result<KeyPair, String> {
    let file = |name: &str| {
        let file = files.get(format!("{folder}/{name}").as_str());
        file.map(|file| file.bytes.to_vec())
            .ok_or_else(|| format!("no {name}"))
    };
    pem::pair(file("tls.crt")?, file("tls.key")?)
}
