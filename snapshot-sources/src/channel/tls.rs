//! TLS towards a control plane. The files are read for each connection, so that renewed ones are used by the next.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustls::client::ResolvesClientCert;
use rustls::crypto::aws_lc_rs;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::disk::read::read_file;

/// Largest certificate or key file.
const FILE_LIMIT: u64 = 1 << 20;

/// What is shown and what is believed.
#[derive(Debug, Clone, Default)]
pub struct TlsFiles {
    /// Certificates that the server's must be signed by; none: those that the system trusts.
    pub ca: Option<PathBuf>,
    /// The router's own certificate chain and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The name that the server's certificate must have, where it is not the host of the address.
    pub server_name: Option<String>,
}

/// A configuration for one connection.
#[derive(Debug)]
pub(super) struct Tls {
    pub(super) config: Arc<ClientConfig>,
    /// Whether the server asked for a certificate and was shown one.
    pub(super) shown: Arc<AtomicBool>,
}

impl TlsFiles {
    /// Reads the files. Blocks.
    pub(super) fn load(&self) -> Result<Tls, String> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(self.roots()?);
        let shown = Arc::new(AtomicBool::new(false));
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = certificates(certificate)?;
                let pem = read_file(key, FILE_LIMIT).map_err(|error| error.to_string())?;
                let wrong = |error: String| format!("{}: {error}", key.display());
                let key =
                    PrivateKeyDer::from_pem_slice(&pem.bytes).map_err(|error| wrong(error.to_string()))?;
                let pair = CertifiedKey::from_der(chain, key, &provider)
                    .map_err(|error| wrong(error.to_string()))?;
                builder.with_client_cert_resolver(Arc::new(Identity {
                    pair: Arc::new(pair),
                    shown: shown.clone(),
                }))
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Tls {
            config: Arc::new(config),
            shown,
        })
    }

    fn roots(&self) -> Result<RootCertStore, String> {
        let mut roots = RootCertStore::empty();
        match &self.ca {
            Some(path) => {
                for certificate in certificates(path)? {
                    let added = roots.add(certificate);
                    added.map_err(|error| format!("{}: {error}", path.display()))?;
                }
            }
            None => {
                let found = rustls_native_certs::load_native_certs();
                roots.add_parsable_certificates(found.certs);
            }
        }
        if roots.is_empty() {
            return Err("no certificate authority is trusted; set --snapshot-ca".to_owned());
        }
        Ok(roots)
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let wrong = |error: String| format!("{}: {error}", path.display());
    let pem = read_file(path, FILE_LIMIT).map_err(|error| error.to_string())?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem.bytes).collect();
    let found = found.map_err(|error| wrong(error.to_string()))?;
    if found.is_empty() {
        return Err(wrong("it holds no certificate".to_owned()));
    }
    Ok(found)
}

/// The router's certificate. That the server asked for it is what makes the channel one of two known ends.
#[derive(Debug)]
struct Identity {
    pair: Arc<CertifiedKey>,
    shown: Arc<AtomicBool>,
}

impl ResolvesClientCert for Identity {
    fn resolve(&self, _authorities: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.shown.store(true, Ordering::Release);
        Some(self.pair.clone())
    }

    fn has_certs(&self) -> bool {
        true
    }
}
