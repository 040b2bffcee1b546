//! The router as a child process.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tempfile::TempDir;

use super::client::{Conn, Reply};
use super::{DEADLINE, Folder, wait_for, wait_until};

/// A router to be started.
pub struct Launch {
    flags: Vec<OsString>,
    poll: Option<&'static str>,
}

impl Launch {
    /// From a folder of resources.
    pub fn resources(dir: &Path) -> Launch {
        Launch::with("--resources", dir)
    }

    /// From a compiled snapshot file.
    pub fn snapshot(file: &Path) -> Launch {
        Launch::with("--snapshot-path", file)
    }

    /// From a control plane.
    pub fn grpc(address: &str) -> Launch {
        Launch::with("--snapshot-addr", Path::new(address))
    }

    fn with(flag: &str, path: &Path) -> Launch {
        Launch {
            flags: vec![flag.into(), path.into()],
            poll: Some("20ms"),
        }
    }

    /// How often the source is looked at.
    pub fn poll(mut self, interval: &'static str) -> Launch {
        self.poll = Some(interval);
        self
    }

    /// A flag without value.
    pub fn switch(mut self, flag: &str) -> Launch {
        self.flags.push(flag.into());
        self
    }

    /// A flag with a value.
    pub fn flag(mut self, flag: &str, value: impl Into<OsString>) -> Launch {
        self.flags.push(flag.into());
        self.flags.push(value.into());
        self
    }

    /// Starts it and waits until it is ready.
    #[track_caller]
    pub fn start(self) -> Router {
        let router = self.spawn();
        router.wait_ready();
        router
    }

    /// Starts it.
    #[track_caller]
    pub fn spawn(self) -> Router {
        let place = TempDir::new().unwrap();
        let admin = place.path().join("admin.sock");
        let mut command = Command::new(env!("CARGO_BIN_EXE_routed"));
        command.arg("serve").args(&self.flags);
        command
            .arg("--admin-addr")
            .arg(format!("unix:{}", admin.display()));
        if let Some(poll) = self.poll {
            command.args(["--poll-interval", poll]);
        }
        if !self.flags.iter().any(|flag| flag == "--workers") {
            command.args(["--workers", "2"]);
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        collect(child.stderr.take().unwrap(), log.clone());
        Router {
            child,
            admin,
            log,
            _place: place,
        }
    }
}

fn collect(stream: impl Read + Send + 'static, lines: Arc<Mutex<Vec<String>>>) {
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines() {
            let Ok(line) = line else { return };
            lines.lock().unwrap().push(line);
        }
    });
}

/// A running router; it is killed when dropped.
pub struct Router {
    child: Child,
    admin: PathBuf,
    log: Arc<Mutex<Vec<String>>>,
    _place: TempDir,
}

impl Router {
    /// A router over a folder, ready. The folder may hold no routes.
    #[track_caller]
    pub fn over(folder: &Folder) -> Router {
        Launch::resources(&folder.dir()).switch("--allow-empty").start()
    }

    /// Waits until `/readyz` says 200.
    #[track_caller]
    pub fn wait_ready(&self) {
        let end = std::time::Instant::now() + DEADLINE;
        while !self.is_ready() {
            let log = self.log().join("\n");
            assert!(
                std::time::Instant::now() < end,
                "the router does not get ready; its log:\n{log}"
            );
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }

    /// True where `/readyz` says 200 now.
    pub fn is_ready(&self) -> bool {
        self.try_admin("/readyz").is_ok_and(|reply| reply.status == 200)
    }

    /// The address that a listener of the profile `default/default` is bound to.
    #[track_caller]
    pub fn address(&self, listener: &str) -> SocketAddr {
        let name = format!("default/default/{listener}");
        wait_for(&format!("listener {name} in the log"), || {
            self.addresses().remove(&name)
        })
    }

    /// The address of the plain listener.
    #[track_caller]
    pub fn http(&self) -> SocketAddr {
        self.address("http")
    }

    /// All bound addresses, the last one of each name.
    pub fn addresses(&self) -> BTreeMap<String, SocketAddr> {
        let mut found = BTreeMap::new();
        for line in self.log() {
            let Ok(line) = serde_json::from_str::<Value>(&line) else {
                continue;
            };
            let field = |name: &str| {
                let value = line.get(name).or_else(|| line.get("fields")?.get(name));
                value.and_then(Value::as_str).map(str::to_owned)
            };
            if field("message").as_deref() != Some("listening") {
                continue;
            }
            if let (Some(name), Some(address)) = (field("listener"), field("address"))
                && let Ok(address) = address.parse()
            {
                found.insert(name, address);
            }
        }
        found
    }

    /// The log so far.
    pub fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    /// A GET on the admin socket.
    #[track_caller]
    pub fn admin(&self, target: &str) -> Reply {
        self.try_admin(target)
            .unwrap_or_else(|error| panic!("admin {target}: {error}; log:\n{}", self.log().join("\n")))
    }

    fn try_admin(&self, target: &str) -> std::io::Result<Reply> {
        let stream = UnixStream::connect(&self.admin)?;
        stream.set_read_timeout(Some(DEADLINE))?;
        let mut connection = Conn::over(stream);
        connection
            .send(format!("GET {target} HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n").as_bytes())?;
        connection.reply()
    }

    /// Where the admin socket is.
    pub fn admin_socket(&self) -> &Path {
        &self.admin
    }

    /// The hash of the snapshot served.
    #[track_caller]
    pub fn hash(&self) -> String {
        let reply = self.admin("/snapshot").json();
        let hash = reply.get("hash").and_then(Value::as_str);
        hash.unwrap_or_else(|| panic!("no hash in {reply}")).to_owned()
    }

    /// Waits until another snapshot than `old` is served.
    #[track_caller]
    pub fn wait_swap(&self, old: &str) -> String {
        wait_for("a swap", || Some(self.hash()).filter(|hash| hash != old))
    }

    /// Waits until the snapshot of this hash is served.
    #[track_caller]
    pub fn wait_hash(&self, wanted: &str) {
        wait_until(&format!("snapshot {wanted}"), || self.hash() == wanted);
    }

    /// A number of `/snapshot`, wherever in the document it stands.
    #[track_caller]
    pub fn number(&self, field: &str) -> u64 {
        let document = self.admin("/snapshot").json();
        let found = find(&document, field).and_then(Value::as_u64);
        found.unwrap_or_else(|| panic!("no number {field} in {document:#}"))
    }

    /// How many tables were applied.
    #[track_caller]
    pub fn swaps(&self) -> u64 {
        self.number("swaps")
    }

    /// How many tables were refused.
    #[track_caller]
    pub fn refusals(&self) -> u64 {
        self.number("refusals")
    }

    /// True where the source is in trouble and the last good table is served.
    #[track_caller]
    pub fn is_degraded(&self) -> bool {
        let document = self.admin("/snapshot").json();
        let found = find(&document, "degraded").and_then(Value::as_bool);
        found.unwrap_or_else(|| panic!("no field degraded in {document:#}"))
    }

    /// The metrics.
    pub fn metrics(&self) -> String {
        self.admin("/metrics").text()
    }

    /// What the process uses now.
    pub fn usage(&self) -> Usage {
        Usage::of(self.child.id())
    }

    /// True where the process lives.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends a signal by name.
    #[track_caller]
    pub fn signal(&self, name: &str) {
        let mut kill = Command::new("kill");
        let sent = kill.args(["-s", name, &self.child.id().to_string()]).status();
        assert!(sent.unwrap().success(), "SIG{name}");
    }

    /// Its exit code, once it has ended.
    #[track_caller]
    pub fn exit_code(&mut self) -> Option<i32> {
        let ended = wait_for("the end of the process", || self.child.try_wait().unwrap());
        ended.code()
    }

    /// Ends it without warning (SIGKILL) and waits.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let log = self.log();
            let from = log.len().saturating_sub(40);
            eprintln!("--- the router's log:\n{}", log[from..].join("\n"));
        }
    }
}

fn find<'a>(document: &'a Value, field: &str) -> Option<&'a Value> {
    match document {
        Value::Object(fields) => fields
            .get(field)
            .or_else(|| fields.values().find_map(|value| find(value, field))),
        _ => None,
    }
}

/// What a process uses.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    /// Resident memory in KiB.
    pub rss_kib: u64,
    /// Threads.
    pub threads: u64,
    /// Open descriptors.
    pub descriptors: usize,
}

impl Usage {
    fn of(pid: u32) -> Usage {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_whitespace().next().unwrap().parse().unwrap()
        };
        Usage {
            rss_kib: field("VmRSS:"),
            threads: field("Threads:"),
            descriptors: std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count(),
        }
    }
}
