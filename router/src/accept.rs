//! Accepting connections: one loop per socket and worker.
//!
//! The loop never ends by an error. `accept` fails for reasons of the process (no descriptor left), of the machine
//! (no memory) and of a single client (gone before we came), and the list differs between systems; a loop that
//! sorted them would end, or spin, on the one that was forgotten. So each failure means a pause with jitter, doubled
//! up to a second while failures last; open connections go on meanwhile, and who waits in the queue is served once
//! accepting works again. The counter has every failure, the log one of all workers' in ten seconds.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::spawn_local;

use crate::conn::{Connection, ListenerContext, probe_when_idle};
use crate::http::serve_connection;
use crate::process_stats::ProcessStats;
use crate::tls::{self, Terminator};
use crate::worker::Worker;
use crate::workers::{Open, OpenGuard};

/// The shortest pause.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What one worker needs to accept on one socket.
#[derive(Debug)]
pub(crate) struct Accepting {
    /// The worker's socket, non-blocking and listening, to accept on a duplicate of.
    pub(crate) socket: Arc<TcpListener>,
    /// What becomes of its connections.
    pub(crate) intake: Intake,
}

/// What becomes of the connections of a set of sockets.
#[derive(Debug, Clone)]
pub(crate) struct Intake {
    /// What they become; replaced without touching the sockets.
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

/// A connection that the main thread accepted from a queue that it closes, on its way to a worker. It counts as open.
#[derive(Debug)]
pub(crate) struct Arrival {
    stream: std::net::TcpStream,
    peer: SocketAddr,
    target: Arc<Target>,
    stats: Arc<ProcessStats>,
    open: OpenGuard,
}

impl Intake {
    /// A connection for a worker.
    pub(crate) fn arrival(&self, stream: std::net::TcpStream, peer: SocketAddr) -> Arrival {
        Arrival {
            stream,
            peer,
            target: self.target.load_full(),
            stats: self.stats.clone(),
            open: self.open.enter(),
        }
    }

    fn begin(&self, stream: TcpStream, peer: SocketAddr, worker: &Rc<Worker>) {
        let (target, stats) = (self.target.load_full(), self.stats.clone());
        begin(stream, peer, target, worker.clone(), stats, self.open.enter());
    }
}

impl Arrival {
    /// Serves it on the worker of this thread.
    pub(crate) fn serve(self, worker: &Rc<Worker>) {
        // The system gives new connections in blocking mode.
        let stream = self.stream.set_nonblocking(true);
        match stream.and_then(|()| TcpStream::from_std(self.stream)) {
            Ok(stream) => begin(
                stream,
                self.peer,
                self.target,
                worker.clone(),
                self.stats,
                self.open,
            ),
            Err(_) => self.stats.accept_errors.add(1),
        }
    }
}

fn begin(
    stream: TcpStream,
    peer: SocketAddr,
    target: Arc<Target>,
    worker: Rc<Worker>,
    stats: Arc<ProcessStats>,
    open: OpenGuard,
) {
    spawn_local(async move {
        serve(stream, peer, target, worker, stats).await;
        drop(open);
    });
}

/// Accepts until the sender of `stop` is dropped. What the queue then holds stays there, for the set's owner.
pub(crate) async fn run(accepting: Rc<Accepting>, worker: Rc<Worker>, mut stop: watch::Receiver<()>) {
    let Accepting { socket, intake } = &*accepting;
    let mut pause = Pause::default();
    let mut listener = None;
    loop {
        let accepted = async {
            let listener = match &mut listener {
                Some(listener) => listener,
                none => none.insert(tokio::net::TcpListener::from_std(socket.try_clone()?)?),
            };
            listener.accept().await
        };
        let accepted = tokio::select! {
            _ = stop.changed() => return,
            accepted = accepted => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                pause = Pause::default();
                intake.begin(stream, peer, &worker);
            }
            Err(error) => {
                intake
                    .stats
                    .accept_failed(&error, &intake.target.load().context.name);
                tokio::select! {
                    _ = stop.changed() => return,
                    () = tokio::time::sleep(pause.next()) => {}
                }
            }
        }
    }
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
        drain: target.drain.clone(),
    };
    let Some(terminator) = &target.tls else {
        return serve_connection(stream, connection, worker).await;
    };
    let handshake = tls::accept(stream, terminator);
    let outcome = tokio::select! {
        outcome = tokio::time::timeout(target.handshake, handshake) => outcome,
        // A handshake under way may finish: the client's request may be in flight behind it.
        () = async { connection.told().await; tokio::time::sleep(FIRST_PAUSE * 100).await } => return,
    };
    match outcome {
        Ok(Ok((stream, facts))) => {
            connection.tls = Some(facts);
            serve_connection(stream, connection, worker).await;
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
