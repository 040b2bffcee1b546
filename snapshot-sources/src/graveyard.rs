//! Where replaced indexes wait until no request uses them, and are freed.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use routed_snapshot::Index;

/// How often the graveyard looks whether readers are gone. Memory waits this long, nothing else does.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The publisher's end. Its thread ends with it; what is still in use then is freed by its last reader.
#[derive(Debug)]
pub(crate) struct Graveyard {
    /// None where the machine gave no thread: indexes are then freed where they are replaced.
    sender: Option<Sender<Arc<Index>>>,
}

impl Graveyard {
    /// Starts the thread.
    pub(crate) fn new() -> Graveyard {
        let (sender, receiver) = channel();
        let started = std::thread::Builder::new()
            .name("routed-release".to_owned())
            .spawn(move || keep(&receiver));
        Graveyard {
            sender: started.ok().map(|_| sender),
        }
    }

    /// Takes over an index that was replaced.
    pub(crate) fn bury(&self, index: Arc<Index>) {
        if let Some(sender) = &self.sender {
            // The thread ends only when the sender is gone.
            let _ = sender.send(index);
        }
    }
}

fn keep(receiver: &Receiver<Arc<Index>>) {
    let mut waiting: Vec<Arc<Index>> = Vec::new();
    loop {
        let next = if waiting.is_empty() {
            receiver.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            receiver.recv_timeout(LOOK_EVERY)
        };
        match next {
            Ok(index) => {
                waiting.push(index);
                // More may be waiting; look once for all of them.
                waiting.extend(receiver.try_iter());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        // The index is no longer published, so the count can only fall: 1 means that this thread has the last one.
        waiting.retain(|index| Arc::strong_count(index) > 1);
    }
}
