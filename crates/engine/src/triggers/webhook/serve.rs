//! The listener itself: HTTP/1.1, one table of paths, and limits from the first byte.

use super::event::{DeliveryBody, MalformedDelivery, WebhookEvent, capped, is_word, line};
use super::signature::{self, SignatureError, WebhookSecret, header};
use super::throttle::ThrottleDecision;
use super::webhook_roster::{DueLoop, IgnoreReason};
use super::{Shared, WebhookOptions, github, gitlab, slack};
use crate::clock::pause;
use crate::connections::{ConnectionTable, RequestProgress};
use crate::round::{SignalNovelty, error_chain};
use crate::store::SignalRow;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ALLOW, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::Value;
use std::borrow::Cow;
use std::convert::Infallible;
use std::io;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// The most connections at a time. A further one replaces the oldest that still sends its request, so that slow senders
/// cannot hold up a good delivery.
pub(super) const CONNECTIONS_MAX: usize = 64;
/// The pause after a failed accept: without free descriptors it would fail again at once, in an endless loop.
const RESTS: Duration = Duration::from_millis(200);
/// The most bytes of a request's head.
const HEAD_MAX: usize = 16 << 10;
/// The most bytes of an item's key.
const KEY_MAX: usize = 200;
/// The path prefix before a source's name.
const PREFIX: &str = "/hooks/";

/// The outcome of a request.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Accepted(usize),
    /// An answer of a person. Slack accepts only 200.
    Answered,
    NoAnswer,
    Duplicate,
    Greeting,
    Ignored(IgnoreReason),
    NotFound,
    NotPost,
    Encoded,
    NotJson,
    NotForm,
    TooLarge,
    TooSlow,
    Unsigned,
    Malformed(&'static str),
    Unrecorded,
}

/// The source of connections.
pub(super) trait ConnectionSource: Send + Sync {
    /// The next connection.
    fn next(&self) -> impl Future<Output = io::Result<TcpStream>> + Send;
}

impl ConnectionSource for TcpListener {
    async fn next(&self) -> io::Result<TcpStream> {
        self.accept().await.map(|(stream, _)| stream)
    }
}

pub(super) async fn accept(shared: Arc<Shared>, door: impl ConnectionSource) {
    let mut open = ConnectionTable::new(CONNECTIONS_MAX);
    loop {
        match door.next().await {
            Ok(stream) => {
                let shared = Arc::clone(&shared);
                open.start(|progress| async move { connection(&shared, stream, &progress).await }).await;
            }
            // No free descriptors, or the client is gone already: the next accept may succeed after a pause.
            Err(_) => pause(RESTS).await,
        }
    }
}

async fn connection(shared: &Shared, stream: TcpStream, progress: &RequestProgress) {
    let service = service_fn(|request| async move {
        let response = respond(shared, request, progress).await;
        progress.set_waiting();
        Ok::<_, Infallible>(response)
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(shared.options().patience).max_buf_size(HEAD_MAX);
    // An error of one connection affects no other; its client has seen it.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

async fn respond(shared: &Shared, request: Request<Incoming>, progress: &RequestProgress) -> Response<Full<Bytes>> {
    let outcome = answer(shared, request, progress).await.unwrap_or_else(|outcome| outcome);
    outcome.response()
}

impl Outcome {
    /// Its status and its text.
    fn parts(&self) -> (StatusCode, Cow<'static, str>) {
        let (status, text) = match self {
            Self::Accepted(loops) => return (StatusCode::ACCEPTED, format!("accepted for {loops}").into()),
            Self::Ignored(why) => return (StatusCode::OK, format!("ignored: {}", why.word()).into()),
            Self::Malformed(why) => return (StatusCode::BAD_REQUEST, format!("cannot be read: {why}").into()),
            Self::Answered => (StatusCode::OK, "recorded"),
            Self::NoAnswer => (StatusCode::OK, "ignored: no button of a question"),
            Self::Duplicate => (StatusCode::OK, "known already"),
            Self::Greeting => (StatusCode::OK, "hello"),
            Self::NotFound => (StatusCode::NOT_FOUND, "not found"),
            Self::NotPost => (StatusCode::METHOD_NOT_ALLOWED, "deliver with POST"),
            Self::Encoded => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "send the body without a content encoding"),
            Self::NotJson => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "send application/json"),
            Self::NotForm => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "send application/x-www-form-urlencoded"),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "the body is too large"),
            Self::TooSlow => (StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time"),
            Self::Unsigned => (StatusCode::UNAUTHORIZED, "no valid signature"),
            Self::Unrecorded => (StatusCode::SERVICE_UNAVAILABLE, "the event cannot be recorded now; deliver it again"),
        };
        (status, text.into())
    }

    fn response(&self) -> Response<Full<Bytes>> {
        let (status, text) = self.parts();
        let mut response = Response::new(Full::from(format!("{text}\n")));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
        match self {
            Self::NotPost => drop(headers.insert(ALLOW, HeaderValue::from_static("POST"))),
            Self::Unrecorded => drop(headers.insert(RETRY_AFTER, HeaderValue::from_static("30"))),
            // The rest of such a body is not read.
            Self::TooLarge | Self::TooSlow => drop(headers.insert(CONNECTION, HeaderValue::from_static("close"))),
            _ => {}
        }
        response
    }
}

/// The fixed order of checks. An error is an answer too, only an early one.
async fn answer(shared: &Shared, request: Request<Incoming>, progress: &RequestProgress) -> Result<Outcome, Outcome> {
    let options = shared.options();
    let (source, secret) = source(&options, request.uri().path()).ok_or(Outcome::NotFound)?;
    if request.method() != Method::POST {
        return Err(Outcome::NotPost);
    }
    admissible(&source, request.headers(), options.body_max)?;
    let (head, body) = request.into_parts();
    let body = Limited::new(body, options.body_max).collect();
    let body = match tokio::time::timeout(options.patience, body).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => return Err(Outcome::TooLarge),
        Ok(Err(_)) => return Err(Outcome::Malformed("the body was interrupted")),
        Err(_) => return Err(Outcome::TooSlow),
    };
    progress.set_whole();
    let now_ms = shared.clock.now_ms();
    check(&source, secret, &head.headers, &body, now_ms).map_err(|_| Outcome::Unsigned)?;
    if source == SLACK {
        return take_answer(shared, &head.headers, &body, now_ms).await;
    }
    let event = match read(&source, &head.headers, &body).map_err(|MalformedDelivery(why)| Outcome::Malformed(why))? {
        Some(event) => event,
        None => return Ok(Outcome::Greeting),
    };
    if matches!(event.name.as_str(), "issue_comment" | "note") {
        shared.signals.commented();
    }
    take(shared, &options, &event, now_ms).await
}

/// Records a person's answer. It is decided later: Slack waits for three seconds only.
async fn take_answer(shared: &Shared, headers: &HeaderMap, body: &[u8], now_ms: i64) -> Result<Outcome, Outcome> {
    let signature = header(headers, signature::SLACK_SIGNATURE).unwrap_or_default();
    let read = slack::read(signature, body, now_ms).map_err(|MalformedDelivery(why)| Outcome::Malformed(why))?;
    let Some(answer) = read else { return Ok(Outcome::NoAnswer) };
    match shared.signals.answer(answer).await {
        Ok(SignalNovelty::First) => Ok(Outcome::Answered),
        Ok(SignalNovelty::Repeated) => Ok(Outcome::Duplicate),
        Err(error) => {
            shared.signals.note(&format!("an answer from Slack could not be recorded: {}", error_chain(&error)));
            Err(Outcome::Unrecorded)
        }
    }
}

/// The source of people's answers.
const SLACK: &str = "slack";

/// The source that a path names, if it has a secret here: `github`, `gitlab`, `slack`, `generic.NAME`.
fn source<'a>(options: &'a WebhookOptions, path: &str) -> Option<(String, &'a WebhookSecret)> {
    let rest = path.strip_prefix(PREFIX)?;
    let name = match rest.strip_prefix("generic/") {
        Some(name) => format!("generic.{name}"),
        None => rest.to_owned(),
    };
    let is_known =
        matches!(name.as_str(), "github" | "gitlab" | SLACK) || name.strip_prefix("generic.").is_some_and(is_word);
    let secret = options.secrets.get(&name).filter(|_| is_known)?;
    Some((name, secret))
}

/// The checks of a body that its headers allow.
fn admissible(source: &str, headers: &HeaderMap, most: usize) -> Result<(), Outcome> {
    let is_plain = |text: &HeaderValue| text.as_bytes().eq_ignore_ascii_case(b"identity");
    if !headers.get_all(CONTENT_ENCODING).iter().all(is_plain) {
        return Err(Outcome::Encoded);
    }
    let kind = header(headers, CONTENT_TYPE.as_str()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let (wanted, other) = match source {
        SLACK => ("application/x-www-form-urlencoded", Outcome::NotForm),
        _ => ("application/json", Outcome::NotJson),
    };
    if !kind.eq_ignore_ascii_case(wanted) {
        return Err(other);
    }
    let length = header(headers, CONTENT_LENGTH.as_str()).and_then(|text| text.parse::<u64>().ok());
    if length.is_some_and(|length| length > most as u64) { Err(Outcome::TooLarge) } else { Ok(()) }
}

fn check(
    source: &str,
    secret: &WebhookSecret,
    headers: &HeaderMap,
    body: &[u8],
    now_ms: i64,
) -> Result<(), SignatureError> {
    match source {
        "github" => signature::github(secret, headers, body),
        "gitlab" => signature::gitlab(secret, headers, body, now_ms),
        SLACK => signature::slack(secret, headers, body, now_ms),
        _ => signature::standard(secret, headers, body, now_ms),
    }
}

fn read(source: &str, headers: &HeaderMap, raw: &[u8]) -> Result<Option<WebhookEvent>, MalformedDelivery> {
    let body: Value = serde_json::from_slice(raw).map_err(|_| MalformedDelivery("the body is not JSON"))?;
    match source {
        "github" => github::read(headers, &body),
        "gitlab" => gitlab::read(headers, &body, raw).map(Some),
        name => generic(name.trim_start_matches("generic."), headers, &body, raw).map(Some),
    }
}

/// A user's own sender: any client with its secret may send. `key`, `title` and `repository` of the body are read.
fn generic(name: &str, headers: &HeaderMap, body: &Value, raw: &[u8]) -> Result<WebhookEvent, MalformedDelivery> {
    let delivery = header(headers, "webhook-id")
        .filter(|id| is_word(id))
        .ok_or(MalformedDelivery("webhook-id is not a plain word"))?;
    let (value, key) = (DeliveryBody(body), item_key(body.get("key"))?);
    Ok(WebhookEvent {
        source: "generic",
        name: name.to_owned(),
        is_final: true,
        delivery: format!("{name}.{delivery}"),
        is_insider: true,
        item: key,
        title: value.text("/title").map(line),
        data: Value::String(capped(&String::from_utf8_lossy(raw)).to_owned()),
        ..WebhookEvent::default()
    })
}

/// Larger numbers are exact only as whole ones of 64 bits.
const EXACT_BELOW: f64 = 9_007_199_254_740_992.0;

/// Whether a number was not rounded when it was read. Rounded, two keys could become one.
fn is_exact(number: &serde_json::Number) -> bool {
    number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|size| size.abs() < EXACT_BELOW)
}

/// The item that a body names. A key that cannot be an item is an error: without it, the item would be lost in silence.
fn item_key(key: Option<&Value>) -> Result<Option<String>, MalformedDelivery> {
    let text = match key {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) if is_exact(number) => number.to_string(),
        Some(Value::Number(_)) => {
            return Err(MalformedDelivery("`key` is a number that is too large: send it as a text"));
        }
        Some(_) => return Err(MalformedDelivery("`key` is neither a text nor a number")),
    };
    let is_usable = !text.trim().is_empty() && text.len() <= KEY_MAX && !text.chars().any(char::is_control);
    match is_usable {
        true => Ok(Some(text)),
        false => Err(MalformedDelivery("`key` is not one line of 1 to 200 bytes")),
    }
}

/// Makes each loop due that the event is for, once.
async fn take(
    shared: &Shared,
    options: &WebhookOptions,
    event: &WebhookEvent,
    now_ms: i64,
) -> Result<Outcome, Outcome> {
    let roster = Arc::clone(&shared.roster.read().unwrap_or_else(PoisonError::into_inner));
    let due = roster.match_loops(event, options).map_err(Outcome::Ignored)?;
    let mut news = 0;
    for DueLoop { repo, loop_name, is_hint } in due {
        let place = format!("{repo}/{loop_name}");
        let row = row(event, repo, loop_name, now_ms);
        let row = SignalRow { item: row.item.filter(|_| !is_hint), ..row };
        let taken = shared.pace.lock().unwrap_or_else(PoisonError::into_inner).admit(&place, &row.key, now_ms);
        let (key, row) = (
            row.key.clone(),
            match taken {
                ThrottleDecision::Known => continue,
                ThrottleDecision::Alone => row,
                ThrottleDecision::Together(minute) => many(event, row, minute),
            },
        );
        match shared.signals.signal(row).await {
            Ok(heard) => {
                news += usize::from(heard == SignalNovelty::First || taken != ThrottleDecision::Alone);
                shared.pace.lock().unwrap_or_else(PoisonError::into_inner).remember(&place, &key);
            }
            Err(error) => {
                shared.signals.note(&format!("`{place}`: an event could not be recorded: {}", error_chain(&error)));
                return Err(Outcome::Unrecorded);
            }
        }
    }
    Ok(if news == 0 { Outcome::Duplicate } else { Outcome::Accepted(news) })
}

fn row(event: &WebhookEvent, repo: String, loop_name: String, now_ms: i64) -> SignalRow {
    // A moved branch is one event, whether a delivery reports it or a clone shows it.
    let moved = event.moved_to.as_ref().zip(event.branch.as_ref());
    let key = match moved {
        Some((commit, branch)) => format!("push:{branch}:{commit}"),
        None => format!("webhook:{}:{}", event.source, event.delivery),
    };
    SignalRow {
        repo,
        loop_name,
        key,
        trigger: "webhook".to_owned(),
        at_ms: now_ms,
        item: event.item.clone(),
        title: event.title.clone(),
        data: Some(event.data.as_str().map_or_else(|| event.data.to_string(), str::to_owned)),
        taken_ms: None,
    }
}

/// All events beyond the limit of a minute become one signal without an item.
fn many(event: &WebhookEvent, row: SignalRow, minute: i64) -> SignalRow {
    SignalRow {
        key: format!("webhook:{}:many-{minute}", event.source),
        item: None,
        title: Some("more events in a minute than the limit for single signals".to_owned()),
        data: None,
        ..row
    }
}
