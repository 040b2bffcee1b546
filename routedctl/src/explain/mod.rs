//! `routedctl explain`: where a request would go, and why not elsewhere.
//!
//! - [`offline`]: on a snapshot file or on resources, with the code that the router decides with.
//! - [`live`]: asked of a running router, with the endpoints and listeners it has at this moment.
//! - [`request`]: the request as typed.
//!
//! Both ways give the same JSON, so both are shown by the same few lines below.

mod live;
mod offline;
mod request;

use anyhow::{Result, bail};
use serde_json::Value;

use self::request::Request;
use crate::args::{Explain, Format, Table};
use crate::exit::Exit;
use crate::output;

/// Explains.
pub(crate) fn run(options: &Explain) -> Result<Exit> {
    let request = Request::of(options)?;
    let explanation = match &options.table {
        Table {
            admin: Some(admin), ..
        } => live::explain(admin, options)?,
        Table {
            snapshot: Some(file), ..
        } => offline::on_snapshot(file, &request)?,
        Table {
            resources: Some(path),
            ..
        } => offline::on_resources(path, &request)?,
        _ => bail!("one of --snapshot, --resources and --admin is needed"),
    };
    // A router normalises paths itself, so only what is decided here needs the hint.
    if options.table.admin.is_none()
        && let Some(hint) = request.normalization_hint()
    {
        output::complain(&format!("note: {hint}\n"));
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
