//! TLS, Unix sockets, and what may travel over them: keys. Row K7.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use routed_proto::KeyTable;
use routed_snapshot::ir::{CertificateRef, Listener, ListenerProtocol, ListenerTls, Profile, ProfilesPart};
use routed_snapshot::snapshot::PartContent;
use routed_snapshot::{Part, PartName, Snapshot};
use routed_sources::channel::TlsFiles;
use routed_sources::{GrpcConfig, Keys, Publisher, Source};
use rustls::RootCertStore;
use rustls::crypto::aws_lc_rs;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::PrivateKeyDer;

use crate::common::{Running, position, snapshot, until};
use crate::rig::config;
use crate::server::{At, Server};

fn at(body: &str, version: u64) -> Snapshot {
    snapshot(body, Some(position("c", version)))
}

/// An authority that signs certificates.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    der: rustls_pki_types::CertificateDer<'static>,
}

impl Authority {
    fn new() -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        Authority {
            pem: certificate.pem(),
            der: certificate.der().clone(),
            issuer: Issuer::new(params, key),
        }
    }

    /// A certificate for this name, and its key.
    fn sign(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).unwrap();
        roots
    }

    /// The configuration of a server of this name; `clients` signs those whom it lets in.
    fn server(&self, name: &str, clients: Option<&Authority>) -> Arc<rustls::ServerConfig> {
        let (certificate, key) = self.sign(name);
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = rustls::ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(clients) => {
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(clients.roots()), provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let mut config = builder
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Arc::new(config)
    }
}

/// A TLS server whose configuration can be changed.
struct TlsServer {
    server: Server,
    config: Arc<Mutex<Arc<rustls::ServerConfig>>>,
}

impl TlsServer {
    fn new(config: Arc<rustls::ServerConfig>) -> TlsServer {
        let config = Arc::new(Mutex::new(config));
        let present = config.clone();
        let server = Server::at(At::Tls(Arc::new(move || present.lock().unwrap().clone())));
        TlsServer { server, config }
    }

    fn change(&self, config: Arc<rustls::ServerConfig>) {
        *self.config.lock().unwrap() = config;
    }
}

/// The files that a router is given.
struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn new() -> Files {
        Files {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn trust(&self, authority: &Authority) {
        std::fs::write(self.path("ca.crt"), &authority.pem).unwrap();
    }

    fn identity(&self, authority: &Authority) {
        let (certificate, key) = authority.sign("edge-1");
        std::fs::write(self.path("tls.crt"), certificate.pem()).unwrap();
        std::fs::write(self.path("tls.key"), key.serialize_pem()).unwrap();
    }

    fn source(&self, address: &str, with_identity: bool, server_name: Option<&str>) -> Source {
        let mut config = config(address);
        config.control_plane.tls = TlsFiles {
            ca: Some(self.path("ca.crt")),
            identity: with_identity.then(|| (self.path("tls.crt"), self.path("tls.key"))),
            server_name: server_name.map(str::to_owned),
        };
        Source::Grpc(Box::new(config))
    }
}

/// A pair as a control plane sends it.
fn pair(name: &str) -> routed_proto::KeyPair {
    let (certificate, key) = Authority::new().sign("site.test");
    routed_proto::KeyPair {
        name: name.to_owned(),
        fingerprint: routed_snapshot::Hash::of(certificate.der()).0.to_vec().into(),
        certificate_pem: certificate.pem().into_bytes().into(),
        key_pem: key.serialize_pem().into_bytes().into(),
    }
}

fn table(pairs: &[routed_proto::KeyPair]) -> KeyTable {
    let named = pairs.iter().map(|pair| routed_proto::KeyRef {
        name: pair.name.clone(),
        fingerprint: pair.fingerprint.clone(),
    });
    KeyTable {
        table: named.collect(),
        pairs: pairs.to_vec(),
        complete: true,
    }
}

fn names(keys: &Keys) -> Vec<String> {
    keys.load().keys().cloned().collect()
}

#[test]
fn with_certificates_on_both_sides_snapshots_and_keys_arrive() {
    let authority = Authority::new();
    let tls = TlsServer::new(authority.server("127.0.0.1", Some(&authority)));
    let files = Files::new();
    files.trust(&authority);
    files.identity(&authority);
    tls.server.keys(table(&[pair("default/site")]));
    tls.server.set(&at("1", 1));
    let running = Running::start(files.source(tls.server.address(), true, None));
    running.until_serves(&at("1", 1));
    running.until("the key", |_| names(&running.keys) == ["default/site"]);
    assert_eq!(running.status().keys_problem, None);
    assert!(tls.server.requests()[0].accepts_keys);

    // On the next stream the pair is named, and need not be sent again.
    let mut named = table(&[pair("default/site")]);
    let held = running.keys.load()["default/site"].fingerprint.clone();
    named.pairs.clear();
    named.table[0].fingerprint = held.parse::<routed_snapshot::Hash>().unwrap().0.to_vec().into();
    tls.server.keys(named);
    tls.server.end_streams();
    running.until("the next stream", |_| tls.server.requests().len() == 2);
    let request = &tls.server.requests()[1];
    assert_eq!(request.keys[0].name, "default/site");
    tls.server.set(&at("2", 2));
    running.until_serves(&at("2", 2));
    assert_eq!(names(&running.keys), ["default/site"]);
    assert_eq!(running.status().keys_problem, None);
}

#[test]
fn renewed_files_are_used_by_the_next_connection() {
    let (old, new) = (Authority::new(), Authority::new());
    let tls = TlsServer::new(old.server("127.0.0.1", Some(&old)));
    let files = Files::new();
    files.trust(&old);
    files.identity(&old);
    tls.server.set(&at("1", 1));
    let running = Running::start(files.source(tls.server.address(), true, None));
    running.until_serves(&at("1", 1));
    // The control plane gets another authority, for itself and for those whom it lets in.
    tls.change(new.server("127.0.0.1", Some(&new)));
    tls.server.set(&at("2", 2));
    running.until_serves(&at("2", 2));
    tls.server.end_streams();
    let status = running.until("the refusal of its certificate", |status| {
        status
            .last_error
            .as_ref()
            .is_some_and(|error| error.message.contains("TLS"))
    });
    assert_eq!(status.connected, Some(false));
    assert!(running.serves(&at("2", 2)));
    files.trust(&new);
    files.identity(&new);
    tls.server.set(&at("3", 3));
    running.until_serves(&at("3", 3));
}

#[test]
fn a_router_without_the_certificate_that_is_asked_for_gets_nothing() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let tls = TlsServer::new(authority.server("127.0.0.1", Some(&authority)));
    let files = Files::new();
    files.trust(&authority);
    tls.server.set(&at("1", 1));
    let without = Running::start(files.source(tls.server.address(), false, None));
    without.until("the refusal", |status| status.last_error.is_some());
    files.identity(&stranger);
    let with_a_strange_one = Running::start(files.source(tls.server.address(), true, None));
    with_a_strange_one.until("the refusal", |status| status.last_error.is_some());
    for running in [without, with_a_strange_one] {
        assert!(running.live.load().is_none());
    }
    assert!(tls.server.requests().is_empty());
}

#[test]
fn files_that_can_not_be_read_are_named_and_read_again() {
    let authority = Authority::new();
    let tls = TlsServer::new(authority.server("127.0.0.1", Some(&authority)));
    let files = Files::new();
    tls.server.set(&at("1", 1));
    let running = Running::start(files.source(tls.server.address(), true, None));
    let error = running
        .until("the error", |status| status.last_error.is_some())
        .last_error
        .unwrap();
    assert!(error.message.contains("ca.crt"), "{}", error.message);
    files.trust(&authority);
    files.identity(&authority);
    // The key of another certificate.
    std::fs::write(files.path("tls.key"), authority.sign("edge-1").1.serialize_pem()).unwrap();
    running.until("the mismatch", |status| {
        status
            .last_error
            .as_ref()
            .is_some_and(|error| error.message.contains("tls.key"))
    });
    files.identity(&authority);
    running.until_serves(&at("1", 1));
}

#[test]
fn a_server_of_another_name_is_refused_unless_the_name_is_given() {
    let authority = Authority::new();
    let tls = TlsServer::new(authority.server("operator.test", None));
    let files = Files::new();
    files.trust(&authority);
    tls.server.set(&at("1", 1));
    let strict = Running::start(files.source(tls.server.address(), false, None));
    strict.until("the refusal", |status| status.last_error.is_some());
    assert!(strict.live.load().is_none() && tls.server.requests().is_empty());
    let named = Running::start(files.source(tls.server.address(), false, Some("operator.test")));
    named.until_serves(&at("1", 1));
}

/// Keys come over a channel that may not carry them.
fn keys_are_refused(server: &Server, source: Source, why: &str) {
    server.keys(table(&[pair("default/site")]));
    server.set(&at("1", 1));
    let running = Running::start(source);
    running.until_serves(&at("1", 1));
    let problem = running
        .until("the refusal", |status| status.keys_problem.is_some())
        .keys_problem
        .unwrap();
    assert!(problem.contains(why), "{problem}");
    assert!(names(&running.keys).is_empty());
    let request = &server.requests()[0];
    assert!(!request.accepts_keys && request.keys.is_empty());
    assert_eq!(running.status().refusals, 0, "the snapshot is taken all the same");
}

fn plain(address: &str) -> Source {
    Source::Grpc(Box::new(config(address)))
}

#[test]
fn keys_are_refused_over_a_channel_without_tls() {
    let server = Server::at(At::Port(0));
    keys_are_refused(&server, plain(server.address()), "not encrypted");
}

#[test]
fn keys_are_refused_where_the_server_does_not_ask_who_the_router_is() {
    let authority = Authority::new();
    let tls = TlsServer::new(authority.server("127.0.0.1", None));
    let files = Files::new();
    files.trust(&authority);
    files.identity(&authority);
    let source = files.source(tls.server.address(), true, None);
    keys_are_refused(&tls.server, source, "did not ask");
}

fn on_socket(folder: &Path, mode: u32) -> Server {
    Server::at(At::Unix(folder.join("control.sock"), mode))
}

#[test]
fn keys_are_refused_over_a_socket_that_others_can_open() {
    let folder = tempfile::tempdir().unwrap();
    let server = on_socket(folder.path(), 0o666);
    keys_are_refused(&server, plain(server.address()), "open to others");
}

/// A table with a listener that needs this certificate.
fn needing(certificate: &str, version: u64) -> Snapshot {
    let listener = Listener {
        address: "127.0.0.1".into(),
        port: 443,
        protocol: ListenerProtocol::Https,
        tls: Some(ListenerTls {
            certificates: vec![CertificateRef {
                name: certificate.to_owned(),
                fingerprint: "ab".repeat(32),
            }],
            certificate_files: Vec::new(),
        }),
        redirect_to_https: None,
    };
    let profile = Profile {
        listeners: [("https".to_owned(), listener)].into(),
        ..Profile::default()
    };
    let profiles = ProfilesPart {
        profiles: [("default/default".to_owned(), profile)].into(),
    };
    let part = Part::from_content(PartContent::Profiles(profiles)).unwrap();
    let routes = at("x", version);
    let mut parts = routes.parts().clone();
    parts.insert(PartName::Profiles, Arc::new(part));
    Snapshot::new(parts, Some(position("c", version)))
}

#[test]
fn keys_come_over_a_socket_of_ones_own_and_stay_while_they_are_needed() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("keys");
    let server = on_socket(folder.path(), 0o600);
    server.keys(table(&[pair("default/site"), pair("default/other")]));
    server.set(&needing("default/site", 1));
    let (publisher, live) = Publisher::new();
    let source = Source::Grpc(Box::new(GrpcConfig {
        ..config(server.address())
    }));
    let running = Running::start_with(source, publisher, live, Keys::with_cache(cache.clone()).unwrap());
    running.until_serves(&needing("default/site", 1));
    running.until("both keys", |_| {
        names(&running.keys) == ["default/other", "default/site"]
    });

    // The table of keys loses both, before the snapshot loses the listener.
    server.keys(table(&[pair("default/new")]));
    running.until("the change", |_| {
        names(&running.keys) == ["default/new", "default/site"]
    });
    // On disk a moment later.
    until("the same on disk", || {
        names(&Keys::with_cache(cache.clone()).unwrap()) == ["default/new", "default/site"]
    });
    server.set(&needing("default/new", 2));
    running.until("what nobody needs to be gone", |_| {
        names(&running.keys) == ["default/new"]
    });

    // A damaged pair leaves the one held in use.
    let before = running.keys.load()["default/new"].clone();
    let mut damaged = pair("default/new");
    damaged.key_pem = bytes::Bytes::from_static(b"nothing");
    server.keys(table(&[damaged]));
    let status = running.until("the problem", |status| status.keys_problem.is_some());
    assert!(status.keys_problem.unwrap().contains("default/new"));
    assert_eq!(running.keys.load()["default/new"], before);
}
