//! Objects that are written and can't be read.
//!
//! They are not there, and yet not absent: nobody took them away. What would be done without the object (a built-in
//! profile) must not be done, and a folder that is served may go on with the version it had.
//!
//! The profile that a router serves is held even when it is gone altogether ([`Resources::hold`]): the built-in one
//! listens on all addresses, and a file that was moved must not make a router public that was on the loopback, nor
//! close its ports. Until it is back or the router starts again, its absence is an error.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Kind, Object, ObjectKey, Resources};
use crate::diag::{Diag, Reason, Severity};
use crate::yaml::Problem;

/// Which objects can't be read, and what they were when they last could.
#[derive(Debug, Clone, Default)]
pub(super) struct Unread {
    /// Without a version that stands in for them.
    pub(super) missing: BTreeSet<ObjectKey>,
    /// The same where another object was probably meant: they count only if there is an earlier version.
    doubtful: BTreeSet<ObjectKey>,
    /// With one.
    pub(super) kept: BTreeMap<ObjectKey, Arc<Object>>,
    /// What can be read of EdgeRoutes that can't: used where neither a good copy nor a last version is there.
    pub(super) outlines: BTreeMap<ObjectKey, Arc<Object>>,
}

impl Unread {
    /// The versions kept before that may be needed again: those of objects named now, and all of them while some
    /// document names none, since it may be theirs.
    pub(super) fn keep_on(&mut self, before: Unread, nameless: bool) {
        if nameless {
            for (key, object) in before.kept {
                self.kept.entry(key).or_insert(object);
            }
        }
    }
}

/// The objects that a fault of a document leaves unread, each with whether it most probably is the one meant. A kind
/// of ours that doesn't exist may be any of ours: the last versions of all of them stay, but only the one that it is
/// spelt like counts as written.
pub(super) fn named_by(problem: &Problem) -> Vec<(ObjectKey, bool)> {
    let Some((namespace, name)) = problem.object.split_once('/') else {
        return Vec::new();
    };
    let key = |kind| ObjectKey::new(kind, Some(namespace), name);
    match Kind::named(&problem.kind) {
        _ if !is_unreadable(problem.reason) => Vec::new(),
        Some(kind) => vec![(key(kind), true)],
        None => {
            let meant = Kind::nearest(&problem.kind);
            Kind::OURS.map(|kind| (key(kind), meant == Some(kind))).to_vec()
        }
    }
}

/// Whether a fault of this kind leaves its object unread.
pub(super) fn is_unreadable(reason: Reason) -> bool {
    matches!(reason, Reason::Malformed | Reason::UnknownKind)
}

/// Whether a fault is of a document that doesn't say which object it is.
pub(super) fn is_nameless(problem: &Problem) -> bool {
    problem.reason == Reason::Malformed && problem.object.is_empty()
}

impl Resources {
    /// Keeps the object of this key in [`Resources::reload_keeping`] even where nothing defines it any more.
    pub fn hold(&mut self, key: ObjectKey) {
        self.held.insert(key);
    }

    /// Notes what a fault leaves unread. An object's last version stands in for it at once where it came from this
    /// file: a second definition elsewhere doesn't count now, as it didn't before.
    pub(super) fn note_unread(
        &mut self,
        file: &str,
        problem: &Problem,
        keeping: Option<&Unread>,
        found: &mut BTreeMap<ObjectKey, Arc<Object>>,
    ) {
        for (key, meant) in named_by(problem) {
            let last = self.last_version(&key, keeping).filter(|last| last.is_from(file));
            if let Some(last) =
                last.filter(|_| problem.kind == key.kind.to_string() && !found.contains_key(&key))
            {
                self.unread.kept.insert(key.clone(), Arc::clone(&last));
                found.insert(key, last);
            } else if meant {
                self.unread.missing.insert(key);
            } else {
                self.unread.doubtful.insert(key);
            }
        }
    }

    /// Lets last versions stand in for whatever is still unread once all files are, and says so; else the outline.
    pub(super) fn keep_unread(
        &mut self,
        keeping: Option<&Unread>,
        found: &mut BTreeMap<ObjectKey, Arc<Object>>,
    ) {
        let missing = std::mem::take(&mut self.unread.missing);
        let mut outlines = std::mem::take(&mut self.unread.outlines);
        let mut keys = std::mem::take(&mut self.unread.doubtful);
        keys.extend(missing.iter().chain(outlines.keys()).cloned());
        for key in keys {
            if found.contains_key(&key) {
                continue;
            }
            if let Some(last) = self.last_version(&key, keeping) {
                self.unread.kept.insert(key.clone(), Arc::clone(&last));
                found.insert(key, last);
                continue;
            }
            if let Some(outline) = outlines.remove(&key) {
                found.insert(key.clone(), outline);
            }
            if missing.contains(&key) {
                self.unread.missing.insert(key);
            }
        }
        let kept: BTreeSet<String> = self.unread.kept.keys().map(ObjectKey::path).collect();
        for diag in &mut self.diags {
            if is_unreadable(diag.reason) && kept.contains(&diag.object) {
                diag.message
                    .push_str(" (the object's last good version stays in use)");
            }
        }
        self.keep_held(keeping, found);
    }

    fn keep_held(&mut self, keeping: Option<&Unread>, found: &mut BTreeMap<ObjectKey, Arc<Object>>) {
        for key in &self.held {
            if found.contains_key(key) {
                continue;
            }
            let Some(last) = self.last_version(key, keeping) else {
                continue;
            };
            let message = format!(
                "no {} `{}` is defined any more; the last one stays in use until it is back or the router starts again",
                key.kind,
                key.path()
            );
            let diag = last.diag(Severity::Error, Reason::ProfileNotFound, "", message);
            // Its place is that of the past.
            self.diags.push(Diag { place: None, ..diag });
            found.insert(key.clone(), last);
        }
    }

    /// What an object was when it last could be read.
    fn last_version(&self, key: &ObjectKey, keeping: Option<&Unread>) -> Option<Arc<Object>> {
        let before = keeping?;
        let last = self.objects.get(key).or_else(|| before.kept.get(key));
        last.filter(|last| !last.is_outline()).cloned()
    }
}
