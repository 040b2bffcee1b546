//! The listeners: what the profile asks for, held against what is bound.
//!
//! - [`bind`]: making the sockets.
//!
//! Sockets are keyed by address and port. What stands behind one (the listener's name, TLS, certificates) is replaced
//! by a single store that the next accepted connection sees, so a renamed listener or one that starts TLS never
//! closes its port. Connections of what it was before are told to end: they would go on speaking for a listener that
//! is no more, by a protocol that is no longer asked for. Removals come before additions, so that `0.0.0.0:80` can become `127.0.0.1:80`.
//!
//! A listener that can't be bound is shown, keeps the process not ready, and is tried again every second; the others
//! serve. Of two listeners on one address and port the first by name is served, and the other shown as in error.

mod bind;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use routed_snapshot::ir;
use routed_sources::KeyTable;
use serde::Serialize;
use tokio::sync::watch;

use crate::accept::{Accepting, Target};
use crate::conn::ListenerContext;
use crate::process_stats::ProcessStats;
use crate::tls::Terminator;
use crate::tls::certificates::{CertificateView, Certificates};
use crate::tls::table::CertificateTable;
use crate::workers::Workers;

/// Where a listener is bound. Port 0 means any port: there the name keeps two listeners apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    address: SocketAddr,
    name: Option<String>,
}

/// Where each listener of a profile belongs, with its name.
type Wanted<'p> = BTreeMap<Place, (&'p str, &'p ir::Listener)>;

/// A bound listener.
#[derive(Debug)]
struct Bound {
    id: u64,
    address: SocketAddr,
    target: Arc<ArcSwap<Target>>,
    tls: Option<Arc<Terminator>>,
    drain: watch::Sender<bool>,
}

impl Drop for Bound {
    /// However a listener goes (a removal may be cut short by the drain), its connections are told.
    fn drop(&mut self) {
        self.drain.send_replace(true);
    }
}

/// The listeners as people see them.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct ListenersView {
    /// Whether a profile was applied at all.
    #[serde(skip)]
    pub(crate) applied: bool,
    /// Why the profile is not the one asked for.
    #[serde(skip)]
    pub(crate) problem: Option<String>,
    /// Each listener of the profile.
    pub(crate) listeners: Vec<ListenerView>,
    /// Each certificate of the profile.
    pub(crate) certificates: Vec<CertificateView>,
}

/// One listener as people see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ListenerView {
    /// `namespace/profile/listener`.
    pub(crate) name: String,
    /// Where it is bound.
    pub(crate) bound: Option<SocketAddr>,
    /// Why it is not.
    pub(crate) problem: Option<String>,
}

/// The listeners of the process.
#[derive(Debug)]
pub(crate) struct Listeners {
    profile: String,
    /// Never a data port.
    admin: Option<SocketAddr>,
    workers: Workers,
    stats: Arc<ProcessStats>,
    bound: BTreeMap<Place, Bound>,
    problems: BTreeMap<String, String>,
    certificates: Certificates,
    next_id: u64,
}

impl Listeners {
    /// None yet.
    pub(crate) fn new(
        profile: String,
        admin: Option<SocketAddr>,
        workers: Workers,
        stats: Arc<ProcessStats>,
    ) -> Listeners {
        Listeners {
            profile,
            admin,
            workers,
            stats,
            bound: BTreeMap::new(),
            problems: BTreeMap::new(),
            certificates: Certificates::default(),
            next_id: 0,
        }
    }

    /// Brings what is bound in line with the profile.
    pub(crate) async fn apply(&mut self, profile: &ir::Profile, keys: &KeyTable) {
        self.certificates.refresh(profile, keys);
        let (wanted, mut problems) = self.places(profile);
        let gone: Vec<Place> = self
            .bound
            .keys()
            .filter(|place| !wanted.contains_key(place))
            .cloned()
            .collect();
        for place in gone {
            self.close(&place).await;
        }
        for (place, (name, listener)) in wanted {
            if let Err(problem) = self.serve(&place, name, listener, profile) {
                self.stats.bind_errors.add(1);
                problems.insert(name.to_owned(), problem);
            }
        }
        for (listener, problem) in &problems {
            if self.problems.get(listener) != Some(problem) {
                tracing::error!(listener = self.full_name(listener), problem, "listener not bound");
            }
        }
        self.problems = problems;
    }

    /// Tries again what is not bound, and looks at certificates.
    pub(crate) async fn revisit(&mut self, profile: &ir::Profile, keys: &KeyTable) {
        if self.certificates.refresh(profile, keys) || !self.problems.is_empty() {
            self.apply(profile, keys).await;
        }
    }

    /// Closes all, telling their connections to end.
    pub(crate) async fn close_all(&mut self) {
        let places: Vec<Place> = self.bound.keys().cloned().collect();
        for place in places {
            self.close(&place).await;
        }
    }

    /// Connections open.
    pub(crate) fn open(&self) -> usize {
        self.workers.open().count()
    }

    /// For people.
    pub(crate) fn view(&self, profile: &ir::Profile) -> ListenersView {
        let bound_at = |name: &str| {
            let full = self.full_name(name);
            self.bound
                .values()
                .find(|bound| bound.target.load().context.name == full)
                .map(|bound| bound.address)
        };
        let view = |name: &String| ListenerView {
            name: self.full_name(name),
            bound: bound_at(name),
            problem: self.problems.get(name).cloned(),
        };
        ListenersView {
            applied: true,
            problem: None,
            listeners: profile.listeners.keys().map(view).collect(),
            certificates: self.certificates.view(),
        }
    }

    fn full_name(&self, listener: &str) -> String {
        format!("{}/{listener}", self.profile)
    }

    /// Where each listener belongs, and which can't be bound whatever the system says.
    fn places<'p>(&self, profile: &'p ir::Profile) -> (Wanted<'p>, BTreeMap<String, String>) {
        let mut wanted: Wanted<'p> = BTreeMap::new();
        let mut problems = BTreeMap::new();
        for (name, listener) in &profile.listeners {
            let Ok(ip) = listener.address.parse::<IpAddr>() else {
                problems.insert(
                    name.clone(),
                    format!("`{}` is not an IP address", listener.address),
                );
                continue;
            };
            let address = SocketAddr::new(ip, listener.port);
            let place = Place {
                address,
                name: (listener.port == 0).then(|| name.clone()),
            };
            if let Some((first, _)) = wanted.get(&place) {
                problems.insert(name.clone(), format!("{address} is listener `{first}`'s"));
            } else if self.admin.is_some_and(|admin| overlaps(admin, address)) {
                problems.insert(name.clone(), format!("{address} is the admin interface's"));
            } else {
                wanted.insert(place, (name, listener));
            }
        }
        (wanted, problems)
    }

    fn serve(
        &mut self,
        place: &Place,
        name: &str,
        listener: &ir::Listener,
        profile: &ir::Profile,
    ) -> Result<(), String> {
        let held = self.bound.get(place);
        let terminator = match listener.protocol {
            ir::ListenerProtocol::Http => None,
            ir::ListenerProtocol::Https => Some(match held.and_then(|held| held.tls.clone()) {
                Some(terminator) => terminator,
                None => Arc::new(Terminator::new().map_err(|error| format!("TLS: {error}"))?),
            }),
        };
        if let (Some(terminator), Some(tls)) = (&terminator, &listener.tls) {
            let ids: Vec<_> = Certificates::of(tls).collect();
            terminator.serve(CertificateTable::new(
                ids.iter().map(|id| self.certificates.served(id)),
            ));
        }
        let context = ListenerContext {
            name: self.full_name(name),
            profile: self.profile.clone(),
            port: match held {
                Some(held) if listener.port == 0 => held.address.port(),
                _ => listener.port,
            },
            https: terminator.is_some(),
        };
        let same = held.filter(|held| *held.target.load().context == context);
        let drain = same.map_or_else(|| watch::channel(false).0, |same| same.drain.clone());
        let changed = same.is_none();
        let target = Target {
            context: Arc::new(context),
            tls: terminator.clone(),
            handshake: Duration::from_millis(profile.timeouts.handshake_ms),
            drain: drain.subscribe(),
        };
        let Some(held) = self.bound.get_mut(place) else {
            return self.open_place(place, target, drain);
        };
        let before = held.target.swap(Arc::new(target));
        held.tls = terminator;
        if changed {
            // Only now: whoever comes from here on is already the new listener's.
            std::mem::replace(&mut held.drain, drain).send_replace(true);
            tracing::info!(
                listener = held.target.load().context.name,
                before = before.context.name,
                address = %held.address,
                "replaced; connections of before end"
            );
        }
        Ok(())
    }

    fn open_place(
        &mut self,
        place: &Place,
        mut target: Target,
        drain: watch::Sender<bool>,
    ) -> Result<(), String> {
        let sockets = bind::bind(place.address, self.workers.count())
            .map_err(|error| format!("{}: {}", place.address, bind::explain(&error)))?;
        let address = sockets.address;
        if place.address.port() == 0 {
            // Redirects and `X-Forwarded-Port` name the port that clients use.
            Arc::make_mut(&mut target.context).port = address.port();
        }
        tracing::info!(listener = target.context.name, %address, "listening");
        let tls = target.tls.clone();
        let target = Arc::new(ArcSwap::from_pointee(target));
        let accepting = |socket| Accepting {
            socket,
            target: target.clone(),
            open: self.workers.open().clone(),
            stats: self.stats.clone(),
        };
        let id = self.next_id;
        self.next_id += 1;
        self.workers
            .add(id, sockets.sockets.into_iter().map(accepting).collect());
        self.bound.insert(
            place.clone(),
            Bound {
                id,
                address,
                target,
                tls,
                drain,
            },
        );
        Ok(())
    }

    async fn close(&mut self, place: &Place) {
        let Some(bound) = self.bound.remove(place) else {
            return;
        };
        self.workers.remove(bound.id).await;
        tracing::info!(listener = bound.target.load().context.name, address = %bound.address, "closed");
    }
}

/// Whether binding both would clash, or let one take the other's connections.
fn overlaps(admin: SocketAddr, data: SocketAddr) -> bool {
    let any = admin.ip().is_unspecified() || data.ip().is_unspecified();
    admin.port() != 0 && admin.port() == data.port() && (any || admin.ip() == data.ip())
}
