//! The TLS of the HTTP server: the certificate and the key that the user's configuration names. They are read once, when
//! the daemon starts.

use crate::context::{CommandContext, read_bytes};
use crate::error::CommandError;
use loopwright_core::config::TlsFiles;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, crypto};

/// Reads the files. A key that every user of the machine can read is refused.
pub(super) fn acceptor(cx: &CommandContext, files: &TlsFiles) -> Result<TlsAcceptor, CommandError> {
    let (certificate, key) = (path(cx, &files.certificate)?, path(cx, &files.key)?);
    ensure_private(&key)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(&certificate)?).collect();
    let chain = chain.map_err(|error| invalid(&certificate, &error))?;
    let private = PrivateKeyDer::from_pem_slice(&read(&key)?).map_err(|error| invalid(&key, &error))?;
    let config = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, private));
    Ok(TlsAcceptor::from(Arc::new(config.map_err(|error| invalid(&certificate, &error))?)))
}

fn path(cx: &CommandContext, text: &str) -> Result<PathBuf, CommandError> {
    cx.user_path(text).map_err(|why| CommandError::invalid(format!("web.tls: {why}")))
}

fn read(path: &Path) -> Result<Vec<u8>, CommandError> {
    read_bytes(path).map_err(|error| invalid(path, &error))
}

fn invalid(path: &Path, error: &dyn std::fmt::Display) -> CommandError {
    CommandError::invalid(format!("web.tls: `{}`: {error}", path.display()))
}

fn ensure_private(key: &Path) -> Result<(), CommandError> {
    let mode = key.metadata().map_err(|error| invalid(key, &error))?.mode();
    if mode & 0o007 == 0 {
        return Ok(());
    }
    let error = CommandError::invalid(format!("web.tls: every user can read or change the key `{}`", key.display()));
    Err(error.hint(format!("chmod 600 {}", key.display())))
}
