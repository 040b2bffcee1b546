//! The listening descriptors of one address.
//!
//! # Who owns them
//! The main thread owns the set: one socket per worker, joined by `SO_REUSEPORT`, so that the kernel spreads
//! connections. A worker accepts on a duplicate of its socket, which it makes itself from a share that it is lent.
//! Both descriptors mean one socket and one queue, so
//!
//! - a queue outlives whoever accepts from it: a worker that is lost, or a loop that fails, takes its duplicate along
//!   and no connection, and the one in its place accepts what waited;
//! - what is to be passed to another process is here, whatever the workers are doing.
//!
//! Rejected: sockets that are moved into the workers (nobody holds the set, and a lost worker resets its queue), and
//! the set's own descriptors registered with the workers' runtimes (no safe code can borrow one to them). The price is
//! a second descriptor per socket.
//!
//! # How they end
//! A queue that is closed is reset: those clients think they are connected. Emptying it first is not enough, as the next
//! client may arrive between the last look and the close. So a set ends in two steps. [`Sockets::turn_away`] has the
//! system drop what would begin a connection (a client that finds no answer asks again after a second, and then finds
//! the successor, or nobody) while handshakes under way are finished and the workers go on accepting. After
//! [`HANDSHAKES`] no worker accepts any more, and [`Sockets::drain`] empties what is left and closes.
//!
//! Rejected: a backlog of zero (one more client is let in all the same) and `shutdown` (it resets the queue).
//!
//! # Binding
//! `SO_REUSEPORT` lets a second process of the same user bind the same port and take a share of its connections
//! without either noticing. So a probe without it comes first: it fails where anybody listens.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Protocol, SockFilter, SockRef, Socket, Type};

/// Connections the kernel holds for us, per socket; it caps this at `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// How long a handshake that has begun may take: the way to most clients and back.
pub(super) const HANDSHAKES: Duration = Duration::from_millis(250);

/// Drops segments that begin a connection, in the language of the system's socket filters: load the TCP header's byte
/// of flags; where SYN is set let nothing through, else everything. Accepted connections inherit it, and meet no SYN.
const NO_SYN: [(u16, u8, u8, u32); 4] = [
    (0x30, 0, 0, 13),       // BPF_LD | BPF_B | BPF_ABS
    (0x45, 0, 1, 0x02),     // BPF_JMP | BPF_JSET | BPF_K
    (0x06, 0, 0, 0),        // BPF_RET | BPF_K: nothing
    (0x06, 0, 0, u32::MAX), // BPF_RET | BPF_K: all
];

/// A queue that can't be accepted from is tried again after this pause, as descriptors may become free, so often,
/// and then given up.
const PAUSE: Duration = Duration::from_millis(5);
const MAX_FAILURES: u32 = 100;

/// One socket per worker on one address; all close when it is dropped.
#[derive(Debug)]
pub(super) struct Sockets {
    address: SocketAddr,
    /// By worker. Listening, non-blocking.
    sockets: Vec<Arc<TcpListener>>,
}

impl Sockets {
    /// Binds `count` sockets.
    pub(super) fn bind(address: SocketAddr, count: usize) -> io::Result<Sockets> {
        if address.port() != 0 {
            socket(address, false)?.bind(&address.into())?;
        }
        let mut bound = address;
        let mut sockets = Vec::with_capacity(count);
        for _ in 0..count {
            let socket = socket(bound, true)?;
            socket.bind(&bound.into())?;
            bound = socket.local_addr()?.as_socket().unwrap_or(bound);
            sockets.push(socket);
        }
        // All are bound before the first listens: the kernel chooses among those that listen, and a socket that joins
        // later would draw connections away from queues that others already hold.
        for socket in &sockets {
            socket.listen(BACKLOG)?;
        }
        Ok(Sockets {
            address: bound,
            sockets: sockets
                .into_iter()
                .map(|socket| Arc::new(socket.into()))
                .collect(),
        })
    }

    /// Where they are bound, with the port that port 0 became.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The set's descriptors.
    pub(super) fn descriptors(&self) -> impl ExactSizeIterator<Item = BorrowedFd<'_>> {
        self.sockets.iter().map(|socket| socket.as_fd())
    }

    /// A worker's socket, for it to duplicate.
    pub(super) fn share(&self, worker: usize) -> Option<Arc<TcpListener>> {
        self.sockets.get(worker).cloned()
    }

    /// Lets no further connection begin; false where the system can't do that, and some may be reset.
    pub(super) fn turn_away(&self) -> bool {
        let filter = NO_SYN.map(|(code, jt, jf, k)| SockFilter::new(code, jt, jf, k));
        let attached = self
            .sockets
            .iter()
            .try_for_each(|socket| SockRef::from(&**socket).attach_filter(&filter));
        if let Err(error) = &attached {
            tracing::debug!(%error, address = %self.address, "connections may be reset as the queue closes");
        }
        attached.is_ok()
    }

    /// Hands on what the queues hold, with the worker it is for, and closes each. The shares and
    /// duplicates must be gone: a socket that somebody still holds stays open, and its queue fills again.
    pub(super) async fn drain(self, mut take: impl FnMut(usize, TcpStream, SocketAddr)) {
        for (worker, socket) in self.sockets.into_iter().enumerate() {
            let mut failures = 0;
            loop {
                match socket.accept() {
                    Ok((stream, peer)) => take(worker, stream, peer),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    // Of a client that has left, or of the process: the next one may be fine.
                    Err(_) if failures < MAX_FAILURES => {
                        failures += 1;
                        tokio::time::sleep(PAUSE).await;
                    }
                    Err(error) => {
                        tracing::warn!(%error, address = %self.address, "connections in a queue are given up");
                        break;
                    }
                }
            }
        }
    }
}

/// What went wrong, with what can be done about it.
pub(super) fn explain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => "the port is in use by another process".to_owned(),
        io::ErrorKind::PermissionDenied => format!("{error}; ports below 1024 need CAP_NET_BIND_SERVICE"),
        io::ErrorKind::AddrNotAvailable => "this machine has no such address".to_owned(),
        _ => error.to_string(),
    }
}

fn socket(address: SocketAddr, shared: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // Connections of a process before us that linger in TIME_WAIT must not block the port.
    socket.set_reuse_address(true)?;
    if shared {
        socket.set_reuse_port(true)?;
    }
    if address.is_ipv6() {
        // `::` serves IPv4 as well, whatever the machine's default.
        socket.set_only_v6(false)?;
    }
    socket.set_nonblocking(true)?;
    Ok(socket)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test may fail
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsRawFd as _;

    use super::*;

    fn bound() -> Sockets {
        Sockets::bind(([127, 0, 0, 1], 0).into(), 3).unwrap()
    }

    #[tokio::test]
    async fn what_the_queues_hold_is_handed_on_before_they_close() {
        let sockets = bound();
        let address = sockets.address();
        let mut clients: Vec<_> = (0..40).map(|_| TcpStream::connect(address).unwrap()).collect();
        let mut taken = Vec::new();
        sockets
            .drain(|worker, stream, peer| taken.push((worker, stream, peer)))
            .await;
        assert_eq!(taken.len(), clients.len());
        assert!(taken.iter().all(|(worker, _, _)| *worker < 3));
        for client in &mut clients {
            let (_, stream, _) = taken
                .iter_mut()
                .find(|(_, _, peer)| *peer == client.local_addr().unwrap())
                .unwrap();
            stream.write_all(b"hi").unwrap();
            let mut answer = [0; 2];
            client.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"hi");
        }
        let refused = TcpStream::connect(address).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[tokio::test]
    async fn who_is_turned_away_is_not_connected_and_who_waits_is_served() {
        let sockets = bound();
        let address = sockets.address();
        let mut clients: Vec<_> = (0..20).map(|_| TcpStream::connect(address).unwrap()).collect();
        assert!(sockets.turn_away());
        let soon = Duration::from_millis(200);
        let late = TcpStream::connect_timeout(&address, soon).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        let mut taken = Vec::new();
        sockets.drain(|_, stream, _| taken.push(stream)).await;
        assert_eq!(taken.len(), clients.len());
        for mut stream in taken {
            stream.write_all(b"hi").unwrap();
        }
        for client in &mut clients {
            client.read_exact(&mut [0; 2]).unwrap();
        }
        // Whoever asks again finds the successor.
        let asking = std::thread::spawn(move || TcpStream::connect_timeout(&address, 10 * soon));
        let _successor = Sockets::bind(address, 1).unwrap();
        asking.join().unwrap().unwrap();
    }

    #[test]
    fn a_queue_outlives_the_duplicate_that_accepts_from_it() {
        let sockets = bound();
        for worker in 0..3 {
            drop(sockets.share(worker).unwrap().try_clone().unwrap());
        }
        let clients: Vec<_> = (0..20)
            .map(|_| TcpStream::connect(sockets.address()).unwrap())
            .collect();
        let mut taken = 0;
        for share in (0..3).filter_map(|worker| sockets.share(worker)) {
            while share.accept().is_ok() {
                taken += 1;
            }
        }
        assert_eq!(taken, clients.len());
    }

    #[test]
    fn the_set_names_each_of_its_descriptors_once() {
        let sockets = bound();
        let mut all: Vec<_> = sockets.descriptors().map(|fd| fd.as_raw_fd()).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 3);
        for fd in sockets.descriptors() {
            let local = socket2::SockRef::from(&fd).local_addr().unwrap();
            assert_eq!(local.as_socket(), Some(sockets.address()));
        }
    }
}
