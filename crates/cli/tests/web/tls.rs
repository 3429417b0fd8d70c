//! The server with TLS of its own.

use crate::server::token;
use crate::world::World;
use loopwright_testkit::CertificateFiles;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

/// Asks over TLS as a client that trusts only this certificate.
async fn ask(port: u16, trusted: &[u8], head: &str) -> Result<String, std::io::Error> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(trusted.to_vec())).expect("a certificate");
    let config = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has the versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let name = ServerName::try_from("localhost").expect("a name");
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    stream.write_all(format!("{head}Host: localhost:{port}\r\nConnection: close\r\n\r\n").as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[tokio::test]
async fn server_beyond_loopback_speaks_tls_with_the_files_of_the_configuration() {
    let world = World::new();
    let files = CertificateFiles::write(world.env.root(), &["localhost"]);
    let config = world.env.root().join("config/loopwright/config.yaml");
    std::fs::create_dir_all(config.parent().expect("a folder")).expect("it can be made");
    let (certificate, key) = (files.certificate.display(), files.key.display());
    let text = format!("web: {{ listen: 0.0.0.0:0, tls: {{ certificate: {certificate}, key: {key} }} }}\n");
    std::fs::write(&config, text).expect("written");
    let mode = |mode: u32| std::fs::set_permissions(&files.key, std::fs::Permissions::from_mode(mode)).expect("a mode");
    mode(0o604);
    assert!(world.run("up").code(2).stderr().contains("every user can read"), "a key that others can read");
    mode(0o600);
    let daemon = world.up();
    let line = daemon.wait_for("https://127.0.0.1:");
    let port = line.split("127.0.0.1:").nth(1).and_then(|rest| rest.split('/').next()).expect("an address");
    let port: u16 = port.trim().parse().expect("a port");
    let view = token(&world, "viewer", "view");
    let head = format!("GET /api/v1/inbox HTTP/1.1\r\nAuthorization: Bearer {view}\r\n");
    let answer = ask(port, &files.der, &head).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"items\": []"), "{answer}");
    let other = tempfile::tempdir().expect("a folder");
    let other = CertificateFiles::write(other.path(), &["localhost"]);
    assert!(ask(port, &other.der, &head).await.is_err(), "a client that trusts another certificate");
    // A browser that signs in gets a cookie that it never sends without TLS.
    let link = world.json("web")["url"].as_str().expect("a link").to_owned();
    let path = link.split_once(&format!(":{port}")).expect("our address").1.to_owned();
    let signed = ask(port, &files.der, &format!("GET {path} HTTP/1.1\r\n")).await.expect("an answer");
    assert!(link.starts_with("https://") && signed.contains("; Secure"), "{link}: {signed}");
    // Plain HTTP gets no answer.
    let mut plain = TcpStream::connect(("127.0.0.1", port)).await.expect("it listens");
    plain.write_all(format!("{head}Host: localhost\r\n\r\n").as_bytes()).await.expect("it can be sent");
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer).await;
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP/1.1"), "{answer:?}");
}
