//! What one worker thread owns.

use std::rc::Rc;
use std::sync::Arc;

use crate::shared::Shared;

/// The state of one worker thread; nothing in it is shared with another thread.
#[derive(Debug)]
pub struct Worker {
    /// What all workers share.
    pub shared: Arc<Shared>,
}

impl Worker {
    /// A worker without connections.
    pub fn new(shared: Arc<Shared>) -> Rc<Worker> {
        Rc::new(Worker { shared })
    }
}
