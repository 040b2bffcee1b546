//! The listeners: what the profile asks for, held against what is bound.
//!
//! - [`sockets`]: the listening descriptors of one address.
//!
//! Sockets are keyed by address and port. What stands behind one (the listener's name, TLS, certificates) is replaced
//! by a single store that the next accepted connection sees, so a renamed listener or one that starts TLS never
//! closes its port. Connections of what it was before are told to end: they would go on speaking for a listener that
//! is no more, by a protocol that is no longer asked for. Removals come before additions, so that `0.0.0.0:80` can become `127.0.0.1:80`.
//!
//! A listener that can't be bound is shown, keeps the process not ready, and is tried again every second; the others
//! serve. Of two listeners on one address and port the first by name is served, and the other shown as in error.

mod sockets;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use routed_snapshot::ir;
use routed_sources::KeyTable;
use serde::Serialize;
use sockets::Sockets;
use tokio::sync::watch;

use crate::accept::{Accepting, Intake, Target};
use crate::conn::ListenerContext;
use crate::process_stats::ProcessStats;
use crate::tls::Terminator;
use crate::tls::certificates::{CertificateView, Certificates};
use crate::tls::table::CertificateTable;
use crate::workers::{Open, Workers};

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
    sockets: Sockets,
    intake: Intake,
    tls: Option<Arc<Terminator>>,
    leave: Leave,
}

/// Tells the connections of a listener to end: however it goes, by being dropped.
#[derive(Debug, Default)]
struct Leave(watch::Sender<bool>);

impl Drop for Leave {
    fn drop(&mut self) {
        self.0.send_replace(true);
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
    /// How many sockets listen there, one per worker.
    pub(crate) sockets: usize,
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
    /// Workers that were lost and could not be replaced yet.
    missing: BTreeSet<usize>,
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
            missing: BTreeSet::new(),
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
        self.close(gone).await;
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

    /// Tries again what is not bound and who is missing, and looks at certificates.
    pub(crate) async fn revisit(&mut self, profile: &ir::Profile, keys: &KeyTable) {
        for number in self.missing.clone() {
            self.replace_worker(number);
        }
        if self.certificates.refresh(profile, keys) || !self.problems.is_empty() {
            self.apply(profile, keys).await;
        }
    }

    /// Closes all, telling their connections to end.
    pub(crate) async fn close_all(&mut self) {
        self.close(self.bound.keys().cloned().collect()).await;
    }

    /// Ends when a worker's thread has: with its number, for [`Listeners::replace_worker`].
    pub(crate) async fn worker_lost(&mut self) -> usize {
        self.workers.lost().await
    }

    /// Puts a new thread in the place of one that was lost, and has it accept what waits in that one's queues.
    pub(crate) fn replace_worker(&mut self, number: usize) {
        if let Err(error) = self.workers.replace(number) {
            tracing::error!(%error, worker = number, "a worker was lost and can't be replaced; tried again");
            self.missing.insert(number);
            return;
        }
        self.missing.remove(&number);
        for bound in self.bound.values() {
            bound.accept_on(number, &self.workers);
        }
        tracing::error!(
            worker = number,
            "a worker was lost, with its connections, and is replaced"
        );
    }

    /// Connections open.
    pub(crate) fn open_connections(&self) -> Open {
        self.workers.open().clone()
    }

    /// For people.
    pub(crate) fn view(&self, profile: &ir::Profile) -> ListenersView {
        let view = |name: &String| {
            let full = self.full_name(name);
            let mut all = self.bound.values();
            let bound = all.find(|bound| bound.intake.target.load().context.name == full);
            ListenerView {
                name: full,
                bound: bound.map(|bound| bound.sockets.address()),
                sockets: bound.map_or(0, |bound| bound.sockets.descriptors().len()),
                problem: self.problems.get(name).cloned(),
            }
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
                Some(held) if listener.port == 0 => held.sockets.address().port(),
                _ => listener.port,
            },
            https: terminator.is_some(),
        };
        let context = Arc::new(context);
        let target = |leave: &Leave| Target {
            context: context.clone(),
            tls: terminator.clone(),
            handshake: Duration::from_millis(profile.timeouts.handshake_ms),
            drain: leave.0.subscribe(),
        };
        let Some(held) = self.bound.get_mut(place) else {
            let leave = Leave::default();
            return self.open_place(place, target(&leave), leave);
        };
        let same = held.intake.target.load().context == context;
        let fresh = (!same).then(Leave::default);
        let target = target(fresh.as_ref().unwrap_or(&held.leave));
        let before = held.intake.target.swap(Arc::new(target));
        held.tls.clone_from(&terminator);
        if let Some(fresh) = fresh {
            // Only now: whoever comes from here on is already the new listener's.
            drop(std::mem::replace(&mut held.leave, fresh));
            tracing::info!(
                listener = held.intake.target.load().context.name,
                before = before.context.name,
                address = %held.sockets.address(),
                "replaced; connections of before end"
            );
        }
        Ok(())
    }

    fn open_place(&mut self, place: &Place, mut target: Target, leave: Leave) -> Result<(), String> {
        let sockets = Sockets::bind(place.address, self.workers.count())
            .map_err(|error| format!("{}: {}", place.address, sockets::explain(&error)))?;
        let address = sockets.address();
        if place.address.port() == 0 {
            // Redirects and `X-Forwarded-Port` name the port that clients use.
            Arc::make_mut(&mut target.context).port = address.port();
        }
        tracing::info!(listener = target.context.name, %address, "listening");
        let bound = Bound {
            id: self.next_id,
            tls: target.tls.clone(),
            intake: Intake {
                target: Arc::new(ArcSwap::from_pointee(target)),
                open: self.workers.open().clone(),
                stats: self.stats.clone(),
            },
            sockets,
            leave,
        };
        self.next_id += 1;
        for worker in 0..self.workers.count() {
            bound.accept_on(worker, &self.workers);
        }
        self.bound.insert(place.clone(), bound);
        Ok(())
    }

    /// Closes sets of sockets once what their queues hold is accepted, and tells their connections to end.
    async fn close(&mut self, places: Vec<Place>) {
        let closing: Vec<Bound> = places
            .iter()
            .filter_map(|place| self.bound.remove(place))
            .collect();
        // All at once: they share the wait.
        let turned_away = closing.iter().filter(|bound| bound.sockets.turn_away()).count();
        if turned_away > 0 {
            tokio::time::sleep(sockets::HANDSHAKES).await;
        }
        for bound in closing {
            self.workers.remove(bound.id).await;
            let listener = bound.intake.target.load().context.clone();
            let address = bound.sockets.address();
            let serve = |worker, stream, peer| {
                self.workers.serve(worker, bound.intake.arrival(stream, peer));
            };
            bound.sockets.drain(serve).await;
            drop(bound.leave);
            tracing::info!(listener = listener.name, %address, "closed");
        }
    }
}

impl Bound {
    /// Has a worker accept on its socket.
    fn accept_on(&self, worker: usize, workers: &Workers) {
        if let Some(socket) = self.sockets.share(worker) {
            let intake = self.intake.clone();
            workers.add(worker, self.id, Accepting { socket, intake });
        }
    }
}

/// Whether binding both would clash, or let one take the other's connections.
fn overlaps(admin: SocketAddr, data: SocketAddr) -> bool {
    let any = admin.ip().is_unspecified() || data.ip().is_unspecified();
    admin.port() != 0 && admin.port() == data.port() && (any || admin.ip() == data.ip())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test may fail
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    use routed_sources::Publisher;
    use tokio::time::timeout;

    use super::*;
    use crate::shared::Shared;

    const PATIENCE: Duration = Duration::from_secs(20);

    /// One plain listener on a free port, and its address.
    async fn listening(workers: usize) -> (Listeners, SocketAddr) {
        let (_, live) = Publisher::new();
        let shared = Shared::new(live, "default/default".into());
        let workers = Workers::start(workers, &shared).unwrap();
        let mut listeners = Listeners::new("default/default".into(), None, workers, Arc::default());
        let mut profile = ir::Profile::built_in();
        for listener in profile.listeners.values_mut() {
            listener.address = "127.0.0.1".into();
            listener.port = 0;
        }
        listeners.apply(&profile, &KeyTable::default()).await;
        let address = listeners.view(&profile).listeners[0].bound.unwrap();
        (listeners, address)
    }

    /// The first bytes of an answer to a client that connects now and waits as long as need be.
    fn ask(address: SocketAddr) -> tokio::task::JoinHandle<Vec<u8>> {
        let mut stream = TcpStream::connect(address).unwrap();
        tokio::task::spawn_blocking(move || {
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
            let mut answer = vec![0; 12];
            stream.read_exact(&mut answer).unwrap();
            answer
        })
    }

    #[tokio::test]
    async fn connections_that_wait_for_a_lost_worker_are_served_by_the_one_in_its_place() {
        let (mut listeners, address) = listening(1).await;
        listeners.workers.lose(0);
        let lost = timeout(PATIENCE, listeners.worker_lost()).await.unwrap();
        let clients: Vec<_> = (0..5).map(|_| ask(address)).collect();
        listeners.replace_worker(lost);
        for client in clients {
            assert_eq!(client.await.unwrap(), b"HTTP/1.1 503", "nothing is published yet");
        }
    }

    #[tokio::test]
    async fn a_removal_serves_what_waits_though_the_worker_it_waits_for_is_lost() {
        let (mut listeners, address) = listening(2).await;
        listeners.workers.lose(1);
        timeout(PATIENCE, listeners.worker_lost()).await.unwrap();
        let clients: Vec<_> = (0..20).map(|_| ask(address)).collect();
        timeout(PATIENCE, listeners.close_all()).await.unwrap();
        for client in clients {
            assert_eq!(client.await.unwrap(), b"HTTP/1.1 503");
        }
        assert!(TcpStream::connect(address).is_err(), "closed");
    }
}
