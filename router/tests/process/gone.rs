//! What is served by an object that goes away, or never was there, while the router runs.

use tempfile::TempDir;

use crate::support::{Router, eventually, get, handshake, shown, write};
use crate::{certificate, follow, plain, resources};

const TLS: &str =
    "{name: tls, address: 127.0.0.1, port: 0, protocol: HTTPS, tls: {certificateRefs: [{name: a}]}}";

/// Waits until a page of the admin interface holds all of these.
fn until_said(router: &Router, path: &str, words: &[&str]) -> u16 {
    let what = format!("{path} says {words:?}");
    eventually(&what, || {
        let (status, body) = router.admin(path);
        words.iter().all(|word| body.contains(word)).then_some(status)
    })
}

fn put_secret(folder: &TempDir, pair: &rcgen::CertifiedKey<rcgen::KeyPair>) {
    let text = |pem: String| pem.replace('\n', "\n    ");
    let secret = format!(
        "apiVersion: v1\nkind: Secret\ntype: kubernetes.io/tls\nmetadata: {{name: a}}\nstringData:\n  tls.crt: |\n    {}\n  \
         tls.key: |\n    {}\n",
        text(pair.cert.pem()),
        text(pair.signing_key.serialize_pem())
    );
    write(&folder.path().join("secret.yaml"), &secret);
}

#[test]
fn the_profile_served_stays_when_its_object_is_gone() {
    let folder = resources(&[plain("http", 0)]);
    let router = follow(&folder);
    router.ready();
    let address = router.address("default/default/http");
    let errors = |count: u8| format!("routed_compile_errors{{source=\"resources\"}} {count}\n");
    until_said(
        &router,
        "/metrics",
        &[&errors(0), "routed_compile_warnings{source=\"resources\"} 0\n"],
    );
    let profile = folder.path().join("profile.yaml");
    let text = std::fs::read_to_string(&profile).unwrap();
    std::fs::remove_file(&profile).unwrap();
    until_said(&router, "/snapshot", &["\"ProfileNotFound\"", "stays in use"]);
    until_said(&router, "/metrics", &[&errors(1)]);
    assert_eq!(
        router.address("default/default/http"),
        address,
        "no other is opened"
    );
    assert_eq!(get(address, "any", "/").unwrap(), (200, "hello".to_owned()));
    write(&profile, &text);
    until_said(&router, "/metrics", &[&errors(0)]);
    assert_eq!(get(address, "any", "/").unwrap().0, 200);
}

#[test]
fn a_profile_asked_for_by_name_that_is_nowhere_keeps_it_from_being_ready() {
    let folder = resources(&[plain("http", 0)]);
    let path = folder.path().to_str().unwrap();
    let router = Router::start(&["--resources", path, "--profile=default/defualt"]);
    let why = "no RouterProfile `default/defualt`";
    assert_eq!(until_said(&router, "/readyz", &[why]), 503);
    until_said(&router, "/snapshot", &["\"profileProblem\":\"no RouterProfile"]);
    let misspelt = std::fs::read_to_string(folder.path().join("profile.yaml")).unwrap();
    write(
        &folder.path().join("mended.yaml"),
        &misspelt.replace("name: default", "name: defualt"),
    );
    router.ready();
    until_said(&router, "/snapshot", &["\"profileProblem\":null"]);
}

#[test]
fn the_pair_of_a_secret_that_is_gone_serves_on_and_is_reported() {
    let folder = resources(&[TLS.to_owned()]);
    let pair = certificate(&["a.example.com"]);
    put_secret(&folder, &pair);
    let router = follow(&folder);
    router.ready();
    let address = router.address("default/default/tls");
    let leaf = || shown(address, Some("a.example.com")).ok();
    eventually("served", || (leaf()? == pair.cert.der().to_vec()).then_some(()));
    let problem = |is: u8| format!("routed_certificate_problem{{certificate=\"default/a\"}} {is}\n");
    until_said(&router, "/metrics", &[&problem(0)]);
    std::fs::remove_file(folder.path().join("secret.yaml")).unwrap();
    until_said(
        &router,
        "/metrics",
        &[&problem(1), "routed_certificate_not_after_seconds{"],
    );
    until_said(
        &router,
        "/snapshot",
        &["\"SecretNotFound\"", "its Secret is missing or damaged"],
    );
    assert_eq!(leaf(), Some(pair.cert.der().to_vec()));
    let renewed = certificate(&["a.example.com"]);
    put_secret(&folder, &renewed);
    eventually("renewed", || {
        (leaf()? == renewed.cert.der().to_vec()).then_some(())
    });
    until_said(&router, "/metrics", &[&problem(0)]);
}

/// Its other listeners serve, so it is ready: "every listener is bound". The problem is shown.
#[test]
fn a_certificate_that_never_was_there_is_reported_by_a_router_that_is_ready() {
    let folder = resources(&[plain("http", 0), TLS.to_owned()]);
    let router = follow(&folder);
    router.ready();
    let problem = "routed_certificate_problem{certificate=\"default/a\"} 1\n";
    until_said(
        &router,
        "/metrics",
        &[problem, "routed_compile_errors{source=\"resources\"} 1\n"],
    );
    assert!(shown(router.address("default/default/tls"), Some("a.example.com")).is_err());
    put_secret(&folder, &certificate(&["a.example.com"]));
    eventually("served", || {
        handshake(router.address("default/default/tls"), Some("a.example.com")).ok()
    });
}
