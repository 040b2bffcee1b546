//! Certificates: PEM into fingerprints, and the pairs that travel beside the snapshot.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use routed_snapshot::Hash;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::{TlsPair, world::World};
use crate::diag::Reason;
use crate::kinds::kubernetes::Secret;
use crate::resources::{Body, Kind};

/// Why a pair or a bundle can't be used.
pub(crate) type Fault = (Reason, String);

/// The pair of a Secret.
pub(crate) fn pair(world: &World<'_>, namespace: &str, name: &str) -> Result<TlsPair, Fault> {
    let object = world.get(Kind::Secret, namespace, name);
    let Some(Body::Secret(secret)) = object.map(|object| object.body()) else {
        return Err((Reason::SecretNotFound, format!("no Secret `{namespace}/{name}`")));
    };
    let entry = |key: &str| {
        value_of(secret, key)?.ok_or_else(|| {
            (
                Reason::SecretNotFound,
                format!("Secret `{namespace}/{name}` has no `{key}`"),
            )
        })
    };
    let (certificate_pem, key_pem) = (entry("tls.crt")?, entry("tls.key")?);
    let bad = |message: String| {
        (
            Reason::InvalidCertificate,
            format!("Secret `{namespace}/{name}`: {message}"),
        )
    };
    let chain = certificates(&certificate_pem).map_err(bad)?;
    let Some(leaf) = chain.first() else {
        return Err(bad("`tls.crt` holds no certificate".into()));
    };
    PrivateKeyDer::from_pem_slice(&key_pem).map_err(|_| bad("`tls.key` holds no private key".into()))?;
    Ok(TlsPair {
        fingerprint: Hash::of(leaf).to_string(),
        certificate_pem,
        key_pem,
    })
}

/// A value of a Secret, `stringData` before `data`.
pub(crate) fn value_of(secret: &Secret, key: &str) -> Result<Option<Vec<u8>>, Fault> {
    if let Some(plain) = secret.string_data.as_ref().and_then(|data| data.get(key)) {
        return Ok(Some(plain.clone().into_bytes()));
    }
    let Some(encoded) = secret.data.as_ref().and_then(|data| data.get(key)) else {
        return Ok(None);
    };
    let compact: String = encoded
        .chars()
        .filter(|char| !char.is_ascii_whitespace())
        .collect();
    let decoded = STANDARD.decode(compact);
    decoded
        .map(Some)
        .map_err(|_| (Reason::InvalidCertificate, format!("`{key}` is not base64")))
}

/// All certificates of a PEM text, each of them well-formed.
pub(crate) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let chain = chain.map_err(|_| "not PEM".to_owned())?;
    for certificate in &chain {
        x509_parser::parse_x509_certificate(certificate)
            .map_err(|_| "not an X.509 certificate".to_owned())?;
    }
    Ok(chain)
}

/// Certificates to trust: at least one.
pub(crate) fn bundle(pem: &str) -> Result<String, Fault> {
    match certificates(pem.as_bytes()) {
        Ok(chain) if !chain.is_empty() => Ok(pem.to_owned()),
        Ok(_) => Err((Reason::InvalidCertificate, "no certificate in it".into())),
        Err(message) => Err((Reason::InvalidCertificate, message)),
    }
}
