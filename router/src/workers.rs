//! Worker threads: one per core, each with a single-threaded runtime of its own.
//!
//! A connection lives and dies on the worker that accepted it, so nothing on the request path needs to be `Send` or
//! is shared. The kernel spreads connections over the workers' sockets (`SO_REUSEPORT`). Rejected: one socket
//! accepted by all (every worker wakes for each connection), and an acceptor thread that hands connections out (one
//! more hop, and a bottleneck of its own).
//!
//! A panic ends the task it happens in: a connection, or a loop that accepts, which is begun again. A thread that
//! ends all the same is told of by [`Workers::lost`] and replaced: its sockets' queues must not go unaccepted.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinHandle, LocalSet, spawn_local};

use crate::accept::{self, Accepting, Arrival};
use crate::shared::Shared;
use crate::worker::Worker;

/// The worker threads. Dropping it ends them, with what they hold.
#[derive(Debug)]
pub(crate) struct Workers {
    shared: Arc<Shared>,
    /// By worker.
    commands: Vec<mpsc::UnboundedSender<Command>>,
    open: Open,
    ended: mpsc::UnboundedReceiver<usize>,
    /// Given to each new thread.
    ending: mpsc::UnboundedSender<usize>,
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
    Serve(Arrival),
    #[cfg(test)]
    Panic,
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
        let (ending, ended) = mpsc::unbounded_channel();
        let mut workers = Workers {
            shared: shared.clone(),
            commands: Vec::with_capacity(count),
            open: Open::default(),
            ended,
            ending,
        };
        for number in 0..count {
            let commands = workers.spawn(number)?;
            workers.commands.push(commands);
        }
        Ok(workers)
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.commands.len()
    }

    /// Open connections.
    pub(crate) fn open(&self) -> &Open {
        &self.open
    }

    /// Has a worker accept on a socket, under the number `id`.
    pub(crate) fn add(&self, number: usize, id: u64, socket: Accepting) {
        if let Some(worker) = self.commands.get(number) {
            // One that is gone gets its sockets once it has been replaced.
            let _ = worker.send(Command::Add(id, socket));
        }
    }

    /// Has every worker stop accepting on its socket and let go of it; ends when all have.
    pub(crate) async fn remove(&self, id: u64) {
        let mut closed = Vec::with_capacity(self.commands.len());
        for worker in &self.commands {
            let (sender, receiver) = oneshot::channel();
            let _ = worker.send(Command::Remove(id, sender));
            closed.push(receiver);
        }
        for receiver in closed {
            // One that is gone has done so too.
            let _ = receiver.await;
        }
    }

    /// Has a connection served by this worker, or, where that one is gone, by the next.
    pub(crate) fn serve(&self, number: usize, arrival: Arrival) {
        let mut command = Command::Serve(arrival);
        let (before, from) = self.commands.split_at(number.min(self.commands.len()));
        for worker in from.iter().chain(before) {
            match worker.send(command) {
                Ok(()) => return,
                Err(mpsc::error::SendError(back)) => command = back,
            }
        }
    }

    /// The number of the next worker whose thread has ended; its connections have ended with it.
    pub(crate) async fn lost(&mut self) -> usize {
        match self.ended.recv().await {
            Some(number) => number,
            // Not while this holds a sender.
            None => std::future::pending().await,
        }
    }

    /// Starts a thread in the place of one that was lost. It accepts on nothing yet.
    pub(crate) fn replace(&mut self, number: usize) -> std::io::Result<()> {
        let commands = self.spawn(number)?;
        if let Some(place) = self.commands.get_mut(number) {
            *place = commands;
        }
        Ok(())
    }

    fn spawn(&self, number: usize) -> std::io::Result<mpsc::UnboundedSender<Command>> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let shared = self.shared.clone();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let ending = self.ending.clone();
        thread::Builder::new()
            .name(format!("worker-{number}"))
            .spawn(move || {
                // Declared first and so dropped last, by a panic too: by then it has let go of its sockets.
                let _ending = Ending { number, to: ending };
                let runtime = runtime;
                LocalSet::new().block_on(&runtime, obey(shared, receiver));
                runtime.shutdown_background();
            })?;
        Ok(sender)
    }

    /// Ends a worker's thread by a panic.
    #[cfg(test)]
    pub(crate) fn lose(&self, number: usize) {
        let _ = self.commands[number].send(Command::Panic);
    }
}

/// Tells that a thread has ended.
struct Ending {
    number: usize,
    to: mpsc::UnboundedSender<usize>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.to.send(self.number);
    }
}

async fn obey(shared: Arc<Shared>, mut commands: mpsc::UnboundedReceiver<Command>) {
    let worker = Worker::new(shared);
    let mut accepting: HashMap<u64, (watch::Sender<()>, JoinHandle<()>)> = HashMap::new();
    while let Some(command) = commands.recv().await {
        match command {
            Command::Add(id, socket) => {
                let (stop, stopped) = watch::channel(());
                let task = spawn_local(keep_accepting(socket, worker.clone(), stopped));
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
            Command::Serve(arrival) => arrival.serve(&worker),
            #[cfg(test)]
            Command::Panic => panic!("as the test asked"),
        }
    }
}

/// Accepts until told to stop, whatever happens to the loop.
async fn keep_accepting(accepting: Accepting, worker: Rc<Worker>, stop: watch::Receiver<()>) {
    let accepting = Rc::new(accepting);
    // A panic would leave a queue that fills and is never emptied.
    while let Err(error) = spawn_local(accept::run(accepting.clone(), worker.clone(), stop.clone())).await {
        tracing::error!(%error, "a loop that accepts failed; it begins again");
        tokio::time::sleep(accept::FIRST_PAUSE).await;
    }
}
