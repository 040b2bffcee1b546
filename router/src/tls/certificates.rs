//! The certificates that the process serves.
//!
//! A pair reaches us by three ways: beside the snapshot, from a folder (both by the key table, where the source puts
//! them), and from files that a profile names. Whatever the way, a pair replaces the one served only if it can be
//! parsed, its key fits and its time is now; else the old pair serves on and the problem is shown.
//!
//! Two liberties are taken where nothing is served under a name yet, because the alternative is to refuse every
//! client: a pair whose fingerprint is not the snapshot's is served (it is the only one held under that name, and
//! server names are taken from the certificate itself), and so is an expired one. Both are reported.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use routed_snapshot::ir;
use routed_sources::{KeyPair, KeyTable};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use serde::Serialize;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The compiler leaves the fingerprint out where the Secret gives no pair.
const SECRET_UNUSABLE: &str = "its Secret is missing or damaged";

/// Largest certificate or key file that is read.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Where a certificate comes from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CertificateId {
    /// `namespace/name` in the key table.
    Named(String),
    /// Files on this machine.
    Files(ir::CertificateFiles),
}

/// A pair in service.
#[derive(Debug, Clone)]
pub(crate) struct Served {
    /// What rustls signs with.
    pub(crate) key: Arc<CertifiedKey>,
    /// DNS names it is for, lower-case.
    pub(crate) names: Vec<String>,
    not_before: i64,
    not_after: i64,
}

/// A certificate's state, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CertificateView {
    /// Its Secret or file.
    pub(crate) name: String,
    /// Whether handshakes can use it.
    pub(crate) served: bool,
    /// Names of the pair in service.
    pub(crate) names: Vec<String>,
    /// When that ends, in seconds since 1970.
    pub(crate) not_after: Option<i64>,
    /// What is wrong.
    pub(crate) problem: Option<String>,
}

/// The certificates, each once however many listeners use it.
#[derive(Debug, Default)]
pub(crate) struct Certificates {
    slots: BTreeMap<CertificateId, Slot>,
}

#[derive(Debug, Default)]
struct Slot {
    /// The pair last judged: an unchanged one is not judged again.
    judged: Option<(Vec<u8>, Vec<u8>)>,
    /// What was wrong with it.
    verdict: Option<String>,
    served: Option<Served>,
    problem: Option<String>,
}

impl Certificates {
    /// The certificates of a listener, in the order in which the first serves clients without a name.
    pub(crate) fn of(tls: &ir::ListenerTls) -> impl Iterator<Item = CertificateId> + '_ {
        let named = tls
            .certificates
            .iter()
            .map(|named| CertificateId::Named(named.name.clone()));
        named.chain(tls.certificate_files.iter().cloned().map(CertificateId::Files))
    }

    /// Looks at every certificate of the profile; those of no listener are forgotten. Says whether what is served
    /// changed.
    pub(crate) fn refresh(&mut self, profile: &ir::Profile, keys: &KeyTable) -> bool {
        let mut kept = BTreeMap::new();
        let mut changed = false;
        for tls in profile
            .listeners
            .values()
            .filter_map(|listener| listener.tls.as_ref())
        {
            let wanted: BTreeMap<&str, &str> = tls
                .certificates
                .iter()
                .map(|named| (&*named.name, &*named.fingerprint))
                .collect();
            for id in Certificates::of(tls) {
                if kept.contains_key(&id) {
                    continue;
                }
                let mut slot = self.slots.remove(&id).unwrap_or_default();
                changed |= match &id {
                    CertificateId::Named(name) => {
                        let fingerprint = wanted.get(name.as_str()).copied().unwrap_or_default();
                        slot.take_named(&id, keys.get(name), fingerprint)
                    }
                    CertificateId::Files(files) => slot.take_files(&id, files),
                };
                kept.insert(id, slot);
            }
        }
        changed |= !self.slots.is_empty();
        self.slots = kept;
        changed
    }

    /// The pair in service.
    pub(crate) fn served(&self, id: &CertificateId) -> Option<&Served> {
        self.slots.get(id)?.served.as_ref()
    }

    /// All, for people.
    pub(crate) fn view(&self) -> Vec<CertificateView> {
        let now = now();
        let view = |(id, slot): (&CertificateId, &Slot)| CertificateView {
            name: id.to_string(),
            served: slot.served.is_some(),
            names: slot
                .served
                .as_ref()
                .map(|served| served.names.clone())
                .unwrap_or_default(),
            not_after: slot.served.as_ref().map(|served| served.not_after),
            problem: slot
                .problem
                .clone()
                .or_else(|| slot.served.as_ref()?.untimely(now)),
        };
        self.slots.iter().map(view).collect()
    }
}

impl std::fmt::Display for CertificateId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CertificateId::Named(name) => f.write_str(name),
            CertificateId::Files(files) => f.write_str(&files.certificate),
        }
    }
}

impl Slot {
    fn take_named(&mut self, id: &CertificateId, pair: Option<&Arc<KeyPair>>, fingerprint: &str) -> bool {
        let Some(pair) = pair else {
            let problem = match fingerprint {
                "" => SECRET_UNUSABLE,
                _ => "no key for it has arrived",
            };
            self.report(id, Some(problem.to_owned()));
            return false;
        };
        let differs = pair.fingerprint != fingerprint;
        if differs && self.served.is_some() && !self.is_judged(&pair.certificate_pem, &pair.key_pem) {
            self.report(
                id,
                Some("the key that arrived is not the one the snapshot names".to_owned()),
            );
            return false;
        }
        let changed = self.take(id, &pair.certificate_pem, &pair.key_pem);
        let mismatch = || {
            let problem = match fingerprint {
                "" => SECRET_UNUSABLE,
                _ => "the pair served is not the one the snapshot names",
            };
            differs.then(|| problem.to_owned())
        };
        self.report(id, self.verdict.clone().or_else(mismatch));
        changed
    }

    fn take_files(&mut self, id: &CertificateId, files: &ir::CertificateFiles) -> bool {
        match (read(&files.certificate), read(&files.key)) {
            (Ok(certificate), Ok(key)) => {
                let changed = self.take(id, &certificate, &key);
                self.report(id, self.verdict.clone());
                changed
            }
            (Err(problem), _) | (_, Err(problem)) => {
                self.report(id, Some(problem));
                false
            }
        }
    }

    fn is_judged(&self, certificate: &[u8], key: &[u8]) -> bool {
        self.judged
            .as_ref()
            .is_some_and(|judged| judged.0 == certificate && judged.1 == key)
    }

    /// Serves the pair if it is good. Says whether what is served changed.
    fn take(&mut self, id: &CertificateId, certificate: &[u8], key: &[u8]) -> bool {
        if self.is_judged(certificate, key) {
            return false;
        }
        self.judged = Some((certificate.to_vec(), key.to_vec()));
        let pair = match parse(certificate, key) {
            Ok(pair) => pair,
            Err(problem) => {
                self.verdict = Some(problem);
                return false;
            }
        };
        self.verdict = pair.untimely(now());
        if self.verdict.is_some() && self.served.is_some() {
            // A clock that was wrong, or a certificate that starts soon: judged again at the next look.
            self.judged = None;
            return false;
        }
        tracing::info!(certificate = %id, names = ?pair.names, "certificate in service");
        self.served = Some(pair);
        true
    }

    /// Keeps the problem for people and logs it once.
    fn report(&mut self, id: &CertificateId, problem: Option<String>) {
        if let Some(text) = &problem
            && self.problem != problem
        {
            if self.served.is_some() {
                tracing::warn!(certificate = %id, problem = text, "certificate not usable; the old pair serves on");
            } else {
                tracing::error!(certificate = %id, problem = text, "certificate not usable; its names are refused");
            }
        }
        self.problem = problem;
    }
}

impl Served {
    fn untimely(&self, now: i64) -> Option<String> {
        if now > self.not_after {
            return Some("it has expired".to_owned());
        }
        (now < self.not_before).then(|| "it is not valid yet".to_owned())
    }
}

fn parse(certificate: &[u8], key: &[u8]) -> Result<Served, String> {
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<_, _>>()
        .map_err(|_| "the certificate is not PEM".to_owned())?;
    let leaf = chain.first().ok_or("no certificate in it")?;
    let (_, parsed) =
        X509Certificate::from_der(leaf).map_err(|_| "the certificate can't be parsed".to_owned())?;
    let names = names(&parsed);
    let validity = parsed.validity();
    let (not_before, not_after) = (validity.not_before.timestamp(), validity.not_after.timestamp());
    // The parser's message may quote what it read: say nothing more about a private key.
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| "the private key is not PEM".to_owned())?;
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let key = CertifiedKey::from_der(chain, key, &provider)
        .map_err(|_| "the private key does not belong to the certificate".to_owned())?;
    Ok(Served {
        key: Arc::new(key),
        names,
        not_before,
        not_after,
    })
}

/// DNS names; a certificate without any is served to clients without a name only.
fn names(certificate: &X509Certificate<'_>) -> Vec<String> {
    let Ok(Some(alternative)) = certificate.subject_alternative_name() else {
        return Vec::new();
    };
    let name = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some(name.trim_end_matches('.').to_ascii_lowercase()),
        _ => None,
    };
    alternative.value.general_names.iter().filter_map(name).collect()
}

fn read(path: &str) -> Result<Vec<u8>, String> {
    let fail = |error: std::io::Error| format!("{path}: {error}");
    // Asked before it is opened: opening a pipe would wait for its writer.
    if !std::fs::metadata(path).map_err(fail)?.is_file() {
        return Err(format!("{path}: not a file"));
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(fail)?;
    file.take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(fail)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("{path}: larger than {MAX_FILE_BYTES} bytes"));
    }
    Ok(bytes)
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
