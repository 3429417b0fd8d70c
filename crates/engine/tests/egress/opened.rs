//! TLS that the loop asks the proxy to open: methods and paths are enforced inside it, and the server's certificate is
//! still verified.

use crate::world::{Internet, Proxy, request, tls};
use loopwright_core::network::DenialReason;

/// The round's certificate, which programs inside trust.
fn round_certificate(proxy: &Proxy) -> Vec<u8> {
    use tokio_rustls::rustls::pki_types::CertificateDer;
    use tokio_rustls::rustls::pki_types::pem::PemObject as _;
    let bundle = std::fs::read(proxy.egress.bundle().expect("a bundle")).expect("a readable bundle");
    CertificateDer::from_pem_slice(&bundle).expect("a certificate").to_vec()
}

async fn ask(proxy: &Proxy, method: &str, path: &str) -> String {
    let wire = proxy.tunnel("api.example.org:443").await.expect("a tunnel");
    let wire = tls(wire, "api.example.org", round_certificate(proxy)).await.expect("TLS with the round's certificate");
    request(wire, &format!("{method} {path} HTTP/1.1\r\nHost: other.example.org\r\nConnection: close\r\n\r\n")).await
}

#[tokio::test]
async fn methods_and_paths_are_enforced_inside_opened_tls() {
    let mut net = Internet::new();
    let site = net.tls("api.example.org", "93.184.216.34", "api.example.org").await;
    let proxy = net.proxy(&["inspect GET https://api.example.org/v1/*"]);
    let answer = ask(&proxy, "GET", "/v1/things").await;
    assert!(answer.ends_with("secret hello from /v1/things"), "{answer}");
    assert!(ask(&proxy, "PUT", "/v1/things").await.starts_with("HTTP/1.1 403"));
    assert!(ask(&proxy, "GET", "/admin").await.starts_with("HTTP/1.1 403"));
    let heard = site.heard();
    assert_eq!((heard.len(), heard[0].header("host")), (1, Some("api.example.org")));
    let whys: Vec<DenialReason> = proxy.denied().into_iter().map(|(_, _, why, _)| why).collect();
    assert_eq!(whys, [DenialReason::Method, DenialReason::Path]);
}

#[tokio::test]
async fn the_far_side_of_opened_tls_is_verified() {
    let mut net = Internet::new();
    let site = net.tls("api.example.org", "93.184.216.34", "somebody-else.example.org").await;
    let proxy = net.proxy(&["inspect https://api.example.org"]);
    let answer = ask(&proxy, "GET", "/").await;
    assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
    assert!(site.heard().is_empty());
}

#[tokio::test]
async fn a_client_that_does_not_know_the_rounds_certificate_does_not_accept_it() {
    let mut net = Internet::new();
    net.tls("api.example.org", "93.184.216.34", "api.example.org").await;
    let proxy = net.proxy(&["inspect https://api.example.org"]);
    let wire = proxy.tunnel("api.example.org:443").await.expect("a tunnel");
    assert!(tls(wire, "api.example.org", net.root()).await.is_err());
}

#[tokio::test]
async fn programs_inside_trust_the_rounds_and_the_systems_certificates_and_get_no_key() {
    let net = Internet::new();
    let proxy = net.proxy(&["inspect https://api.example.org", "docs.example.org"]);
    let bundle = std::fs::read_to_string(proxy.egress.bundle().expect("a bundle")).expect("a readable bundle");
    assert_eq!(bundle.matches("BEGIN CERTIFICATE").count(), 2);
    assert!(!bundle.contains("PRIVATE"));
    let names: Vec<&str> = proxy.egress.env().into_iter().map(|(name, _)| name).collect();
    for name in
        ["HTTPS_PROXY", "https_proxy", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO", "CARGO_HTTP_CAINFO"]
    {
        assert!(names.contains(&name), "{name}");
    }
    let plain = net.proxy(&["docs.example.org"]);
    assert!(plain.egress.bundle().is_none() && plain.egress.env().iter().all(|(name, _)| !name.contains("CERT")));
}
