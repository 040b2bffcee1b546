//! What `deploy/` offers to copy from is valid, without a warning.

use std::path::{Path, PathBuf};
use std::process::Command;

fn folders() -> Vec<PathBuf> {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy");
    let mut folders: Vec<PathBuf> = std::fs::read_dir(deploy.join("examples"))
        .expect("the examples are there")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    folders.push(deploy.join("quickstart"));
    folders
}

#[test]
fn each_folder_is_valid_without_a_warning() {
    let folders = folders();
    assert!(folders.len() > 3);
    for folder in folders {
        let run = Command::new(env!("CARGO_BIN_EXE_routedctl"))
            .args(["validate", "--strict"])
            .arg(&folder)
            .output()
            .expect("routedctl runs");
        let said = String::from_utf8_lossy(&run.stderr);
        assert!(
            run.status.success(),
            "{}: {:?}\n{said}",
            folder.display(),
            run.status
        );
    }
}
