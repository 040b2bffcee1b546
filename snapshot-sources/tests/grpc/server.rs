//! A control plane for tests: a real tonic server that does as it is told, well or badly.
//!
//! It runs on a runtime of its own; dropping it ends every connection at once.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::Stream;
use futures_util::stream::poll_fn;
use routed_proto::report_service_server::{ReportService, ReportServiceServer};
use routed_proto::snapshot_service_server::{SnapshotService, SnapshotServiceServer};
use routed_proto::{Acknowledgement, KeyTable, ReportReply, SnapshotChunk, WatchRequest};
use routed_snapshot::Snapshot;
use routed_sources::assemble::deliver::Receiver;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio_rustls::TlsAcceptor;
use tonic::transport::server::Connected;
use tonic::{Request, Response, Status, Streaming};

/// What a stream does with a snapshot.
#[derive(Clone)]
pub enum Script {
    /// As the contract says.
    Honest,
    /// As a server that knows no other form: each snapshot as one JSON document.
    Whole,
    /// Answers, and never sends anything.
    Silent,
    /// Sends so many chunks of each delivery and then nothing more.
    Stalls(usize),
    /// Sends so many chunks of each delivery and then ends the stream.
    Cuts(usize),
    /// Changes the chunks of each delivery.
    Alters(Arc<dyn Fn(Vec<SnapshotChunk>) -> Vec<SnapshotChunk> + Send + Sync>),
}

impl Script {
    /// Changes the chunks of each delivery.
    pub fn alter(
        change: impl Fn(Vec<SnapshotChunk>) -> Vec<SnapshotChunk> + Send + Sync + 'static,
    ) -> Script {
        Script::Alters(Arc::new(change))
    }
}

/// Where it listens.
pub enum At {
    /// A port of 127.0.0.1; 0: any.
    Port(u16),
    /// An address.
    Address(SocketAddr),
    /// A port of 127.0.0.1 with TLS, by the configuration of the moment.
    Tls(Arc<dyn Fn() -> Arc<rustls::ServerConfig> + Send + Sync>),
    /// A Unix socket with this mode.
    Unix(PathBuf, u32),
}

struct State {
    snapshot: Option<Snapshot>,
    script: Script,
    keys: Option<KeyTable>,
    requests: Vec<WatchRequest>,
    acknowledgements: Vec<Acknowledgement>,
    opened: Vec<Instant>,
    open: usize,
    streams: u64,
}

struct Shared {
    state: Mutex<State>,
    changed: watch::Sender<u64>,
    ended: watch::Sender<u64>,
    /// Bytes written to clients, TLS apart.
    written: AtomicU64,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

/// The server.
pub struct Server {
    shared: Arc<Shared>,
    address: String,
    port: u16,
    runtime: Option<Runtime>,
}

impl Server {
    /// Serves this snapshot on any port.
    pub fn start(snapshot: &Snapshot) -> Server {
        let server = Server::at(At::Port(0));
        server.set(snapshot);
        server
    }

    /// Serves nothing yet.
    pub fn at(at: At) -> Server {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                snapshot: None,
                script: Script::Honest,
                keys: None,
                requests: Vec::new(),
                acknowledgements: Vec::new(),
                opened: Vec::new(),
                open: 0,
                streams: 0,
            }),
            changed: watch::Sender::new(0),
            ended: watch::Sender::new(0),
            written: AtomicU64::new(0),
        });
        let (address, port) = runtime.block_on(listen(at, shared.clone()));
        Server {
            shared,
            address,
            port,
            runtime: Some(runtime),
        }
    }

    /// As `--snapshot-addr` takes it.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The TCP port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Serves this snapshot from now on.
    pub fn set(&self, snapshot: &Snapshot) {
        self.shared.state().snapshot = Some(snapshot.clone());
        self.shared.changed.send_modify(|changes| *changes += 1);
    }

    /// Does this with the deliveries that follow.
    pub fn script(&self, script: Script) {
        self.shared.state().script = script;
    }

    /// Sends these keys, whoever asks.
    pub fn keys(&self, keys: KeyTable) {
        self.shared.state().keys = Some(keys);
        self.shared.changed.send_modify(|changes| *changes += 1);
    }

    /// Ends the streams that run.
    pub fn end_streams(&self) {
        self.shared.ended.send_modify(|ended| *ended += 1);
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<WatchRequest> {
        self.shared.state().requests.clone()
    }

    /// When each stream was opened.
    pub fn opened(&self) -> Vec<Instant> {
        self.shared.state().opened.clone()
    }

    /// Streams that run.
    pub fn open(&self) -> usize {
        self.shared.state().open
    }

    /// The acknowledgements so far.
    pub fn acknowledgements(&self) -> Vec<Acknowledgement> {
        self.shared.state().acknowledgements.clone()
    }

    /// Bytes written to clients so far.
    pub fn written(&self) -> u64 {
        self.shared.written.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn listen(at: At, shared: Arc<Shared>) -> (String, u16) {
    let (sender, receiver) = mpsc::channel::<Counted>(16);
    let counted = {
        let shared = shared.clone();
        move |io: Box<dyn Io>| Counted {
            io,
            shared: shared.clone(),
        }
    };
    let placed = match at {
        At::Unix(path, mode) => {
            listen_unix(&path, mode, sender, counted);
            (format!("unix:{}", path.display()), 0)
        }
        At::Port(port) => listen_tcp(([127, 0, 0, 1], port).into(), None, sender, counted).await,
        At::Address(address) => listen_tcp(address, None, sender, counted).await,
        At::Tls(config) => listen_tcp(([127, 0, 0, 1], 0).into(), Some(config), sender, counted).await,
    };
    let mut receiver = receiver;
    let incoming = poll_fn(move |cx| receiver.poll_recv(cx).map(|next| next.map(Ok::<_, io::Error>)));
    let served = tonic::transport::Server::builder()
        .http2_keepalive_interval(Some(Duration::from_secs(10)))
        .http2_keepalive_timeout(Some(Duration::from_secs(10)))
        .add_service(SnapshotServiceServer::new(Service(shared.clone())))
        .add_service(ReportServiceServer::new(Service(shared)))
        .serve_with_incoming(incoming);
    tokio::spawn(async move { drop(served.await) });
    placed
}

type ServerTls = Arc<dyn Fn() -> Arc<rustls::ServerConfig> + Send + Sync>;

async fn listen_tcp(
    address: SocketAddr,
    tls: Option<ServerTls>,
    sender: mpsc::Sender<Counted>,
    counted: impl Fn(Box<dyn Io>) -> Counted + Clone + Send + 'static,
) -> (String, u16) {
    let listener = TcpListener::bind(address).await.unwrap();
    let address = listener.local_addr().unwrap();
    let scheme = if tls.is_some() { "https" } else { "http" };
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            stream.set_nodelay(true).unwrap();
            let (tls, sender, counted) = (tls.clone(), sender.clone(), counted.clone());
            tokio::spawn(async move {
                let io: Box<dyn Io> = match tls {
                    None => Box::new(stream),
                    Some(config) => match TlsAcceptor::from(config()).accept(stream).await {
                        Ok(stream) => Box::new(stream),
                        Err(_) => return,
                    },
                };
                let _ = sender.send(counted(io)).await;
            });
        }
    });
    (format!("{scheme}://{address}"), address.port())
}

fn listen_unix(
    path: &Path,
    mode: u32,
    sender: mpsc::Sender<Counted>,
    counted: impl Fn(Box<dyn Io>) -> Counted + Send + 'static,
) {
    use std::os::unix::fs::PermissionsExt;
    let listener = UnixListener::bind(path).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = sender.send(counted(Box::new(stream))).await;
        }
    });
}

struct Service(Arc<Shared>);

type Chunks = Pin<Box<dyn Stream<Item = Result<SnapshotChunk, Status>> + Send>>;

#[tonic::async_trait]
impl SnapshotService for Service {
    type WatchStream = Chunks;

    async fn watch(&self, request: Request<WatchRequest>) -> Result<Response<Chunks>, Status> {
        let request = request.into_inner();
        let number = {
            let mut state = self.0.state();
            state.requests.push(request.clone());
            state.opened.push(Instant::now());
            state.open += 1;
            state.streams += 1;
            state.streams
        };
        let (sender, mut receiver) = mpsc::channel(4);
        let shared = self.0.clone();
        tokio::spawn(async move {
            let mut ended = shared.ended.subscribe();
            tokio::select! {
                () = send(&shared, &request, number, &sender) => {}
                _ = ended.changed() => {}
                () = sender.closed() => {}
            }
            shared.state().open -= 1;
        });
        Ok(Response::new(Box::pin(poll_fn(move |cx| receiver.poll_recv(cx)))))
    }
}

/// Sends each snapshot; returns where the stream is to end.
async fn send(
    shared: &Shared,
    request: &WatchRequest,
    number: u64,
    sender: &mpsc::Sender<Result<SnapshotChunk, Status>>,
) {
    let mut receiver = Receiver::of(request);
    let id = format!("stream-{number}");
    let mut changed = shared.changed.subscribe();
    changed.mark_changed();
    let (mut sent_keys, mut sent_position) = (None, None);
    while changed.changed().await.is_ok() {
        let (snapshot, script, keys) = {
            let state = shared.state();
            (state.snapshot.clone(), state.script.clone(), state.keys.clone())
        };
        if keys.is_some() && keys != sent_keys {
            sent_keys.clone_from(&keys);
            let chunk = SnapshotChunk {
                keys,
                ..SnapshotChunk::default()
            };
            if sender.send(Ok(chunk)).await.is_err() {
                return;
            }
        }
        let Some(snapshot) = snapshot else { continue };
        let sent = Some((snapshot.hash(), snapshot.position().cloned()));
        if sent == sent_position {
            continue;
        }
        sent_position = sent;
        let (chunks, then) = scripted(&snapshot, script, request, &mut receiver, &id);
        for chunk in chunks {
            if sender.send(Ok(chunk)).await.is_err() {
                return;
            }
        }
        match then {
            Then::GoesOn => {}
            Then::Ends => return,
            Then::Stalls => std::future::pending().await,
        }
    }
}

enum Then {
    GoesOn,
    Ends,
    Stalls,
}

fn scripted(
    snapshot: &Snapshot,
    script: Script,
    request: &WatchRequest,
    receiver: &mut Receiver,
    id: &str,
) -> (Vec<SnapshotChunk>, Then) {
    let whole = || SnapshotChunk {
        snapshot_json: String::from_utf8(snapshot.encode()).unwrap(),
        ..SnapshotChunk::default()
    };
    let mut deliver = || receiver.deliver(snapshot, id);
    match script {
        Script::Whole => (vec![whole()], Then::GoesOn),
        _ if !request.accepts_parts => (vec![whole()], Then::GoesOn),
        Script::Honest => (deliver(), Then::GoesOn),
        Script::Silent => (Vec::new(), Then::Stalls),
        Script::Alters(change) => (change(deliver()), Then::GoesOn),
        Script::Stalls(count) => (deliver().into_iter().take(count).collect(), Then::Stalls),
        Script::Cuts(count) => (deliver().into_iter().take(count).collect(), Then::Ends),
    }
}

type Replies = Pin<Box<dyn Stream<Item = Result<ReportReply, Status>> + Send>>;

#[tonic::async_trait]
impl ReportService for Service {
    type ReportStream = Replies;

    async fn report(
        &self,
        request: Request<Streaming<Acknowledgement>>,
    ) -> Result<Response<Replies>, Status> {
        let mut incoming = request.into_inner();
        let (sender, mut receiver) = mpsc::channel(4);
        let shared = self.0.clone();
        tokio::spawn(async move {
            let mut ended = shared.ended.subscribe();
            loop {
                let next = tokio::select! {
                    next = incoming.message() => next,
                    _ = ended.changed() => return,
                };
                let Ok(Some(acknowledgement)) = next else { return };
                let sequence = acknowledgement.sequence;
                shared.state().acknowledgements.push(acknowledgement);
                if sender.send(Ok(ReportReply { sequence })).await.is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(Box::pin(poll_fn(move |cx| receiver.poll_recv(cx)))))
    }
}

trait Io: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

/// A connection whose written bytes are counted.
struct Counted {
    io: Box<dyn Io>,
    shared: Arc<Shared>,
}

impl Connected for Counted {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, bytes);
        if let Poll::Ready(Ok(count)) = written {
            self.shared.written.fetch_add(count as u64, Ordering::SeqCst);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
