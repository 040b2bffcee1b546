//! A control plane as a process of its own, which can be stopped, continued and killed. It is this test binary, run
//! again with a variable that says what to serve.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use routed_snapshot::Snapshot;

use crate::common::{Running, position, put, snapshot};
use crate::rig::grpc;
use crate::server::{At, Server};

/// The file to serve and the address to serve it at.
const WHAT: &str = "ROUTED_TEST_CONTROL_PLANE";

/// A running control plane; it is killed when dropped.
pub struct Process {
    child: Child,
    port: u16,
    address: String,
}

impl Process {
    /// Serves the document in this file, and each that replaces it.
    pub fn serving(file: &Path, at: SocketAddr) -> Process {
        Process::run(Command::new(std::env::current_exe().unwrap()), file, at)
    }

    /// The same in a network of its own.
    pub fn in_network(name: &str, file: &Path, at: SocketAddr) -> Process {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", name])
            .arg(std::env::current_exe().unwrap());
        Process::run(command, file, at)
    }

    fn run(mut command: Command, file: &Path, at: SocketAddr) -> Process {
        let mut child = command
            .args([
                "--exact",
                "process::a_control_plane_in_a_process_of_its_own_serves_and_dies",
                "--nocapture",
            ])
            .env(WHAT, format!("{at} {}", file.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut address = lines
            .map_while(Result::ok)
            .find_map(|line| Some(line.split_once("serving ")?.1.to_owned()));
        let address = address.take().expect("it says where it serves");
        let port = address.rsplit(':').next().unwrap().parse().unwrap();
        Process { child, port, address }
    }

    /// As `--snapshot-addr` takes it.
    pub fn address(&self) -> &str {
        &self.address
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &pid]).status().unwrap();
        assert!(sent.success());
    }

    /// Kills it with SIGKILL and waits.
    pub fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// Serves until it is killed, or until the test that started it is gone.
fn serve(what: &str) {
    let (at, file) = what.split_once(' ').unwrap();
    let server = Server::at(At::Address(at.parse().unwrap()));
    println!("serving {}", server.address());
    let parent = std::os::unix::process::parent_id();
    let mut last = Vec::new();
    while std::os::unix::process::parent_id() == parent {
        let document = std::fs::read(file).unwrap_or_default();
        if document != last {
            if let Ok(snapshot) = Snapshot::decode(&document) {
                server.set(&snapshot);
            }
            last = document;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_control_plane_in_a_process_of_its_own_serves_and_dies() {
    if let Ok(what) = std::env::var(WHAT) {
        return serve(&what);
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("table.json");
    let (first, second) = (
        snapshot("1", Some(position("c", 1))),
        snapshot("2", Some(position("c", 2))),
    );
    put(&file, &first.encode());
    let process = Process::serving(&file, ([127, 0, 0, 1], 0).into());
    let running = Running::start(grpc(process.address()));
    running.until_serves(&first);
    put(&file, &second.encode());
    running.until_serves(&second);
    process.kill();
    running.until("the end of the stream", |status| status.connected == Some(false));
    assert!(running.serves(&second));
}
