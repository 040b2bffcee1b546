//! What a stage sees: the objects, what earlier stages found of them, and a record of what it looked at.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::profile::ProfileFragment;
use crate::diag::{Diag, Reason, Severity};
use crate::resources::{Kind, Object, ObjectKey, Resources};

/// The objects as one unit's compilation sees them. Each look-up is recorded: it is a dependency, found or not.
pub(crate) struct World<'a> {
    pub(crate) resources: &'a Resources,
    /// EndpointSlices by the key of their Service.
    pub(crate) slices: &'a BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// Whether each Backend compiled.
    pub(crate) usable: &'a BTreeMap<ObjectKey, bool>,
    pub(crate) profiles: &'a BTreeMap<ObjectKey, ProfileFragment>,
    pub(crate) seen: RefCell<BTreeSet<ObjectKey>>,
}

impl<'a> World<'a> {
    pub(crate) fn get(&self, kind: Kind, namespace: &str, name: &str) -> Option<&'a Arc<Object>> {
        let key = ObjectKey::new(kind, Some(namespace), name);
        let found = self.resources.get(&key);
        self.seen.borrow_mut().insert(key);
        found
    }

    /// Whether an object is written and can't be read. Whoever asks has looked for it by [`World::get`] before.
    pub(crate) fn is_unread(&self, key: &ObjectKey) -> bool {
        self.resources.unread().contains(key)
    }

    pub(crate) fn backend_is_usable(&self, key: &ObjectKey) -> bool {
        self.usable.get(key).copied().unwrap_or(false)
    }

    pub(crate) fn profile(&self, key: &ObjectKey) -> Option<&'a ProfileFragment> {
        self.seen.borrow_mut().insert(key.clone());
        self.profiles.get(key)
    }
}

/// The findings about one object.
pub(crate) struct Findings<'a> {
    pub(crate) object: &'a Object,
    /// Turns a field path as the compiler sees it into the one that was written.
    pub(crate) rename: fn(&str) -> String,
    pub(crate) diags: Vec<Diag>,
}

impl<'a> Findings<'a> {
    pub(crate) fn new(object: &'a Object) -> Findings<'a> {
        Findings {
            object,
            rename: str::to_owned,
            diags: Vec::new(),
        }
    }

    pub(crate) fn error(&mut self, reason: Reason, field: &str, message: impl Into<String>) {
        let field = (self.rename)(field);
        self.diags
            .push(self.object.diag(Severity::Error, reason, &field, message.into()));
    }

    pub(crate) fn warning(&mut self, reason: Reason, field: &str, message: impl Into<String>) {
        let field = (self.rename)(field);
        self.diags.push(
            self.object
                .diag(Severity::Warning, reason, &field, message.into()),
        );
    }

    /// Keeps a checked value; a bad one becomes an error.
    pub(crate) fn check<T>(&mut self, reason: Reason, field: &str, checked: Result<T, String>) -> Option<T> {
        checked.map_err(|message| self.error(reason, field, message)).ok()
    }

    /// Refuses a field that is known and not built.
    pub(crate) fn not_built(&mut self, field: &str, written: bool) -> bool {
        if written {
            self.error(Reason::NotBuilt, field, "not built yet; take the field out");
        }
        written
    }
}
