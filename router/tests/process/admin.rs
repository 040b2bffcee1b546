//! The admin interface on a Unix socket, and its metrics as a scraper reads them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;

use tempfile::TempDir;

use crate::support::{Router, connect, eventually, exchange, get};
use crate::{follow, plain, resources};

/// One GET by the socket; none where nobody answers.
fn ask(socket: &Path, path: &str) -> Option<(u16, String)> {
    exchange(UnixStream::connect(socket).ok()?, "admin", path)
}

#[test]
fn a_unix_socket_is_for_its_owner_and_outlives_a_kill() {
    let folder = TempDir::new().unwrap();
    let socket = folder.path().join("admin.sock");
    let flag = format!("unix:{}", socket.display());
    let router = Router::start_at(&flag, &[]);
    let (status, _) = eventually("answered", || ask(&socket, "/livez"));
    assert_eq!(status, 200);
    let found = std::fs::symlink_metadata(&socket).unwrap();
    assert!(found.file_type().is_socket());
    assert_eq!(found.permissions().mode() & 0o777, 0o600);
    assert_eq!(ask(&socket, "/readyz").unwrap().0, 503);
    refuses(&flag, "another process listens there");
    assert_eq!(ask(&socket, "/livez").unwrap().0, 200);

    router.signal("KILL");
    drop(router);
    let _router = Router::start_at(&flag, &[]);
    eventually("answered again", || ask(&socket, "/livez"));

    let file = folder.path().join("file");
    std::fs::write(&file, "kept").unwrap();
    let flag = format!("unix:{}", file.display());
    refuses(&flag, "no socket stands there");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept");
}

/// A start there ends with 1, and says why.
fn refuses(flag: &str, why: &str) {
    let mut router = Router::start_at(flag, &[]);
    assert_eq!(router.exit_code(), Some(1));
    eventually(why, || router.logged(why).then_some(()));
    assert!(router.logged("--admin-addr"), "the flag is named");
}

#[test]
fn a_stopped_process_keeps_its_unix_socket() {
    let folder = TempDir::new().unwrap();
    let socket = folder.path().join("admin.sock");
    let flag = format!("unix:{}", socket.display());
    let router = Router::start_at(&flag, &[]);
    eventually("answered", || ask(&socket, "/livez"));
    router.signal("STOP");
    refuses(&flag, "another process listens there");
    router.signal("CONT");
    assert_eq!(ask(&socket, "/livez").unwrap().0, 200);
}

#[test]
fn a_unix_socket_goes_with_its_process_and_only_with_that() {
    let folder = TempDir::new().unwrap();
    let socket = folder.path().join("admin.sock");
    let flag = format!("unix:{}", socket.display());
    let resources = resources(&[plain("http", 0)]);
    let source = ["--resources", resources.path().to_str().unwrap()];
    let mut router = Router::start_at(&flag, &source);
    eventually("answered", || ask(&socket, "/livez"));
    router.signal("TERM");
    assert_eq!(router.exit_code(), Some(0));
    assert!(!socket.exists());

    // Ended in the middle of a drain, it cleans up all the same.
    let mut router = Router::start_at(&flag, &source);
    let mut guest = connect(router.address("default/default/http")).unwrap();
    guest.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    router.signal("TERM");
    eventually("draining", || {
        ask(&socket, "/readyz")?.1.contains("draining").then_some(())
    });
    router.signal("TERM");
    assert_eq!(router.exit_code(), Some(1));
    assert!(!socket.exists());

    // What another process has put there since is that one's.
    let mut first = Router::start_at(&flag, &source);
    eventually("answered", || ask(&socket, "/livez"));
    std::fs::remove_file(&socket).unwrap();
    let _second = Router::start_at(&flag, &source);
    eventually("answered", || ask(&socket, "/livez"));
    first.signal("TERM");
    assert_eq!(first.exit_code(), Some(0));
    assert_eq!(ask(&socket, "/livez").unwrap().0, 200);
}

/// A family as it was announced.
#[derive(Default)]
struct Family {
    help: usize,
    kind: Option<String>,
    samples: usize,
}

/// The families of an exposition; whatever is not in order fails.
fn families(text: &str) -> BTreeMap<String, Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let (mut current, mut series) = (String::new(), BTreeSet::new());
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, words) = help.split_once(' ').expect(line);
            assert!(!words.is_empty(), "{line}");
            current = name.to_owned();
            families.entry(current.clone()).or_default().help += 1;
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').expect(line);
            assert_eq!(name, current, "HELP and TYPE stand together");
            let before = families.get_mut(name).unwrap().kind.replace(kind.to_owned());
            assert_eq!(before, None, "{name} has two types");
        } else {
            let (sample, value) = line.rsplit_once(' ').expect(line);
            value.parse::<f64>().expect(line);
            assert!(series.insert(sample), "twice: {sample}");
            let name = sample.split('{').next().unwrap();
            let family = families.get_mut(&current).expect(line);
            let histogram = family.kind.as_deref() == Some("histogram");
            let suffix = name.strip_prefix(current.as_str()).expect(line);
            let suffixes: &[&str] = if histogram {
                &["_bucket", "_sum", "_count"]
            } else {
                &[""]
            };
            assert!(suffixes.contains(&suffix), "{line} stands below {current}");
            family.samples += 1;
        }
    }
    families
}

#[test]
fn the_exposition_is_in_order() {
    let folder = resources(&[plain("http", 0), plain("more", 0)]);
    let router = follow(&folder);
    router.ready();
    for listener in ["http", "more"] {
        get(router.address(&format!("default/default/{listener}")), "a", "/").unwrap();
    }
    let (_, text) = router.admin("/metrics");
    assert!(text.ends_with('\n'));
    let families = families(&text);
    for (name, family) in &families {
        assert_eq!(family.help, 1, "{name} is announced once");
        let kind = family.kind.as_deref().expect(name);
        assert!(
            ["counter", "gauge", "histogram"].contains(&kind),
            "{name}: {kind}"
        );
        assert_eq!(kind == "counter", name.ends_with("_total"), "{name}: {kind}");
    }
    for name in [
        "routed_requests_total",
        "routed_connections_open",
        "routed_client_sockets_open",
        "routed_snapshot_hash",
        "routed_snapshot_config_hash",
        "routed_listener_bound",
        "process_open_fds",
    ] {
        let family = families.get(name).expect(name);
        assert!(family.samples > 0, "{name}");
    }
}
