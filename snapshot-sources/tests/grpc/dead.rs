//! Peers that are gone and don't say so: case C25, rows K1, K2, K5, K8. With the usual settings, since the seconds
//! they take are what is promised.

use std::net::TcpListener;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use routed_snapshot::Snapshot;

use crate::common::{Running, position, put, snapshot, until};
use crate::process::Process;
use crate::relay::Relay;
use crate::rig::{grpc, skipped};
use crate::server::{At, Server};

/// In which time a dead stream is to be found.
const FOUND: Duration = Duration::from_secs(30);

/// In which time a newer table of another control plane is to be served.
const MOVED: Duration = Duration::from_secs(60);

fn at(body: &str, version: u64) -> Snapshot {
    snapshot(body, Some(position("c", version)))
}

/// Waits longer than a usual condition may take.
fn within(limit: Duration, what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < limit, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
    println!("{what}: after {:.1?}", start.elapsed());
}

fn found(running: &Running, what: &str) {
    within(FOUND, what, || running.status().connected == Some(false));
}

/// Watches that a table is served at every moment, and never an older one than before.
struct Watch {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Watch {
    fn over(running: &Running) -> Watch {
        let (live, stop) = (running.live.clone(), Arc::new(AtomicBool::new(false)));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut newest = 0;
            while !stopped.load(Ordering::Relaxed) {
                let index = live.load_full().expect("a table is served throughout");
                let version = index
                    .position()
                    .map_or(0, |position| position.resource_versions["edgeroutes"]);
                assert!(version >= newest, "a step back from {newest} to {version}");
                newest = version;
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        Watch {
            stop,
            thread: Some(thread),
        }
    }

    fn end(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread
            .take()
            .unwrap()
            .join()
            .expect("served throughout, no step back");
    }
}

#[test]
fn a_half_open_stream_is_found_and_a_newer_control_plane_followed() {
    let (old, new) = (Server::start(&at("1", 1)), Server::start(&at("2", 2)));
    let relay = Relay::to(old.port());
    let running = Running::start(grpc(&relay.address()));
    running.until_serves(&at("1", 1));
    let watch = Watch::over(&running);
    let cut = Instant::now();
    relay.freeze();
    found(&running, "the half-open stream");
    let status = running.status();
    assert!(status.degraded && running.serves(&at("1", 1)));
    let error = status.last_error.unwrap().message;
    assert!(error.contains("silent for 20 s, pings included"), "{error}");
    relay.point_to(new.port());
    relay.thaw();
    within(MOVED, "the newer table", || running.serves(&at("2", 2)));
    assert!(cut.elapsed() < MOVED);
    // The old one is back: its position is older, and nothing of it is taken.
    relay.point_to(old.port());
    new.end_streams();
    within(MOVED, "the refusal of the old one", || {
        running.status().refused.is_some()
    });
    assert!(running.serves(&at("2", 2)));
    watch.end();
}

#[test]
fn a_stopped_control_plane_is_found_and_continued_brings_no_step_back() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("1.json"), folder.path().join("2.json"));
    put(&one, &at("1", 1).encode());
    put(&two, &at("2", 2).encode());
    let loopback = ([127, 0, 0, 1], 0).into();
    let (old, new) = (Process::serving(&one, loopback), Process::serving(&two, loopback));
    let relay = Relay::to(old.port());
    let running = Running::start(grpc(&relay.address()));
    running.until_serves(&at("1", 1));
    let watch = Watch::over(&running);
    old.signal("STOP");
    let stopped = Instant::now();
    found(&running, "the stopped control plane");
    relay.point_to(new.port());
    within(MOVED, "the newer table", || running.serves(&at("2", 2)));
    assert!(stopped.elapsed() < MOVED);
    relay.point_to(old.port());
    old.signal("CONT");
    new.kill();
    within(MOVED, "the refusal of the old one", || {
        running.status().refused.is_some()
    });
    assert!(running.serves(&at("2", 2)));
    watch.end();
}

#[test]
fn a_control_plane_that_is_stopped_before_it_answers_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("1.json");
    put(&file, &at("1", 1).encode());
    let process = Process::serving(&file, ([127, 0, 0, 1], 0).into());
    process.signal("STOP");
    let running = Running::start(grpc(process.address()));
    // The system accepts for it; nobody ever answers.
    within(FOUND, "the silent control plane", || {
        running.status().last_error.is_some()
    });
    assert!(!running.status().connected.unwrap());
    process.signal("CONT");
    within(MOVED, "its table", || running.serves(&at("1", 1)));
}

#[test]
fn a_port_that_accepts_and_stays_silent_is_found() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let running = Running::start(grpc(&format!("http://{}", silent.local_addr().unwrap())));
    within(FOUND, "the silent port", || running.status().last_error.is_some());
    let status = running.status();
    assert!(status.degraded && status.connected == Some(false));
}

#[test]
fn a_killed_control_plane_is_found_at_once_and_its_successor_followed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("1.json");
    put(&file, &at("1", 1).encode());
    let process = Process::serving(&file, ([127, 0, 0, 1], 0).into());
    let port = process.port();
    let running = Running::start(grpc(process.address()));
    running.until_serves(&at("1", 1));
    let watch = Watch::over(&running);
    process.kill();
    running.until("the end of the stream", |status| status.connected == Some(false));
    put(&file, &at("2", 2).encode());
    let _successor = Process::serving(&file, ([127, 0, 0, 1], port).into());
    within(MOVED, "the newer table", || running.serves(&at("2", 2)));
    watch.end();
}

/// A network of its own for a control plane, with one wire to it.
struct Network {
    name: String,
}

impl Network {
    const HERE: &str = "10.231.77.1";
    const THERE: &str = "10.231.77.2";

    /// `None` where this machine lets nobody make one.
    fn new() -> Option<Network> {
        let name = format!("routed{}", std::process::id());
        let (here, there) = (format!("rt{}", std::process::id()), "there");
        let network = Network { name: name.clone() };
        let made = ip(&["netns", "add", &name])
            && ip(&[
                "link", "add", &here, "type", "veth", "peer", "name", there, "netns", &name,
            ])
            && ip(&["addr", "add", &format!("{}/30", Network::HERE), "dev", &here])
            && ip(&["link", "set", &here, "up"])
            && ip(&[
                "-n",
                &name,
                "addr",
                "add",
                &format!("{}/30", Network::THERE),
                "dev",
                there,
            ])
            && ip(&["-n", &name, "link", "set", there, "up"]);
        made.then_some(network)
    }

    /// What is sent from there never arrives.
    fn drop_packets(&self) {
        let here = format!("{}/32", Network::HERE);
        assert!(ip(&["-n", &self.name, "route", "add", "blackhole", &here]));
    }

    fn pass_packets(&self) {
        let here = format!("{}/32", Network::HERE);
        assert!(ip(&["-n", &self.name, "route", "del", "blackhole", &here]));
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        ip(&["netns", "del", &self.name]);
    }
}

fn ip(arguments: &[&str]) -> bool {
    let run = Command::new("ip")
        .args(arguments)
        .stderr(std::process::Stdio::null())
        .status();
    run.is_ok_and(|status| status.success())
}

#[test]
fn dropped_packets_are_noticed_and_the_table_serves_until_they_pass_again() {
    let Some(network) = Network::new() else {
        return skipped("a network of its own for the control plane (needs root and ip)");
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("1.json");
    put(&file, &at("1", 1).encode());
    let address = format!("{}:7447", Network::THERE).parse().unwrap();
    let process = Process::in_network(&network.name, &file, address);
    let running = Running::start(grpc(process.address()));
    running.until_serves(&at("1", 1));
    let watch = Watch::over(&running);
    network.drop_packets();
    found(&running, "the dropped packets");
    put(&file, &at("2", 2).encode());
    network.pass_packets();
    within(MOVED, "the newer table", || running.serves(&at("2", 2)));
    watch.end();
}

/// The real thing to the distribution that `backoff` promises.
#[test]
fn two_hundred_routers_do_not_come_back_at_one_moment() {
    let server = Server::start(&at("1", 1));
    let port = server.port();
    let routers: Vec<Running> = (0..200).map(|_| Running::start(grpc(server.address()))).collect();
    until("200 streams", || server.open() == 200);
    for router in &routers {
        router.until_serves(&at("1", 1));
    }
    drop(server);
    for router in &routers {
        router.until("the end of the stream", |status| status.connected == Some(false));
    }
    let server = Server::at(At::Port(port));
    server.set(&at("2", 2));
    within(MOVED, "200 routers on the newer table", || {
        routers.iter().all(|router| router.serves(&at("2", 2)))
    });
    let opened = server.opened();
    let window = Duration::from_millis(250);
    let in_window = |from: &Instant| {
        opened
            .iter()
            .filter(|at| **at >= *from && at.duration_since(*from) < window)
            .count()
    };
    let busiest = opened.iter().map(in_window).max().unwrap();
    println!("{} streams, at most {busiest} within {window:?}", opened.len());
    assert!(busiest <= 100, "{busiest} routers came within {window:?}");
}
