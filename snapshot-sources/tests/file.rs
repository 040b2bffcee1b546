//! The file source, on real files.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, SystemTime};

use common::{Running, empty, polling, position, put, snapshot};
use routed_sources::{FileConfig, RefusalReason, Source};

fn follow(path: &Path) -> Running {
    Running::start(source(path, true))
}

fn source(path: &Path, notify: bool) -> Source {
    Source::File(FileConfig {
        polling: polling(notify),
        ..FileConfig::new(path)
    })
}

/// The layout of a mounted ConfigMap: `snapshot.json -> ..data/snapshot.json`, `..data -> ..<stamp>`.
fn swap(folder: &Path, stamp: u32, bytes: &[u8]) {
    let generation = folder.join(format!("..{stamp}"));
    fs::create_dir(&generation).unwrap();
    fs::write(generation.join("snapshot.json"), bytes).unwrap();
    let before = fs::read_link(folder.join("..data")).ok();
    symlink(generation.file_name().unwrap(), folder.join("..data_tmp")).unwrap();
    fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    if let Some(before) = before {
        fs::remove_dir_all(folder.join(before)).unwrap();
    }
    let _ = symlink("..data/snapshot.json", folder.join("snapshot.json"));
}

#[test]
fn swaps_of_a_mounted_configmap_are_followed_to_the_last() {
    let folder = tempfile::tempdir().unwrap();
    let (swaps, gap) = match std::env::var("ROUTED_FULL_TESTS") {
        Ok(_) => (200, 5000),
        Err(_) => (200, 12),
    };
    swap(folder.path(), 0, &snapshot("0", None).encode());
    let running = follow(&folder.path().join("snapshot.json"));
    running.until_serves(&snapshot("0", None));
    for stamp in 1..=swaps {
        swap(folder.path(), stamp, &snapshot(&stamp.to_string(), None).encode());
        assert!(running.live.load().is_some(), "a swap took the table away");
        std::thread::sleep(Duration::from_millis(u64::from(stamp * 7919) % gap));
    }
    running.until_serves(&snapshot(&swaps.to_string(), None));
    assert_eq!(running.status().refusals, 0);
}

#[test]
fn new_bytes_of_the_same_length_and_time_are_seen() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.json");
    fs::write(&path, snapshot("a", None).encode()).unwrap();
    let time = fs::metadata(&path).unwrap().modified().unwrap();
    let running = Running::start(source(&path, false));
    running.until_serves(&snapshot("a", None));
    let mut file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all(&snapshot("b", None).encode()).unwrap();
    file.set_modified(time).unwrap();
    running.until_serves(&snapshot("b", None));
}

#[test]
fn a_time_that_goes_back_does_not_hide_new_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.json");
    fs::write(&path, snapshot("a", None).encode()).unwrap();
    let running = Running::start(source(&path, false));
    running.until_serves(&snapshot("a", None));
    put(&path, &snapshot("b", None).encode());
    let file = File::options().write(true).open(&path).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    running.until_serves(&snapshot("b", None));
}

#[test]
fn a_file_half_written_in_place_is_refused_and_read_again_when_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.json");
    fs::write(&path, snapshot("a", None).encode()).unwrap();
    let running = follow(&path);
    running.until_serves(&snapshot("a", None));
    let bytes = snapshot("b", None).encode();
    let (first, second) = bytes.split_at(bytes.len() / 2);
    let mut file = File::create(&path).unwrap();
    file.write_all(first).unwrap();
    running.until("a refusal", |status| status.degraded && status.refusals > 0);
    assert!(running.serves(&snapshot("a", None)));
    file.write_all(second).unwrap();
    running.until_serves(&snapshot("b", None));
    running.until("order", |status| !status.degraded);
}

#[test]
fn a_refused_content_is_counted_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.json");
    fs::write(&path, b"{}").unwrap();
    let running = follow(&path);
    running.until("a refusal", |status| status.refusals == 1);
    running.looks(4);
    let status = running.status();
    assert_eq!((status.refusals, status.degraded), (1, true));
    assert!(running.live.load().is_none());
}

#[test]
fn damaged_documents_are_refused_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.json");
    let good = snapshot("good", None);
    fs::write(&path, good.encode()).unwrap();
    let running = follow(&path);
    running.until_serves(&good);
    let other = String::from_utf8(snapshot("other", None).encode()).unwrap();
    let hash = snapshot("other", None).hash().to_string();
    let damaged: [(&str, Vec<u8>); 7] = [
        ("nothing", Vec::new()),
        ("truncated", other.as_bytes()[..other.len() - 1].to_vec()),
        ("a changed byte", other.replace("other", "othes").into_bytes()),
        (
            "another version",
            other
                .replace("\"schemaVersion\":1", "\"schemaVersion\":99")
                .into_bytes(),
        ),
        ("a wrong hash", other.replace(&hash, &"0".repeat(64)).into_bytes()),
        (
            "an unknown feature",
            other
                .replace("\"requires\":[]", "\"requires\":[\"x\"]")
                .into_bytes(),
        ),
        ("deep nesting", "[".repeat(200_000).into_bytes()),
    ];
    for (refused, (what, bytes)) in (1_u64..).zip(damaged) {
        put(&path, &bytes);
        let status = running.until(what, |status| status.refusals == refused && status.degraded);
        assert!(running.serves(&good), "{what} was taken");
        let last = status.last_refusal.unwrap();
        assert!(last.message.contains("snapshot.json: "), "{}", last.message);
        let expected = match what {
            "a changed byte" | "a wrong hash" => RefusalReason::WrongHash,
            "another version" => RefusalReason::SchemaVersion,
            "an unknown feature" => RefusalReason::UnknownFeature,
            _ => RefusalReason::Malformed,
        };
        assert_eq!(last.reason, expected, "{what}");
        assert_eq!(status.refusals_by_reason.values().sum::<u64>(), refused);
    }
    put(&path, &snapshot("better", None).encode());
    running.until_serves(&snapshot("better", None));
    let status = running.until("order", |status| !status.degraded);
    assert!(status.last_refusal.is_some(), "it is kept");
}

#[test]
fn an_empty_table_needs_a_flag_or_a_newer_position() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.json");
    let held = snapshot("a", Some(position("c", 5)));
    fs::write(&path, held.encode()).unwrap();
    let running = follow(&path);
    running.until_serves(&held);
    put(&path, &empty(None).encode());
    running.until("a refusal", |status| status.refusals == 1);
    put(&path, &empty(Some(position("c", 5))).encode());
    running.until("a refusal", |status| status.refusals == 2);
    assert!(running.serves(&held));
    put(&path, &empty(Some(position("c", 6))).encode());
    running.until_serves(&empty(None));
    drop(running);

    put(&path, &empty(None).encode());
    let allowed = Source::File(FileConfig {
        polling: polling(true),
        allow_empty: true,
        ..FileConfig::new(&path)
    });
    Running::start(allowed).until_serves(&empty(None));
}

#[test]
fn an_older_position_or_another_cluster_waits_for_a_reset() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.json");
    let held = snapshot("new", Some(position("c", 7)));
    fs::write(&path, held.encode()).unwrap();
    let running = follow(&path);
    running.until_serves(&held);
    put(&path, &snapshot("old", Some(position("c", 6))).encode());
    running.until("a refusal", |status| status.refusals == 1);
    assert!(running.serves(&held));
    // Without a position: taken, and the one held stays in force.
    put(&path, &snapshot("by hand", None).encode());
    running.until_serves(&snapshot("by hand", None));
    put(&path, &snapshot("old", Some(position("c", 6))).encode());
    running.until("a refusal", |status| status.refusals == 2);
    let foreign = snapshot("foreign", Some(position("d", 1)));
    put(&path, &foreign.encode());
    running.until("a refusal", |status| status.refusals == 3);
    running.live.status().reset_position();
    running.until_serves(&foreign);
    // What is served is published before it is told of.
    running.until("its position", |status| status.position == Some(position("d", 1)));
}

#[test]
fn a_file_or_folder_that_goes_away_changes_nothing_but_the_status() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("mount");
    fs::create_dir(&inner).unwrap();
    let path = inner.join("snapshot.json");
    fs::write(&path, snapshot("a", None).encode()).unwrap();
    let running = follow(&path);
    running.until_serves(&snapshot("a", None));
    let still = |what: &str| {
        running.until(what, |status| status.degraded);
        assert!(running.serves(&snapshot("a", None)), "{what}");
    };
    fs::remove_file(&path).unwrap();
    still("the file is gone");
    fs::remove_dir(&inner).unwrap();
    still("the folder is gone");
    fs::write(&inner, b"a file where the folder was").unwrap();
    still("not a folder");
    fs::remove_file(&inner).unwrap();
    fs::create_dir(&inner).unwrap();
    fs::write(&path, snapshot("a", None).encode()).unwrap();
    running.until("order", |status| !status.degraded);
    symlink("nowhere", inner.join("..data")).unwrap();
    fs::remove_file(&path).unwrap();
    symlink("..data/snapshot.json", &path).unwrap();
    still("the link dangles");
    fs::create_dir(inner.join("nowhere")).unwrap();
    fs::write(inner.join("nowhere/snapshot.json"), snapshot("b", None).encode()).unwrap();
    running.until_serves(&snapshot("b", None));
    running.until("order", |status| !status.degraded);
}

#[test]
fn a_folder_mounted_late_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mount/snapshot.json");
    let running = follow(&path);
    running.until("degraded", |status| status.degraded);
    fs::create_dir(folder.path().join("mount")).unwrap();
    swap(&folder.path().join("mount"), 1, &snapshot("a", None).encode());
    running.until_serves(&snapshot("a", None));
}

#[test]
fn what_is_not_a_regular_file_is_refused_without_blocking() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.json");
    let good = snapshot("good", None);
    fs::write(&path, good.encode()).unwrap();
    let running = follow(&path);
    running.until_serves(&good);
    let refused = |what: &str, error: &str| {
        running.until(what, |status| {
            status.degraded
                && status
                    .last_error
                    .as_ref()
                    .is_some_and(|last| last.message.contains(error))
        });
        assert!(running.serves(&good), "{what}");
        running.looks(2);
        fs::remove_file(&path).or_else(|_| fs::remove_dir(&path)).unwrap();
    };
    fs::remove_file(&path).unwrap();
    let fifo = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(fifo.success());
    refused("a FIFO", "not a regular file");
    fs::create_dir(&path).unwrap();
    refused("a folder", "not a regular file");
    symlink("/dev/zero", &path).unwrap();
    refused("a device", "not a regular file");
    File::create(&path).unwrap().set_len(600 << 20).unwrap();
    refused("a huge file", "larger than");
    fs::write(&path, snapshot("b", None).encode()).unwrap();
    running.until_serves(&snapshot("b", None));
}

#[test]
fn a_flood_of_swaps_is_coalesced_and_the_last_one_served() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.json");
    put(&path, &snapshot("start", None).encode());
    let running = follow(&path);
    running.until_serves(&snapshot("start", None));
    for number in 0..2000 {
        put(&path, &snapshot(&number.to_string(), None).encode());
        std::thread::sleep(Duration::from_micros(500));
    }
    running.until_serves(&snapshot("1999", None));
    let status = running.status();
    assert!(status.swaps < 200, "{} swaps were not coalesced", status.swaps);
    assert_eq!(status.refusals, 0);
}

#[test]
fn equal_content_is_no_swap() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.json");
    let mut text = String::from_utf8(snapshot("a", None).encode()).unwrap();
    put(&path, text.as_bytes());
    let running = follow(&path);
    running.until_serves(&snapshot("a", None));
    text.push('\n');
    put(&path, text.as_bytes());
    let status = running.until("a no-op", |status| status.no_ops == 1);
    assert_eq!(status.swaps, 1);
}
