//! The shape of results is published as a JSON schema, and results keep to it.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

#[allow(clippy::unwrap_used)] // a test fails by panicking
fn said(arguments: &[&str]) -> Vec<u8> {
    let output = Command::new(env!("CARGO_BIN_EXE_routed-loadtest"))
        .args(arguments)
        .output()
        .unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {complaint}");
    output.stdout
}

#[test]
fn the_schema_in_the_repository_is_the_one_printed() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("result.schema.json");
    let printed = said(&["schema"]);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &printed).unwrap();
    }
    let kept = std::fs::read(&path).unwrap();
    assert!(
        kept == printed,
        "run again with UPDATE_GOLDEN=1 and look at the difference"
    );
}

#[test]
fn a_result_keeps_to_the_schema_and_one_that_lacks_a_fact_does_not() {
    let schema: Value = serde_json::from_slice(&said(&["schema"])).unwrap();
    let decide = [
        "decide",
        "--routes",
        "10",
        "--seconds",
        "0.01",
        "--instructions",
        "none",
        "--json",
    ];
    let result: Value = serde_json::from_slice(&said(&decide)).unwrap();
    assert_eq!(result["command"], "decide");
    jsonschema::validate(&schema, &result).unwrap();

    let facts: Vec<String> = result["machine"].as_object().unwrap().keys().cloned().collect();
    for fact in [
        "model",
        "cores",
        "kernel",
        "load_average",
        "memory_bytes",
        "clock_source",
        "profile",
        "version",
    ] {
        assert!(facts.iter().any(|name| name == fact), "{fact}: {facts:?}");
    }
    for fact in ["profile", "version", "cpus", "clock_source"] {
        let mut poorer = result.clone();
        poorer["machine"].as_object_mut().unwrap().remove(fact);
        assert!(!jsonschema::is_valid(&schema, &poorer), "{fact}");
    }
    let mut richer = result.clone();
    richer["unheard_of"] = 1.into();
    assert!(!jsonschema::is_valid(&schema, &richer));
    for field in ["machine", "command", "p99_ns", "measured_at"] {
        let mut poorer = result.clone();
        poorer.as_object_mut().unwrap().remove(field);
        assert!(!jsonschema::is_valid(&schema, &poorer), "{field}");
    }
}
