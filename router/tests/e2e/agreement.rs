//! The tool and the router agree: what one accepts the other takes, for each case file of the compiler and of
//! `routedctl validate`.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::harness::{Folder, Router, Stub, backend, get, profile, route, simple_route, wait_until};

fn case_files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned();
    let mut files = Vec::new();
    for dir in ["routedctl/tests/validate", "policy/tests/golden"] {
        let entries = std::fs::read_dir(root.join(dir)).into_iter().flatten();
        let yaml = entries.map(|entry| entry.unwrap().path());
        files.extend(yaml.filter(|path| path.extension().is_some_and(|end| end == "yaml")));
    }
    files.sort();
    files
}

/// C38: one compiler, so the router serves the very bytes that the tool compiles, and counts the same errors.
#[test]
fn the_router_takes_what_the_compiler_accepts_and_nothing_else() {
    let files = case_files();
    assert!(files.len() >= 40, "{} case files", files.len());
    let answer = json!([{"type": "DirectResponse", "directResponse": {"statusCode": 200, "body": "here"}}]);
    // The case's own profiles may bind any port, so the router runs one that no case knows.
    let mut own = profile();
    own["metadata"]["namespace"] = json!("e2e");
    own["metadata"]["name"] = json!("own");
    let folder = Folder::new(&[own]);
    let router = crate::harness::Launch::resources(&folder.dir())
        .switch("--allow-empty")
        .flag("--profile", "e2e/own")
        .start();
    let mut refused = 0;
    for (number, file) in files.iter().enumerate() {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read(file).unwrap();
        let text = String::from_utf8_lossy(&text);
        // A route of its own in each round: the hash to wait for is new whatever the case holds.
        let mark = |host: String| {
            let spec = json!({
                "profileRef": {"namespace": "e2e", "name": "own"},
                "hostnames": [host],
                "rules": [{"filters": answer}]});
            folder.put("marker.yaml", &[route("marker", spec)]);
            routed_policy::compile(&routed_policy::Resources::from_files(folder.files()))
        };
        // The case before is seen to go: of what was readable before, the last good version would stay.
        let none = mark(format!("before-{number}.test")).snapshot.hash().to_string();
        wait_until(&format!("{name}: the table without cases"), || {
            router.hash() == none
        });
        folder.put_text("case.yaml", &text);
        let report = mark(format!("case-{number}.test"));
        let errors = report
            .diags
            .iter()
            .filter(|diag| diag.severity == routed_policy::Severity::Error)
            .count();
        let warnings = report.diags.len() - errors;
        let hash = report.snapshot.hash().to_string();
        wait_until(&format!("{name}: the compiled table"), || router.hash() == hash);
        let wanted = (errors as u64, warnings as u64);
        wait_until(&format!("{name}: {wanted:?} errors and warnings"), || {
            (router.number("errors"), router.number("warnings")) == wanted
        });
        for diag in report
            .diags
            .iter()
            .filter(|diag| diag.severity == routed_policy::Severity::Error)
        {
            assert!(
                !diag.message.is_empty() && diag.place.is_some(),
                "{name}: {diag:?}"
            );
        }
        refused += usize::from(errors > 0);
        let address = router.addresses()["e2e/own/http"];
        assert_eq!(
            get(address, &format!("case-{number}.test"), "/").text(),
            "here",
            "{name}"
        );
        folder.remove("case.yaml");
    }
    println!("{} case files, {refused} of them in error", files.len());
    assert!(refused >= 20, "{refused}");
}

/// C38: `explain` says why a rule did not take a request, and names the one that did.
#[test]
fn explain_tells_why_each_candidate_lost() {
    let a = Stub::start("a");
    let folder = Folder::new(&[
        profile(),
        backend("a", &[a.address()]),
        route(
            "picky",
            json!({"hostnames": ["shop.example"], "rules": [{
            "matches": [{"path": {"value": "/cart"}, "method": "POST"}], "backends": [{"backend": "a"}]}]}),
        ),
        simple_route("rest", &["shop.example"], "PathPrefix", "/", "a"),
    ]);
    let router = Router::over(&folder);
    assert_eq!(get(router.http(), "shop.example", "/cart").who(), "a");
    let reply = router.admin("/explain?url=http%3A%2F%2Fshop.example%2Fcart&method=GET");
    assert_eq!(reply.status, 200, "{}", reply.text());
    let text = reply.text();
    assert!(
        text.contains("default/picky") && text.contains("default/rest"),
        "{text}"
    );
    assert!(text.to_lowercase().contains("method"), "the reason: {text}");
}

/// The admin address shows the configuration and the table in use.
#[test]
fn the_snapshot_page_shows_hash_source_and_age() {
    let folder = Folder::new(&[profile()]);
    let router = Router::over(&folder);
    let compiled = routed_policy::compile(&routed_policy::Resources::from_files(folder.files()));
    let page = router.admin("/snapshot").json();
    assert_eq!(page["hash"], Value::from(compiled.snapshot.hash().to_string()));
    assert!(page.to_string().contains("resources"), "{page}");
    assert_eq!(router.admin("/config").status, 200);
    assert_eq!(router.admin("/nonsense").status, 404);
}
