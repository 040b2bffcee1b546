//! Worker threads: one per core, each with a single-threaded runtime of its own.
//!
//! A connection lives and dies on the worker that accepted it, so nothing on the request path needs to be `Send` or
//! is shared. The kernel spreads connections over the workers' sockets (`SO_REUSEPORT`). Rejected: one socket
//! accepted by all (every worker wakes for each connection), and an acceptor thread that hands connections out (one
//! more hop, and a bottleneck of its own).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, LocalSet, spawn_local};

use crate::accept::{self, Accepting};
use crate::shared::Shared;
use crate::worker::Worker;

/// The worker threads. Dropping it ends them, with what they hold.
#[derive(Debug)]
pub(crate) struct Workers {
    commands: Vec<mpsc::UnboundedSender<Command>>,
    open: Open,
}

/// How many connections are open on all workers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Open(Arc<AtomicUsize>);

/// One open connection.
#[derive(Debug)]
pub(crate) struct OpenGuard(Open);

#[derive(Debug)]
enum Command {
    Add(u64, Accepting),
    Remove(u64, oneshot::Sender<()>),
}

impl Open {
    /// Counts one more, until the guard is dropped.
    pub(crate) fn enter(&self) -> OpenGuard {
        self.0.fetch_add(1, Ordering::AcqRel);
        OpenGuard(self.clone())
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }
}

impl Drop for OpenGuard {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Workers {
    /// Starts `count` threads.
    pub(crate) fn start(count: usize, shared: &Arc<Shared>) -> std::io::Result<Workers> {
        let mut commands = Vec::with_capacity(count);
        for number in 0..count {
            let (sender, receiver) = mpsc::unbounded_channel();
            let shared = shared.clone();
            let runtime = Builder::new_current_thread().enable_all().build()?;
            thread::Builder::new()
                .name(format!("worker-{number}"))
                .spawn(move || {
                    LocalSet::new().block_on(&runtime, obey(shared, receiver));
                    runtime.shutdown_background();
                })?;
            commands.push(sender);
        }
        Ok(Workers {
            commands,
            open: Open::default(),
        })
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.commands.len()
    }

    /// Open connections.
    pub(crate) fn open(&self) -> &Open {
        &self.open
    }

    /// Has each worker accept on one of the sockets, under the number `id`.
    pub(crate) fn add(&self, id: u64, sockets: Vec<Accepting>) {
        for (worker, socket) in self.commands.iter().zip(sockets) {
            // A worker that is gone has closed its channel; the socket is dropped and closed with the message.
            let _ = worker.send(Command::Add(id, socket));
        }
    }

    /// Has every worker accept what its queue holds and close its socket; ends when all have.
    pub(crate) async fn remove(&self, id: u64) {
        let mut closed = Vec::with_capacity(self.commands.len());
        for worker in &self.commands {
            let (sender, receiver) = oneshot::channel();
            let _ = worker.send(Command::Remove(id, sender));
            closed.push(receiver);
        }
        for receiver in closed {
            let _ = receiver.await;
        }
    }
}

async fn obey(shared: Arc<Shared>, mut commands: mpsc::UnboundedReceiver<Command>) {
    let worker = Worker::new(shared);
    let mut accepting: HashMap<u64, (oneshot::Sender<()>, JoinHandle<()>)> = HashMap::new();
    while let Some(command) = commands.recv().await {
        match command {
            Command::Add(id, socket) => {
                let (stop, stopped) = oneshot::channel();
                let task = spawn_local(accept::run(socket, worker.clone(), stopped));
                accepting.insert(id, (stop, task));
            }
            Command::Remove(id, closed) => {
                let Some((stop, task)) = accepting.remove(&id) else {
                    continue;
                };
                drop(stop);
                spawn_local(async move {
                    let _ = task.await;
                    let _ = closed.send(());
                });
            }
        }
    }
}
