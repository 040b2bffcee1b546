//! Objects that are written and can't be read.
//!
//! They are not there, and yet not absent: nobody took them away. What would be done without the object (a built-in
//! profile) must not be done, and a folder that is served may go on with the version it had.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Kind, Object, ObjectKey};
use crate::diag::Reason;
use crate::yaml::Problem;

/// Which objects can't be read, and what they were when they last could.
#[derive(Debug, Clone, Default)]
pub(super) struct Unread {
    /// Without a version that stands in for them.
    pub(super) missing: BTreeSet<ObjectKey>,
    /// With one.
    pub(super) kept: BTreeMap<ObjectKey, Arc<Object>>,
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

/// The objects that a fault of a document leaves unread. A kind of ours that doesn't exist may be any of ours.
pub(super) fn named_by(problem: &Problem) -> Vec<ObjectKey> {
    let Some((namespace, name)) = problem.object.split_once('/') else {
        return Vec::new();
    };
    let key = |kind| ObjectKey::new(kind, Some(namespace), name);
    match Kind::named(&problem.kind) {
        _ if !is_unreadable(problem.reason) => Vec::new(),
        Some(kind) => vec![key(kind)],
        None => Kind::OURS.map(key).to_vec(),
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
