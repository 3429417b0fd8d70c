//! The server: HTTP on loopback, one answer for each request. [`super::scenario_player`] selects the answer,
//! [`super::protocol`] writes it.

use super::model_request::{ModelProtocol, ModelRequest};
use super::protocol::{ModelOperation, ModelRoute, frames};
use super::request_log::{LoggedRequest, RequestLog};
use super::scenario::{ErrorReply, TurnFaultKind, USUAL_USAGE};
use super::scenario_player::{ChosenAnswer, ScenarioPlayer};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Connections at a time; the next ones wait.
const CONNECTIONS_MAX: usize = 256;
/// Bytes of a request's body: agents send whole conversations.
const BODY_MAX: usize = 64 << 20;
/// How long a connection may take to send its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest delay that a scenario may put before an answer.
const DELAY_MAX_MS: u64 = 600_000;

/// The state of a server: its scenario and its log.
#[derive(Debug)]
pub(super) struct ScenarioServer {
    pub(super) player: ScenarioPlayer,
    pub(super) log: RequestLog,
}

/// Answers until it is dropped.
pub(super) async fn serve(server: Arc<ScenarioServer>, listener: TcpListener) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let server = Arc::clone(&server);
                tokio::spawn(async move {
                    connection(&server, stream).await;
                    drop(place);
                });
            }
            // Out of descriptors, or the peer is already gone: later connections may succeed.
            Err(_) => tokio::task::yield_now().await,
        }
    }
}

async fn connection(server: &ScenarioServer, stream: TcpStream) {
    let service = service_fn(|request| async move { Ok::<_, Infallible>(answer(server, request).await) });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(REQUEST_TIMEOUT);
    // A broken connection affects no other; its client has seen the error.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(server: &ScenarioServer, request: Request<Incoming>) -> Response<ReplyBody> {
    let (head, body) = request.into_parts();
    let body = match Limited::new(body, BODY_MAX).collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => {
            return document(StatusCode::PAYLOAD_TOO_LARGE, &json!({ "error": { "message": "the body is too long" } }));
        }
    };
    let path = head.uri.path();
    let whole = head.uri.path_and_query().map_or(path, |whole| whole.as_str());
    let seen = LoggedRequest { method: head.method.as_str(), path: whole, headers: &head.headers, body: &body };
    match (ModelRoute::parse(path), &head.method) {
        (Some(route), &Method::POST) => asked(server, &route, &seen).await,
        (_, &Method::GET) if path == "/_counter" => document(StatusCode::OK, &server.log.counter_json()),
        (route, method) => {
            let (status, value) = elsewhere(route.as_ref(), method, path);
            server.log.log_other(&seen, status.as_u16());
            document(status, &value)
        }
    }
}

/// Answers requests that are not for a model.
fn elsewhere(route: Option<&ModelRoute>, method: &Method, path: &str) -> (StatusCode, Value) {
    let no = |status, text: &str| (status, json!({ "error": { "message": text, "type": "not_found_error" } }));
    match *method {
        Method::HEAD => (StatusCode::OK, Value::Null),
        // One agent first tries to open a WebSocket here and falls back after this answer.
        Method::GET if route.is_some() => no(StatusCode::UPGRADE_REQUIRED, "ask with POST"),
        Method::GET if path.ends_with("/models") => (StatusCode::OK, json!({ "object": "list", "data": [] })),
        _ => no(StatusCode::NOT_FOUND, "the scripted model has no such path"),
    }
}

async fn asked(server: &ScenarioServer, route: &ModelRoute, seen: &LoggedRequest<'_>) -> Response<ReplyBody> {
    let Ok(body) = serde_json::from_slice::<Value>(seen.body) else {
        server.log.log_other(seen, 400);
        let fault = ErrorReply { status: 400, text: "the body is not JSON".to_owned(), ..ErrorReply::default() };
        return document(StatusCode::BAD_REQUEST, &route.protocol.error_body(&fault));
    };
    if route.op == ModelOperation::Count {
        server.log.log_other(seen, 200);
        return document(StatusCode::OK, &route.protocol.token_count(USUAL_USAGE));
    }
    let asked = route.read(&body);
    let chosen = server.player.choose(&asked, server.player.next_number());
    server.log.log_answer(seen, &asked, &chosen);
    think(chosen.delay_ms).await;
    if chosen.fault == Some(TurnFaultKind::Silent) {
        std::future::pending::<()>().await;
    }
    respond(&asked, &chosen, route.op)
}

#[expect(clippy::disallowed_methods, reason = "the scenario asks for a model that is slow, not for an event")]
async fn think(delay_ms: u64) {
    if delay_ms > 0 {
        tokio::time::sleep(Duration::from_millis(delay_ms.min(DELAY_MAX_MS))).await;
    }
}

fn respond(asked: &ModelRequest, chosen: &ChosenAnswer, op: ModelOperation) -> Response<ReplyBody> {
    let (protocol, reply) = (asked.protocol, &chosen.reply);
    let (pieces, kind) = match asked.streams {
        true if op == ModelOperation::Frames => (protocol.events(reply), "application/vnd.amazon.eventstream"),
        true => (protocol.events(reply), "text/event-stream"),
        false => (vec![protocol.document(reply).to_string()], "application/json"),
    };
    let (pieces, end) = match &chosen.fault {
        None => (pieces, BodyEnd::Close),
        Some(TurnFaultKind::Error(fault)) => return refusal(protocol, fault),
        Some(TurnFaultKind::Cut) => (first_half(pieces), BodyEnd::Cut),
        Some(TurnFaultKind::Hang | TurnFaultKind::Silent) => (first_half(pieces), BodyEnd::Hang),
        Some(TurnFaultKind::Failed { code, text }) => {
            let failure = protocol.failure_event(reply, code, text);
            (first_half(pieces).into_iter().chain([failure]).collect(), BodyEnd::Close)
        }
    };
    let bytes = |piece: String| match op {
        ModelOperation::Frames => Bytes::from(frames::framed(&piece)),
        _ => Bytes::from(piece),
    };
    let pieces = pieces.into_iter().map(bytes).collect();
    with_type(Response::new(ReplyBody { pieces, end }), kind)
}

/// The part that is sent before an answer is cut: half of its events, or half of its one document.
fn first_half(mut pieces: Vec<String>) -> Vec<String> {
    if let [only] = pieces.as_mut_slice() {
        only.truncate(only.floor_char_boundary(only.len() / 2));
    } else {
        pieces.truncate(pieces.len() / 2);
    }
    pieces
}

fn refusal(protocol: ModelProtocol, fault: &ErrorReply) -> Response<ReplyBody> {
    let status = StatusCode::from_u16(fault.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = match &fault.body {
        Some(text) => with_type(whole(Bytes::from(text.clone())), "application/json"),
        None => document(status, &protocol.error_body(fault)),
    };
    *response.status_mut() = status;
    for (name, value) in &fault.headers {
        // A header that is invalid in HTTP is left out.
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

fn document(status: StatusCode, value: &Value) -> Response<ReplyBody> {
    let text = value.to_string();
    let length = HeaderValue::from(text.len());
    let mut response = with_type(whole(Bytes::from(text)), "application/json");
    response.headers_mut().insert(CONTENT_LENGTH, length);
    *response.status_mut() = status;
    response
}

fn whole(bytes: Bytes) -> Response<ReplyBody> {
    Response::new(ReplyBody { pieces: VecDeque::from([bytes]), end: BodyEnd::Close })
}

fn with_type(mut response: Response<ReplyBody>, kind: &'static str) -> Response<ReplyBody> {
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// An answer's body: its pieces, and its end, which may be a fault.
#[derive(Debug)]
struct ReplyBody {
    pieces: VecDeque<Bytes>,
    end: BodyEnd,
}

/// The end of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyEnd {
    Close,
    /// The connection closes after the data was sent.
    Cut,
    /// The connection closes at once.
    CutNow,
    /// No more data arrives.
    Hang,
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if let Some(piece) = self.pieces.pop_front() {
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        match self.end {
            BodyEnd::Close => Poll::Ready(None),
            BodyEnd::Hang => Poll::Pending,
            BodyEnd::CutNow => Poll::Ready(Some(Err(io::Error::from(io::ErrorKind::ConnectionAborted)))),
            BodyEnd::Cut => {
                self.end = BodyEnd::CutNow;
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }
}
