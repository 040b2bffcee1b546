//! Certificates and keys as PEM.

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use routed_snapshot::Hash;

use crate::keys::KeyPair;

/// A pair from PEM text; says what is wrong where it isn't one. Whether key and certificate belong together is for
/// the TLS library to find.
pub(crate) fn pair(certificate_pem: Vec<u8>, key_pem: Vec<u8>) -> Result<KeyPair, String> {
    let mut chain = CertificateDer::pem_slice_iter(&certificate_pem);
    let leaf = match chain.next() {
        Some(Ok(leaf)) => leaf,
        Some(Err(error)) => return Err(format!("the certificate is not PEM: {error}")),
        None => return Err("the certificate file holds no certificate".to_owned()),
    };
    if let Some(Err(error)) = chain.find(Result::is_err) {
        return Err(format!("the certificate chain is not PEM: {error}"));
    }
    PrivateKeyDer::from_pem_slice(&key_pem)
        .map_err(|error| format!("the private key is not PEM: {error}"))?;
    Ok(KeyPair {
        fingerprint: Hash::of(&leaf).to_string(),
        certificate_pem,
        key_pem,
    })
}
