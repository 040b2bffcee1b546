//! Reading a file that someone else writes.
//!
//! The path is resolved anew each time, so that a swapped `..data` link is followed. Only regular files are opened:
//! a FIFO would block, and a device may answer for ever or act on being opened.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Seek};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use routed_snapshot::Hash;
use sha2::{Digest, Sha256};

/// What tells one state of a file from another without reading it. Equal does not mean equal content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Identity {
    /// Of a file or folder.
    pub(crate) fn of(metadata: &Metadata) -> Identity {
        Identity {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Bytes, by the metadata.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }
}

/// A file as read.
#[derive(Debug)]
pub(crate) struct Content {
    /// Its identity before it was read.
    pub(crate) identity: Identity,
    /// SHA-256 of the bytes.
    pub(crate) hash: Hash,
    /// The bytes.
    pub(crate) bytes: Vec<u8>,
}

/// Why a file can't be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    /// Gone, forbidden, or the disk failed: may pass.
    #[error("{}: {error}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A folder, FIFO, socket or device.
    #[error("{}: not a regular file", path.display())]
    NotAFile {
        /// Which.
        path: PathBuf,
    },
    /// Larger than is read.
    #[error("{}: larger than {limit} bytes", path.display())]
    TooLarge {
        /// Which file.
        path: PathBuf,
        /// The limit.
        limit: u64,
    },
}

/// A regular file, opened.
#[derive(Debug)]
pub(crate) struct Opened {
    path: PathBuf,
    file: File,
    limit: u64,
    /// Its identity when it was opened.
    pub(crate) identity: Identity,
}

/// Opens `path` if it is a regular file of at most `limit` bytes.
pub(crate) fn open(path: &Path, limit: u64) -> Result<Opened, ReadError> {
    let io = |error| ReadError::Io {
        path: path.to_owned(),
        error,
    };
    let check = |metadata: &Metadata| {
        let path = path.to_owned();
        match metadata {
            other if !other.is_file() => Err(ReadError::NotAFile { path }),
            large if large.len() > limit => Err(ReadError::TooLarge { path, limit }),
            _ => Ok(()),
        }
    };
    // Looked at before it is opened, since opening alone can act on a device; and again afterwards, since it may
    // have been replaced in between: then O_NONBLOCK keeps a FIFO from blocking.
    check(&fs::metadata(path).map_err(io)?)?;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
        .map_err(io)?;
    let metadata = file.metadata().map_err(io)?;
    check(&metadata)?;
    Ok(Opened {
        path: path.to_owned(),
        file,
        limit,
        identity: Identity::of(&metadata),
    })
}

/// Opens and reads a file.
pub(crate) fn read_file(path: &Path, limit: u64) -> Result<Content, ReadError> {
    open(path, limit)?.read()
}

impl Opened {
    /// SHA-256 of the content, read through a small buffer.
    pub(crate) fn hash(&mut self) -> Result<Hash, ReadError> {
        let mut digest = Sha256::new();
        let mut buffer = vec![0; 64 << 10];
        let mut total = 0_u64;
        self.rewind()?;
        loop {
            let count = match self.file.read(&mut buffer) {
                Ok(0) => return Ok(Hash(digest.finalize().into())),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.io(error)),
            };
            // Another may be writing at the end as fast as this reads.
            total += count as u64;
            if total > self.limit {
                return Err(self.too_large());
            }
            digest.update(&buffer[..count]);
        }
    }

    /// The content, with its hash.
    pub(crate) fn read(mut self) -> Result<Content, ReadError> {
        self.rewind()?;
        let mut bytes = Vec::with_capacity(usize::try_from(self.identity.length).unwrap_or(0));
        let read = (&mut self.file)
            .take(self.limit.saturating_add(1))
            .read_to_end(&mut bytes);
        read.map_err(|error| self.io(error))?;
        if bytes.len() as u64 > self.limit {
            return Err(self.too_large());
        }
        Ok(Content {
            identity: self.identity,
            hash: Hash::of(&bytes),
            bytes,
        })
    }

    fn rewind(&mut self) -> Result<(), ReadError> {
        self.file.rewind().map_err(|error| self.io(error))
    }

    fn io(&self, error: io::Error) -> ReadError {
        ReadError::Io {
            path: self.path.clone(),
            error,
        }
    }

    fn too_large(&self) -> ReadError {
        ReadError::TooLarge {
            path: self.path.clone(),
            limit: self.limit,
        }
    }
}
