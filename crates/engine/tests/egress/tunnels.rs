//! Tunnels: the host of the request and the name in the TLS greeting must match, or nothing goes through.

use crate::world::{Internet, SOON, request, tls};
use loopwright_core::network::DenialReason;
use loopwright_testkit::wait;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::net::UnixStream;

const GET: &str = "GET /inside HTTP/1.1\r\nHost: docs.example.org\r\nConnection: close\r\n\r\n";

#[tokio::test]
async fn a_tunnel_to_an_allowed_host_carries_its_tls() {
    let mut net = Internet::new();
    let site = net.tls("docs.example.org", "93.184.216.34", "docs.example.org").await;
    let proxy = net.proxy(&["docs.example.org"]);
    let wire = proxy.tunnel("docs.example.org:443").await.expect("a tunnel");
    let answer = request(tls(wire, "docs.example.org", net.root()).await.expect("TLS"), GET).await;
    assert!(answer.ends_with("secret hello from /inside"), "{answer}");
    assert_eq!(site.heard().len(), 1);
    let traffic = proxy.egress.close().await;
    assert!(traffic.up > 200 && traffic.down > 200 && traffic.denied.is_empty(), "{traffic:?}");
    assert_eq!(traffic.reached[0].host, "docs.example.org");
}

/// The proxy's answer to a tunnel in which a client sends these bytes, and its denials.
async fn said(bytes: &[u8]) -> (Vec<u8>, Vec<(String, u16, DenialReason, u64)>) {
    let mut net = Internet::new();
    net.tls("docs.example.org", "93.184.216.34", "docs.example.org").await;
    let proxy = net.proxy(&["docs.example.org"]);
    let mut wire = proxy.tunnel("docs.example.org:443").await.expect("a tunnel");
    wire.write_all(bytes).await.expect("a greeting");
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(SOON, wire.read_to_end(&mut answer)).await.expect("the tunnel is cut");
    wait::until("the denial is in the ledger", Duration::from_secs(5), || !proxy.denied().is_empty());
    (answer, proxy.denied())
}

/// The TLS greeting of a client that names a host.
async fn greeting(name: &str) -> Vec<u8> {
    let (near, mut far): (DuplexStream, DuplexStream) = tokio::io::duplex(1 << 16);
    let net = Internet::new();
    let name = name.to_owned();
    let speaking = tokio::spawn(async move { tls(near, &name, net.root()).await.map(drop) });
    let mut bytes = vec![0; 1 << 16];
    let count = far.read(&mut bytes).await.expect("a greeting");
    drop(far);
    let _ = speaking.await;
    bytes.truncate(count);
    bytes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tunnel_whose_greeting_names_another_host_is_closed() {
    let (answer, denied) = said(&greeting("evil.example.org").await).await;
    assert_eq!((answer.len(), denied[0].2), (0, DenialReason::ServerName));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tunnel_whose_greeting_names_no_host_is_closed() {
    let (answer, denied) = said(&greeting("93.184.216.34").await).await;
    assert_eq!((answer.len(), denied[0].2), (0, DenialReason::ServerName));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tunnel_without_tls_is_closed() {
    for bytes in [&b"GET / HTTP/1.1\r\nHost: docs.example.org\r\n\r\n"[..], b"SSH-2.0-OpenSSH_9\r\n"] {
        let (answer, denied) = said(bytes).await;
        assert_eq!((answer.len(), denied[0].2), (0, DenialReason::NotTls));
    }
}

#[tokio::test]
async fn greeting_that_arrives_byte_by_byte_is_parsed() {
    let mut net = Internet::new();
    let site = net.tls("docs.example.org", "93.184.216.34", "docs.example.org").await;
    let proxy = net.proxy(&["docs.example.org"]);
    let wire = proxy.tunnel("docs.example.org:443").await.expect("a tunnel");
    let (near, far) = tokio::io::duplex(1);
    tokio::spawn(dribble(far, wire));
    let answer = request(tls(near, "DOCS.example.org", net.root()).await.expect("TLS"), GET).await;
    assert!(answer.ends_with("secret hello from /inside"), "{answer}");
    assert_eq!(site.heard().len(), 1);
}

/// Forwards bytes one at a time.
async fn dribble(mut near: DuplexStream, mut far: UnixStream) {
    let _ = tokio::io::copy_bidirectional_with_sizes(&mut near, &mut far, 1, 1).await;
}

#[tokio::test]
async fn tunnels_go_to_named_hosts_and_ports_only() {
    let mut net = Internet::new();
    net.tls("docs.example.org", "93.184.216.34", "docs.example.org").await;
    let proxy = net.proxy(&["docs.example.org", "GET http://plain.example.org/"]);
    for (target, status) in [
        ("docs.example.org:22", "403"),
        ("example.org:443", "403"),
        ("93.184.216.34:443", "403"),
        ("plain.example.org:80", "403"),
        ("user@docs.example.org:443", "400"),
        ("docs.example.org:0", "400"),
        ("127.1:443", "400"),
        ("nowhere.docs.example.org:443", "403"),
    ] {
        let answer = proxy.tunnel(target).await.expect_err(target);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{target}: {answer}");
    }
    assert_eq!(proxy.denied().len(), 8);
}

#[tokio::test]
async fn missing_host_is_distinguished_from_a_denied_one() {
    let proxy = Internet::new().proxy(&["docs.example.org"]);
    let answer = proxy.tunnel("docs.example.org:443").await.expect_err("no such name");
    assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
    assert!(proxy.denied().is_empty());
}
