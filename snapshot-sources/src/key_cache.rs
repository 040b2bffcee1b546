//! `--key-cache DIR`: certificates and private keys on disk, so that TLS survives a restart without a control plane.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use routed_snapshot::Hash;
use serde::{Deserialize, Serialize};

use crate::disk::read::read_file;
use crate::disk::write::write_atomically;
use crate::keys::{KeyPair, KeyTable};
use crate::pem;

/// Largest file of a pair.
const MAX_ENTRY_BYTES: u64 = 4 << 20;

/// Why a key cache can't be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyCacheError {
    /// The system said no.
    #[error("{}: {error}", path.display())]
    Io {
        /// Which file or folder.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Others could read it.
    #[error("{}: mode {mode:04o} lets others in; private keys need 0700", path.display())]
    Open {
        /// The folder.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Something else stands there.
    #[error("{}: not a folder", path.display())]
    NotAFolder {
        /// The path.
        path: PathBuf,
    },
}

/// A folder of pairs, one file each.
///
/// Files are named by the hash of the pair's name, because a namespace and a name together may be longer than a file
/// name; the name stands inside. The folder must be closed to others, each file is 0600.
#[derive(Debug)]
pub(crate) struct KeyCache {
    folder: PathBuf,
    unwritten: Mutex<Unwritten>,
}

/// What could not be written, and is to be tried again.
#[derive(Debug, Default)]
struct Unwritten {
    /// Pairs by name.
    pairs: BTreeSet<String>,
    /// Whether files of pairs that are gone may be left.
    leftovers: bool,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    name: String,
    certificate: String,
    key: String,
}

impl KeyCache {
    /// Opens the folder, or makes it.
    pub(crate) fn open(folder: PathBuf) -> Result<KeyCache, KeyCacheError> {
        let io = |error| KeyCacheError::Io {
            path: folder.clone(),
            error,
        };
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(io(error)),
            _ => {}
        }
        let metadata = fs::metadata(&folder).map_err(io)?;
        if !metadata.is_dir() {
            return Err(KeyCacheError::NotAFolder { path: folder });
        }
        let mode = metadata.permissions().mode() & 0o7777;
        if mode & 0o077 != 0 {
            return Err(KeyCacheError::Open { path: folder, mode });
        }
        Ok(KeyCache {
            folder,
            unwritten: Mutex::default(),
        })
    }

    /// The pairs found; a damaged file is logged and left out.
    pub(crate) fn load(&self) -> Result<KeyTable, KeyCacheError> {
        let mut table = KeyTable::new();
        for path in self.entries().map_err(|error| self.io(error))? {
            match read_entry(&path) {
                Ok((name, pair)) => {
                    table.insert(name, Arc::new(pair));
                }
                Err(error) => tracing::warn!(path = %path.display(), error, "a cached key pair is ignored"),
            }
        }
        Ok(table)
    }

    /// Makes the folder hold `table`, where it held `before` but for what could not be written. Each pair is tried,
    /// whatever becomes of the others; the first fault is returned.
    pub(crate) fn store(&self, table: &KeyTable, before: &KeyTable) -> Result<(), KeyCacheError> {
        let mut unwritten = self.unwritten.lock().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::take(&mut *unwritten);
        let mut fault = None;
        for (name, pair) in table {
            let path = self.path_of(name);
            if before.get(name) == Some(pair) && !old.pairs.contains(name) && path.exists() {
                continue;
            }
            if let Err(error) = self.write(&path, name, pair) {
                unwritten.pairs.insert(name.clone());
                fault = fault.or(Some(error));
            }
        }
        if let Err(error) = self.remove_others(table) {
            unwritten.leftovers = true;
            fault = fault.or(Some(error));
        }
        fault.map_or(Ok(()), |error| Err(self.io(error)))
    }

    /// Whether something could not be written.
    pub(crate) fn is_behind(&self) -> bool {
        let unwritten = self.unwritten.lock().unwrap_or_else(PoisonError::into_inner);
        unwritten.leftovers || !unwritten.pairs.is_empty()
    }

    fn remove_others(&self, table: &KeyTable) -> io::Result<()> {
        let wanted: BTreeSet<PathBuf> = table.keys().map(|name| self.path_of(name)).collect();
        let mut removed = Ok(());
        for path in self.entries()?.into_iter().filter(|path| !wanted.contains(path)) {
            removed = removed.and(fs::remove_file(&path));
        }
        removed
    }

    fn write(&self, path: &Path, name: &str, pair: &KeyPair) -> io::Result<()> {
        let text = |pem: &[u8]| String::from_utf8(pem.to_vec()).map_err(io::Error::other);
        let entry = Entry {
            name: name.to_owned(),
            certificate: text(&pair.certificate_pem)?,
            key: text(&pair.key_pem)?,
        };
        write_atomically(path, &serde_json::to_vec(&entry)?, 0o600)
    }

    fn path_of(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{}.json", Hash::of(name.as_bytes())))
    }

    fn entries(&self) -> io::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                found.push(path);
            }
        }
        Ok(found)
    }

    fn io(&self, error: io::Error) -> KeyCacheError {
        KeyCacheError::Io {
            path: self.folder.clone(),
            error,
        }
    }
}

fn read_entry(path: &Path) -> Result<(String, KeyPair), String> {
    let content = read_file(path, MAX_ENTRY_BYTES).map_err(|error| error.to_string())?;
    let entry: Entry = serde_json::from_slice(&content.bytes).map_err(|error| error.to_string())?;
    let pair = pem::pair(entry.certificate.into_bytes(), entry.key.into_bytes())?;
    Ok((entry.name, pair))
}
