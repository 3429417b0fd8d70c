//! Common client programs, configured for the proxy by the environment that it provides.
#![allow(clippy::disallowed_methods, reason = "tests start real clients")]

use crate::world::{Internet, Proxy};
use loopwright::egress::{BUNDLE_INSIDE, PORT};
use std::process::Stdio;

/// Starts a program with the proxy's environment, with the forwarded port and the bundle's path filled in.
async fn run(proxy: &Proxy, program: &str, args: &[&str]) -> (bool, String) {
    let door = proxy.door().await;
    let bundle = proxy.egress.bundle().map(|path| path.display().to_string()).unwrap_or_default();
    let env = proxy.egress.env().into_iter().map(|(name, value)| {
        let value = value.replace(&format!("127.0.0.1:{PORT}"), &door.to_string());
        (name, value.replace(BUNDLE_INSIDE, &bundle))
    });
    let mut command = tokio::process::Command::new(program);
    command.args(args).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", "/nonexistent").envs(env);
    let done = command.stdin(Stdio::null()).output().await.expect("the client starts");
    let output = [done.stdout, done.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    (done.status.success(), output)
}

const CURL: [&str; 3] = ["-sS", "--max-time", "20"];

async fn curl(proxy: &Proxy, args: &[&str]) -> (bool, String) {
    run(proxy, "/usr/bin/curl", &[&CURL[..], args].concat()).await
}

#[tokio::test]
async fn curl_reaches_only_allowed_hosts() {
    let mut net = Internet::new();
    net.plain("docs.example.org", "93.184.216.34").await;
    net.tls("api.example.org", "93.184.216.35", "api.example.org").await;
    let proxy = net.proxy(&["docs.example.org", "api.example.org"]);
    assert_eq!(curl(&proxy, &["http://docs.example.org/page"]).await, (true, "hello from /page".to_owned()));
    // The server's certificate is not in the system's store; this only checks that the tunnel works.
    let (ok, output) = curl(&proxy, &["--insecure", "https://api.example.org/page"]).await;
    assert!(ok && output == "secret hello from /page", "{output}");
    let (ok, output) = curl(&proxy, &["https://evil.example.org/"]).await;
    assert!(!ok && output.contains("403"), "{output}");
    let (ok, output) = curl(
        &proxy,
        &["--insecure", "--connect-to", "evil.example.org:443:api.example.org:443", "https://evil.example.org/"],
    )
    .await;
    assert!(!ok, "another name in the greeting: {output}");
    assert_eq!(proxy.denied().len(), 2, "{:?}", proxy.denied());
}

#[tokio::test]
async fn curl_sends_a_large_body_after_a_100_continue() {
    let mut net = Internet::new();
    let site = net.plain("docs.example.org", "93.184.216.34").await;
    let proxy = net.proxy(&["docs.example.org"]);
    let body = "x".repeat(3 << 20);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("body");
    std::fs::write(&file, &body).expect("a file");
    let data = format!("@{}", file.display());
    let (ok, output) =
        curl(&proxy, &["-H", "Expect: 100-continue", "--data-binary", &data, "http://docs.example.org/put"]).await;
    assert!(ok && output == "hello from /put", "{output}");
    assert_eq!(site.heard()[0].body.len(), body.len());
}

#[tokio::test]
async fn curl_accepts_the_rounds_certificate_by_its_environment() {
    let mut net = Internet::new();
    net.tls("api.example.org", "93.184.216.35", "api.example.org").await;
    let proxy = net.proxy(&["inspect GET https://api.example.org/v1/*"]);
    let (ok, output) = curl(&proxy, &["https://api.example.org/v1/x"]).await;
    assert!(ok && output == "secret hello from /v1/x", "{output}");
    let (ok, output) = curl(&proxy, &["-f", "-X", "DELETE", "https://api.example.org/v1/x"]).await;
    assert!(!ok && output.contains("403"), "{output}");
}

#[tokio::test]
async fn python_finds_the_proxy_by_its_environment() {
    let mut net = Internet::new();
    net.plain("docs.example.org", "93.184.216.34").await;
    net.tls("api.example.org", "93.184.216.35", "api.example.org").await;
    let proxy = net.proxy(&["docs.example.org", "inspect https://api.example.org"]);
    let script = "import sys, urllib.request\nfor url in sys.argv[1:]: print(urllib.request.urlopen(url, timeout=20).read().decode())";
    let (ok, output) = run(
        &proxy,
        "/usr/bin/env",
        &["python3", "-c", script, "http://docs.example.org/a", "https://api.example.org/b"],
    )
    .await;
    assert!(ok && output == "hello from /a\nsecret hello from /b\n", "{output}");
    let script = "import urllib.request; urllib.request.urlopen('https://evil.example.org/', timeout=20)";
    let (ok, output) = run(&proxy, "/usr/bin/env", &["python3", "-c", script]).await;
    assert!(!ok && output.contains("403"), "{output}");
}
