//! A folder of resources, and the objects in it. Objects are written as JSON, which is YAML too.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

/// A folder of resources in a temporary place of its own.
pub struct Folder {
    root: TempDir,
}

impl Folder {
    /// A folder with a profile and these objects.
    pub fn new(objects: &[Value]) -> Folder {
        let folder = Folder {
            root: TempDir::new().unwrap(),
        };
        std::fs::create_dir(folder.dir()).unwrap();
        folder.put("objects.yaml", objects);
        folder
    }

    /// The folder given to the router.
    pub fn dir(&self) -> PathBuf {
        self.root.path().join("resources")
    }

    /// The temporary place, for files beside the folder.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// Replaces one file of the folder by a rename, as a careful person does.
    pub fn put(&self, name: &str, objects: &[Value]) {
        let text: Vec<String> = objects.iter().map(|object| format!("{object:#}\n")).collect();
        self.put_text(name, &text.join("---\n"));
    }

    /// Replaces one file of the folder by this text.
    pub fn put_text(&self, name: &str, text: &str) {
        let draft = self.root.path().join(format!(".draft-{name}"));
        std::fs::write(&draft, text).unwrap();
        std::fs::rename(&draft, self.dir().join(name)).unwrap();
    }

    /// Takes a file away.
    pub fn remove(&self, name: &str) {
        std::fs::remove_file(self.dir().join(name)).unwrap();
    }

    /// Writes a file beside the folder by a rename, and says where.
    pub fn beside(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.root.path().join(name);
        let draft = self.root.path().join(format!(".draft-{name}"));
        std::fs::write(&draft, content).unwrap();
        std::fs::rename(&draft, &path).unwrap();
        path
    }

    /// The folder's files.
    pub fn files(&self) -> Vec<(String, Vec<u8>)> {
        let entries = std::fs::read_dir(self.dir())
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let mut paths: Vec<PathBuf> = entries.filter(|path| path.is_file()).collect();
        paths.sort();
        let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
        paths
            .iter()
            .map(|path| (name(path), std::fs::read(path).unwrap()))
            .collect()
    }
}

/// Compiles objects as `routedctl compile` does.
pub fn compile(objects: &[Value]) -> routed_policy::Report {
    let text: Vec<String> = objects.iter().map(|object| format!("{object:#}\n")).collect();
    let files = [("objects.yaml".to_owned(), text.join("---\n").into_bytes())];
    routed_policy::compile(&routed_policy::Resources::from_files(files))
}

/// Any object in the namespace `default`.
pub fn object(kind: &str, version: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec})
}

/// The profile `default/default`: plain HTTP on a free port, as listener `http`.
pub fn profile() -> Value {
    profile_with(json!({}))
}

/// The same with further fields of the spec, for instance `normalization`.
pub fn profile_with(more: Value) -> Value {
    let listener = json!({"name": "http", "address": "127.0.0.1", "port": 0, "protocol": "HTTP"});
    let mut spec = json!({"listeners": [listener]});
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    object("RouterProfile", "routed.io/v1", "default", spec)
}

/// A Backend with these addresses.
pub fn backend(name: &str, addresses: &[SocketAddr]) -> Value {
    let address = |at: &SocketAddr| json!({"address": at.ip().to_string(), "port": at.port()});
    let addresses: Vec<Value> = addresses.iter().map(address).collect();
    backend_spec(name, json!({"addresses": addresses}))
}

/// A Backend.
pub fn backend_spec(name: &str, spec: Value) -> Value {
    object("Backend", "routed.io/v1", name, spec)
}

/// An EdgeRoute v2 with this spec.
pub fn route(name: &str, spec: Value) -> Value {
    object("EdgeRoute", "routed.io/v2", name, spec)
}

/// An EdgeRoute of one rule: these hosts, this path match, to this backend.
pub fn simple_route(name: &str, hosts: &[&str], kind: &str, path: &str, to: &str) -> Value {
    route(
        name,
        json!({
            "hostnames": hosts,
            "rules": [{"matches": [{"path": {"type": kind, "value": path}}], "backends": [{"backend": to}]}],
        }),
    )
}
