//! A certificate and its key as files, for servers that read them.

use base64::Engine as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// A certificate that signed itself.
#[derive(Debug, Clone)]
pub struct CertificateFiles {
    /// The certificate as a PEM file.
    pub certificate: PathBuf,
    /// Its private key as a PEM file with mode 0600.
    pub key: PathBuf,
    /// The certificate's bytes, for clients that trust it.
    pub der: Vec<u8>,
}

impl CertificateFiles {
    /// Writes the files of a certificate for these names into a folder.
    #[must_use]
    pub fn write(folder: &Path, names: &[&str]) -> Self {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
        let (certificate, key) = (folder.join("tls.pem"), folder.join("tls.key"));
        let der = made.cert.der().to_vec();
        std::fs::write(&certificate, pem("CERTIFICATE", &der)).expect("the certificate can be written");
        std::fs::write(&key, pem("PRIVATE KEY", &made.signing_key.serialize_der())).expect("the key can be written");
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).expect("the mode can be set");
        Self { certificate, key, der }
    }
}

/// Bytes in the form of files: lines of base64.
pub(crate) fn pem(label: &str, bytes: &[u8]) -> String {
    let text = base64::engine::general_purpose::STANDARD.encode(bytes);
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).map(|part| std::str::from_utf8(part).unwrap_or_default()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}
