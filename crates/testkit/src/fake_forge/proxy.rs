//! A small HTTP proxy that only tunnels (`CONNECT`) and logs. Names that it knows lead to loopback; it connects to
//! nothing else.

use super::serve::{bind_loopback, runtime};
use base64::Engine as _;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The longest head of a request.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// A running proxy.
#[derive(Debug)]
pub struct FakeProxy {
    url: String,
    state: Arc<Mutex<ProxyState>>,
    runtime: Option<tokio::runtime::Runtime>,
}

#[derive(Debug, Default)]
struct ProxyState {
    log: Vec<String>,
    hosts: BTreeMap<String, u16>,
    login: Option<String>,
}

impl FakeProxy {
    /// Starts a proxy on a free port of loopback.
    #[must_use]
    pub fn start() -> Self {
        let runtime = runtime();
        let (listener, address) = bind_loopback(&runtime);
        let state = Arc::new(Mutex::new(ProxyState::default()));
        let shared = Arc::clone(&state);
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(tunnel(stream, Arc::clone(&shared)));
            }
        });
        Self { url: format!("http://{address}"), state, runtime: Some(runtime) }
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Leads a name, with any port, to a port of loopback.
    pub fn add_host(&self, name: &str, port: u16) {
        self.change(|state| state.hosts.insert(name.to_owned(), port));
    }

    /// Requires a user and a password.
    pub fn require_login(&self, user: &str, password: &str) {
        let text = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
        self.change(|state| state.login = Some(format!("Basic {text}")));
    }

    /// The tunnels so far: `CONNECT host:port STATUS`.
    #[must_use]
    pub fn log(&self) -> Vec<String> {
        self.change(|state| state.log.clone())
    }

    fn change<T>(&self, act: impl FnOnce(&mut ProxyState) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for FakeProxy {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn tunnel(mut client: TcpStream, state: Arc<Mutex<ProxyState>>) {
    let Some(head) = read_head(&mut client).await else { return };
    let (status, port) = decide(&head, &mut state.lock().unwrap_or_else(PoisonError::into_inner));
    let server = match port {
        Some(port) => TcpStream::connect(("127.0.0.1", port)).await.ok(),
        None => None,
    };
    let line = match (status, &server) {
        (200, None) => "HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n".to_owned(),
        (200, Some(_)) => "HTTP/1.1 200 Connection established\r\n\r\n".to_owned(),
        (407, _) => "HTTP/1.1 407 Proxy Authentication Required\r\nconnection: close\r\nproxy-authenticate: Basic realm=\"proxy\"\r\n\
             content-length: 0\r\n\r\n"
            .to_owned(),
        _ => format!("HTTP/1.1 {status} Refused\r\ncontent-length: 0\r\n\r\n"),
    };
    // A client that went away ends its tunnel.
    if client.write_all(line.as_bytes()).await.is_ok()
        && let Some(mut server) = server
    {
        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
    }
}

/// The status for a request, and the port of loopback that it leads to.
fn decide(head: &str, state: &mut ProxyState) -> (u16, Option<u16>) {
    let mut words = head.split_whitespace();
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (host, port) = target.rsplit_once(':').unwrap_or((target, ""));
    let is_loopback = matches!(host, "127.0.0.1" | "localhost");
    let port = state.hosts.get(host).copied().or_else(|| port.parse().ok().filter(|_| is_loopback));
    let rows = head.lines().filter_map(|line| line.split_once(": "));
    let mut login = rows.filter(|(name, _)| name.eq_ignore_ascii_case("proxy-authorization"));
    let is_allowed = state.login.as_ref().is_none_or(|known| login.any(|(_, value)| value == known));
    let status = match (method, is_allowed, port) {
        (_, false, _) => 407,
        ("CONNECT", true, Some(_)) => 200,
        ("CONNECT", true, None) => 403,
        _ => 405,
    };
    state.log.push(format!("{method} {target} {status}"));
    (status, port.filter(|_| status == 200))
}

/// The head of a request, up to its empty line.
async fn read_head(client: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        if bytes.len() >= HEAD_BYTES_MAX {
            return None;
        }
        // Byte by byte: everything after the head belongs to the tunnel.
        bytes.push(client.read_u8().await.ok()?);
    }
    String::from_utf8(bytes).ok()
}
