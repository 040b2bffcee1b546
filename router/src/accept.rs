//! Accepting connections: one loop per socket and worker.
//!
//! The loop never ends by an error. `accept` fails for reasons of the process (no descriptor left), of the machine
//! (no memory) and of a single client (gone before we came), and the list differs between systems; a loop that
//! sorted them would end, or spin, on the one that was forgotten. So each failure means a pause with jitter, doubled
//! up to a second while failures last; open connections go on meanwhile.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::net::TcpStream;
use tokio::sync::{oneshot, watch};
use tokio::task::spawn_local;

use crate::conn::{Connection, ListenerContext, probe_when_idle};
use crate::http::serve_connection;
use crate::process_stats::ProcessStats;
use crate::tls::{self, Terminator};
use crate::worker::Worker;
use crate::workers::Open;

const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What one worker needs to accept on one socket.
#[derive(Debug)]
pub(crate) struct Accepting {
    /// The socket, non-blocking and listening.
    pub(crate) socket: TcpListener,
    /// What its connections become; replaced without touching the socket.
    pub(crate) target: Arc<ArcSwap<Target>>,
    /// Open connections of the process.
    pub(crate) open: Open,
    /// Counters.
    pub(crate) stats: Arc<ProcessStats>,
}

/// What connections of a listener become.
#[derive(Debug)]
pub(crate) struct Target {
    /// The listener.
    pub(crate) context: Arc<ListenerContext>,
    /// How TLS is terminated; none: plain.
    pub(crate) tls: Option<Arc<Terminator>>,
    /// Longest handshake.
    pub(crate) handshake: Duration,
    /// Tells connections to end.
    pub(crate) drain: watch::Receiver<bool>,
}

/// Accepts until `stop` is dropped, then accepts what the queue still holds and closes the socket.
pub(crate) async fn run(accepting: Accepting, worker: Rc<Worker>, mut stop: oneshot::Receiver<()>) {
    let Accepting {
        socket,
        target,
        open,
        stats,
    } = accepting;
    let begin = |stream: TcpStream, peer: SocketAddr| {
        let serving = serve(stream, peer, target.load_full(), worker.clone(), stats.clone());
        let guard = open.enter();
        spawn_local(async move {
            serving.await;
            drop(guard);
        });
    };
    let listener = match tokio::net::TcpListener::from_std(socket) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, listener = target.load().context.name, "a socket can't be accepted on");
            return;
        }
    };
    let mut pause = Pause::default();
    loop {
        let accepted = tokio::select! {
            _ = &mut stop => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                pause = Pause::default();
                begin(stream, peer);
            }
            Err(error) => {
                stats.accept_errors.add(1);
                if pause.is_first() {
                    tracing::warn!(%error, listener = target.load().context.name, "accept failed; going on");
                }
                tokio::select! {
                    _ = &mut stop => break,
                    () = tokio::time::sleep(pause.next()) => {}
                }
            }
        }
    }
    for (stream, peer) in queued(listener) {
        begin(stream, peer);
    }
}

/// What the queue of a socket holds. Closing it would reset these clients, who think they are connected.
fn queued(listener: tokio::net::TcpListener) -> Vec<(TcpStream, SocketAddr)> {
    let mut streams = Vec::new();
    let Ok(socket) = listener.into_std() else {
        return streams;
    };
    // By the system call itself: the runtime's idea of readiness may lag behind the queue.
    while let Ok((stream, peer)) = socket.accept() {
        if let Ok(stream) = stream
            .set_nonblocking(true)
            .and_then(|()| TcpStream::from_std(stream))
        {
            streams.push((stream, peer));
        }
    }
    streams
}

async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    target: Arc<Target>,
    worker: Rc<Worker>,
    stats: Arc<ProcessStats>,
) {
    let Ok(local) = prepare(&stream) else { return };
    let mut connection = Connection {
        peer: canonical(peer),
        local: canonical(local),
        listener: target.context.clone(),
        tls: None,
    };
    let mut drain = target.drain.clone();
    let Some(terminator) = &target.tls else {
        return serve_connection(stream, connection, worker, drain).await;
    };
    let handshake = tls::accept(stream, terminator);
    let outcome = tokio::select! {
        outcome = tokio::time::timeout(target.handshake, handshake) => outcome,
        // A handshake under way may finish: the client's request may be in flight behind it.
        () = async { let _ = drain.wait_for(|drain| *drain).await; tokio::time::sleep(FIRST_PAUSE * 100).await } => return,
    };
    match outcome {
        Ok(Ok((stream, facts))) => {
            connection.tls = Some(facts);
            serve_connection(stream, connection, worker, drain).await;
        }
        Ok(Err(error)) => {
            stats.handshakes_failed.add(1);
            tracing::debug!(%error, %peer, listener = target.context.name, "TLS handshake failed");
        }
        Err(_) => {
            stats.handshakes_failed.add(1);
            tracing::debug!(%peer, listener = target.context.name, "TLS handshake took too long");
        }
    }
}

fn prepare(stream: &TcpStream) -> io::Result<SocketAddr> {
    stream.set_nodelay(true)?;
    probe_when_idle(stream)?;
    stream.local_addr()
}

/// An IPv4 client of a dual-stack socket is that client, not `::ffff:…`.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[derive(Debug, Default)]
struct Pause {
    failures: u32,
}

impl Pause {
    fn is_first(&self) -> bool {
        self.failures == 0
    }

    /// Half of the pause is fixed and half is drawn, so that workers don't come back together.
    fn next(&mut self) -> Duration {
        let whole = FIRST_PAUSE
            .saturating_mul(1 << self.failures.min(10))
            .min(LONGEST_PAUSE);
        self.failures += 1;
        whole / 2 + (whole / 2).mul_f64(rand::random::<f64>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_second_and_never_beyond() {
        let mut pause = Pause::default();
        let pauses: Vec<_> = (0..40).map(|_| pause.next()).collect();
        assert!(pauses[0] < Duration::from_millis(6) && pauses[0] > Duration::from_millis(2));
        assert!(pauses.iter().all(|pause| *pause <= LONGEST_PAUSE));
        assert!(pauses[39] >= LONGEST_PAUSE / 2);
    }
}
