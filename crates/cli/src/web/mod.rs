//! The HTTP server of the daemon: the API, the dashboard and the stream of events, on one table of routes. Every document
//! comes from the same commands that people type; pages render those documents. The server decides nothing about rounds.

pub(crate) mod access;
mod guard;
mod links;
mod markdown;
pub(crate) mod markup;
mod mcp;
mod metrics;
mod openapi;
pub(crate) mod pages;
mod reply;
mod respond;
mod routes;
mod stream;
mod tls;
mod writes;

pub(crate) use links::SignInLinks;
#[cfg(test)]
pub(crate) use metrics::metrics_reference;

use crate::context::CommandContext;
use crate::control::ControlServer;
use crate::error::CommandError;
use access::AccessRegistry;
use guard::RequestGuard;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use loopwright::Engine;
use loopwright::connections::{ConnectionTable, RequestProgress};
use loopwright_core::config::WebConfig;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use stream::StreamPlaces;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use writes::WriteLog;

/// The most connections at a time. A further one replaces the oldest that still sends its request.
const CONNECTIONS_MAX: usize = 256;

/// How long the head of a request may take.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// The most bytes of a request's head.
const HEAD_MAX: usize = 16 << 10;

/// The pause after a failed accept, for example when there are no descriptors left.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(200);

/// A server that has its address and does not answer yet: clients that connect wait.
pub(crate) struct BoundWebServer {
    listener: TcpListener,
    address: SocketAddr,
    config: WebConfig,
    tls: Option<TlsAcceptor>,
    links: Arc<SignInLinks>,
    state: PathBuf,
}

/// The state that all requests share.
pub(crate) struct WebState {
    guard: RequestGuard,
    /// `None` for plain HTTP.
    tls: Option<TlsAcceptor>,
    links: Arc<SignInLinks>,
    /// The daemon's own context: its folder, its configuration, its state directory.
    own: CommandContext,
    control: Arc<ControlServer>,
    engine: Engine,
    streams: StreamPlaces,
    writes: WriteLog,
}

/// A running server; it ends when this is dropped.
pub(crate) struct WebServer {
    origin: String,
    task: JoinHandle<()>,
}

impl Drop for WebServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl WebServer {
    /// Binds the configured address, or a free port of loopback; `None` if the configuration has the server off.
    pub(crate) async fn bind(cx: &CommandContext) -> Result<Option<BoundWebServer>, CommandError> {
        let config = cx.config(None)?.config().web.clone();
        if !config.is_enabled() {
            return Ok(None);
        }
        let (state, _) = cx.state_dir()?;
        let tls = config.tls.as_ref().map(|files| tls::acceptor(cx, files)).transpose()?;
        let (listener, address) = match config.listen {
            Some(listen) => bind_configured(listen).await?,
            None => bind_free(&state).await?,
        };
        let links = Arc::new(SignInLinks::new(public_origin(address, &config)));
        Ok(Some(BoundWebServer { listener, address, config, tls, links, state }))
    }

    /// The address that people open.
    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }
}

impl BoundWebServer {
    /// The links that it accepts.
    pub(crate) fn links(&self) -> Arc<SignInLinks> {
        Arc::clone(&self.links)
    }

    /// Starts to answer.
    pub(crate) fn serve(self, own: CommandContext, control: Arc<ControlServer>, engine: Engine) -> WebServer {
        let guard = RequestGuard::new(&self.state, self.address, &self.config);
        let origin = public_origin(self.address, &self.config);
        let streams = StreamPlaces::new();
        let writes = WriteLog::default();
        let state =
            Arc::new(WebState { guard, tls: self.tls, links: self.links, own, control, engine, streams, writes });
        WebServer { origin, task: tokio::spawn(accept(state, self.listener)) }
    }
}

async fn bind_configured(listen: SocketAddr) -> Result<(TcpListener, SocketAddr), CommandError> {
    let failed = |error| CommandError::failed(format!("serve the dashboard at {listen}: {error}"));
    let listener = TcpListener::bind(listen).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

/// The port of the last daemon, so that open pages find this one, or else any free port of loopback.
async fn bind_free(state: &Path) -> Result<(TcpListener, SocketAddr), CommandError> {
    let registry = AccessRegistry::new(state);
    let on = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let before = match registry.last_port() {
        Some(port) => bind_configured(on(port)).await.ok(),
        None => None,
    };
    let (listener, address) = match before {
        Some(bound) => bound,
        None => bind_configured(on(0)).await?,
    };
    // A damaged file is reported by everything that needs a token; the daemon runs without them.
    let _ = registry.keep_port(address.port());
    Ok((listener, address))
}

/// The address that people open: behind a proxy its first name, with TLS of its own the first name that the certificate
/// may have, otherwise the address itself.
fn public_origin(address: SocketAddr, config: &WebConfig) -> String {
    let port = address.port();
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    match config.hosts.first() {
        Some(host) if config.is_behind_proxy() => format!("https://{host}"),
        Some(host) if config.tls.is_some() => format!("https://{host}:{port}"),
        _ if address.ip().is_unspecified() => format!("{scheme}://127.0.0.1:{port}"),
        _ => format!("{scheme}://{address}"),
    }
}

async fn accept(state: Arc<WebState>, listener: TcpListener) {
    let mut open = ConnectionTable::new(CONNECTIONS_MAX);
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let state = Arc::clone(&state);
                open.start(|progress| serve_stream(state, stream, progress)).await;
            }
            // Waits for the timeout alone.
            Err(_) => drop(tokio::time::timeout(ACCEPT_RETRY_DELAY, std::future::pending::<()>()).await),
        }
    }
}

/// Serves a connection, after the handshake of TLS if the server has a certificate.
async fn serve_stream(state: Arc<WebState>, stream: TcpStream, progress: RequestProgress) {
    let Some(tls) = state.tls.clone() else { return serve_connection(state, stream, progress).await };
    // A client that does not speak TLS, or waits, ends here.
    if let Ok(Ok(stream)) = tokio::time::timeout(HEAD_TIMEOUT, tls.accept(stream)).await {
        serve_connection(state, stream, progress).await;
    }
}

async fn serve_connection<S>(state: Arc<WebState>, stream: S, progress: RequestProgress)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(|request| {
        let (state, progress) = (Arc::clone(&state), progress.clone());
        async move {
            let reply = respond::respond(&state, request, &progress).await;
            progress.set_waiting();
            Ok::<_, Infallible>(reply)
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(HEAD_MAX);
    // An error of one connection affects no other; its client has seen it.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}
