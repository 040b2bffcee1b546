//! Numbers for listener names, and shared sets of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ListenerId;

/// Listener names by number. Only grows along a chain of indexes, so that the tables taken over stay right.
#[derive(Debug, Clone, Default)]
pub(crate) struct Listeners {
    ids: BTreeMap<Arc<str>, ListenerId>,
    names: Vec<Arc<str>>,
    sets: BTreeMap<Vec<ListenerId>, Arc<[ListenerId]>>,
}

impl Listeners {
    pub(super) fn id(&self, name: &str) -> Option<ListenerId> {
        self.ids.get(name).copied()
    }

    pub(super) fn name(&self, id: ListenerId) -> Option<&str> {
        self.names.get(id.0 as usize).map(|name| &**name)
    }

    /// How many numbers are given out.
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }
}

/// The numbers while an index is built: shared with the previous index until the first new name.
pub(super) struct Interner(pub(super) Arc<Listeners>);

impl Interner {
    /// The name's number; a new one where it has none.
    pub(super) fn id(&mut self, name: &str) -> ListenerId {
        if let Some(id) = self.0.id(name) {
            return id;
        }
        let listeners = Arc::make_mut(&mut self.0);
        let name: Arc<str> = name.into();
        let id = ListenerId(listeners.names.len() as u32);
        listeners.names.push(Arc::clone(&name));
        listeners.ids.insert(name, id);
        id
    }

    /// The set of these listeners, sorted by number.
    pub(super) fn set(&mut self, names: &[String]) -> Arc<[ListenerId]> {
        let mut ids: Vec<ListenerId> = names.iter().map(|name| self.id(name)).collect();
        ids.sort_unstable();
        ids.dedup();
        if let Some(set) = self.0.sets.get(&ids) {
            return Arc::clone(set);
        }
        let set: Arc<[ListenerId]> = ids.as_slice().into();
        Arc::make_mut(&mut self.0).sets.insert(ids, Arc::clone(&set));
        set
    }
}
