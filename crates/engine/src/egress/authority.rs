//! The certificate authority of one round, for TLS connections that the loop asks the proxy to decrypt. Its key exists
//! only in memory and only during the round. Programs inside the sandbox see its certificate, and no program outside
//! trusts it.

use super::EgressError;
use super::dial::NetworkOverrides;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use loopwright_core::network::NetworkHost;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;
use tokio_rustls::rustls::{ServerConfig, crypto};

/// The authority of one round.
#[derive(Debug)]
pub(super) struct CertificateAuthority {
    issuer: Issuer<'static, KeyPair>,
    bundle: String,
}

impl CertificateAuthority {
    pub(super) fn new(world: &NetworkOverrides) -> Result<Self, EgressError> {
        let key = KeyPair::generate().map_err(certificate)?;
        let mut params = named("Loopwright, for one round");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let own = params.self_signed(&key).map_err(certificate)?;
        // Variables such as SSL_CERT_FILE replace the system's list, so the file has both.
        let mut bundle = pem(own.der());
        world.roots.certificates().iter().for_each(|root| bundle.push_str(&pem(root)));
        Ok(Self { issuer: Issuer::new(params, key), bundle })
    }

    /// All certificates that a program inside may trust, as PEM.
    pub(super) fn bundle(&self) -> &str {
        &self.bundle
    }

    /// The TLS acceptor for one host.
    pub(super) fn acceptor(&self, host: &NetworkHost) -> Result<TlsAcceptor, EgressError> {
        let name = host.to_string();
        let bare = name.trim_matches(['[', ']']);
        let key = KeyPair::generate().map_err(certificate)?;
        let mut params = named(bare);
        params.subject_alt_names =
            CertificateParams::new(vec![bare.to_owned()]).map_err(certificate)?.subject_alt_names;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let leaf = params.signed_by(&key, &self.issuer).map_err(certificate)?;
        let builder = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().map_err(certificate)?;
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        let config = builder.with_no_client_auth().with_single_cert(vec![leaf.der().clone()], key.into());
        let mut config = config.map_err(certificate)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

fn certificate(error: impl std::fmt::Display) -> EgressError {
    EgressError::Certificate(error.to_string())
}

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    // A common name is limited to 64 characters; the full name is in the alternative names.
    params.distinguished_name.push(DnType::CommonName, name.chars().take(60).collect::<String>());
    // The key lives no longer than the round, so the certificate needs no tight validity dates.
    params.not_before = rcgen::date_time_ymd(2000, 1, 1);
    params.not_after = rcgen::date_time_ymd(2049, 12, 31);
    params
}

/// The system's certificate authorities, in PEM.
pub(crate) fn system_bundle() -> String {
    super::TrustedRoots::System.certificates().iter().map(|root| pem(root)).collect()
}

fn pem(der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    let (lines, last) = text.as_bytes().as_chunks::<64>();
    let lines = lines.iter().map(<[u8; 64]>::as_slice).chain((!last.is_empty()).then_some(last));
    let lines: String = lines.map(|line| format!("{}\n", String::from_utf8_lossy(line))).collect();
    format!("-----BEGIN CERTIFICATE-----\n{lines}-----END CERTIFICATE-----\n")
}
