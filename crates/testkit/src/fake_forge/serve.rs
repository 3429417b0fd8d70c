//! The sockets of the fake forge. Each connection is served until it closes; an answer can also be a closed connection.

use super::handle::{ForgeCore, HandledRequest};
use super::http::{RawAnswer, RawRequest};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::{Builder, Runtime};

/// The largest body of a request.
const BODY_BYTES_MAX: usize = 64 << 20;

/// The threads of a forge, independent of the runtime of the test.
pub(super) fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).thread_name("fake-forge").enable_all().build().expect("a runtime")
}

/// Serves plain HTTP on a free port of loopback.
pub(super) fn listen(runtime: &Runtime, core: &Arc<ForgeCore>) -> SocketAddr {
    let (listener, address) = bind_loopback(runtime);
    let core = Arc::clone(core);
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve_connection(Arc::clone(&core), stream, "http"));
        }
    });
    address
}

/// Serves plain HTTP on a unix socket.
pub(super) fn listen_unix(runtime: &Runtime, core: &Arc<ForgeCore>, path: &Path) {
    let _entered = runtime.enter();
    let listener = tokio::net::UnixListener::bind(path).expect("a socket can be made");
    let core = Arc::clone(core);
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve_connection(Arc::clone(&core), stream, "http"));
        }
    });
}

/// A listener on a free port, without waiting for the runtime.
pub(super) fn bind_loopback(runtime: &Runtime) -> (tokio::net::TcpListener, SocketAddr) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.set_nonblocking(true).expect("a socket's mode can be set");
    let address = listener.local_addr().expect("an address");
    let _entered = runtime.enter();
    (tokio::net::TcpListener::from_std(listener).expect("a listener"), address)
}

/// The connection is closed instead of an answer.
#[derive(Debug)]
struct ConnectionCut;

impl std::fmt::Display for ConnectionCut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the fake forge cuts the connection")
    }
}

impl std::error::Error for ConnectionCut {}

pub(super) async fn serve_connection<S>(core: Arc<ForgeCore>, stream: S, scheme: &'static str)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| answer(Arc::clone(&core), request, scheme));
    // An error here is a client that went away, or a scripted cut.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(
    core: Arc<ForgeCore>,
    request: Request<Incoming>,
    scheme: &'static str,
) -> Result<Response<AnswerBody>, ConnectionCut> {
    let (parts, body) = request.into_parts();
    let body = Limited::new(body, BODY_BYTES_MAX).collect().await.map_err(|_| ConnectionCut)?.to_bytes();
    let headers = parts.headers.iter();
    let raw = RawRequest {
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers: headers
            .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
            .collect(),
        body: body.to_vec(),
        scheme,
    };
    let work = tokio::task::spawn_blocking(move || core.handle(&raw));
    match work.await.map_err(|_| ConnectionCut)? {
        HandledRequest::Answer(answer) => Ok(response(answer, false)),
        HandledRequest::Half(answer) => Ok(response(answer, true)),
        HandledRequest::Cut => Err(ConnectionCut),
        HandledRequest::Later(delay, answer) => {
            // The answer is late on purpose; there is nothing to wait for.
            let _ = tokio::time::timeout(delay, std::future::pending::<()>()).await;
            Ok(response(answer, false))
        }
        HandledRequest::Never => std::future::pending().await,
    }
}

/// The body of an answer, which can end too early.
struct AnswerBody {
    bytes: Option<Bytes>,
    is_cut: bool,
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = ConnectionCut;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ConnectionCut>>> {
        match self.bytes.take().filter(|bytes| !bytes.is_empty()) {
            Some(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            None if self.is_cut => Poll::Ready(Some(Err(ConnectionCut))),
            None => Poll::Ready(None),
        }
    }

    fn size_hint(&self) -> SizeHint {
        let length = self.bytes.as_ref().map_or(0, Bytes::len) as u64;
        if self.is_cut { SizeHint::default() } else { SizeHint::with_exact(length) }
    }
}

fn response(answer: RawAnswer, is_cut: bool) -> Response<AnswerBody> {
    let mut response = Response::builder().status(answer.status);
    for (name, value) in answer.headers {
        response = response.header(name, value);
    }
    let body = AnswerBody { bytes: Some(Bytes::from(answer.body)), is_cut };
    response.body(body).expect("the forge's own headers are valid")
}
