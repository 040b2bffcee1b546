//! What takes time: keys stored, snapshots read, indexes built. One after the other on a blocking thread; of the
//! snapshots that come meanwhile only the newest is kept.

use routed_snapshot::{Hash, Snapshot};
use tokio::task::JoinHandle;

use crate::admit::Refusal;
use crate::assemble::Delivered;
use crate::feed::Feed;
use crate::keys::{KeyTable, Keys};
use crate::live::Offered;

/// A snapshot as it came.
#[derive(Debug)]
pub(super) enum Offer {
    /// Put together and verified.
    Delivered(Delivered),
    /// A whole document, not read yet.
    Document(String),
}

/// What came of an offer.
#[derive(Debug)]
pub(super) struct Outcome {
    /// Names the content: the snapshot's hash, or that of a document that is none.
    pub(super) name: String,
    pub(super) verdict: Result<Offered, Refusal>,
}

/// What waits.
#[derive(Debug, Default)]
struct Work {
    keys: Option<KeyTable>,
    offer: Option<Offer>,
}

/// Does the work.
#[derive(Debug)]
pub(super) struct Applier {
    feed: Feed,
    keys: Keys,
    allow_empty: bool,
    /// The pairs that the control plane says are needed; none: it never said.
    wanted: Option<KeyTable>,
    waiting: Work,
    running: Option<JoinHandle<Option<Outcome>>>,
}

impl Applier {
    /// Nothing to do yet.
    pub(super) fn new(feed: Feed, keys: Keys, allow_empty: bool) -> Applier {
        Applier {
            feed,
            keys,
            allow_empty,
            wanted: None,
            waiting: Work::default(),
            running: None,
        }
    }

    /// These are the pairs from now on.
    pub(super) fn store(&mut self, pairs: KeyTable) {
        self.waiting.keys = Some(pairs);
        self.start();
    }

    /// This is the newest snapshot.
    pub(super) fn offer(&mut self, offer: Offer) {
        self.waiting.offer = Some(offer);
        self.start();
    }

    /// Waits for the next outcome; `None` where there is nothing left to do. May be dropped and called again.
    pub(super) async fn outcome(&mut self) -> Option<Outcome> {
        while let Some(running) = &mut self.running {
            let done = running.await;
            self.running = None;
            self.start();
            match done {
                Ok(None) => {}
                Ok(outcome) => return outcome,
                Err(error) => {
                    tracing::error!(%error, "applying a snapshot failed by a bug in the router");
                    let name = "unknown".to_owned();
                    let verdict = Err(Refusal::Panicked);
                    return Some(Outcome { name, verdict });
                }
            }
        }
        None
    }

    fn start(&mut self) {
        let idle = self.waiting.keys.is_none() && self.waiting.offer.is_none();
        if self.running.is_some() || idle {
            return;
        }
        let work = std::mem::take(&mut self.waiting);
        if let Some(pairs) = work.keys {
            self.wanted = Some(pairs);
        }
        let (feed, keys, wanted) = (self.feed.clone(), self.keys.clone(), self.wanted.clone());
        let allow_empty = self.allow_empty;
        self.running = Some(tokio::task::spawn_blocking(move || {
            // Keys first, so that a new listener's pair is there when its table is.
            store_wanted(&feed, &keys, wanted.as_ref());
            let outcome = work.offer.map(|offer| apply(offer, &feed, allow_empty));
            // The table before may have needed pairs that nobody needs now.
            store_wanted(&feed, &keys, wanted.as_ref());
            outcome
        }));
    }
}

/// A pair that is no longer wanted stays for as long as the published table names it.
fn store_wanted(feed: &Feed, keys: &Keys, wanted: Option<&KeyTable>) {
    let Some(wanted) = wanted else { return };
    let mut table = wanted.clone();
    for (name, pair) in keys.load().iter() {
        if !table.contains_key(name) && feed.needs_pair(name) {
            table.insert(name.clone(), pair.clone());
        }
    }
    feed.store_keys(keys, table);
}

fn apply(offer: Offer, feed: &Feed, allow_empty: bool) -> Outcome {
    let (snapshot, stream_id) = match offer {
        Offer::Delivered(delivered) => (delivered.snapshot, delivered.stream_id),
        Offer::Document(text) => match Snapshot::decode(text.as_bytes()) {
            Ok(snapshot) => (snapshot, String::new()),
            Err(error) => {
                let refusal = Refusal::from(error);
                feed.refuse(&refusal);
                return Outcome {
                    name: Hash::of(text.as_bytes()).to_string(),
                    verdict: Err(refusal),
                };
            }
        },
    };
    let verdict = feed.offer(&snapshot, allow_empty);
    feed.status()
        .stream(Some(stream_id.as_str()).filter(|id| !id.is_empty()));
    Outcome {
        name: snapshot.hash().to_string(),
        verdict,
    }
}
