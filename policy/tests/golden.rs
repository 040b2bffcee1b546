//! Golden pairs: `<case>.in.yaml` → `<case>.out.json` (the parts of the snapshot and the diagnostics).
//! `UPDATE_GOLDEN=1` rewrites the outputs.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::{Path, PathBuf};

use routed_policy::{Resources, compile};
use serde_json::{Map, Value, json};

fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut cases: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(".in.yaml"))
        .collect();
    cases.sort();
    cases
}

fn output(case: &Path) -> String {
    let text = std::fs::read(case).unwrap();
    let name = case.file_name().unwrap().to_string_lossy().into_owned();
    let report = compile(&Resources::from_files([(name, text)]));
    let mut parts = Map::new();
    for (name, part) in report.snapshot.parts() {
        parts.insert(name.to_string(), serde_json::from_slice(&part.bytes()).unwrap());
    }
    let keys: Vec<Value> = report.keys.keys().map(|name| json!(name)).collect();
    let mut whole = json!({ "parts": parts, "diags": report.diags });
    if !keys.is_empty() {
        whole["keys"] = Value::Array(keys);
    }
    let mut text = serde_json::to_string_pretty(&whole).unwrap();
    text.push('\n');
    text
}

#[test]
fn each_case_gives_what_its_output_file_holds() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut wrong = Vec::new();
    let cases = cases();
    assert!(cases.len() >= 25, "only {} cases found", cases.len());
    for case in cases {
        let expected_at = PathBuf::from(case.to_string_lossy().replace(".in.yaml", ".out.json"));
        let actual = output(&case);
        if update {
            std::fs::write(&expected_at, &actual).unwrap();
        } else if std::fs::read_to_string(&expected_at).unwrap_or_default() != actual {
            wrong.push(format!("{}:\n{actual}", case.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
