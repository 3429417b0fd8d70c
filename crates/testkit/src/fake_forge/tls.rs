//! A private certificate authority, and TLS for the fake forge with a certificate of it.

use super::handle::ForgeCore;
use super::serve::{bind_loopback, serve_connection};
use crate::tls_files::pem;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{ServerConfig, crypto};
use tokio_rustls::server::TlsStream;

/// The forge over TLS.
#[derive(Debug, Clone)]
pub struct TlsEndpoint {
    /// The address with `https` and the first name.
    pub url: String,
    /// The port on loopback.
    pub port: u16,
    /// The certificate of the authority as a PEM file.
    pub ca_file: PathBuf,
}

/// The server behind an endpoint.
#[derive(Clone)]
pub(super) enum TlsBackend {
    Forge(Arc<ForgeCore>),
    /// A plain server on this port of loopback.
    Port(u16),
}

impl TlsBackend {
    async fn serve(self, mut stream: TlsStream<TcpStream>) {
        match self {
            Self::Forge(core) => serve_connection(core, stream, "https").await,
            Self::Port(port) => {
                let Ok(mut plain) = TcpStream::connect(("127.0.0.1", port)).await else { return };
                // Either side may close first.
                let _ = tokio::io::copy_bidirectional(&mut stream, &mut plain).await;
            }
        }
    }
}

/// Serves TLS on a free port, with a certificate for these names from a new authority.
pub(super) fn listen_tls(
    runtime: &Runtime,
    core: &Arc<ForgeCore>,
    backend: &TlsBackend,
    names: &[&str],
) -> TlsEndpoint {
    let (authority, config) = certificate(names);
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let (listener, address) = bind_loopback(runtime);
    let backend = backend.clone();
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, backend) = (acceptor.clone(), backend.clone());
            tokio::spawn(async move {
                // A client that does not trust the authority ends the handshake.
                if let Ok(stream) = acceptor.accept(stream).await {
                    backend.serve(stream).await;
                }
            });
        }
    });
    let ca_file = core.folder().join(format!("authority-{}.pem", address.port()));
    std::fs::write(&ca_file, authority).expect("the certificate can be written");
    let name = names.first().expect("at least one name");
    TlsEndpoint { url: format!("https://{name}:{}", address.port()), port: address.port(), ca_file }
}

/// The authority as PEM, and the settings of a server.
fn certificate(names: &[&str]) -> (String, ServerConfig) {
    let mut params = rcgen::CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.key_usages = vec![rcgen::KeyUsagePurpose::KeyCertSign, rcgen::KeyUsagePurpose::CrlSign];
    params.distinguished_name.push(rcgen::DnType::CommonName, "Private test authority");
    let key = rcgen::KeyPair::generate().expect("a key");
    let authority = rcgen::CertifiedIssuer::self_signed(params, key).expect("a certificate");
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let params = rcgen::CertificateParams::new(names).expect("names of a server");
    let key = rcgen::KeyPair::generate().expect("a key");
    let certificate = params.signed_by(&key, &authority).expect("a certificate");
    let chain = vec![CertificateDer::from(certificate.der().to_vec())];
    let private = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
    let config = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has the versions")
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .expect("the key belongs to the certificate");
    (pem("CERTIFICATE", authority.der()), config)
}
