//! TLS to backends: settings made once per distinct content, shared by all workers and endpoints.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use routed_snapshot::ir::{Backend, BackendTls};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};

/// Settings ready to connect with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Sent as SNI where it is a name, and verified.
    pub name: ServerName<'static>,
    /// Trust and protocols.
    pub config: Arc<ClientConfig>,
}

/// Settings by what they are made of, for as long as an endpoint has them.
#[derive(Debug, Default)]
pub struct Configs {
    hasher: RandomState,
    by_ca: Mutex<HashMap<Option<String>, Arc<ClientConfig>>>,
    native: OnceLock<Arc<RootCertStore>>,
}

impl Configs {
    /// What stands for a backend's settings beside the endpoint's address; none: no TLS. It reads the whole CA.
    pub fn fingerprint(&self, backend: &Backend) -> Option<u64> {
        let tls = backend.tls.as_ref()?;
        Some(self.hasher.hash_one((configured_name(backend, tls), &tls.ca_pem)))
    }

    /// The settings; `None` where the backend's CA or name is not usable.
    pub fn settings(&self, backend: &Backend, tls: &BackendTls, address: IpAddr) -> Option<Settings> {
        let name = ServerName::try_from(server_name(backend, tls, address)).ok()?;
        let mut configs = self.lock();
        if let Some(config) = configs.get(&tls.ca_pem) {
            return Some(Settings {
                name,
                config: config.clone(),
            });
        }
        let config = Arc::new(self.build(tls.ca_pem.as_deref())?);
        configs.insert(tls.ca_pem.clone(), config.clone());
        Some(Settings { name, config })
    }

    /// Drops what no endpoint has any more.
    pub fn retain_used(&self) {
        self.lock().retain(|_, config| Arc::strong_count(config) > 1);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Option<String>, Arc<ClientConfig>>> {
        self.by_ca.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn build(&self, ca_pem: Option<&str>) -> Option<ClientConfig> {
        let roots = match ca_pem {
            Some(pem) => {
                let mut roots = RootCertStore::empty();
                for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
                    roots.add(certificate.ok()?).ok()?;
                }
                Arc::new(roots)
            }
            None => self.native.get_or_init(native_roots).clone(),
        };
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .ok()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Some(config)
    }
}

fn configured_name<'b>(backend: &'b Backend, tls: &'b BackendTls) -> Option<&'b String> {
    tls.sni.as_ref().or(backend.hostname.as_ref())
}

fn server_name(backend: &Backend, tls: &BackendTls, address: IpAddr) -> String {
    match configured_name(backend, tls) {
        Some(name) => name.trim_end_matches('.').to_owned(),
        None => address.to_string(),
    }
}

fn native_roots() -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(%error, "a certificate of the machine's trust store can't be read");
    }
    roots.add_parsable_certificates(found.certs);
    Arc::new(roots)
}
