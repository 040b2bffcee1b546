//! `routedctl compile`, `explain` and `crds` as they are run.
#![allow(clippy::unwrap_used)] // a test fails by panicking

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use routed_snapshot::Snapshot;

const MANIFEST: &str = env!("CARGO_MANIFEST_DIR");

fn routedctl(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_routedctl"));
    command.current_dir(folder).args(arguments).output().unwrap()
}

/// A folder with a backend and a route, in two files of these names.
fn resources(backend_file: &str, route_file: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(format!("{MANIFEST}/tests/validate/good.yaml")).unwrap();
    let (backend, route) = text.split_once("---\n").unwrap();
    fs::write(folder.path().join(backend_file), backend).unwrap();
    fs::write(folder.path().join(route_file), route).unwrap();
    folder
}

#[test]
fn the_order_of_files_does_not_change_the_snapshot() {
    let compiled = [("a.yaml", "b.yaml"), ("b.yaml", "a.yaml")].map(|(backend, route)| {
        let folder = resources(backend, route);
        let done = routedctl(folder.path(), &["compile", "b.yaml", "a.yaml", "-o", "out.json"]);
        assert!(done.status.success(), "{done:?}");
        let document = fs::read(folder.path().join("out.json")).unwrap();
        let hash = Snapshot::decode(&document).unwrap().hash().to_string();
        assert!(String::from_utf8(done.stdout).unwrap().contains(&hash));
        document
    });
    assert_eq!(compiled[0], compiled[1]);
}

#[test]
fn errors_stop_a_compile_unless_told_otherwise() {
    let folder = resources("a.yaml", "b.yaml");
    let compile = ["compile", "b.yaml", "-o", "out.json"];
    assert_eq!(routedctl(folder.path(), &compile).status.code(), Some(1));
    assert!(!folder.path().join("out.json").exists());
    let going = [compile.as_slice(), &["--keep-going"]].concat();
    assert_eq!(routedctl(folder.path(), &going).status.code(), Some(0));
    assert!(folder.path().join("out.json").exists());
}

#[test]
fn a_snapshot_and_its_resources_explain_alike() {
    let folder = resources("a.yaml", "b.yaml");
    assert!(
        routedctl(folder.path(), &["compile", ".", "-o", "out.snapshot"])
            .status
            .success()
    );
    let explain = |from: &[&str]| {
        let rest = ["--output", "json", "http://shop.example.com/cart/1"];
        let done = routedctl(folder.path(), &[["explain"].as_slice(), from, &rest].concat());
        assert!(done.status.success(), "{done:?}");
        serde_json::from_slice::<serde_json::Value>(&done.stdout).unwrap()
    };
    let explanation = explain(&["--snapshot", "out.snapshot"]);
    assert_eq!(explanation["outcome"]["type"], "Forward", "{explanation}");
    assert_eq!(explanation, explain(&["--resources", "."]));
}

#[test]
fn the_definitions_shipped_are_the_ones_printed() {
    let printed = routedctl(Path::new(MANIFEST), &["crds"]).stdout;
    let shipped = fs::read(format!("{MANIFEST}/../deploy/crds.yaml")).unwrap();
    assert!(
        printed == shipped,
        "write deploy/crds.yaml anew: routedctl crds > deploy/crds.yaml"
    );
}

/// The table that the running router is held to as well (`router/tests/e2e/explained.rs`).
#[test]
fn odd_requests_are_explained_as_a_router_answers_them() {
    let tests = format!("{MANIFEST}/../snapshot/tests");
    let routes = fs::read_to_string(format!("{tests}/odd_requests.yaml")).unwrap();
    let table = fs::read_to_string(format!("{tests}/odd_requests.txt")).unwrap();
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    let lines = lines.map(|line| line.split('\t').collect::<Vec<_>>());
    let lines = lines.collect::<Vec<_>>();
    assert!(lines.len() > 90, "{}", lines.len());
    for (settings, normalization) in [
        ("keep", "{}"),
        ("merge", "{mergeSlashes: true}"),
        ("decode", "{escapedSlashes: Decode}"),
        ("reject", "{escapedSlashes: Reject}"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let profile = format!(
            "apiVersion: routed.io/v1\nkind: RouterProfile\nmetadata: {{name: default}}\nspec:\n  \
             normalization: {normalization}\n  \
             limits: {{targetBytes: 200, headerBytes: 1000, bodyBytes: 1000}}\n  \
             listeners: [{{name: http, port: 80, protocol: HTTP}}]\n"
        );
        let resources = folder.path().join("all.yaml");
        fs::write(resources, format!("{profile}---\n{routes}")).unwrap();
        let compile = ["compile", "all.yaml", "-o", "out.json"];
        assert!(routedctl(folder.path(), &compile).status.success());
        for line in lines.iter().filter(|line| line[0] == settings) {
            let [_, method, host, target, more, expected, path] = line[..] else {
                panic!("{line:?}");
            };
            let host = format!("host:{host}");
            let mut arguments = vec!["explain", "--snapshot", "out.json", "--output", "json"];
            arguments.extend(["--method", method, "--header", &host]);
            if more != "-" {
                arguments.extend(["--header", more]);
            }
            let url = format!("http://edge.example{target}");
            arguments.push(&url);
            let done = routedctl(folder.path(), &arguments);
            let said = String::from_utf8_lossy(&done.stderr);
            assert!(done.status.success(), "{line:?}: {said}");
            let explanation: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
            let outcome = &explanation["outcome"];
            let who = match outcome["rule"].as_str() {
                Some(rule) => rule.split('/').nth(2).unwrap().to_owned(),
                None => outcome["status"].to_string(),
            };
            assert_eq!(who, expected, "{line:?}: {explanation}");
            if outcome["type"] == "Refused" {
                assert!(outcome["message"].is_string(), "{explanation}");
            } else {
                assert_eq!(explanation["path"], path, "{line:?}");
            }
            assert_eq!(
                said.contains("is taken as"),
                path != "-" && path != path_of(target),
                "{said}"
            );
        }
    }
}

fn path_of(target: &str) -> &str {
    target.split('?').next().unwrap()
}
