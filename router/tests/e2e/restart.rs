//! Killed and started again with nothing left but the caches.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use serde_json::{Value, json};

use crate::harness::{Conn, Folder, Launch, Router, full, get, profile_with, route, wait_until};

/// A certificate for a name, signed by an authority of its own: the authority's PEM, the chain's PEM, the key's PEM.
pub(crate) fn certificate(name: &str) -> (String, String, String) {
    let authority_key = rcgen::KeyPair::generate().unwrap();
    let mut authority = rcgen::CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    authority
        .distinguished_name
        .push(rcgen::DnType::CommonName, "test authority");
    let authority_pem = authority.self_signed(&authority_key).unwrap().pem();
    let issuer = rcgen::Issuer::new(authority, authority_key);
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
    let chain = params.signed_by(&key, &issuer).unwrap().pem();
    (authority_pem, chain, key.serialize_pem())
}

/// A Secret of a certificate.
pub(crate) fn secret(name: &str, chain: &str, key: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {"name": name, "namespace": "default"},
        "stringData": {"tls.crt": chain, "tls.key": key}})
}

/// A profile with a plain and a TLS listener.
pub(crate) fn profile_with_tls(secret: &str) -> Value {
    profile_with(json!({"listeners": [
        {"name": "http", "address": "127.0.0.1", "port": 0, "protocol": "HTTP"},
        {"name": "https", "address": "127.0.0.1", "port": 0, "protocol": "HTTPS",
            "tls": {"certificateRefs": [{"name": secret}]}},
    ]}))
}

/// A TLS connection that trusts one authority.
pub(crate) fn tls(
    address: SocketAddr,
    name: &str,
    authority: &str,
) -> std::io::Result<Conn<impl Read + Write>> {
    use rustls::pki_types::pem::PemObject;
    let mut roots = rustls::RootCertStore::empty();
    let der = rustls::pki_types::CertificateDer::from_pem_slice(authority.as_bytes())
        .map_err(std::io::Error::other)?;
    roots.add(der).map_err(std::io::Error::other)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(std::io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).map_err(std::io::Error::other)?;
    let session = rustls::ClientConnection::new(Arc::new(config), name).map_err(std::io::Error::other)?;
    let stream = std::net::TcpStream::connect(address)?;
    stream.set_read_timeout(Some(crate::harness::DEADLINE))?;
    Ok(Conn::over(rustls::StreamOwned::new(session, stream)))
}

fn many_routes(count: usize) -> Vec<Value> {
    let answer = json!({"type": "DirectResponse", "directResponse": {"statusCode": 200, "body": "cached"}});
    let one = |n: usize| {
        route(
            &format!("r{n}"),
            json!({"hostnames": [format!("h{n}.example")], "rules": [{"filters": [answer]}]}),
        )
    };
    (0..count).map(one).collect()
}

fn ask(connection: std::io::Result<Conn<impl Read + Write>>) -> Option<String> {
    let mut connection = connection.ok()?;
    connection
        .send(b"GET / HTTP/1.1\r\nHost: h7.example\r\n\r\n")
        .ok()?;
    Some(connection.reply().ok()?.text())
}

/// kill -9 and restart with the sources gone: the caches serve, TLS included. The figure is printed; a debug build
/// on a busy machine is given 5 s for 10,000 routes.
#[test]
fn a_killed_router_serves_from_its_caches_with_the_sources_gone() {
    let count = if full() { 100_000 } else { 10_000 };
    let (authority, chain, key) = certificate("h7.example");
    let folder = Folder::new(&[profile_with_tls("cert"), secret("cert", &chain, &key)]);
    folder.put("many.yaml", &many_routes(count));
    let (snapshots, keys) = (folder.root().join("cache.json"), folder.root().join("keys"));
    let launch = || {
        Launch::resources(&folder.dir())
            .flag("--snapshot-cache", snapshots.clone())
            .flag("--key-cache", keys.clone())
    };
    let mut router = launch().start();
    wait_until("a TLS answer", || {
        ask(tls(router.address("https"), "h7.example", &authority)).as_deref() == Some("cached")
    });
    wait_until("the cache on disk", || snapshots.exists());
    router.kill();
    std::fs::remove_dir_all(folder.dir()).unwrap();

    let start = Instant::now();
    let router = launch().spawn();
    let plain = served(&router, "http", start, |address| ask(Ok(Conn::open(address))));
    let secure = served(&router, "https", start, |address| {
        ask(tls(address, "h7.example", &authority))
    });
    println!(
        "kill -9 at {count} routes, sources gone: first answer after {plain:?}, over TLS after {secure:?}"
    );
    let bound = Duration::from_secs(if full() { 30 } else { 5 });
    assert!(plain < bound && secure < bound, "{plain:?}, {secure:?}");
    router.wait_ready();
    wait_until("the source's absence is told", || router.is_degraded());
}

fn served(
    router: &Router,
    listener: &str,
    start: Instant,
    ask: impl Fn(SocketAddr) -> Option<String>,
) -> Duration {
    let address = router.address(listener);
    wait_until(&format!("an answer on {listener}"), || {
        ask(address).as_deref() == Some("cached")
    });
    start.elapsed()
}

/// Keys on disk are for the owner's eyes only.
#[test]
fn the_key_cache_is_readable_by_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let (_, chain, key) = certificate("h7.example");
    let mut objects = many_routes(1);
    objects.extend([profile_with_tls("cert"), secret("cert", &chain, &key)]);
    let folder = Folder::new(&objects);
    let keys = folder.root().join("keys");
    let _router = Launch::resources(&folder.dir())
        .flag("--key-cache", keys.clone())
        .start();
    wait_until("the key cache", || keys.is_dir());
    let mode = std::fs::metadata(&keys).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

/// A certificate that is replaced is served to new connections without a restart.
#[test]
fn a_renewed_certificate_is_served_without_restart() {
    let (first, chain, key) = certificate("h7.example");
    let answer = json!({"type": "DirectResponse", "directResponse": {"statusCode": 200, "body": "cached"}});
    let all = route("all", json!({"rules": [{"filters": [answer]}]}));
    let folder = Folder::new(&[
        profile_with_tls("cert"),
        secret("cert", &chain, &key),
        all.clone(),
    ]);
    let router = Router::over(&folder);
    let address = router.address("https");
    wait_until("the first certificate", || {
        ask(tls(address, "h7.example", &first)).is_some()
    });
    let (second, chain, key) = certificate("h7.example");
    folder.put(
        "objects.yaml",
        &[profile_with_tls("cert"), secret("cert", &chain, &key), all],
    );
    wait_until("the second certificate", || {
        ask(tls(address, "h7.example", &second)).is_some()
    });
    assert!(ask(tls(address, "h7.example", &first)).is_none());
    assert_eq!(
        router.address("https"),
        address,
        "the listener was not bound anew"
    );
    assert_eq!(get(router.http(), "h7.example", "/").text(), "cached");
}
