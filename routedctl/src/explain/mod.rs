//! `routedctl explain`: where a request would go, and why not elsewhere.
//!
//! - [`offline`]: on a snapshot file or on resources, with the code that the router decides with.
//! - [`live`]: asked of a running router, with the endpoints and listeners it has at this moment.
//!
//! Both ways give the same JSON, so both are shown by the same few lines below.

mod live;
mod offline;

use anyhow::{Result, bail};
use routed_snapshot::request::Typed;
use serde_json::Value;

use crate::args::{Explain, Format, Table};
use crate::exit::Exit;
use crate::output;

/// Explains.
pub(crate) fn run(options: &Explain) -> Result<Exit> {
    let typed = Typed::new(&options.method, &options.url, options.headers.clone())?;
    let explanation = match &options.table {
        Table {
            admin: Some(admin), ..
        } => live::explain(admin, options)?,
        Table {
            snapshot: Some(file), ..
        } => offline::on_snapshot(file, &typed, options)?,
        Table {
            resources: Some(path),
            ..
        } => offline::on_resources(path, &typed, options)?,
        _ => bail!("one of --snapshot, --resources and --admin is needed"),
    };
    // What is decided on is not what was typed: that is often the answer.
    if let Some(path) = explanation["path"].as_str().filter(|path| *path != typed.path) {
        output::complain(&format!("note: the path is taken as `{path}`\n"));
    }
    output::print(&written(&explanation, options.output)?)?;
    Ok(Exit::Fine)
}

fn written(explanation: &Value, format: Format) -> Result<Vec<u8>> {
    let mut text = match format {
        Format::Json => serde_json::to_string_pretty(explanation)?,
        Format::Text => serde_saphyr::to_string(explanation)?,
    };
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text.into_bytes())
}
