//! `routedctl crds`: the definitions of all kinds as YAML, one document each.

use anyhow::Result;

use crate::exit::Exit;
use crate::output;

/// Prints them.
pub(crate) fn run() -> Result<Exit> {
    let mut text = String::new();
    for definition in routed_policy::crds() {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(&definition)?);
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    output::print(text.as_bytes())?;
    Ok(Exit::Fine)
}
