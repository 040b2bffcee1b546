//! The schemas take what the compiler takes and refuse what it refuses.
#![allow(clippy::unwrap_used, reason = "a test")]

use routed_policy::crds;
use serde_json::{Value, json};

fn schema(kind: &str, version: &str) -> Value {
    let crd = crds()
        .into_iter()
        .find(|crd| crd.spec.names.kind == kind)
        .unwrap();
    let version = crd
        .spec
        .versions
        .into_iter()
        .find(|found| found.name == version)
        .unwrap();
    serde_json::to_value(version.schema.unwrap().open_api_v3_schema.unwrap()).unwrap()
}

fn takes(kind: &str, version: &str, spec: Value) -> bool {
    let object =
        json!({ "apiVersion": format!("routed.io/{version}"), "kind": kind, "metadata": {}, "spec": spec });
    jsonschema::is_valid(&schema(kind, version), &object)
}

#[test]
fn edge_route_is_stored_as_v2_and_served_as_deprecated_v1() {
    let crd = crds()
        .into_iter()
        .find(|crd| crd.spec.names.kind == "EdgeRoute")
        .unwrap();
    let of = |name: &str| {
        crd.spec
            .versions
            .iter()
            .find(|version| version.name == name)
            .unwrap()
    };
    assert!(of("v2").storage && of("v2").served);
    assert!(!of("v1").storage && of("v1").served);
    assert_eq!(of("v1").deprecated, Some(true));
    assert!(of("v1").deprecation_warning.is_some());
}

#[test]
fn examples_are_taken_and_faults_refused() {
    assert!(takes(
        "EdgeRoute",
        "v2",
        json!({ "rules": [{ "backends": [{ "backend": "web" }] }] })
    ));
    assert!(takes(
        "EdgeRoute",
        "v1",
        json!({ "hostname": "a.example", "prefix": "/", "service": "s", "port": 80 })
    ));
    assert!(takes(
        "Backend",
        "v1",
        json!({ "addresses": [{ "address": "10.0.0.1", "port": 80 }] })
    ));
    assert!(takes(
        "RouterProfile",
        "v1",
        json!({ "listeners": [{ "name": "http", "port": 80, "protocol": "HTTP" }] })
    ));
    assert!(takes("RoutingPolicy", "v1", json!({ "priority": 1 })));
    assert!(!takes("EdgeRoute", "v2", json!({ "rules": [] })));
    assert!(!takes("EdgeRoute", "v2", json!({})));
    assert!(!takes(
        "EdgeRoute",
        "v2",
        json!({ "rules": [{ "matches": [{ "path": { "type": "Glob" } }] }] })
    ));
    assert!(!takes("EdgeRoute", "v1", json!({ "service": "s", "port": 0 })));
    assert!(!takes(
        "Backend",
        "v1",
        json!({ "addresses": [{ "address": "10.0.0.1", "port": 70000 }] })
    ));
    assert!(!takes(
        "RouterProfile",
        "v1",
        json!({ "listeners": [{ "name": "x", "port": 1, "protocol": "UDP" }] })
    ));
}

/// A structural schema (Kubernetes): no `oneOf`, `anyOf`, `$ref`, `default` of our own; each node has a type, or
/// takes anything.
#[test]
fn schemas_are_structural() {
    fn walk(node: &Value, at: &str) {
        for banned in ["oneOf", "anyOf", "allOf", "not", "$ref", "const"] {
            assert!(node.get(banned).is_none(), "{at}: {banned}");
        }
        let open = node.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
        assert!(
            open || node.get("type").is_some_and(Value::is_string),
            "{at}: no type"
        );
        for (name, child) in node
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            walk(child, &format!("{at}.{name}"));
        }
        for child in ["items", "additionalProperties"] {
            if let Some(child) = node.get(child).filter(|child| child.is_object()) {
                walk(child, &format!("{at}[]"));
            }
        }
    }
    for crd in crds() {
        for version in &crd.spec.versions {
            walk(&schema(&crd.spec.names.kind, &version.name), &crd.spec.names.kind);
        }
    }
}
