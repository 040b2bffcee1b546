//! How a changed file is noticed, whatever its times say, and what happens while it is bad or gone.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{Conn, Folder, Launch, Router, compile, full, get, profile, route, wait_until};

/// Objects of a table that answers with `version` everywhere.
pub(crate) fn objects(version: &str) -> Vec<Value> {
    let answer = json!({"type": "DirectResponse", "directResponse": {"statusCode": 200, "body": version}});
    vec![profile(), route("r", json!({"rules": [{"filters": [answer]}]}))]
}

/// The same, compiled.
pub(crate) fn table(version: &str) -> Vec<u8> {
    let report = compile(&objects(version));
    assert!(report.diags.is_empty(), "{:?}", report.diags);
    report.snapshot.encode()
}

fn version(router: &Router) -> String {
    get(router.http(), "a", "/").text()
}

fn wait_version(router: &Router, wanted: &str) {
    wait_until(&format!("table {wanted}"), || version(router) == wanted);
}

fn replace(path: &Path, content: &[u8]) {
    let draft = path.with_extension("draft");
    fs::write(&draft, content).unwrap();
    fs::rename(&draft, path).unwrap();
}

/// J2, J3: neither time nor size says that nothing changed.
#[test]
fn new_bytes_are_noticed_with_equal_and_with_older_times() {
    let place = TempDir::new().unwrap();
    let path = place.path().join("table.json");
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let write = |content: &[u8], at: SystemTime| {
        let draft = place.path().join("draft");
        fs::write(&draft, content).unwrap();
        File::options()
            .write(true)
            .open(&draft)
            .unwrap()
            .set_modified(at)
            .unwrap();
        fs::rename(&draft, &path).unwrap();
    };
    let tables = [table("one"), table("two"), table("six")];
    assert!(
        tables.iter().all(|table| table.len() == tables[0].len()),
        "same size"
    );
    write(&tables[0], long_ago);
    let router = Launch::snapshot(&path).start();
    assert_eq!(version(&router), "one");
    write(&tables[1], long_ago);
    wait_version(&router, "two");
    write(&tables[2], long_ago - Duration::from_secs(1000));
    wait_version(&router, "six");
    // In place, the same inode, size and time.
    fs::write(&path, &tables[0]).unwrap();
    File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_modified(long_ago - Duration::from_secs(1000))
        .unwrap();
    wait_version(&router, "one");
}

/// J4, H1
#[test]
fn a_half_written_file_is_refused_and_taken_once_whole() {
    let place = TempDir::new().unwrap();
    let path = place.path().join("table.json");
    fs::write(&path, table("one")).unwrap();
    let router = Launch::snapshot(&path).start();
    let next = table("two");
    for part in [0, 1, next.len() / 2, next.len() - 1] {
        let before = router.refusals();
        fs::write(&path, &next[..part]).unwrap();
        wait_until(&format!("{part} bytes refused"), || router.refusals() > before);
        assert_eq!(version(&router), "one");
        assert!(router.is_ready());
    }
    fs::write(&path, &next).unwrap();
    wait_version(&router, "two");
}

/// J5
#[test]
fn a_file_or_folder_that_goes_away_leaves_the_table() {
    let place = TempDir::new().unwrap();
    let dir = place.path().join("mount");
    let path = dir.join("table.json");
    fs::create_dir(&dir).unwrap();
    fs::write(&path, table("one")).unwrap();
    let router = Launch::snapshot(&path).start();
    let gone: [(&str, &dyn Fn()); 4] = [
        ("the file", &|| fs::remove_file(&path).unwrap()),
        ("the folder", &|| fs::remove_dir_all(&dir).unwrap()),
        ("the file, a folder in its place", &|| {
            fs::remove_file(&path).unwrap();
            fs::create_dir(&path).unwrap();
        }),
        ("the file, a dangling link in its place", &|| {
            fs::remove_file(&path).unwrap();
            symlink("nowhere", &path).unwrap();
        }),
    ];
    for (round, (what, take_away)) in gone.iter().enumerate() {
        take_away();
        wait_until(&format!("notice that {what} is gone"), || router.is_degraded());
        assert!(router.is_ready(), "{what}");
        assert!(!version(&router).is_empty(), "{what}");
        let _ = fs::remove_dir(&path);
        fs::create_dir_all(&dir).unwrap();
        let back = format!("back{round}");
        replace(&path, &table(&back));
        wait_version(&router, &back);
        wait_until("health again", || !router.is_degraded());
    }
}

/// J5 for a folder of resources.
#[test]
fn a_folder_of_resources_that_goes_away_leaves_the_table() {
    let folder = Folder::new(&objects("one"));
    let router = Router::over(&folder);
    let aside = folder.root().join("aside");
    fs::rename(folder.dir(), &aside).unwrap();
    wait_until("notice that the folder is gone", || router.is_degraded());
    assert_eq!(version(&router), "one");
    fs::rename(&aside, folder.dir()).unwrap();
    folder.put("objects.yaml", &objects("two"));
    wait_version(&router, "two");
}

/// J9
#[test]
fn a_file_that_is_no_plain_file_is_refused() {
    let place = TempDir::new().unwrap();
    let path = place.path().join("table.json");
    fs::write(&path, table("one")).unwrap();
    let mut router = Launch::snapshot(&path).start();
    fs::remove_file(&path).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    wait_until("notice of the pipe", || router.is_degraded());
    assert_eq!(version(&router), "one");
    assert!(router.is_alive());
    fs::remove_file(&path).unwrap();
    replace(&path, &table("two"));
    wait_version(&router, "two");
}

/// A volume as Kubernetes lays it out: `name -> ..data/name`, `..data -> ..<time>`.
struct Volume {
    place: TempDir,
    swaps: AtomicUsize,
}

impl Volume {
    fn new(files: &[(&str, Vec<u8>)]) -> Volume {
        let volume = Volume {
            place: TempDir::new().unwrap(),
            swaps: AtomicUsize::new(0),
        };
        volume.swap(files);
        for (name, _) in files {
            symlink(format!("..data/{name}"), volume.dir().join(name)).unwrap();
        }
        volume
    }

    fn dir(&self) -> PathBuf {
        self.place.path().to_owned()
    }

    fn swap(&self, files: &[(&str, Vec<u8>)]) {
        let number = self.swaps.fetch_add(1, Ordering::SeqCst);
        let old = fs::read_link(self.dir().join("..data")).ok();
        let new = format!("..ts{number}");
        fs::create_dir(self.dir().join(&new)).unwrap();
        for (name, content) in files {
            fs::write(self.dir().join(&new).join(name), content).unwrap();
        }
        let temporary = self.dir().join("..data_tmp");
        symlink(&new, &temporary).unwrap();
        fs::rename(&temporary, self.dir().join("..data")).unwrap();
        if let Some(old) = old {
            fs::remove_dir_all(self.dir().join(old)).unwrap();
        }
    }
}

/// Asks without pause until told to stop; every answer must be 200.
fn load(router: &Router, stop: &Arc<AtomicBool>) -> std::thread::JoinHandle<usize> {
    let (address, stop) = (router.http(), stop.clone());
    std::thread::spawn(move || {
        let mut connection = Conn::open(address);
        let mut asked = 0;
        while !stop.load(Ordering::SeqCst) {
            let reply = connection.get("a", "/");
            assert_eq!(reply.status, 200, "{reply:?}");
            asked += 1;
            std::thread::sleep(Duration::from_millis(2));
        }
        asked
    })
}

fn swap_config_maps(launch: impl Fn(&Path) -> Launch, file: &str, content: impl Fn(&str) -> Vec<u8>) {
    let volume = Volume::new(&[(file, content("start"))]);
    let router = launch(&volume.dir()).start();
    assert_eq!(version(&router), "start");
    let stop = Arc::new(AtomicBool::new(false));
    let asking = load(&router, &stop);
    let count = if full() { 200 } else { 25 };
    for n in 0..count {
        let name = format!("v{n}");
        volume.swap(&[(file, content(&name))]);
        if n % 5 == 4 {
            wait_version(&router, &name);
        } else {
            // Some swaps follow each other before the router looked: the gaps are what is tested here.
            let longest = if full() { 5000 } else { 100 };
            std::thread::sleep(Duration::from_millis(10 + (n * 7919) % longest));
        }
    }
    let last = format!("v{}", count - 1);
    wait_version(&router, &last);
    stop.store(true, Ordering::SeqCst);
    assert!(asking.join().unwrap() > 0);
}

/// C24, J1
#[test]
fn a_config_map_swap_under_load_is_followed_by_the_file_source() {
    swap_config_maps(
        |dir| Launch::snapshot(&dir.join("table.json")),
        "table.json",
        table,
    );
}

/// C24, J1
#[test]
fn a_config_map_swap_under_load_is_followed_by_the_folder_of_resources() {
    let text = |version: &str| {
        let texts: Vec<String> = objects(version).iter().map(Value::to_string).collect();
        texts.join("\n---\n").into_bytes()
    };
    swap_config_maps(Launch::resources, "objects.yaml", text);
}

/// C24: the volume is mounted after the start.
#[test]
fn a_file_that_is_mounted_late_is_served_once_there() {
    let place = TempDir::new().unwrap();
    let path = place.path().join("late").join("table.json");
    let router = Launch::snapshot(&path).spawn();
    wait_until("the admin socket", || router.admin_socket().exists());
    wait_until("life", || router.admin("/livez").status == 200);
    assert_eq!(router.admin("/readyz").status, 503);
    fs::create_dir(path.parent().unwrap()).unwrap();
    fs::write(&path, table("one")).unwrap();
    router.wait_ready();
    wait_version(&router, "one");
}
