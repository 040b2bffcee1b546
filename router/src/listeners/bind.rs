//! Making listening sockets.
//!
//! `SO_REUSEPORT` lets a second process of the same user bind the same port and take a share of its connections
//! without either noticing. So a probe without it comes first: it fails where anybody listens.

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

/// Connections the kernel holds for us, per socket; it caps this at `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// One socket per worker on one address.
#[derive(Debug)]
pub(super) struct Sockets {
    /// With the port that port 0 became.
    pub(super) address: SocketAddr,
    /// Listening, non-blocking.
    pub(super) sockets: Vec<TcpListener>,
}

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
    let sockets = sockets.into_iter().map(TcpListener::from).collect();
    Ok(Sockets {
        address: bound,
        sockets,
    })
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
