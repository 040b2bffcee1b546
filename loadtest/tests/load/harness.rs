//! The program as a child process, and programs that others wrote.

use std::io::{BufRead, BufReader, ErrorKind};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

#[path = "../../../snapshot-sources/tests/common/skips.rs"]
mod skips;

pub use skips::skipped;

/// The program with these arguments.
pub fn tool(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_routed-loadtest"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs a program that ends by itself. `None`: it is not installed, which is said aloud.
#[track_caller]
pub fn run(program: &str, arguments: &[&str]) -> Option<Output> {
    match Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
    {
        Ok(output) => Some(output),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            skipped(&format!("{program}: {error}"));
            None
        }
        Err(error) => panic!("{program}: {error}"),
    }
}

/// What a program said, both ways.
pub fn text(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stdout);
    format!("{said}\n{}", String::from_utf8_lossy(&output.stderr))
}

/// A running `routed-loadtest upstream`; it is killed when dropped.
pub struct Upstream {
    child: Child,
    /// Scheme and address, as in a URL.
    pub origin: String,
}

impl Upstream {
    /// Starts one on a free port.
    #[track_caller]
    pub fn start(flags: &[&str]) -> Upstream {
        let mut command = tool(&["upstream", "--seconds", "300"]);
        command.args(flags).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let origin = line.trim().strip_prefix("listening on ");
        let origin = origin.unwrap_or_else(|| panic!("it said {line:?}")).to_owned();
        Upstream { child, origin }
    }

    /// A URL on it.
    pub fn url(&self, target: &str) -> String {
        format!("{}{target}", self.origin)
    }

    /// Its address.
    pub fn address(&self) -> &str {
        self.origin.split_once("://").unwrap().1
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A certificate for `localhost` and its key, in files.
pub struct Certificate {
    /// The certificate, which is its own authority.
    pub certificate: PathBuf,
    /// The key.
    pub key: PathBuf,
    _place: TempDir,
}

impl Certificate {
    /// A fresh one.
    pub fn new() -> Certificate {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let place = TempDir::new().unwrap();
        let file = |name: &str, text: String| {
            let path = place.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        Certificate {
            certificate: file("cert.pem", made.cert.pem()),
            key: file("key.pem", made.signing_key.serialize_pem()),
            _place: place,
        }
    }
}
