//! The request path on a socket, with a snapshot of one rule (`/app` to one backend), and a backend that answers
//! from a script.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use routed::conn::{Connection, ListenerContext};
use routed::http::serve_connection;
use routed::shared::Shared;
use routed::worker::Worker;
use routed_snapshot::ir::{
    Action, Backend, BackendsPart, Endpoint, EndpointsPart, HeaderEdits, HttpMatch, HttpTable, PathMatch,
    Profile, ProfilesPart, RoutesPart, Rule, RuleTimeouts, Target, WeightedBackend,
};
use routed_snapshot::snapshot::{PartContent, bucket_of};
use routed_snapshot::{Index, Part, PartName, Snapshot};
use routed_sources::live::Publisher;

const LISTENER: &str = "default/default/http";
const BACKEND: &str = "Backend/t/b";
const RULE: &str = "EdgeRoute/t/app/0";

/// A router and its backend.
pub(crate) struct Rig {
    address: SocketAddr,
    shared: Arc<Shared>,
    seen: Arc<Mutex<Vec<String>>>,
    connections: Arc<AtomicUsize>,
}

impl Rig {
    /// A backend that gives these answers, in order; an empty one closes the connection.
    pub(crate) fn new(answers: &[&str]) -> Rig {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let backend = listener.local_addr().unwrap();
        let rig = Rig::start(backend);
        let answers: Vec<String> = answers.iter().map(|answer| (*answer).to_owned()).collect();
        let (seen, connections) = (rig.seen.clone(), rig.connections.clone());
        std::thread::spawn(move || run_backend(&listener, &answers, &seen, &connections));
        rig
    }

    /// A backend that nobody listens at.
    pub(crate) fn without_backend() -> Rig {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Rig::start(listener.local_addr().unwrap())
    }

    fn start(backend: SocketAddr) -> Rig {
        let (publisher, live) = Publisher::new();
        publisher.publish(Index::build(&snapshot(backend), None).unwrap());
        let shared = Shared::new(live, "default/default".into());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let of_thread = shared.clone();
        std::thread::spawn(move || run_router(listener, of_thread));
        Rig {
            address,
            shared,
            seen: Arc::default(),
            connections: Arc::default(),
        }
    }

    /// Where the router listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends bytes and reads until the other side closes.
    pub(crate) fn ask(&self, request: &str) -> String {
        exchange(self.address, request)
    }

    /// What the backend received.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }

    /// How many connections the backend accepted.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// The router's counters.
    pub(crate) fn metrics(&self) -> String {
        self.shared.stats.render()
    }
}

/// Sends bytes and reads until the other side closes.
pub(crate) fn exchange(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// The first line of this name in a message's head.
pub(crate) fn header_of<'a>(message: &'a str, name: &str) -> Option<&'a str> {
    let head = message.split("\r\n\r\n").next()?;
    let mut lines = head.split("\r\n").filter_map(|line| line.split_once(':'));
    lines
        .find(|(of, _)| of.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.trim())
}

fn run_router(listener: TcpListener, shared: Arc<Shared>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async move {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        let worker = Worker::new(shared);
        let context = Arc::new(ListenerContext {
            name: LISTENER.into(),
            profile: "default/default".into(),
            port: 8080,
            https: false,
        });
        let (_stop, drain) = tokio::sync::watch::channel(false);
        loop {
            let (stream, peer) = listener.accept().await.unwrap();
            let connection = Connection {
                peer,
                local: stream.local_addr().unwrap(),
                listener: context.clone(),
                tls: None,
                drain: drain.clone(),
            };
            tokio::task::spawn_local(serve_connection(stream, connection, worker.clone()));
        }
    });
}

fn run_backend(
    listener: &TcpListener,
    answers: &[String],
    seen: &Mutex<Vec<String>>,
    connections: &AtomicUsize,
) {
    let mut answers = answers.iter();
    while let Ok((mut stream, _)) = listener.accept() {
        connections.fetch_add(1, Ordering::Relaxed);
        while let Some(request) = read_request(&mut stream) {
            seen.lock().unwrap().push(request);
            let Some(answer) = answers.next() else { return };
            if answer.is_empty() {
                break;
            }
            stream.write_all(answer.as_bytes()).unwrap();
            if answer.starts_with("HTTP/1.1 101") {
                break;
            }
        }
    }
}

fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut request = String::new();
    let mut chunk = [0; 4096];
    loop {
        if let Some((_, body)) = request.split_once("\r\n\r\n") {
            let length = header_of(&request, "content-length").map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
                return Some(request);
            }
        }
        let read = stream.read(&mut chunk).ok().filter(|read| *read > 0)?;
        request.push_str(&String::from_utf8_lossy(&chunk[..read]));
    }
}

fn snapshot(backend: SocketAddr) -> Snapshot {
    let rule = Rule {
        name: None,
        action: Action::Forward {
            backends: vec![WeightedBackend {
                weight: 1,
                target: Target::Backend(BACKEND.into()),
                request_headers: HeaderEdits::default(),
                response_headers: HeaderEdits::default(),
            }],
        },
        request_headers: HeaderEdits::default(),
        response_headers: HeaderEdits::default(),
        rewrite: None,
        cors: None,
        mirrors: Vec::new(),
        timeouts: RuleTimeouts::default(),
        retry: None,
    };
    let table = HttpTable {
        host: "a.example".into(),
        listeners: vec![LISTENER.into()],
        matches: vec![HttpMatch {
            path: PathMatch::PathPrefix("/app".into()),
            method: None,
            headers: Vec::new(),
            query_params: Vec::new(),
            cookies: Vec::new(),
            rule: RULE.into(),
            index: 0,
        }],
    };
    let endpoint = Endpoint {
        address: backend.ip().to_string(),
        port: backend.port(),
        weight: 1,
    };
    let profiles = BTreeMap::from([("default/default".to_owned(), Profile::built_in())]);
    let routes = RoutesPart {
        rules: BTreeMap::from([(RULE.to_owned(), rule)]),
        tables: vec![table],
    };
    let backends = BTreeMap::from([(BACKEND.to_owned(), Backend::default())]);
    let endpoints = BTreeMap::from([(BACKEND.to_owned(), vec![endpoint])]);
    let bucket = bucket_of(BACKEND);
    let parts = [
        (
            PartName::Profiles,
            PartContent::Profiles(ProfilesPart { profiles }),
        ),
        (
            PartName::Routes(bucket_of("a.example")),
            PartContent::Routes(routes),
        ),
        (
            PartName::Backends(bucket),
            PartContent::Backends(BackendsPart { backends }),
        ),
        (
            PartName::Endpoints(bucket),
            PartContent::Endpoints(EndpointsPart { endpoints }),
        ),
    ];
    let parts = parts.map(|(name, content)| (name, Arc::new(Part::from_content(content).unwrap())));
    Snapshot::new(parts.into_iter().collect(), None)
}
