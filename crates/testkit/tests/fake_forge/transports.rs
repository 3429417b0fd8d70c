//! The ways to reach the fake forge: TLS with a private authority, a proxy, a unix socket, a base with a path.

use crate::client::Caller;
use loopwright_testkit::fake_forge::{FakeForge, FakeProxy, TlsEndpoint};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs git's own HTTP client with further settings.
fn ls_remote(url: &str, settings: &[String]) -> Output {
    let mut command = Command::new("git");
    command.current_dir("/").stdin(Stdio::null()).env_clear();
    command.envs([("PATH", loopwright_testkit::TRUSTED_PATH), ("HOME", "/nonexistent"), ("LC_ALL", "C.UTF-8")]);
    command.envs([("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_TERMINAL_PROMPT", "0")]);
    command.args(settings.iter().flat_map(|setting| ["-c", setting])).args(["ls-remote", url, "refs/heads/main"]);
    command.output().expect("git starts")
}

fn forge() -> (FakeForge, TlsEndpoint) {
    let forge = FakeForge::start();
    forge.create_repo("acme/app");
    let tls = forge.listen_tls(&["forge.example", "localhost"]);
    (forge, tls)
}

fn trusts(file: &Path) -> String {
    format!("http.sslCAInfo={}", file.display())
}

#[test]
fn tls_needs_the_private_authority() {
    let (forge, tls) = forge();
    let url = format!("https://localhost:{}/acme/app.git", tls.port);
    let refused = ls_remote(&url, &[]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("certificate"), "{refused:?}");
    assert!(forge.requests().is_empty());
    let trusted = ls_remote(&url, &[trusts(&tls.ca_file)]);
    assert!(trusted.status.success(), "{trusted:?}");
    assert!(!forge.requests().is_empty());
}

#[test]
fn proxy_tunnels_to_a_name_and_logs_it() {
    let (_forge, tls) = forge();
    let proxy = FakeProxy::start();
    let url = format!("{}/acme/app.git", tls.url);
    let settings = [trusts(&tls.ca_file), format!("http.proxy={}", proxy.url())];
    assert!(!ls_remote(&url, &settings).status.success(), "the proxy does not know the name");
    proxy.add_host("forge.example", tls.port);
    let reached = ls_remote(&url, &settings);
    assert!(reached.status.success(), "{reached:?}");
    let target = format!("CONNECT forge.example:{}", tls.port);
    assert_eq!(proxy.log()[..2], [format!("{target} 403"), format!("{target} 200")]);
    proxy.require_login("ada", "secret");
    assert!(!ls_remote(&url, &settings).status.success());
    assert_eq!(proxy.log().last(), Some(&format!("{target} 407")));
    let login = proxy.url().replacen("http://", "http://ada:secret@", 1);
    assert!(ls_remote(&url, &[trusts(&tls.ca_file), format!("http.proxy={login}")]).status.success());
}

#[test]
fn forge_below_a_path_has_all_its_addresses_there() {
    let forge = FakeForge::start_below("/code");
    forge.create_repo("acme/app");
    let header = format!("authorization: Bearer {}", forge.token("bot"));
    let enterprise = Caller::new(&forge.enterprise_url(), header.clone());
    let repo = enterprise.get("/repos/acme/app").json();
    assert_eq!(repo["url"], serde_json::json!(format!("{}/repos/acme/app", forge.enterprise_url())));
    assert_eq!(repo["clone_url"], serde_json::json!(forge.repo("acme/app").clone_url()));
    assert!(ls_remote(&forge.repo("acme/app").clone_url(), &[]).status.success());
    let outside = Caller::new(&forge.url().replace("/code", ""), header);
    assert_eq!(outside.get("/repos/acme/app").status, 404);
}

#[test]
fn unix_socket_serves_the_same_state() {
    use std::io::{Read as _, Write as _};
    let forge = FakeForge::start();
    forge.create_repo("acme/app");
    let mut stream = std::os::unix::net::UnixStream::connect(forge.listen_unix()).expect("the forge listens");
    let request = "GET /repos/acme/app HTTP/1.1\r\nhost: api.github.com\r\nuser-agent: x\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).expect("the request can be sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}
