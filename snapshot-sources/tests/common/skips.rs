//! What a test could not run, for the tests of all crates: each includes this file by its path.

use std::fs::OpenOptions;
use std::io::Write;

/// Says loudly that a test can't run here, and counts it in the file `$ROUTED_SKIPS`.
pub fn skipped(what: &str) {
    eprintln!("SKIPPED: {what}");
    if let Some(file) = std::env::var_os("ROUTED_SKIPS") {
        let opened = OpenOptions::new().create(true).append(true).open(file);
        if let Ok(mut file) = opened {
            let _ = writeln!(file, "{what}");
        }
    }
}
