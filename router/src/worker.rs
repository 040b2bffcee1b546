//! What one worker thread owns.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use rand::Rng as _;
use rand::rngs::SmallRng;
use routed_snapshot::index::BackendEntry;
use routed_snapshot::ir::Profile;
use routed_snapshot::{Hash, Index};

use crate::forward::headers::Trust;
use crate::shared::Shared;
use crate::upstream::pool::Pool;
use crate::upstream::{Upstream, Upstreams};

/// The state of one worker thread; nothing in it is shared with another thread.
#[derive(Debug)]
pub struct Worker {
    /// What all workers share.
    pub shared: Arc<Shared>,
    /// Idle connections to endpoints.
    pub pool: Rc<Pool>,
    upstreams: Upstreams,
    /// Held by each copy of a request that is under way, so that they can be counted.
    pub mirroring: Rc<()>,
    random: RefCell<SmallRng>,
    /// The profile's trusted networks, read once per configuration.
    trust: RefCell<Option<(Hash, Rc<Trust>)>>,
}

impl Worker {
    /// A worker without connections.
    pub fn new(shared: Arc<Shared>) -> Rc<Worker> {
        Rc::new(Worker {
            pool: Pool::new(shared.clone()),
            shared,
            upstreams: Upstreams::default(),
            mirroring: Rc::default(),
            random: RefCell::new(rand::make_rng()),
            trust: RefCell::new(None),
        })
    }

    /// A random number, for a decision's draw.
    pub fn draw(&self) -> u64 {
        self.random.borrow_mut().next_u64()
    }

    /// A backend of a table, with what is known of it.
    pub fn upstream(&self, index: &Index, backend: &Arc<BackendEntry>) -> Upstream {
        self.upstreams.of(&self.shared.endpoints, index, backend)
    }

    /// The profile's trusted networks.
    pub fn trust(&self, config: Hash, profile: &Profile) -> Rc<Trust> {
        let mut held = self.trust.borrow_mut();
        match &*held {
            Some((of, trust)) if *of == config => trust.clone(),
            _ => {
                let trust = Rc::new(Trust::new(&profile.trusted_proxies));
                *held = Some((config, trust.clone()));
                trust
            }
        }
    }
}
