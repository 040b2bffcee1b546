//! The process as its operators meet it: flags, listeners, certificates, signals, the admin interface. Each test runs
//! the real binary on ports of its own.
#![allow(clippy::unwrap_used, reason = "a test")]

mod admin;
/// The control plane of the sources' own tests.
#[path = "../../../snapshot-sources/tests/grpc/server.rs"]
#[allow(dead_code, unreachable_pub, reason = "these tests use their share of it")]
mod control_plane;
mod gone;
mod grpc;
mod listeners;
mod queues;
mod support;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use support::{Router, connect, eventually, exchange, free_port, get, handshake, shown, write};
use tempfile::TempDir;

const ROUTE: &str = "---
apiVersion: routed.io/v2
kind: EdgeRoute
metadata: {name: hello}
spec:
  rules:
  - filters: [{type: DirectResponse, directResponse: {statusCode: 200, body: hello}}]
";

/// A folder with one route, and a profile of these listeners (flow style YAML).
fn resources(listeners: &[String]) -> TempDir {
    let folder = TempDir::new().unwrap();
    listen(&folder, listeners);
    write(&folder.path().join("route.yaml"), ROUTE);
    folder
}

fn listen(folder: &TempDir, listeners: &[String]) {
    let profile = format!(
        "apiVersion: routed.io/v1\nkind: RouterProfile\nmetadata: {{name: default}}\nspec:\n  listeners: [{}]\n",
        listeners.join(", ")
    );
    write(&folder.path().join("profile.yaml"), &profile);
}

fn plain(name: &str, port: u16) -> String {
    format!("{{name: {name}, address: 127.0.0.1, port: {port}, protocol: HTTP}}")
}

fn follow(folder: &TempDir) -> Router {
    Router::start(&["--resources", folder.path().to_str().unwrap()])
}

fn certificate(names: &[&str]) -> CertifiedKey<rcgen::KeyPair> {
    generate_simple_self_signed(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap()
}

/// Puts a pair as files `NAME.crt` and `NAME.key`.
fn put(folder: &Path, name: &str, pair: &CertifiedKey<rcgen::KeyPair>) {
    write(&folder.join(format!("{name}.crt")), &pair.cert.pem());
    write(
        &folder.join(format!("{name}.key")),
        &pair.signing_key.serialize_pem(),
    );
}

fn files(folder: &Path, name: &str) -> String {
    let path = folder.join(name);
    format!("{{certificate: {0}.crt, key: {0}.key}}", path.display())
}

#[test]
fn without_a_source_it_lives_and_is_not_ready() {
    let router = Router::start(&[]);
    assert_eq!(router.admin("/livez").0, 200);
    let (status, body) = router.admin("/readyz");
    assert_eq!((status, body.contains("no source is set")), (503, true), "{body}");
}

#[test]
fn unusable_flags_end_with_2() {
    assert_eq!(Router::start(&["--profile=x"]).exit_code(), Some(2));
    assert_eq!(
        Router::start(&["--snapshot-addr=127.0.0.1:1"]).exit_code(),
        Some(2)
    );
    assert_eq!(Router::start(&["--no-such-flag"]).exit_code(), Some(2));
}

#[test]
fn an_admin_port_in_use_ends_with_1() {
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let flag = format!("--admin-addr={}", holder.local_addr().unwrap());
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_routed"));
    let status = command
        .args(["serve", &flag])
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(1));
}

#[test]
fn the_admin_interface_answers_and_refuses() {
    let folder = resources(&[plain("http", 0)]);
    let router = follow(&folder);
    router.ready();
    let (status, body) = router.admin("/snapshot");
    let snapshot: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(status, 200);
    assert_eq!(snapshot["listeners"][0]["name"], "default/default/http");
    assert_eq!(snapshot["source"], "resources");
    assert!(
        router
            .admin("/metrics")
            .1
            .contains("routed_listener_bound{listener=\"default/default/http\"} 1")
    );
    let (_, explanation) = router.admin("/explain?url=http%3A%2F%2Fa.example.com%2Fx&header=a:b&method=GET");
    assert!(explanation.contains("EdgeRoute/default/hello/0"), "{explanation}");
    let (status, refused) = router.admin("/explain?url=http://a.example.com/%25zz");
    assert!(status == 200 && refused.contains("\"Refused\""), "{refused}");
    assert_eq!(router.admin("/explain?url=a.example.com").0, 400);
    assert_eq!(router.admin("/explain").0, 400);
    assert!(router.admin("/config").1.contains("\"pollInterval\":\"50ms\""));
    assert_eq!(router.admin("/secrets").0, 404);
    let mut post = connect(router.address("admin")).unwrap();
    post.write_all(b"POST /livez HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    post.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
}

#[test]
fn a_port_in_use_is_shown_and_tried_again_while_others_serve() {
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = holder.local_addr().unwrap();
    let folder = resources(&[plain("busy", address.port()), plain("free", 0)]);
    let router = follow(&folder);
    assert_eq!(
        get(router.address("default/default/free"), "a", "/").unwrap().1,
        "hello"
    );
    eventually("the reason is shown", || {
        router.admin("/readyz").1.contains("in use").then_some(())
    });
    drop(holder);
    router.ready();
    assert_eq!(get(address, "a", "/").unwrap().1, "hello");
}

#[test]
fn listeners_come_move_and_go_with_the_profile() {
    let folder = resources(&[plain("one", 0)]);
    let router = follow(&folder);
    router.ready();
    let first = router.address("default/default/one");
    let mut kept = connect(first).unwrap();
    let (port, other) = (free_port(), free_port());
    listen(&folder, &[plain("one", 0), plain("two", port)]);
    let two = router.address("default/default/two");
    assert_eq!(get(two, "a", "/").unwrap().1, "hello");
    assert_eq!(
        router.address("default/default/one"),
        first,
        "an untouched listener stays bound"
    );

    listen(&folder, &[plain("one", 0), plain("two", other)]);
    eventually("moved", || {
        (router.address("default/default/two").port() == other).then_some(())
    });
    assert!(connect(two).is_none(), "the old port is closed");
    write!(kept, "GET / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    let mut start = [0; 12];
    kept.read_exact(&mut start).unwrap();
    assert_eq!(
        &start, b"HTTP/1.1 200",
        "a connection of an untouched listener lives"
    );

    listen(&folder, &[plain("one", 0)]);
    eventually("gone", || {
        connect(router.address("default/default/two"))
            .is_none()
            .then_some(())
    });
}

#[test]
fn a_certificate_is_chosen_by_name_and_renewed_in_place() {
    let certificates = TempDir::new().unwrap();
    let (a, b) = (
        certificate(&["a.example.com", "*.wild.example.com"]),
        certificate(&["b.example.com"]),
    );
    put(certificates.path(), "a", &a);
    put(certificates.path(), "b", &b);
    let (first, second) = (files(certificates.path(), "a"), files(certificates.path(), "b"));
    let folder = resources(&[format!(
        "{{name: tls, address: 127.0.0.1, port: 0, protocol: HTTPS, tls: {{certificateFiles: [{first}, {second}]}}}}"
    )]);
    let router = follow(&folder);
    router.ready();
    let tls = router.address("default/default/tls");
    let der = |pair: &CertifiedKey<rcgen::KeyPair>| Ok(pair.cert.der().to_vec());
    assert_eq!(shown(tls, Some("a.example.com")), der(&a));
    assert_eq!(shown(tls, Some("x.wild.example.com")), der(&a));
    assert_eq!(shown(tls, Some("b.example.com")), der(&b));
    assert_eq!(shown(tls, None), der(&a), "without a name: the first");
    for unknown in ["c.example.com", "wild.example.com", "x.y.wild.example.com"] {
        let refusal = shown(tls, Some(unknown)).unwrap_err();
        assert!(refusal.contains("UnrecognisedName"), "{unknown}: {refusal}");
    }
    let stream = handshake(tls, Some("a.example.com")).unwrap();
    assert_eq!(exchange(stream, "a.example.com", "/").unwrap().1, "hello");

    let renewed = certificate(&["b.example.com"]);
    write(
        &certificates.path().join("b.key"),
        &renewed.signing_key.serialize_pem(),
    );
    eventually("the mismatch is shown", || {
        router
            .admin("/snapshot")
            .1
            .contains("does not belong")
            .then_some(())
    });
    assert_eq!(
        shown(tls, Some("b.example.com")),
        der(&b),
        "the old pair serves on"
    );
    put(certificates.path(), "b", &renewed);
    eventually("renewed", || {
        (shown(tls, Some("b.example.com")) == der(&renewed)).then_some(())
    });
    assert!(!router.admin("/snapshot").1.contains("does not belong"));
    assert_eq!(router.address("default/default/tls"), tls, "without binding anew");
}

#[test]
fn sigterm_closes_the_door_and_lets_guests_finish() {
    let folder = resources(&[plain("http", 0)]);
    let mut router = follow(&folder);
    router.ready();
    let address = router.address("default/default/http");
    let mut late = connect(address).unwrap();
    late.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n").unwrap();
    // The head must have been begun before the drain: wait until the worker has seen the connection.
    std::thread::sleep(Duration::from_millis(200));
    router.signal("TERM");
    eventually("not ready", || {
        router.admin("/readyz").1.contains("draining").then_some(())
    });
    eventually("closed", || connect(address).is_none().then_some(()));
    late.write_all(b"\r\n").unwrap();
    let mut answer = String::new();
    late.read_to_string(&mut answer).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.ends_with("hello"),
        "{answer}"
    );
    assert_eq!(router.exit_code(), Some(0));
}

#[test]
fn a_second_signal_ends_at_once() {
    let folder = resources(&[plain("http", 0)]);
    let mut router = follow(&folder);
    router.ready();
    let mut guest = connect(router.address("default/default/http")).unwrap();
    guest.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    std::thread::sleep(Duration::from_millis(200));
    router.signal("HUP");
    router.signal("TERM");
    eventually("draining", || {
        router.admin("/readyz").1.contains("draining").then_some(())
    });
    router.signal("TERM");
    assert_eq!(router.exit_code(), Some(1));
}

#[test]
fn killed_and_started_without_its_source_it_serves_tls_from_the_caches() {
    let pair = certificate(&["a.example.com"]);
    let folder = resources(&[
        "{name: tls, address: 127.0.0.1, port: 0, protocol: HTTPS, tls: {certificateRefs: [{name: a}]}}"
            .to_owned(),
    ]);
    let text = |pem: String| pem.replace('\n', "\n    ");
    let secret = format!(
        "apiVersion: v1\nkind: Secret\ntype: kubernetes.io/tls\nmetadata: {{name: a}}\nstringData:\n  tls.crt: |\n    {}\n  \
         tls.key: |\n    {}\n",
        text(pair.cert.pem()),
        text(pair.signing_key.serialize_pem())
    );
    write(&folder.path().join("secret.yaml"), &secret);
    let state = TempDir::new().unwrap();
    let snapshot = format!(
        "--snapshot-cache={}",
        state.path().join("snapshot.json").display()
    );
    let keys = format!("--key-cache={}", state.path().join("keys").display());
    let router = Router::start(&[&snapshot, &keys, "--resources", folder.path().to_str().unwrap()]);
    let serves = |router: &Router| {
        let tls = router.address("default/default/tls");
        eventually("served", || {
            (shown(tls, Some("a.example.com")).ok()? == pair.cert.der().to_vec()).then_some(())
        });
    };
    serves(&router);
    eventually("cached", || {
        state.path().join("snapshot.json").exists().then_some(())
    });
    router.signal("KILL");
    drop(router);
    let router = Router::start(&[&snapshot, &keys]);
    serves(&router);
    router.ready();
}
