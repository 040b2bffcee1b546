//! The caches, key folders, and what happens to replaced tables.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::{Arc, Weak};

use common::{Running, empty, polling, position, put, snapshot, until};
use routed_snapshot::ir::{CertificateRef, Listener, ListenerProtocol, ListenerTls, Profile, ProfilesPart};
use routed_snapshot::snapshot::PartContent;
use routed_snapshot::{Index, Part, PartName, Snapshot};
use routed_sources::key_cache::KeyCacheError;
use routed_sources::{FileConfig, KeyPair, KeyTable, Keys, Offered, Publisher, Refusal, Source};

fn file_source(path: &Path) -> Source {
    Source::File(FileConfig {
        polling: polling(true),
        ..FileConfig::new(path)
    })
}

fn pair(host: &str) -> KeyPair {
    let certified = rcgen::generate_simple_self_signed([host.to_owned()]).unwrap();
    KeyPair {
        fingerprint: routed_snapshot::Hash::of(certified.cert.der()).to_string(),
        certificate_pem: certified.cert.pem().into_bytes(),
        key_pem: certified.signing_key.serialize_pem().into_bytes(),
    }
}

#[test]
fn replaced_tables_are_freed_once_no_request_uses_them() {
    let (publisher, live) = Publisher::new();
    let mut tables: Vec<Weak<Index>> = Vec::new();
    let mut in_use = None;
    for number in 0..10_000 {
        publisher
            .offer(&snapshot(&number.to_string(), None), false)
            .unwrap();
        let table = live.load_full().unwrap();
        tables.push(Arc::downgrade(&table));
        if number == 5000 {
            in_use = Some(table);
        }
    }
    let alive = || tables.iter().filter(|table| table.strong_count() > 0).count();
    until("two tables alive", || alive() == 2);
    drop(in_use);
    until("one table alive", || alive() == 1);
    assert_eq!(live.status().view().swaps, 10_000);
}

#[test]
fn equal_tables_are_counted_and_change_nothing() {
    let (publisher, live) = Publisher::new();
    let changed = live.changed();
    assert_eq!(publisher.offer(&snapshot("a", None), false), Ok(Offered::Swapped));
    assert_eq!(publisher.offer(&snapshot("a", None), false), Ok(Offered::Equal));
    assert_eq!(*changed.borrow(), 1);
    let status = live.status().view();
    assert_eq!((status.swaps, status.no_ops), (1, 1));
    assert!(serde_json::to_string(&status).unwrap().contains("\"noOps\":1"));
}

#[test]
fn an_equal_table_with_a_newer_position_moves_the_position() {
    let (publisher, live) = Publisher::new();
    publisher
        .offer(&snapshot("a", Some(position("c", 1))), false)
        .unwrap();
    publisher
        .offer(&snapshot("a", Some(position("c", 9))), false)
        .unwrap();
    assert_eq!(live.status().view().position, Some(position("c", 9)));
    let older = publisher.offer(&snapshot("b", Some(position("c", 5))), false);
    assert_eq!(older, Err(Refusal::Older));
    assert_eq!(publisher.offer(&empty(None), false), Err(Refusal::Empty));
}

#[test]
fn a_restart_serves_the_cached_table_before_the_source_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let (source, cache) = (
        folder.path().join("snapshot.json"),
        folder.path().join("cache.json"),
    );
    let held = snapshot("a", Some(position("c", 5)));
    put(&source, &held.encode());
    let (publisher, live) = Publisher::new();
    publisher.attach_snapshot_cache(cache.clone());
    let running = Running::start_with(file_source(&source), publisher, live, Keys::default());
    running.until_serves(&held);
    running.until("the cache", |status| {
        status
            .cache
            .as_ref()
            .is_some_and(|cache| cache.written_at.is_some())
    });
    drop(running);
    assert_eq!(fs::metadata(&cache).unwrap().permissions().mode() & 0o777, 0o600);

    fs::remove_file(&source).unwrap();
    let (publisher, live) = Publisher::new();
    publisher.attach_snapshot_cache(cache);
    assert_eq!(live.load().as_ref().map(|index| index.hash()), Some(held.hash()));
    let running = Running::start_with(file_source(&source), publisher, live, Keys::default());
    running.until("degraded", |status| status.degraded);
    // The cached position still refuses what is older.
    put(&source, &snapshot("old", Some(position("c", 4))).encode());
    running.until("a refusal", |status| status.refusals == 1);
    put(&source, &snapshot("b", Some(position("c", 6))).encode());
    running.until_serves(&snapshot("b", None));
}

#[test]
fn a_damaged_or_unwritable_cache_costs_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache.json");
    fs::write(&cache, &snapshot("a", None).encode()[..100]).unwrap();
    let (publisher, live) = Publisher::new();
    publisher.attach_snapshot_cache(cache.clone());
    assert!(live.load().is_none());
    fs::remove_file(&cache).unwrap();
    // A folder where the file should be: renaming over it fails, for root as well.
    fs::create_dir(&cache).unwrap();
    publisher.offer(&snapshot("b", None), false).unwrap();
    until("the report", || {
        live.status()
            .view()
            .cache
            .is_some_and(|cache| cache.error.is_some())
    });
    assert!(live.load().is_some());
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "a temporary file was left behind");
    // Room again: it is written without a new snapshot.
    fs::remove_dir(&cache).unwrap();
    until("the cache", || {
        live.status()
            .view()
            .cache
            .is_some_and(|cache| cache.error.is_none() && cache.written_at.is_some())
    });
    assert_eq!(
        fs::read(&cache).unwrap(),
        snapshot("b", None).encode(),
        "not the newest"
    );
}

#[test]
fn the_key_cache_survives_a_restart_and_is_closed_to_others() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("keys");
    let keys = Keys::with_cache(cache.clone()).unwrap();
    let table = KeyTable::from([
        ("shop/a".to_owned(), Arc::new(pair("a.example.com"))),
        ("shop/b".to_owned(), Arc::new(pair("b.example.com"))),
    ]);
    keys.store(table.clone());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&cache), 0o700);
    for entry in fs::read_dir(&cache).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
    assert_eq!(*Keys::with_cache(cache.clone()).unwrap().load(), table);

    let mut fewer = table;
    fewer.remove("shop/a");
    keys.store(fewer.clone());
    assert_eq!(*Keys::with_cache(cache.clone()).unwrap().load(), fewer);
    fs::write(cache.join("damaged.json"), "{").unwrap();
    assert_eq!(*Keys::with_cache(cache).unwrap().load(), fewer);
}

#[test]
fn a_key_cache_open_to_others_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("keys");
    fs::create_dir(&cache).unwrap();
    for mode in [0o750, 0o707, 0o755] {
        fs::set_permissions(&cache, fs::Permissions::from_mode(mode)).unwrap();
        let refused = Keys::with_cache(cache.clone());
        assert!(matches!(refused, Err(KeyCacheError::Open { .. })), "{mode:o}");
    }
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(matches!(
        Keys::with_cache(file),
        Err(KeyCacheError::NotAFolder { .. })
    ));
}

#[test]
fn pairs_are_read_from_a_folder_and_a_damaged_one_keeps_its_last() {
    let folder = tempfile::tempdir().unwrap();
    let (path, tls) = (folder.path().join("snapshot.json"), folder.path().join("tls"));
    put(&path, &snapshot("a", None).encode());
    let write = |name: &str, pair: &KeyPair| {
        let folder = tls.join("shop").join(name);
        fs::create_dir_all(&folder).unwrap();
        put(&folder.join("tls.crt"), &pair.certificate_pem);
        put(&folder.join("tls.key"), &pair.key_pem);
    };
    let first = pair("a.example.com");
    write("cert", &first);
    // A mounted Secret reaches its files by links.
    let second = pair("b.example.com");
    write("mounted", &second);
    fs::rename(tls.join("shop/mounted"), tls.join("shop/..1")).unwrap();
    fs::create_dir(tls.join("shop/mounted")).unwrap();
    fs::rename(tls.join("shop/..1"), tls.join("shop/mounted/..1")).unwrap();
    symlink("..1", tls.join("shop/mounted/..data")).unwrap();
    for file in ["tls.crt", "tls.key"] {
        symlink(format!("..data/{file}"), tls.join("shop/mounted").join(file)).unwrap();
    }
    let running = Running::start(Source::File(FileConfig {
        polling: polling(true),
        tls_keys: Some(tls.clone()),
        ..FileConfig::new(&path)
    }));
    let held = |name: &str| running.keys.load().get(name).map(|pair| pair.fingerprint.clone());
    until("both pairs", || {
        held("shop/cert") == Some(first.fingerprint.clone())
            && held("shop/mounted") == Some(second.fingerprint.clone())
    });
    put(&tls.join("shop/cert/tls.crt"), b"damaged");
    running.until("degraded", |status| status.degraded);
    assert_eq!(held("shop/cert"), Some(first.fingerprint.clone()));
    let third = pair("c.example.com");
    write("cert", &third);
    until("the new pair", || {
        held("shop/cert") == Some(third.fingerprint.clone())
    });
    fs::remove_dir_all(tls.join("shop/cert")).unwrap();
    until("no pair", || held("shop/cert").is_none());
    assert_eq!(held("shop/mounted"), Some(second.fingerprint.clone()));
}

/// The table `body`, with a profile whose listener takes its certificate from a Secret.
fn with_certificate(body: &str, secret: &str) -> Snapshot {
    let reference = CertificateRef {
        name: secret.to_owned(),
        fingerprint: "0".repeat(64),
    };
    let listener = Listener {
        address: "127.0.0.1".to_owned(),
        port: 8443,
        protocol: ListenerProtocol::Https,
        tls: Some(ListenerTls {
            certificates: vec![reference],
            certificate_files: Vec::new(),
        }),
        redirect_to_https: None,
    };
    let profile = Profile {
        listeners: BTreeMap::from([("https".to_owned(), listener)]),
        ..Profile::default()
    };
    let part = ProfilesPart {
        profiles: BTreeMap::from([("default/default".to_owned(), profile)]),
    };
    let mut parts = snapshot(body, None).parts().clone();
    let part = Part::from_content(PartContent::Profiles(part)).unwrap();
    parts.insert(PartName::Profiles, Arc::new(part));
    Snapshot::new(parts, None)
}

#[test]
fn a_key_folder_that_is_empty_takes_no_pair_that_is_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let (path, tls) = (folder.path().join("snapshot.json"), folder.path().join("tls"));
    let cache = folder.path().join("keys");
    let needed = with_certificate("a", "shop/cert");
    put(&path, &needed.encode());
    let first = pair("a.example.com");
    let keys = Keys::with_cache(cache.clone()).unwrap();
    let held = |name: &str| (name.to_owned(), Arc::new(first.clone()));
    keys.store(KeyTable::from([held("shop/cert"), held("shop/old")]));
    // The folder is mounted late: nothing is in it yet.
    fs::create_dir(&tls).unwrap();
    let source = Source::File(FileConfig {
        polling: polling(true),
        tls_keys: Some(tls.clone()),
        ..FileConfig::new(&path)
    });
    let (publisher, live) = Publisher::new();
    let running = Running::start_with(source, publisher, live, keys);
    running.until_serves(&needed);
    let names = || running.keys.load().keys().cloned().collect::<Vec<_>>();
    until("the pair that nobody names is gone", || names() == ["shop/cert"]);
    running.until("degraded", |status| status.degraded);
    running.looks(5);
    assert_eq!(names(), ["shop/cert"]);
    assert!(Keys::with_cache(cache).unwrap().load().contains_key("shop/cert"));
    let second = pair("b.example.com");
    fs::create_dir_all(tls.join("shop/cert")).unwrap();
    put(&tls.join("shop/cert/tls.crt"), &second.certificate_pem);
    put(&tls.join("shop/cert/tls.key"), &second.key_pem);
    let fingerprint = |of: &KeyPair| of.fingerprint.clone();
    until("the new pair", || {
        running.keys.load().get("shop/cert").map(|pair| fingerprint(pair)) == Some(fingerprint(&second))
    });
    running.until("order", |status| !status.degraded);
    fs::remove_dir_all(tls.join("shop")).unwrap();
    running.looks(8);
    assert_eq!(names(), ["shop/cert"]);
    put(&path, &snapshot("b", None).encode());
    until("no pair", || names().is_empty());
}

#[test]
fn a_key_cache_that_can_not_be_written_is_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let (path, cache) = (folder.path().join("snapshot.json"), folder.path().join("keys"));
    put(&path, &snapshot("a", None).encode());
    let keys = Keys::with_cache(cache.clone()).unwrap();
    let (refused, other) = (pair("a.example.com"), pair("b.example.com"));
    // A folder where the pair's file should be: renaming over it fails, for root as well.
    let file = cache.join(format!("{}.json", routed_snapshot::Hash::of(b"shop/a")));
    fs::create_dir(&file).unwrap();
    let table = KeyTable::from([
        ("shop/a".to_owned(), Arc::new(refused)),
        ("shop/b".to_owned(), Arc::new(other)),
    ]);
    keys.store(table.clone());
    let cached = || Keys::with_cache(cache.clone()).unwrap().load().len();
    assert_eq!(cached(), 1, "the other pair was not written");
    let (publisher, live) = Publisher::new();
    let _running = Running::start_with(file_source(&path), publisher, live, keys);
    fs::remove_dir(&file).unwrap();
    until("both pairs", || cached() == 2);
}
