//! `routed-loadtest decide` as it is run: the names of its results are a contract.

use std::process::Command;

use serde_json::Value;

#[allow(clippy::unwrap_used)] // a test fails by panicking
fn decide(arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_routed-loadtest"))
        .args(["decide", "--routes", "300", "--seconds", "0.05", "--json"])
        .args(arguments)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn is_complete(result: &Value) {
    for name in [
        "p50_ns",
        "p99_ns",
        "p999_ns",
        "max_ns",
        "decisions",
        "allocations_per_decision",
        "bytes_per_route",
        "build_ms",
        "edit_ms",
    ] {
        assert!(result[name].is_number(), "{name}: {result}");
    }
    let counted = result["instructions_per_decision"].is_number();
    assert_ne!(counted, result["instructions_reason"].is_string());
    assert!(result["machine"]["cpus"].as_u64() >= Some(1));
    assert_eq!(result["command"], "decide");
    assert_eq!(result["route_count"], 300);
}

#[test]
fn a_decision_allocates_nothing_in_either_shape() {
    for shape in ["one-host", "many-hosts"] {
        let result = decide(&["--shape", shape]);
        is_complete(&result);
        assert_eq!(result["allocations_per_decision"], 0.0, "{shape}");
    }
}

#[test]
fn an_edited_index_decides_as_one_built_from_zero() {
    for shape in ["one-host", "many-hosts"] {
        assert_eq!(
            decide(&["--shape", shape, "--rebuild-check"])["rebuild_check"],
            true
        );
    }
}

#[test]
fn decisions_go_on_while_indexes_alternate() {
    let result = decide(&["--alternate"]);
    is_complete(&result);
    assert!(result["swaps"].as_u64() >= Some(2));
}

#[test]
fn the_counting_loop_says_nothing() {
    let output = Command::new(env!("CARGO_BIN_EXE_routed-loadtest"))
        .args(["decide", "--routes", "100", "--count-loop", "1000"])
        .output();
    assert!(output.is_ok_and(|output| output.status.success() && output.stdout.is_empty()));
}
