//! A compiled snapshot in a file.
//!
//! Each look resolves the path anew. A small file is read at every look. A large one is read when its identity
//! (device, inode, length, both times) differs, and every tenth time all the same: equal times never mean equal
//! content. What a look does depends on the hash of the content alone, so a time that goes back means nothing
//! either, and a content that was refused is neither read again nor counted again.
//!
//! The document carries the hashes of its parts and of itself, so a half-written one is refused whole, and the next
//! look sees the rest. A file that is gone, forbidden, or not a regular file is not an empty table.
//!
//! A file mounted by Kubernetes with `subPath` never changes while the pod lives: mount the folder.

use std::path::{Path, PathBuf};

use routed_snapshot::snapshot::MAX_DOCUMENT_BYTES;
use routed_snapshot::{Hash, Snapshot};

use crate::admit::Refusal;
use crate::disk::read::{Content, Identity, ReadError, open};
use crate::feed::Feed;
use crate::keys::Keys;
use crate::source::{Next, Polling};
use crate::tls_keys::TlsKeys;

/// Files up to this size are read at every look.
const SMALL: u64 = 1 << 20;

/// Larger ones are read at least every so many looks.
const FULL_LOOK_EVERY: u32 = 10;

/// `--snapshot-path`.
#[derive(Debug, Clone)]
pub struct FileConfig {
    /// The file.
    pub path: PathBuf,
    /// `--tls-keys`: a folder `<namespace>/<name>/{tls.crt,tls.key}`.
    pub tls_keys: Option<PathBuf>,
    /// When to look.
    pub polling: Polling,
    /// Largest file that is read.
    pub limit_bytes: u64,
    /// Whether a table without routes and without a newer position is taken.
    pub allow_empty: bool,
}

impl FileConfig {
    /// The defaults for a file.
    pub fn new(path: impl Into<PathBuf>) -> FileConfig {
        FileConfig {
            path: path.into(),
            tls_keys: None,
            polling: Polling::default(),
            limit_bytes: MAX_DOCUMENT_BYTES as u64,
            allow_empty: false,
        }
    }
}

/// A content that was dealt with, and what came of it.
#[derive(Debug)]
struct Seen {
    identity: Identity,
    hash: Hash,
    verdict: Result<(), String>,
}

/// The source's state between looks.
#[derive(Debug)]
pub(crate) struct FileLook {
    config: FileConfig,
    seen: Option<Seen>,
    /// Looks since the content was last read.
    unread: u32,
    resets: u64,
    keys: Option<TlsKeys>,
}

impl FileLook {
    /// Before the first look.
    pub(crate) fn new(config: FileConfig) -> FileLook {
        FileLook {
            keys: config.tls_keys.clone().map(TlsKeys::new),
            config,
            seen: None,
            unread: 0,
            resets: 0,
        }
    }

    /// Looks once.
    pub(crate) fn look(&mut self, feed: &Feed, keys: &Keys) -> Next {
        // Keys first, so that a new listener's pair is there when its table is.
        let tls = self.keys.as_mut().map(|folder| folder.look(feed, keys));
        let (next, pairs) = tls.unwrap_or((Next::Poll, Ok(())));
        let resets = feed.status().resets();
        if resets != self.resets {
            self.resets = resets;
            self.seen = None;
        }
        match self.read() {
            Ok(None) => {}
            Ok(Some(content)) => self.deal_with(content, feed),
            Err(error) => {
                feed.status().fail_reading(&error);
                return next;
            }
        }
        let verdict = self.seen.as_ref().map_or(&Ok(()), |seen| &seen.verdict);
        match (verdict, &pairs) {
            (Err(problem), _) | (_, Err(problem)) => feed.status().fail(problem),
            _ => feed.status().succeed(),
        }
        next
    }

    /// Folders whose change notices are worth a look: the file's own, and its target's where it is a link.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        let parent = |path: &Path| match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => Some(parent.to_owned()),
            Some(_) => Some(PathBuf::from(".")),
            None => None,
        };
        let target = self.config.path.canonicalize().ok();
        let mut folders: Vec<PathBuf> = parent(&self.config.path).into_iter().collect();
        folders.extend(target.as_deref().and_then(parent));
        if let Some(keys) = &self.keys {
            folders.extend_from_slice(keys.folders());
        }
        folders
    }

    /// The content, where it differs from the one seen last.
    fn read(&mut self) -> Result<Option<Content>, ReadError> {
        let mut opened = open(&self.config.path, self.config.limit_bytes)?;
        if let Some(seen) = &mut self.seen {
            let same_identity = seen.identity == opened.identity;
            self.unread += 1;
            if same_identity && opened.identity.length() > SMALL && self.unread < FULL_LOOK_EVERY {
                return Ok(None);
            }
            self.unread = 0;
            // Hashed through a small buffer first: an unchanged file of 100 MB costs no memory.
            if opened.hash()? == seen.hash {
                seen.identity = opened.identity;
                return Ok(None);
            }
        }
        let content = opened.read()?;
        Ok(self
            .seen
            .as_ref()
            .is_none_or(|seen| seen.hash != content.hash)
            .then_some(content))
    }

    fn deal_with(&mut self, content: Content, feed: &Feed) {
        let verdict = Snapshot::decode(&content.bytes)
            .map_err(Refusal::from)
            .inspect_err(|refusal| feed.refuse(refusal))
            .and_then(|snapshot| feed.offer(&snapshot, self.config.allow_empty));
        let path = self.config.path.display();
        let verdict = match verdict {
            Ok(offered) => {
                tracing::info!(%path, content = %content.hash, ?offered, "snapshot taken");
                Ok(())
            }
            Err(refusal) => {
                let problem = format!("{path}: {refusal}");
                feed.status().count_refusal(refusal.reason(), &problem);
                Err(problem)
            }
        };
        self.seen = Some(Seen {
            identity: content.identity,
            hash: content.hash,
            verdict,
        });
    }
}
