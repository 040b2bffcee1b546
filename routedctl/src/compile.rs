//! `routedctl compile`: resources to a snapshot file.
//!
//! Private keys are never part of a snapshot: whoever may read the table need not be trusted with them. They are
//! written only where asked, one folder per Secret, readable by the owner alone.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path};

use anyhow::{Context, Result, ensure};
use routed_policy::TlsPair;
use routed_snapshot::Snapshot;

use crate::args::Compile;
use crate::exit::Exit;
use crate::validate::Findings;
use crate::{input, output};

const PUBLIC: u32 = 0o644;
const PRIVATE: u32 = 0o600;
const PRIVATE_FOLDER: u32 = 0o700;

/// Compiles and writes.
pub(crate) fn run(options: &Compile) -> Result<Exit> {
    let input = input::read(&options.paths);
    let findings = Findings::of(&input);
    findings.show(&input);
    if !input.unusable.is_empty() {
        return Ok(Exit::Unusable);
    }
    // What a router would refuse whole is of no use to anyone, whatever the wish to keep going.
    if findings.refused.is_some() || findings.errors > 0 && !options.keep_going {
        output::complain("nothing written\n");
        return Ok(Exit::Invalid);
    }
    let report = &findings.report;
    // Keys first: a router that sees the new snapshot finds its keys in place.
    if let Some(folder) = &options.keys_out {
        write_keys(folder, &report.keys)?;
    }
    let summary = summary(&report.snapshot, options.print_parts)?;
    let document = report.snapshot.encode();
    if options.output == Path::new("-") {
        output::print(&document)?;
        output::complain(&summary);
    } else {
        output::write_whole(&options.output, &document, PUBLIC)?;
        output::print(summary.as_bytes())?;
    }
    Ok(Exit::Fine)
}

fn summary(snapshot: &Snapshot, parts: bool) -> Result<String> {
    let mut text = format!(
        "hash {}\nconfigHash {}\n",
        snapshot.hash(),
        snapshot.config_hash()
    );
    if parts {
        for (name, part) in snapshot.parts() {
            writeln!(text, "part {name} {} {}", part.hash(), part.length())?;
        }
    }
    Ok(text)
}

fn write_keys(folder: &Path, keys: &BTreeMap<String, TlsPair>) -> Result<()> {
    for (name, pair) in keys {
        let inner = Path::new(name);
        let plain = inner
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        ensure!(
            plain && inner.components().count() == 2,
            "`{name}` is no namespace/name"
        );
        let folder = folder.join(inner);
        let made = DirBuilder::new()
            .recursive(true)
            .mode(PRIVATE_FOLDER)
            .create(&folder);
        made.with_context(|| format!("cannot make {}", folder.display()))?;
        output::write_whole(&folder.join("tls.crt"), &pair.certificate_pem, PUBLIC)?;
        output::write_whole(&folder.join("tls.key"), &pair.key_pem, PRIVATE)?;
    }
    Ok(())
}
