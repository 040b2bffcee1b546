//! Flags of the control plane, and what comes from it beside the snapshot.

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::aws_lc_rs;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::PrivateKeyDer;
use serde_json::Value;
use tempfile::TempDir;

use super::control_plane::{At, Server};
use super::support::{Router, eventually, shown, write};
use super::{certificate, put};

#[test]
fn a_control_plane_that_is_not_there_is_told_and_waited_for() {
    let flags = [
        "--snapshot-addr=http://127.0.0.1:1",
        "--resources=/nowhere",
        "--client-name=edge-7",
    ];
    let router = Router::start(&flags);
    let snapshot = eventually("the failed tries", || {
        let snapshot: Value = serde_json::from_str(&router.admin("/snapshot").1).ok()?;
        let (error, told) = (&snapshot["lastError"]["message"], &snapshot["report"]);
        let failed = |text: &Value| text.as_str().is_some_and(|text| text.contains("refused"));
        (failed(error) && failed(&told["lastError"])).then_some(snapshot)
    });
    assert_eq!(snapshot["report"]["place"], "http://127.0.0.1:1");
    assert_eq!(
        (&snapshot["source"], &snapshot["connected"]),
        (&"grpc".into(), &false.into())
    );
    assert!(snapshot["degraded"].as_bool().unwrap());
    let (status, body) = router.admin("/readyz");
    assert_eq!((status, body.contains("no snapshot yet")), (503, true), "{body}");
    let (_, metrics) = router.admin("/metrics");
    assert!(metrics.contains("\nrouted_source_connected 0\n"), "{metrics}");
    assert!(metrics.contains("\nrouted_report_connected 0\n"), "{metrics}");
    let (_, config) = router.admin("/config");
    assert!(config.contains("\"clientName\":\"edge-7\""), "{config}");
}

/// A profile with a TLS listener, its certificate, and a route; with the keys as a control plane sends them.
fn compiled(
    pair: &rcgen::CertifiedKey<rcgen::KeyPair>,
) -> (routed_snapshot::Snapshot, routed_proto::KeyTable) {
    let text = |pem: String| pem.replace('\n', "\n    ");
    let objects = format!(
        "apiVersion: routed.io/v1\nkind: RouterProfile\nmetadata: {{name: default}}\nspec:\n  listeners: [{{name: tls, \
         address: 127.0.0.1, port: 0, protocol: HTTPS, tls: {{certificateRefs: [{{name: a}}]}}}}]\n---\n\
         apiVersion: v1\nkind: Secret\ntype: kubernetes.io/tls\nmetadata: {{name: a}}\nstringData:\n  tls.crt: |\n    {}\n  \
         tls.key: |\n    {}\n{}",
        text(pair.cert.pem()),
        text(pair.signing_key.serialize_pem()),
        super::ROUTE
    );
    let files = [("objects.yaml".to_owned(), objects.into_bytes())];
    let report = routed_policy::compile(&routed_policy::Resources::from_files(files));
    let fingerprint = |text: &str| text.parse::<routed_snapshot::Hash>().unwrap().0.to_vec().into();
    let pairs: Vec<routed_proto::KeyPair> = report
        .keys
        .into_iter()
        .map(|(name, pair)| routed_proto::KeyPair {
            name,
            fingerprint: fingerprint(&pair.fingerprint),
            certificate_pem: pair.certificate_pem.into(),
            key_pem: pair.key_pem.into(),
        })
        .collect();
    assert_eq!(pairs.len(), 1);
    let named = pairs.iter().map(|pair| routed_proto::KeyRef {
        name: pair.name.clone(),
        fingerprint: pair.fingerprint.clone(),
    });
    let table = routed_proto::KeyTable {
        table: named.collect(),
        pairs: pairs.clone(),
        complete: true,
    };
    (report.snapshot, table)
}

fn serves(router: &Router, pair: &rcgen::CertifiedKey<rcgen::KeyPair>) {
    let tls = router.address("default/default/tls");
    eventually("served", || {
        (shown(tls, Some("a.example.com")).ok()? == pair.cert.der().to_vec()).then_some(())
    });
}

#[test]
fn keys_of_a_control_plane_serve_tls_and_outlive_it() {
    let pair = certificate(&["a.example.com"]);
    let (snapshot, keys) = compiled(&pair);
    let state = TempDir::new().unwrap();
    let server = Server::at(At::Unix(state.path().join("control.sock"), 0o600));
    server.keys(keys);
    server.set(&snapshot);
    let flags = [
        format!("--snapshot-addr={}", server.address()),
        format!(
            "--snapshot-cache={}",
            state.path().join("snapshot.json").display()
        ),
        format!("--key-cache={}", state.path().join("keys").display()),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let router = Router::start(&flags);
    serves(&router, &pair);
    eventually("cached", || {
        state.path().join("snapshot.json").exists().then_some(())
    });
    router.signal("KILL");
    drop((router, server));
    let router = Router::start(&flags);
    serves(&router, &pair);
    router.ready();
    eventually("the loss is told", || {
        let shown: Value = serde_json::from_str(&router.admin("/snapshot").1).ok()?;
        (shown["connected"] == false && shown["degraded"] == true).then_some(())
    });
}

#[test]
fn certificates_on_both_sides_are_given_by_flags() {
    let (operator, edge, site) = (
        certificate(&["operator.test"]),
        certificate(&["edge-7"]),
        certificate(&["a.example.com"]),
    );
    let (snapshot, keys) = compiled(&site);
    let mut clients = RootCertStore::empty();
    clients.add(edge.cert.der().clone()).unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(clients), provider.clone());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(
            vec![operator.cert.der().clone()],
            PrivateKeyDer::try_from(operator.signing_key.serialize_der()).unwrap(),
        )
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let config = Arc::new(config);
    let server = Server::at(At::Tls(Arc::new(move || config.clone())));
    server.keys(keys);
    server.set(&snapshot);
    let folder = TempDir::new().unwrap();
    put(folder.path(), "edge", &edge);
    write(&folder.path().join("ca.crt"), &operator.cert.pem());
    let path = |name: &str| folder.path().join(name).display().to_string();
    let flags = [
        format!("--snapshot-addr={}", server.address()),
        format!("--snapshot-ca={}", path("ca.crt")),
        format!("--snapshot-cert={}", path("edge.crt")),
        format!("--snapshot-key={}", path("edge.key")),
        "--snapshot-server-name=operator.test".to_owned(),
        "--client-name=edge-7".to_owned(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let router = Router::start(&flags);
    serves(&router, &site);
    router.ready();
    assert_eq!(server.requests()[0].client, "edge-7");
    let told = eventually("the acknowledgement", || {
        server
            .acknowledgements()
            .into_iter()
            .find(|told| told.hash[..] == snapshot.hash().0[..])
    });
    assert_eq!((told.client.as_str(), told.source.as_str()), ("edge-7", "grpc"));
    let (_, metrics) = router.admin("/metrics");
    for line in ["routed_source_connected 1", "routed_report_connected 1"] {
        assert!(metrics.contains(&format!("\n{line}\n")), "{line}: {metrics}");
    }
    assert!(
        metrics.contains("\nrouted_source_last_contact_age_seconds "),
        "{metrics}"
    );
}
