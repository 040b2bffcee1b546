//! A router as a child process, and clients without a library between the test and the bytes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};

/// How long anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A running router; killed when dropped.
pub(crate) struct Router {
    child: Child,
    log: Arc<Mutex<Vec<serde_json::Value>>>,
}

impl Router {
    /// Starts `routed serve` with two workers, the admin interface on a free port, and these flags.
    pub(crate) fn start(flags: &[&str]) -> Router {
        Router::spawn(Command::new(env!("CARGO_BIN_EXE_routed")), "127.0.0.1:0", flags)
    }

    /// The same with the admin interface there.
    pub(crate) fn start_at(admin: &str, flags: &[&str]) -> Router {
        Router::spawn(Command::new(env!("CARGO_BIN_EXE_routed")), admin, flags)
    }

    fn spawn(mut command: Command, admin: &str, flags: &[&str]) -> Router {
        command
            .args([
                "serve",
                &format!("--admin-addr={admin}"),
                "--workers=2",
                "--poll-interval=50ms",
            ])
            .args(flags)
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let log: Arc<Mutex<Vec<serde_json::Value>>> = Arc::default();
        let kept = log.clone();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                kept.lock().unwrap().extend(serde_json::from_str(&line).ok());
            }
        });
        Router { child, log }
    }

    /// The address a listener was last announced with.
    pub(crate) fn address(&self, listener: &str) -> SocketAddr {
        let find = || {
            let log = self.log.lock().unwrap();
            let line = log
                .iter()
                .rev()
                .find(|l| l["message"] == "listening" && l["listener"] == listener)?;
            line["address"].as_str()?.parse().ok()
        };
        eventually(&format!("{listener} announced"), find)
    }

    /// Whether a line with this text was logged.
    pub(crate) fn logged(&self, text: &str) -> bool {
        self.count_logged(text) > 0
    }

    /// How many lines with this text were logged.
    pub(crate) fn count_logged(&self, text: &str) -> usize {
        let log = self.log.lock().unwrap();
        log.iter().filter(|line| line.to_string().contains(text)).count()
    }

    /// An admin page: status and body.
    pub(crate) fn admin(&self, path: &str) -> (u16, String) {
        get(self.address("admin"), "admin", path).expect("the admin interface answers")
    }

    /// Waits until it is ready.
    pub(crate) fn ready(&self) {
        eventually("ready", || (self.admin("/readyz").0 == 200).then_some(()));
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by name.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-s", name, &pid])
                .status()
                .unwrap()
                .success()
        );
    }

    /// Its exit code, once it has ended.
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        eventually("the process ended", || self.child.try_wait().unwrap()).code()
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks until there is an answer.
pub(crate) fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(begun.elapsed() < PATIENCE, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A port nobody listens on at the moment.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

/// Replaces a file in one step.
pub(crate) fn write(path: &Path, content: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, content).unwrap();
    std::fs::rename(new, path).unwrap();
}

/// One GET by plain HTTP/1.1; none where the connection fails.
pub(crate) fn get(address: SocketAddr, host: &str, path: &str) -> Option<(u16, String)> {
    exchange(connect(address)?, host, path)
}

/// A TLS connection to whoever answers, without judging the certificate.
pub(crate) fn handshake(
    address: SocketAddr,
    name: Option<&str>,
) -> Result<StreamOwned<ClientConnection, TcpStream>, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody))
        .with_no_client_auth();
    config.enable_sni = name.is_some();
    let name = ServerName::try_from(name.unwrap_or("unnamed.example").to_owned()).unwrap();
    let mut connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = connect(address).ok_or("no connection")?;
    while connection.is_handshaking() {
        connection
            .complete_io(&mut stream)
            .map_err(|error| error.to_string())?;
    }
    Ok(StreamOwned::new(connection, stream))
}

/// The leaf certificate that is shown for a name.
pub(crate) fn shown(address: SocketAddr, name: Option<&str>) -> Result<Vec<u8>, String> {
    let stream = handshake(address, name)?;
    Ok(stream.conn.peer_certificates().unwrap()[0].to_vec())
}

/// One GET over a stream that is then closed.
pub(crate) fn exchange(mut stream: impl Read + Write, host: &str, path: &str) -> Option<(u16, String)> {
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"
    )
    .ok()?;
    let mut answer = Vec::new();
    // A TLS peer may close without notice once the response is whole.
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

/// A connection with time limits.
pub(crate) fn connect(address: SocketAddr) -> Option<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    Some(stream)
}

#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::aws_lc_rs::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}
