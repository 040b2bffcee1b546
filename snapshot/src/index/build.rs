//! Builds an index part by part, taking over from the previous one what did not change.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::backends::{BackendTable, Sources};
use super::listeners::{Interner, Listeners};
use super::routes::RouteTable;
use super::{BUCKETS, BackendEntry, Index, IndexError, ranges};
use crate::ir::{self, BackendsPart, EndpointsPart, ProfilesPart, RoutesPart};
use crate::matching::host::Lengths;
use crate::snapshot::{DecodeError, Hash, Part, PartContent, PartName, Snapshot};

/// Dead numbers that are kept whatever the number of live ones.
const DEAD_KEPT: usize = 1024;

impl Index {
    /// Builds the tables. Parts equal to the previous index's are reused, so the cost is that of what changed.
    ///
    /// # Errors
    /// Where the snapshot's content is inconsistent (a regular expression that doesn't compile, a rule that a table
    /// names but the part lacks) or out of range (a status that is none, a time that no clock holds): the snapshot is refused whole.
    pub fn build(snapshot: &Snapshot, previous: Option<&Index>) -> Result<Index, IndexError> {
        let previous = previous.filter(|index| !index.is_mostly_dead());
        let (profiles, profiles_hash) = profiles(snapshot, previous)?;
        let mut listeners =
            Interner(previous.map_or_else(Arc::<Listeners>::default, |index| Arc::clone(&index.listeners)));
        let redirects = redirects(&profiles, &mut listeners);
        let backends = backends(snapshot, previous)?;
        let routes = routes(snapshot, previous, &backends, &mut listeners)?;
        let mut wildcards = Lengths::default();
        for table in routes.iter().flatten() {
            wildcards.join(table.wildcards());
        }
        Ok(Index {
            hash: snapshot.hash(),
            config_hash: snapshot.config_hash(),
            position: snapshot.position().cloned(),
            profiles_hash,
            profiles,
            listeners: listeners.0,
            route_count: routes.iter().flatten().map(|table| table.route_count()).sum(),
            routes,
            backends: backends.0,
            wildcards,
            redirects,
        })
    }

    /// True where far more numbers are dead than alive: then everything is numbered anew.
    fn is_mostly_dead(&self) -> bool {
        let counts = self.backends.iter().flatten().map(|table| table.slots_and_live());
        let (slots, live) = counts.fold((0, 0), |sum, table| (sum.0 + table.0, sum.1 + table.1));
        let in_profiles: usize = self.profiles.profiles.values().map(|p| p.listeners.len()).sum();
        slots > 2 * live + DEAD_KEPT || self.listeners.len() > 2 * in_profiles + DEAD_KEPT
    }
}

impl IndexError {
    /// An error at a place of a part.
    pub(super) fn at(part: PartName, at: String, why: impl Into<String>) -> IndexError {
        IndexError {
            part: part.to_string(),
            at,
            why: why.into(),
        }
    }
}

/// The backends by bucket while routes are built.
pub(super) struct Backends(Box<[Option<Arc<BackendTable>>]>);

impl Backends {
    /// A backend by name.
    pub(super) fn named(&self, name: &str) -> Option<&Arc<BackendEntry>> {
        let hash = xxhash_rust::xxh3::xxh3_64(name.as_bytes());
        self.0[(hash & 0xff) as usize].as_ref()?.named(hash, name)
    }
}

fn profiles(
    snapshot: &Snapshot,
    previous: Option<&Index>,
) -> Result<(Arc<ProfilesPart>, Option<Hash>), IndexError> {
    let Some(part) = snapshot.parts().get(&PartName::Profiles) else {
        return Ok((Arc::default(), None));
    };
    let hash = Some(part.hash());
    if let Some(held) = previous.filter(|index| index.profiles_hash == hash) {
        return Ok((Arc::clone(&held.profiles), hash));
    }
    match open(PartName::Profiles, part)?.as_ref() {
        PartContent::Profiles(profiles) => {
            ranges::profiles(profiles)?;
            Ok((Arc::new(profiles.clone()), hash))
        }
        _ => Err(wrong_kind(PartName::Profiles)),
    }
}

/// The redirects by listener number. Gives every listener of a profile its number.
fn redirects(profiles: &ProfilesPart, listeners: &mut Interner) -> Box<[Option<ir::RedirectToHttps>]> {
    let mut redirects: BTreeMap<u32, ir::RedirectToHttps> = BTreeMap::new();
    for (profile, settings) in &profiles.profiles {
        for (name, listener) in &settings.listeners {
            let id = listeners.id(&format!("{profile}/{name}"));
            if let Some(redirect) = &listener.redirect_to_https {
                redirects.insert(id.0, redirect.clone());
            }
        }
    }
    let end = redirects.keys().next_back().map_or(0, |last| last + 1);
    (0..end).map(|id| redirects.remove(&id)).collect()
}

fn backends(snapshot: &Snapshot, previous: Option<&Index>) -> Result<Backends, IndexError> {
    let mut tables = Vec::with_capacity(BUCKETS);
    for bucket in 0..=u8::MAX {
        let backends = snapshot.parts().get(&PartName::Backends(bucket));
        let endpoints = snapshot.parts().get(&PartName::Endpoints(bucket));
        let held = previous.and_then(|index| index.backends[usize::from(bucket)].as_ref());
        tables.push(backend_table(bucket, backends, endpoints, held)?);
    }
    Ok(Backends(tables.into_boxed_slice()))
}

fn backend_table(
    bucket: u8,
    backends: Option<&Arc<Part>>,
    endpoints: Option<&Arc<Part>>,
    held: Option<&Arc<BackendTable>>,
) -> Result<Option<Arc<BackendTable>>, IndexError> {
    if backends.is_none() && endpoints.is_none() && held.is_none() {
        return Ok(None);
    }
    let sources: Sources = (
        backends.map(|part| part.hash()),
        endpoints.map(|part| part.hash()),
    );
    if let Some(held) = held.filter(|table| table.is_of(sources)) {
        return Ok(Some(Arc::clone(held)));
    }
    let none = BackendsPart::default();
    let name = PartName::Backends(bucket);
    let backends = backends.map(|part| open(name, part)).transpose()?;
    let backends = match backends.as_deref() {
        None => &none,
        Some(PartContent::Backends(part)) => part,
        Some(_) => return Err(wrong_kind(name)),
    };
    let name = PartName::Endpoints(bucket);
    let endpoints = endpoints.map(|part| open(name, part)).transpose()?;
    let endpoints: Option<&EndpointsPart> = match endpoints.as_deref() {
        None => None,
        Some(PartContent::Endpoints(part)) => Some(part),
        Some(_) => return Err(wrong_kind(name)),
    };
    let table = BackendTable::build(bucket, sources, backends, endpoints, held.map(|table| &**table))?;
    Ok(Some(Arc::new(table)))
}

fn routes(
    snapshot: &Snapshot,
    previous: Option<&Index>,
    backends: &Backends,
    listeners: &mut Interner,
) -> Result<Box<[Option<Arc<RouteTable>>]>, IndexError> {
    let gone = previous.is_some_and(|index| a_backend_is_gone(index, backends));
    let mut tables = Vec::with_capacity(BUCKETS);
    for bucket in 0..=u8::MAX {
        let name = PartName::Routes(bucket);
        let Some(part) = snapshot.parts().get(&name) else {
            tables.push(None);
            continue;
        };
        let held = previous.and_then(|index| index.routes[usize::from(bucket)].as_ref());
        if let Some(held) = held.filter(|table| table.source() == part.hash())
            && (!gone || held.backends().iter().all(|id| is_live(backends, *id)))
        {
            tables.push(Some(Arc::clone(held)));
            continue;
        }
        let content = open(name, part)?;
        let content: &RoutesPart = match content.as_ref() {
            PartContent::Routes(content) => content,
            _ => return Err(wrong_kind(name)),
        };
        let table = RouteTable::build(bucket, part.hash(), content, backends, listeners)?;
        tables.push(Some(Arc::new(table)));
    }
    Ok(tables.into_boxed_slice())
}

/// True where a backend of the previous index has none of that number here: tables that name it are then built
/// again, which says where it is named.
fn a_backend_is_gone(index: &Index, backends: &Backends) -> bool {
    let pairs = index.backends.iter().zip(&backends.0);
    let changed = pairs.filter_map(|(before, now)| match (before, now) {
        (Some(before), Some(now)) if Arc::ptr_eq(before, now) => None,
        (before, _) => before.as_ref(),
    });
    changed
        .flat_map(|table| table.entries())
        .any(|entry| !is_live(backends, entry.id))
}

fn is_live(backends: &Backends, id: super::BackendId) -> bool {
    let (bucket, slot) = id.place();
    let table = backends.0[usize::from(bucket)].as_ref();
    table.is_some_and(|table| table.at(slot).is_some())
}

/// The part's content; one that is kept packed is read now, and let go of as soon as its table is built.
fn open(name: PartName, part: &Part) -> Result<Cow<'_, PartContent>, IndexError> {
    part.content().map_err(|error| match error {
        DecodeError::Part { part, at, why } => IndexError::at(part, at, why),
        other => IndexError::at(name, String::new(), other.to_string()),
    })
}

fn wrong_kind(part: PartName) -> IndexError {
    IndexError::at(part, String::new(), "has content of another kind")
}
