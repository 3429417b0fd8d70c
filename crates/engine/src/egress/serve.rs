//! Accepts the proxy's connections, and routes each request to its handler. Hyper does HTTP itself: a request is parsed
//! once and rewritten, so that it contains nothing that two servers could read differently.

use super::body::{self, AnyBody};
use super::dial::ConnectionStream;
use super::proxy_state::ProxyState;
use super::{forward, provider, tunnel};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use loopwright_core::network::{DenialReason, NetworkTarget, RequestTransport};
use std::convert::Infallible;
use std::sync::Arc;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::OwnedSemaphorePermit;

/// Limit for the bytes of a request's head.
const HEAD_MAX: usize = 64 << 10;

/// One of a proxy's connection slots, held until the last part of the connection ends.
pub(super) type ConnectionSlot = Arc<OwnedSemaphorePermit>;

/// The listening side of a proxy.
pub(super) enum ProxyListener {
    /// The socket that the sandbox forwards to.
    Socket(UnixListener),
    /// A port of this machine's loopback.
    Port(TcpListener),
}

impl ProxyListener {
    async fn accept(&self) -> std::io::Result<Box<dyn ConnectionStream>> {
        Ok(match self {
            Self::Socket(listener) => Box::new(listener.accept().await?.0),
            Self::Port(listener) => Box::new(listener.accept().await?.0),
        })
    }
}

/// Accepts until the proxy is closed, and returns when all its connections have ended.
pub(super) async fn accept(shared: Arc<ProxyState>, listener: ProxyListener) {
    loop {
        let Ok(place) = Arc::clone(&shared.connection_slots).acquire_owned().await else { return };
        let stream = tokio::select! {
            () = shared.stopped() => break,
            accepted = listener.accept() => accepted,
        };
        match stream {
            Ok(stream) => {
                let task = connection(Arc::clone(&shared), stream, Arc::new(place));
                shared.spawn(task);
            }
            // No descriptors are free, or the peer disconnected: accept the next one.
            Err(_) => tokio::task::yield_now().await,
        }
    }
    let all = u32::try_from(shared.limits.connections).unwrap_or(u32::MAX);
    // The semaphore is never closed, so this only waits.
    let _ = shared.connection_slots.acquire_many(all).await;
}

async fn connection(shared: Arc<ProxyState>, stream: Box<dyn ConnectionStream>, place: ConnectionSlot) {
    let service = service_fn(|request| {
        let (shared, place) = (Arc::clone(&shared), Arc::clone(&place));
        async move { Ok::<_, Infallible>(answer(shared, place, request).await) }
    });
    let served = builder(&shared).serve_connection(TokioIo::new(stream), service).with_upgrades();
    // A connection error affects only this connection; its client has seen it.
    let _ = served.await;
}

/// The HTTP server settings for connections from inside.
pub(super) fn builder(shared: &ProxyState) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(shared.limits.greeting).max_buf_size(HEAD_MAX);
    builder
}

async fn answer(shared: Arc<ProxyState>, place: ConnectionSlot, request: Request<Incoming>) -> Response<AnyBody> {
    if request.method() == Method::CONNECT {
        return tunnel::open_tunnel(shared, place, request).await;
    }
    match request.uri().authority().map(|authority| authority.as_str().to_owned()) {
        None => provider::serve_provider(&shared, request).await,
        Some(authority) => match NetworkTarget::parse(&authority, 80) {
            // Some clients send even the proxy's own address through the proxy.
            Ok(target) if shared.is_own_address(&target) => provider::serve_provider(&shared, request).await,
            Ok(target) if request.uri().scheme_str() == Some("http") => {
                forward::forward_request(&shared, RequestTransport::Plain, &target, request).await
            }
            Ok(target) => {
                shared.account(&target, request.method().as_str()).deny(DenialReason::Request);
                refusal_response(StatusCode::BAD_REQUEST, &format!("open a tunnel to {target} with CONNECT"))
            }
            Err(error) => {
                shared.ledger.deny(&authority, 0, request.method().as_str(), DenialReason::Request);
                refusal_response(StatusCode::BAD_REQUEST, &error.to_string())
            }
        },
    }
}

/// A denial by policy, recorded in the ledger and sent to the client.
pub(super) fn deny_request(
    shared: &ProxyState,
    target: &NetworkTarget,
    method: &str,
    why: DenialReason,
) -> Response<AnyBody> {
    shared.account(target, method).deny(why);
    refusal_response(StatusCode::FORBIDDEN, &format!("{target} is denied: {}", why.text()))
}

/// A response of the proxy itself.
pub(super) fn refusal_response(status: StatusCode, text: &str) -> Response<AnyBody> {
    let mut response = Response::new(body::text_body(format!("loopwright: {text}\n")));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response.headers_mut().insert("x-loopwright", HeaderValue::from_static("egress"));
    response
}
