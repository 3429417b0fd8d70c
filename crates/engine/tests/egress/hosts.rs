//! Plain HTTP: hosts, methods, paths, addresses, budgets, and ambiguous requests.

use crate::world::{Internet, SOON, head, plain_site, says};
use loopwright::egress::{EgressLimits, EgressOptions, EgressProxy};
use loopwright_core::network::DenialReason;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UnixStream};

#[tokio::test]
async fn allowed_request_is_sent_to_the_host_that_was_checked() {
    let mut net = Internet::new();
    let site = net.plain("docs.example.org", "93.184.216.34").await;
    let proxy = net.proxy(&["docs.example.org"]);
    let headers = "Proxy-Authorization: Basic x\r\nConnection: x-own\r\nX-Own: 1\r\nX-Kept: 1\r\nTE: trailers\r\nUpgrade: h2c\r\n";
    let answer = proxy.ask("GET", "http://docs.example.org/a?b=c", headers).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("hello from /a?b=c"), "{answer}");
    let heard = site.heard().remove(0);
    assert_eq!((heard.method.as_str(), heard.path.as_str()), ("GET", "/a?b=c"));
    assert_eq!(heard.header("host"), Some("docs.example.org"));
    assert_eq!(heard.header("x-kept"), Some("1"));
    for name in ["proxy-authorization", "x-own", "te", "upgrade", "connection"] {
        assert_eq!(heard.header(name), None, "{name}");
    }
    let traffic = proxy.egress.close().await;
    assert_eq!((traffic.reached[0].host.as_str(), traffic.reached[0].count), ("docs.example.org", 1));
    assert!(traffic.down > 0 && traffic.denied.is_empty());
}

#[tokio::test]
async fn request_without_an_entry_is_denied_counted_and_reported() {
    let mut net = Internet::new();
    let site = net.plain("docs.example.org", "93.184.216.34").await;
    let proxy = net.proxy(&["other.example.org", "GET http://api.example.org/v1/*"]);
    for _ in 0..3 {
        let answer = proxy.ask("GET", "http://docs.example.org/", "").await;
        assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("the host is not in `network`"), "{answer}");
    }
    assert!(proxy.ask("PUT", "http://api.example.org/v1/x", "").await.starts_with("HTTP/1.1 403"));
    assert!(proxy.ask("GET", "http://api.example.org/v1/../x", "").await.starts_with("HTTP/1.1 403"));
    assert!(proxy.ask("GET", "http://other.example.org:22/", "").await.starts_with("HTTP/1.1 403"));
    assert!(site.heard().is_empty());
    let api = "api.example.org".to_owned();
    assert_eq!(
        proxy.denied(),
        [
            ("docs.example.org".to_owned(), 80, DenialReason::Host, 3),
            (api.clone(), 80, DenialReason::Method, 1),
            (api, 80, DenialReason::Path, 1),
            ("other.example.org".to_owned(), 22, DenialReason::Port, 1)
        ]
    );
}

#[tokio::test]
async fn public_name_with_a_private_address_is_denied() {
    let mut net = Internet::new();
    let (site, really) = plain_site(|_| says("home")).await;
    for (at, address) in
        ["127.0.0.1", "169.254.169.254", "10.0.0.1", "::1", "::ffff:127.0.0.1", "fd00::1", "0.0.0.0"].iter().enumerate()
    {
        net.name(&format!("h{at}.example.org"), &[address]);
        net.place(address, 80, really);
    }
    let proxy = net.proxy(&["*.example.org"]);
    for at in 0..7 {
        let answer = proxy.ask("GET", &format!("http://h{at}.example.org/"), "").await;
        assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("not public"), "{answer}");
        assert!(proxy.tunnel(&format!("h{at}.example.org:80")).await.is_err());
    }
    assert!(site.heard().is_empty());
    assert!(proxy.denied().iter().all(|(_, _, why, _)| *why == DenialReason::Address));
}

#[tokio::test]
async fn an_entry_may_name_this_machine_by_its_address_or_as_localhost() {
    let mut net = Internet::new();
    let (site, really) = plain_site(|_| says("home")).await;
    net.name("localhost", &["::1", "127.0.0.1"]);
    net.name("localhost.evil.org", &["127.0.0.1"]);
    let port = really.port();
    let proxy =
        net.proxy(&[&format!("127.0.0.1:{port}"), &format!("localhost:{port}"), &format!("localhost.evil.org:{port}")]);
    assert!(proxy.ask("GET", &format!("http://127.0.0.1:{port}/"), "").await.ends_with("home"));
    assert!(proxy.ask("GET", &format!("http://localhost:{port}/"), "").await.ends_with("home"));
    assert!(proxy.ask("GET", &format!("http://localhost.evil.org:{port}/"), "").await.starts_with("HTTP/1.1 403"));
    assert!(proxy.ask("GET", &format!("http://127.0.0.2:{port}/"), "").await.starts_with("HTTP/1.1 403"));
    assert_eq!(site.heard().len(), 2);
    let env: std::collections::BTreeMap<_, _> = proxy.egress.env().into_iter().collect();
    assert_eq!(env["NO_PROXY"], "::1", "allowed local hosts use the proxy");
}

#[tokio::test]
async fn requests_with_two_lengths_are_read_in_one_way() {
    let mut net = Internet::new();
    let site = net.plain("docs.example.org", "93.184.216.34").await;
    let proxy = net.proxy(&["docs.example.org"]);
    let line = "POST http://docs.example.org/a HTTP/1.1\r\nHost: docs.example.org\r\n";
    let hidden = "GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n";
    for headers in [
        format!("Content-Length: {}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}", hidden.len()),
        format!("Content-Length: 0\r\nContent-Length: {}\r\n\r\n{hidden}", hidden.len()),
        format!("Transfer-Encoding: chunked, x\r\n\r\n0\r\n\r\n{hidden}"),
        format!("Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n{hidden}"),
        format!("X-A: b\r\n folded: c\r\n\r\n{hidden}"),
        format!("Content-Length: +5\r\n\r\n{hidden}"),
    ] {
        let mut wire = proxy.wire().await;
        wire.write_all(format!("{line}{headers}").as_bytes()).await.expect("a request");
        wire.shutdown().await.expect("an end");
        let mut answer = String::new();
        let _ = tokio::time::timeout(SOON, wire.read_to_string(&mut answer)).await.expect("an answer in time");
        assert!(answer.starts_with("HTTP/1.1 "), "{headers}: {answer}");
    }
    for heard in site.heard() {
        assert!(heard.path == "/a" && !heard.body.contains("hidden"), "{heard:?}");
        assert!(heard.header("content-length").is_none() || heard.header("transfer-encoding").is_none(), "{heard:?}");
    }
}

#[tokio::test]
async fn odd_requests_are_answered_and_nothing_goes_out() {
    let mut net = Internet::new();
    let site = net.plain("docs.example.org", "93.184.216.34").await;
    let proxy = net.proxy(&["docs.example.org"]);
    for line in [
        "GET https://docs.example.org/ HTTP/1.1",
        "GET ftp://docs.example.org/ HTTP/1.1",
        "GET http://user:pw@docs.example.org/ HTTP/1.1",
        "GET / HTTP/1.1",
        "OPTIONS * HTTP/1.1",
        "CONNECT docs.example.org HTTP/1.1 extra",
        "GET http:///x HTTP/1.1",
        "\u{0}\u{1}\u{2}",
        "PRI * HTTP/2.0",
    ] {
        let answer = proxy.raw(format!("{line}\r\nHost: docs.example.org\r\nConnection: close\r\n\r\n")).await;
        assert!(!answer.starts_with("HTTP/1.1 2"), "{line}: {answer}");
    }
    let long = format!("GET http://docs.example.org/ HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(1 << 20));
    assert!(proxy.raw(long).await.starts_with("HTTP/1.1 431"));
    assert!(site.heard().is_empty(), "{:?}", site.heard());
}

#[tokio::test]
async fn answers_without_a_body_are_passed_on_unchanged() {
    let mut net = Internet::new();
    let answer = |heard: &crate::world::Heard| {
        let mut answer = says("");
        *answer.status_mut() = if heard.path == "/304" { 304 } else { 204 }.try_into().expect("a status");
        answer.headers_mut().insert("etag", "\"x\"".parse().expect("a value"));
        answer
    };
    net.plain_with("docs.example.org", "93.184.216.34", answer).await;
    let proxy = net.proxy(&["docs.example.org"]);
    assert!(proxy.ask("GET", "http://docs.example.org/304", "").await.starts_with("HTTP/1.1 304"));
    assert!(proxy.ask("GET", "http://docs.example.org/204", "").await.contains("etag: \"x\""));
    assert!(proxy.ask("HEAD", "http://docs.example.org/204", "").await.starts_with("HTTP/1.1 204"));
}

#[tokio::test]
async fn a_round_sends_no_more_than_its_bytes() {
    let mut net = Internet::new();
    let site = net.plain("drop.example.org", "93.184.216.34").await;
    let limits = EgressLimits { up: 100_000, ..EgressLimits::default() };
    let proxy = net.open(&["drop.example.org"], Vec::new(), limits);
    let send = |size: usize| format!("Content-Length: {size}\r\n\r\n{}", "x".repeat(size));
    let post = "POST http://drop.example.org/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n";
    assert!(proxy.raw(format!("{post}{}", send(60_000))).await.starts_with("HTTP/1.1 200"));
    let answer = proxy.raw(format!("{post}{}", send(60_000))).await;
    assert!(!answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(proxy.denied().iter().any(|(host, _, why, _)| host == "drop.example.org" && *why == DenialReason::Budget));
    assert!(proxy.egress.traffic().up <= 100_000);
    assert_eq!(site.heard()[0].body.len(), 60_000);
}

#[tokio::test]
async fn connection_over_the_limit_waits() {
    let mut net = Internet::new();
    net.plain("docs.example.org", "93.184.216.34").await;
    let proxy = net.open(&["docs.example.org"], Vec::new(), EgressLimits { connections: 1, ..EgressLimits::default() });
    let ask = b"GET http://docs.example.org/ HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut first = proxy.wire().await;
    first.write_all(ask).await.expect("a request");
    assert!(head(&mut first).await.starts_with("HTTP/1.1 200"));
    let mut second = proxy.wire().await;
    second.write_all(ask).await.expect("a request");
    let early = tokio::time::timeout(Duration::from_millis(100), second.read_u8()).await;
    assert!(early.is_err(), "the second was served beside the first");
    drop(first);
    assert!(head(&mut second).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn closing_interrupts_transfers_and_removes_the_socket() {
    let mut net = Internet::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    net.name("slow.example.org", &["93.184.216.34"]);
    net.place("93.184.216.34", 80, listener.local_addr().expect("an address"));
    let proxy = net.proxy(&["slow.example.org"]);
    let mut wire = proxy.wire().await;
    wire.write_all(b"GET http://slow.example.org/ HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("a request");
    let (mut far, _) = listener.accept().await.expect("the request");
    assert!(head(&mut far).await.starts_with("GET / HTTP/1.1"));
    let socket = proxy.egress.socket().expect("a socket").to_owned();
    let traffic = proxy.egress.close().await;
    assert_eq!(traffic.reached.len(), 1);
    let mut rest = Vec::new();
    tokio::time::timeout(SOON, far.read_to_end(&mut rest)).await.expect("the far side is closed").expect("a clean end");
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(SOON, wire.read_to_end(&mut answer)).await.expect("the near side is closed");
    assert!(!answer.starts_with(b"HTTP/1.1 2"));
    assert!(!socket.exists());
}

#[tokio::test]
async fn socket_is_private_and_may_have_a_long_path() {
    let folder = tempfile::tempdir().expect("a folder");
    let deep = folder.path().join("d".repeat(100)).join("e".repeat(100));
    let mode = |path: &std::path::Path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    for _ in 0..2 {
        let egress = EgressProxy::open(&deep, EgressOptions::default()).expect("an open proxy");
        assert_eq!((mode(&deep), mode(egress.socket().expect("a socket"))), (0o700, 0o600));
        assert!(egress.socket().expect("a socket").as_os_str().len() > 108);
        let held = std::fs::File::open(&deep).expect("the folder");
        let short = format!("/proc/self/fd/{}/egress.sock", std::os::fd::AsRawFd::as_raw_fd(&held));
        UnixStream::connect(short).await.expect("a connection");
        // A crash leaves the socket behind: the next proxy replaces it.
        std::mem::forget(egress);
    }
}

#[test]
fn proxy_is_not_needed_without_entries_or_providers() {
    assert!(!EgressOptions::default().reaches_anything());
    let policy = loopwright_core::network::NetworkPolicy::read(&["a.org".to_owned()]).expect("a policy");
    assert!(EgressOptions { policy, ..EgressOptions::default() }.reaches_anything());
}
