//! `routed-loadtest upstream`: a backend that is faster than what is measured before it.
//!
//! One thread accepts and hands connections to the others in turn; each of those runs its connections alone, so that
//! a request never changes its thread. (Several listeners on one port would be simpler, and would leave some threads
//! without work: the kernel spreads connections by a hash, and a load generator has few.)
//!
//! - [`connection`]: socket, TLS, HTTP. [`answer`]: what a request is answered, and how it fails. [`body`]: bodies.
//! - [`websocket`]: messages that come back.

mod answer;
mod body;
mod connection;
mod websocket;

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::LocalSet;
use tokio_rustls::TlsAcceptor;

use self::answer::Plan;
use crate::args::upstream::Upstream;

/// Pause after a failed accept: out of descriptors, most of the time.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Runs a backend until a signal or for as long as asked.
pub(crate) fn run(options: &Upstream) -> Result<()> {
    let address = start(options)?;
    let scheme = if options.tls_cert.is_some() {
        "https"
    } else {
        "http"
    };
    let mut out = std::io::stdout().lock();
    writeln!(out, "listening on {scheme}://{address}")?;
    out.flush()?;
    drop(out);
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(until_told(options.seconds))
}

/// Starts a backend that lives as long as the process; where it listens.
pub(crate) fn start(options: &Upstream) -> Result<SocketAddr> {
    let listener =
        TcpListener::bind(options.listen).with_context(|| format!("can't listen on {}", options.listen))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let tls = match (&options.tls_cert, &options.tls_key) {
        (Some(certificate), Some(key)) => Some(acceptor(certificate, key)?),
        _ => None,
    };
    let stall = options.stall_after.zip(options.stall_for);
    let plan = Arc::new(Plan::new(options.answer.clone(), stall));
    let workers: Vec<_> = (0..options.threads)
        .map(|number| worker(number, tls.clone(), plan.clone()))
        .collect::<Result<_>>()?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new()
        .name("accept".to_owned())
        .spawn(move || runtime.block_on(accept(listener, workers)))?;
    Ok(address)
}

fn worker(
    number: u16,
    tls: Option<TlsAcceptor>,
    plan: Arc<Plan>,
) -> Result<UnboundedSender<std::net::TcpStream>> {
    let (sender, receiver) = unbounded_channel();
    let runtime = Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new()
        .name(format!("upstream-{number}"))
        .spawn(move || LocalSet::new().block_on(&runtime, serve(receiver, tls, plan)))?;
    Ok(sender)
}

async fn serve(
    mut connections: UnboundedReceiver<std::net::TcpStream>,
    tls: Option<TlsAcceptor>,
    plan: Arc<Plan>,
) {
    while let Some(stream) = connections.recv().await {
        // From here on this thread's reactor watches it.
        if let Ok(stream) = TcpStream::from_std(stream) {
            tokio::task::spawn_local(connection::serve(stream, tls.clone(), plan.clone()));
        }
    }
}

async fn accept(listener: TcpListener, workers: Vec<UnboundedSender<std::net::TcpStream>>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
        return;
    };
    for worker in workers.iter().cycle() {
        let stream = loop {
            match listener.accept().await {
                Ok((stream, _)) => break stream,
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        };
        // An option that can't be set makes it slower, not wrong.
        drop(stream.set_nodelay(true));
        let Ok(stream) = stream.into_std() else { continue };
        if worker.send(stream).is_err() {
            return;
        }
    }
}

fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor> {
    let name = |path: &Path| format!("can't read {}", path.display());
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| name(certificate))?;
    let key = PrivateKeyDer::from_pem_file(key).with_context(|| name(key))?;
    let mut config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .context("the certificate and its key can't be used")?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Returns on a signal to end, or when the time is over.
async fn until_told(seconds: Option<f64>) -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let over = async {
        match seconds {
            Some(seconds) => tokio::time::sleep(Duration::from_secs_f64(seconds)).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        _ = terminate.recv() => {}
        () = over => {}
    }
    Ok(())
}
