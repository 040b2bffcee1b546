//! `routedctl validate` on files with one fault each: `tests/validate/<case>.yaml`, whose first line says what is
//! expected: `# expect: valid`, `unusable`, or `invalid|warning <Reason> <line>:<column>`.
#![allow(clippy::unwrap_used)] // a test fails by panicking

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

fn cases() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/validate"))
}

fn validate(folder: &Path, arguments: &[&str]) -> (i32, Value, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_routedctl"))
        .current_dir(folder)
        .args(["validate", "--output", "json"])
        .args(arguments)
        .stdin(Stdio::null())
        .output();
    taken_apart(&output.unwrap())
}

fn taken_apart(output: &Output) -> (i32, Value, String) {
    let json = serde_json::from_slice(&output.stdout).unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().unwrap(), json, said)
}

fn check(file: &str) {
    let text = fs::read_to_string(cases().join(file)).unwrap();
    let expected = text.lines().next().unwrap().strip_prefix("# expect: ").unwrap();
    let mut words = expected.split(' ');
    let verdict = words.next().unwrap();
    let (code, json, said) = validate(cases(), &[file]);
    let (strict, _, _) = validate(cases(), &["--strict", file]);
    let codes = match verdict {
        "valid" => (0, 0),
        "warning" => (0, 1),
        "invalid" => (1, 1),
        _ => (2, 2),
    };
    assert_eq!((code, strict), codes, "{file}: {said}");
    let diags = json["diags"].as_array().unwrap();
    let (Some(reason), Some(place)) = (words.next(), words.next()) else {
        assert!(diags.is_empty(), "{file}: {json}");
        return;
    };
    let (line, column) = place.split_once(':').unwrap();
    let (line, column): (u64, u64) = (line.parse().unwrap(), column.parse().unwrap());
    let found = diags.iter().any(|diag| {
        let at = &diag["place"];
        diag["reason"] == reason && at["file"] == file && at["line"] == line && at["column"] == column
    });
    assert!(found, "{file}: {json}");
    assert!(said.contains(&format!("[{reason}]")), "{file}: {said}");
    assert!(
        said.contains(&format!("{file}:{line}:{column}")),
        "{file}: {said}"
    );
}

#[test]
fn each_fault_is_found_in_its_place() {
    let files = fs::read_dir(cases())
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let files = files.collect::<Vec<_>>();
    assert!(files.len() >= 40);
    files.iter().for_each(|file| check(file.to_str().unwrap()));
}

#[test]
fn stdin_is_judged_as_a_file() {
    for (case, code) in [("good.yaml", 0), ("tabs.yaml", 1), ("empty.yaml", 2)] {
        let output = Command::new(env!("CARGO_BIN_EXE_routedctl"))
            .args(["validate", "--output", "json", "-"])
            .stdin(File::open(cases().join(case)).unwrap())
            .output();
        assert_eq!(taken_apart(&output.unwrap()).0, code, "{case}");
    }
}

/// A router refuses a table without rules unless it is told to take it.
#[test]
fn what_a_router_takes_only_by_a_flag_is_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(cases().join("good.yaml")).unwrap();
    let (backend, _) = text.split_once("---\n").unwrap();
    fs::write(folder.path().join("backend.yaml"), backend).unwrap();
    let (code, json, said) = validate(folder.path(), &["."]);
    assert_eq!(
        (code, &json["summary"]["warnings"]),
        (0, &Value::from(1)),
        "{said}"
    );
    assert!(said.contains("--allow-empty"), "{said}");
    assert_eq!(validate(folder.path(), &["--strict", "."]).0, 1);
}

#[test]
fn references_hold_across_the_files_of_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(cases().join("good.yaml")).unwrap();
    let (backend, route) = text.split_once("---\n").unwrap();
    fs::write(folder.path().join("a.yaml"), route).unwrap();
    fs::write(folder.path().join("b.yml"), backend).unwrap();
    fs::write(folder.path().join("notes.txt"), "no YAML: [").unwrap();
    let (code, json, said) = validate(folder.path(), &["."]);
    assert_eq!((code, &json["summary"]["files"]), (0, &Value::from(2)), "{said}");
    assert_eq!(validate(folder.path(), &["a.yaml"]).0, 1);
    assert_eq!(validate(folder.path(), &["a.yaml", "b.yml"]).0, 0);
}

/// What a router started with `--resources` reads, see `snapshot-sources/src/disk/tree.rs`.
#[test]
fn a_folder_is_read_as_a_router_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let text = fs::read_to_string(cases().join("good.yaml")).unwrap();
    let (backend, route) = text.split_once("---\n").unwrap();
    let deep = "d/".repeat(16);
    for below in ["sub", "..2026", ".git", &deep] {
        fs::create_dir_all(path(below)).unwrap();
    }
    fs::write(path(&format!("{deep}route.yaml")), route).unwrap();
    fs::write(path("..2026/backend.yml"), backend).unwrap();
    symlink("..2026", path("..data")).unwrap();
    symlink("../..data/backend.yml", path("sub/backend.yml")).unwrap();
    symlink("..", path("sub/round")).unwrap();
    for other in ["a.json", "sub/a.json", ".git/a.yaml", ".a.yaml", "a.YAML"] {
        fs::write(path(other), "kind: [").unwrap();
    }
    let (code, json, said) = validate(folder.path(), &["."]);
    assert_eq!((code, &json["summary"]["files"]), (0, &Value::from(2)), "{said}");
    // A file that is named is read whatever its name.
    assert_eq!(validate(folder.path(), &[".", "a.json"]).0, 1);
    // The first by name keeps an object that two files have.
    fs::write(path("sub.yaml"), backend).unwrap();
    let (_, json, said) = validate(folder.path(), &["."]);
    assert_eq!(json["diags"][0]["place"]["file"], "./sub/backend.yml", "{said}");
    fs::create_dir_all(path(&format!("{deep}d"))).unwrap();
    let (code, _, said) = validate(folder.path(), &["."]);
    assert_eq!(code, 2);
    assert!(said.contains("more than 16 folders deep"), "{said}");
}

#[test]
fn a_link_to_nowhere_or_a_socket_among_the_files_is_told() {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(cases().join("good.yaml"), folder.path().join("good.yaml")).unwrap();
    symlink("nowhere", folder.path().join("link.yaml")).unwrap();
    let _socket = UnixListener::bind(folder.path().join("socket.yaml")).unwrap();
    let (code, json, said) = validate(folder.path(), &["."]);
    assert_eq!((code, &json["summary"]["files"]), (2, &Value::from(1)), "{said}");
    assert!(said.contains("./link.yaml: No such file"), "{said}");
    assert!(said.contains("./socket.yaml: not a regular file"), "{said}");
}

#[test]
fn what_cannot_be_read_is_unusable() {
    let folder = tempfile::tempdir().unwrap();
    let large = File::create(folder.path().join("large.yaml")).unwrap();
    large.set_len(100 << 20).unwrap();
    let start = Instant::now();
    let (code, json, said) = validate(folder.path(), &["large.yaml"]);
    assert!(start.elapsed() < Duration::from_secs(5));
    assert_eq!(code, 2);
    assert!(said.contains("large.yaml: larger than"), "{said}");
    assert_eq!(json["unusable"][0]["file"], "large.yaml");
    assert_eq!(validate(folder.path(), &["missing"]).0, 2);
    fs::create_dir(folder.path().join("none")).unwrap();
    assert_eq!(validate(folder.path(), &["none"]).0, 2);
}

#[test]
fn bytes_that_are_no_text_are_invalid() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = File::create(folder.path().join("bytes.yaml")).unwrap();
    file.write_all(b"kind: \xff\xfe\x00\n").unwrap();
    assert_eq!(validate(folder.path(), &["bytes.yaml"]).0, 1);
}
