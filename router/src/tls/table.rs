//! Which certificate a server name gets.

use std::collections::HashMap;
use std::sync::Arc;

use rustls::sign::CertifiedKey;

use super::certificates::Served;

/// The certificates of one listener, by the names that they carry.
///
/// The exact name wins, then a wildcard one label above. Clients that send no name get the first certificate of the
/// listener; clients that ask for an unknown name get none. Where two certificates carry one name, the first listed
/// wins.
#[derive(Debug, Default)]
pub(crate) struct CertificateTable {
    exact: HashMap<String, Arc<CertifiedKey>>,
    /// By what stands behind `*.`.
    wildcard: HashMap<String, Arc<CertifiedKey>>,
    unnamed: Option<Arc<CertifiedKey>>,
}

impl CertificateTable {
    /// A table of these, in the listener's order. `None` stands for a certificate that is not there: where it is
    /// the first, clients without a name are refused rather than shown the second.
    pub(crate) fn new<'a>(served: impl Iterator<Item = Option<&'a Served>>) -> CertificateTable {
        let mut table = CertificateTable::default();
        for (position, served) in served.enumerate() {
            let Some(served) = served else { continue };
            if position == 0 {
                table.unnamed = Some(served.key.clone());
            }
            for name in &served.names {
                let (names, name) = match name.strip_prefix("*.") {
                    Some(suffix) => (&mut table.wildcard, suffix),
                    None => (&mut table.exact, name.as_str()),
                };
                names.entry(name.to_owned()).or_insert_with(|| served.key.clone());
            }
        }
        table
    }

    /// The certificate for a server name (lower-case).
    pub(crate) fn choose(&self, name: Option<&str>) -> Option<&Arc<CertifiedKey>> {
        let Some(name) = name else {
            return self.unnamed.as_ref();
        };
        // The name in SNI never has the final dot; some clients send it all the same.
        let name = name.strip_suffix('.').unwrap_or(name);
        self.exact.get(name).or_else(|| {
            let (label, suffix) = name.split_once('.')?;
            (!label.is_empty()).then(|| self.wildcard.get(suffix))?
        })
    }
}
