//! The admin interface's Unix socket as a file.
//!
//! The file outlives whoever listens, so it says nothing by itself: one that refuses a connection was left by a process
//! that was killed and is replaced; one that takes it, or whose queue is full, is a living process's and is never
//! touched, nor is anything that is no socket. At the end the file is removed, unless another one stands there by then.
//!
//! Looking and replacing are two steps, and two processes may start at one moment. So both happen under a lock on the
//! folder, which leaves no file behind and ends with its holder. Rejected: a lock file beside the socket (litter, and
//! a second thing to clean), and an abstract name (its mode can't be set, so every user could connect).

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use socket2::{Domain, SockAddr, Socket, Type};
use tokio::net::UnixListener;

/// Longest wait for another process that looks at the folder's sockets: it holds the lock for a few system calls.
const LOCK_TIME: Duration = Duration::from_secs(2);
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// The file of a bound socket; it goes when this is dropped.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    /// Device and inode: what tells it from another process's file of that name.
    identity: (u64, u64),
}

/// Listens at a path, for its owner only.
pub(super) fn bind(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    let _lock = lock(path)?;
    make_way(path)?;
    // Bound under a name of its own and renamed once the mode is set: nobody finds it open in between.
    let mut hidden = path.as_os_str().to_owned();
    hidden.push(format!(".{}", std::process::id()));
    // In a container every process has the same number: what one that was killed just here has left is in the way.
    remove(Path::new(&hidden))?;
    let listener = UnixListener::bind(&hidden)?;
    std::fs::set_permissions(&hidden, std::fs::Permissions::from_mode(0o600))?;
    std::fs::rename(&hidden, path)?;
    let identity = identity(path)?;
    let path = path.to_owned();
    Ok((listener, SocketFile { path, identity }))
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let removed = lock(&self.path).and_then(|_lock| match identity(&self.path) {
            Ok(present) if present == self.identity => remove(&self.path),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        });
        if let Err(error) = removed {
            tracing::warn!(%error, path = %self.path.display(), "the admin socket's file stays");
        }
    }
}

/// Removes a file that nobody listens at.
fn make_way(path: &Path) -> io::Result<()> {
    let found = match std::fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !found.file_type().is_socket() {
        let kind = io::ErrorKind::AlreadyExists;
        return Err(io::Error::new(kind, "something that is no socket stands there"));
    }
    let asking = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // A process that is stopped, or busy, has a full queue: it would be waited for.
    asking.set_nonblocking(true)?;
    match asking.connect(&SockAddr::unix(path)?) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => remove(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(io::Error::new(
            error.kind(),
            format!("a socket stands there, and whether a process listens can't be told: {error}"),
        )),
        _ => Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "another process listens there; end it, or choose another path",
        )),
    }
}

/// Keeps other processes from looking at this path until it is dropped.
fn lock(path: &Path) -> io::Result<File> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let folder = File::open(folder)?;
    let begun = Instant::now();
    loop {
        match folder.try_lock() {
            Ok(()) => return Ok(folder),
            Err(TryLockError::WouldBlock) if begun.elapsed() < LOCK_TIME => std::thread::sleep(LOCK_PAUSE),
            Err(TryLockError::WouldBlock) => {
                let kind = io::ErrorKind::WouldBlock;
                return Err(io::Error::new(kind, "another process keeps the folder locked"));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = std::fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test may fail
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    fn refusal(path: &Path) -> io::ErrorKind {
        bind(path).unwrap_err().kind()
    }

    #[tokio::test]
    async fn the_file_goes_with_its_socket_and_only_that_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin.sock");
        let (listener, file) = bind(&path).unwrap();
        assert_eq!(refusal(&path), io::ErrorKind::AddrInUse);
        drop((listener, file));
        assert!(!path.exists());

        let (_first, file) = bind(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let (_second, _file) = bind(&path).unwrap();
        drop(file);
        UnixStream::connect(&path).unwrap();
        let names = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(names, 1, "nothing else is left in the folder");
    }

    #[tokio::test]
    async fn what_a_killed_process_left_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin.sock");
        let hidden = folder.path().join(format!("admin.sock.{}", std::process::id()));
        for left in [&path, &hidden] {
            drop(UnixListener::bind(left).unwrap());
        }
        let (_listener, _file) = bind(&path).unwrap();
        UnixStream::connect(&path).unwrap();
        assert!(!hidden.exists());
    }

    #[tokio::test]
    async fn a_process_that_accepts_nothing_is_alive_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin.sock");
        let busy = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        busy.bind(&SockAddr::unix(&path).unwrap()).unwrap();
        busy.listen(0).unwrap();
        let _waits = UnixStream::connect(&path).unwrap();
        assert_eq!(refusal(&path), io::ErrorKind::AddrInUse);
        drop((busy, _waits));
        let other = Socket::new(Domain::UNIX, Type::DGRAM, None).unwrap();
        std::fs::remove_file(&path).unwrap();
        other.bind(&SockAddr::unix(&path).unwrap()).unwrap();
        assert!(bind(&path).is_err(), "another kind of socket");
        assert!(path.exists());
    }
}
