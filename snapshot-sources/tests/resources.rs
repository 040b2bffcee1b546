//! The resources source, on real folders.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;

use common::{Running, polling, put, until};
use routed_sources::{ResourcesConfig, Source};

const PROFILE: &str = "apiVersion: routed.io/v1
kind: RouterProfile
metadata: {name: default}
spec:
  listeners: [{name: http, port: 8080, protocol: HTTP}]
";

/// A route of its own host, as one document.
fn route(name: &str) -> String {
    format!(
        "---
apiVersion: routed.io/v2
kind: EdgeRoute
metadata: {{name: {name}}}
spec:
  hostnames: [{name}.example.com]
  rules:
  - filters: [{{type: DirectResponse, directResponse: {{statusCode: 200, body: {name}}}}}]
"
    )
}

fn follow(path: &Path) -> Running {
    Running::start(Source::Resources(ResourcesConfig {
        polling: polling(true),
        ..ResourcesConfig::new(path)
    }))
}

/// The names of the routes served, sorted.
fn served(running: &Running) -> Vec<String> {
    let guard = running.live.load();
    let Some(index) = guard.as_ref() else {
        return Vec::new();
    };
    let mut names: Vec<String> = index.rules().map(|rule| rule.name.to_string()).collect();
    names.sort();
    names.dedup();
    names
        .iter()
        .filter_map(|name| name.split('/').nth(2).map(str::to_owned))
        .collect()
}

fn until_served(running: &Running, names: &[&str]) {
    until(
        &format!("{names:?}, got {:?}: {:#?}", served(running), running.status()),
        || served(running) == names,
    );
}

#[test]
fn a_folder_is_compiled_and_followed() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("profile.yaml"), PROFILE).unwrap();
    fs::write(folder.path().join("a.yml"), route("a")).unwrap();
    fs::write(folder.path().join("notes.txt"), "not yaml: [").unwrap();
    fs::write(folder.path().join(".hidden.yaml"), route("hidden")).unwrap();
    let running = follow(folder.path());
    until_served(&running, &["a"]);
    fs::create_dir(folder.path().join("team")).unwrap();
    put(&folder.path().join("team/b.yaml"), route("b").as_bytes());
    until_served(&running, &["a", "b"]);
    fs::remove_file(folder.path().join("a.yml")).unwrap();
    until_served(&running, &["b"]);
    running.until("all is well", |status| !status.degraded);
}

#[test]
fn a_single_file_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("all.yaml");
    fs::write(&path, format!("{PROFILE}{}", route("a"))).unwrap();
    let running = follow(&path);
    until_served(&running, &["a"]);
    put(&path, format!("{PROFILE}{}", route("b")).as_bytes());
    until_served(&running, &["b"]);
}

#[test]
fn swaps_of_a_mounted_folder_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let swap = |stamp: &str, route_name: &str| {
        let generation = root.join(format!("..{stamp}"));
        fs::create_dir(&generation).unwrap();
        fs::write(generation.join("profile.yaml"), PROFILE).unwrap();
        fs::write(generation.join("route.yaml"), route(route_name)).unwrap();
        symlink(generation.file_name().unwrap(), root.join("..data_tmp")).unwrap();
        fs::rename(root.join("..data_tmp"), root.join("..data")).unwrap();
        for name in ["profile.yaml", "route.yaml"] {
            let _ = symlink(format!("..data/{name}"), root.join(name));
        }
    };
    swap("1", "a");
    let running = follow(root);
    until_served(&running, &["a"]);
    for number in 0..20 {
        let name = format!("r{number}");
        swap(&format!("s{number}"), &name);
        until_served(&running, &[&name]);
    }
    // A link that leads nowhere for a while is not a folder without routes.
    fs::remove_file(root.join("..data")).unwrap();
    running.until("degraded", |status| status.degraded);
    assert_eq!(served(&running), ["r19"]);
    swap("last", "b");
    until_served(&running, &["b"]);
    running.until("order", |status| !status.degraded);
}

#[test]
fn a_file_that_stops_being_yaml_keeps_its_last_good_documents() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("routes.yaml");
    fs::write(folder.path().join("profile.yaml"), PROFILE).unwrap();
    fs::write(&path, format!("{}{}", route("a"), route("b"))).unwrap();
    let running = follow(folder.path());
    until_served(&running, &["a", "b"]);
    fs::write(&path, format!("{}---\nspec: [unclosed\n", route("c"))).unwrap();
    let status = running.until("an error", |status| {
        status.compile.as_ref().is_some_and(|compile| compile.errors > 0)
    });
    assert_eq!(served(&running), ["a", "b"]);
    let diags = status.compile.unwrap().diagnostics;
    assert!(diags[0].message.contains("last good"), "{diags:?}");
    // Another file's change is taken all the same.
    put(&folder.path().join("d.yaml"), route("d").as_bytes());
    until_served(&running, &["a", "b", "d"]);
    fs::write(&path, route("c")).unwrap();
    until_served(&running, &["c", "d"]);
    running.until("no error", |status| {
        status.compile.as_ref().is_some_and(|compile| compile.errors == 0)
    });
}

#[test]
fn an_object_in_error_hurts_only_itself() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("profile.yaml"), PROFILE).unwrap();
    let wrong =
        "---\napiVersion: routed.io/v2\nkind: EdgeRoute\nmetadata: {name: wrong}\nspec: {nonsense: 1}\n";
    fs::write(
        folder.path().join("routes.yaml"),
        format!("{wrong}{}", route("a")),
    )
    .unwrap();
    let running = follow(folder.path());
    until_served(&running, &["a"]);
    assert!(running.status().compile.unwrap().errors > 0);
}

#[test]
fn a_file_written_slowly_in_place_never_takes_its_routes_away() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("routes.yaml");
    fs::write(folder.path().join("profile.yaml"), PROFILE).unwrap();
    fs::write(&path, route("a")).unwrap();
    let running = follow(folder.path());
    until_served(&running, &["a"]);
    let mut file = fs::File::create(&path).unwrap();
    running.looks(3);
    assert_eq!(served(&running), ["a"], "an emptied file was believed at once");
    file.write_all(route("b").as_bytes()).unwrap();
    until_served(&running, &["b"]);
}

#[test]
fn a_folder_that_vanishes_or_is_emptied_changes_nothing_but_the_status() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("resources");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("profile.yaml"), PROFILE).unwrap();
    fs::write(root.join("a.yaml"), route("a")).unwrap();
    let running = follow(&root);
    until_served(&running, &["a"]);
    fs::rename(&root, folder.path().join("away")).unwrap();
    running.until("degraded", |status| status.degraded);
    assert_eq!(served(&running), ["a"]);
    fs::create_dir(&root).unwrap();
    let refused = running.until("a refusal", |status| status.refusals == 1);
    assert!(refused.last_error.unwrap().message.contains("--allow-empty"));
    assert_eq!(served(&running), ["a"]);
    fs::write(root.join("profile.yaml"), PROFILE).unwrap();
    fs::write(root.join("b.yaml"), route("b")).unwrap();
    until_served(&running, &["b"]);
    running.until("order", |status| !status.degraded);
}

#[test]
fn a_fifo_in_the_folder_neither_blocks_nor_hides_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("profile.yaml"), PROFILE).unwrap();
    fs::write(folder.path().join("a.yaml"), route("a")).unwrap();
    let fifo = folder.path().join("fifo.yaml");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    symlink(".", folder.path().join("loop")).unwrap();
    let running = follow(folder.path());
    until_served(&running, &["a"]);
    running.until("degraded", |status| status.degraded);
    fs::remove_file(&fifo).unwrap();
    running.until("order", |status| !status.degraded);
}

#[test]
fn the_same_files_give_the_same_hash() {
    let one = tempfile::tempdir().unwrap();
    let two = tempfile::tempdir().unwrap();
    fs::write(
        one.path().join("all.yaml"),
        format!("{PROFILE}{}{}", route("a"), route("b")),
    )
    .unwrap();
    fs::write(two.path().join("b.yaml"), format!("{}{}", route("b"), route("a"))).unwrap();
    fs::write(two.path().join("p.yaml"), PROFILE).unwrap();
    let (one, two) = (follow(one.path()), follow(two.path()));
    until_served(&one, &["a", "b"]);
    until_served(&two, &["a", "b"]);
    assert_eq!(one.status().hash, two.status().hash);
}

#[test]
fn keys_of_secrets_reach_the_table_and_leave_it() {
    let folder = tempfile::tempdir().unwrap();
    let certified = rcgen::generate_simple_self_signed(["a.example.com".to_owned()]).unwrap();
    let indent = |pem: &str| {
        pem.lines()
            .map(|line| format!("    {line}\n"))
            .collect::<String>()
    };
    let secret = format!(
        "---\napiVersion: v1\nkind: Secret\ntype: kubernetes.io/tls\nmetadata: {{name: cert}}\nstringData:\n  tls.crt: |\n{}  \
         tls.key: |\n{}",
        indent(&certified.cert.pem()),
        indent(&certified.signing_key.serialize_pem()),
    );
    let profile = "apiVersion: routed.io/v1
kind: RouterProfile
metadata: {name: default}
spec:
  listeners:
  - {name: https, port: 8443, protocol: HTTPS, tls: {certificateRefs: [{name: cert}]}}
";
    let path = folder.path().join("all.yaml");
    put(&path, format!("{profile}{secret}{}", route("a")).as_bytes());
    let running = follow(folder.path());
    until_served(&running, &["a"]);
    until("the pair", || running.keys.load().contains_key("default/cert"));
    put(&path, format!("{PROFILE}{}", route("a")).as_bytes());
    until("no pair", || running.keys.load().is_empty());
}

#[test]
fn a_profile_that_can_no_longer_be_read_keeps_its_ports() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("profile.yaml");
    let good = PROFILE.replace("8080", "80");
    put(&path, good.as_bytes());
    fs::write(folder.path().join("a.yaml"), route("a")).unwrap();
    let running = follow(folder.path());
    until_served(&running, &["a"]);
    let hash = running.status().hash;
    // A field that doesn't exist, then a wrong type, with the document not even YAML in between.
    for wrong in [
        good.replace("port", "prot"),
        "spec: [".to_owned(),
        good.replace("80", "eighty"),
    ] {
        put(&path, wrong.as_bytes());
        let told = |status: &routed_sources::SourceStatus| {
            let compile = status.compile.clone().unwrap_or_default();
            let diags = &compile.diagnostics;
            !diags.is_empty() && diags.iter().all(|diag| diag.message.contains("last good"))
        };
        running.looks(4);
        running.until("an error", told);
        assert_eq!(running.status().hash, hash, "{wrong}");
        assert_eq!(served(&running), ["a"]);
    }
    put(&path, good.replace("80", "81").as_bytes());
    running.until("the mended profile", |status| status.hash != hash);
    let index = running.live.load_full().unwrap();
    let profile = index.profile("default/default").unwrap();
    assert_eq!(profile.listeners["http"].port, 81);
}
