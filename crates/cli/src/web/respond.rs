//! One request: the checks in their fixed order, then the route. Host and sender are checked before the route does
//! anything; a write is checked for its origin and read with limits.

use super::WebState;
use super::access::{AccessKind, AccessRole, NewAccess};
use super::guard::SignedIn;
use super::markup::decode;
use super::pages;
use super::reply::{self, WebReply};
use super::routes::{self, RequestValues, RouteAction, RouteMatch, WebRoute, words};
use super::{mcp, metrics, openapi, stream};
use crate::context::LoopFilesOnce;
use crate::control::{FaceAnswer, FaceRequest};
use crate::error::CommandErrorKind;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use hyper::{Method, Request, StatusCode};
use loopwright::Actor;
use loopwright::connections::RequestProgress;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The most bytes of a body.
pub(super) const BODY_MAX: usize = 64 << 10;

/// How long a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a document or a page may take.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a browser stays signed in.
const SESSION_MS: i64 = 7 * 86_400_000;

/// The form of the answer that the client wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReplyForm {
    /// A document, for programs.
    Document,
    /// A page, for people.
    Page,
}

/// A refusal of a request: its status, its kind and its text.
pub(super) struct WebRefusal(pub(super) StatusCode, pub(super) CommandErrorKind, pub(super) &'static str);

const FOREIGN_HOST: WebRefusal =
    WebRefusal(StatusCode::FORBIDDEN, CommandErrorKind::Refused, "this host name is not served here");
const NOT_FOUND: WebRefusal = WebRefusal(StatusCode::NOT_FOUND, CommandErrorKind::Unknown, "there is no such page");
const WRONG_METHOD: WebRefusal =
    WebRefusal(StatusCode::METHOD_NOT_ALLOWED, CommandErrorKind::Usage, "this address does not take this method");
const NO_TOKEN: WebRefusal =
    WebRefusal(StatusCode::UNAUTHORIZED, CommandErrorKind::Refused, "sign in: `loopwright web` prints a link");
const WEAK_ROLE: WebRefusal =
    WebRefusal(StatusCode::FORBIDDEN, CommandErrorKind::Refused, "the role of this token is not enough");
const FOREIGN_FORM: WebRefusal = WebRefusal(
    StatusCode::FORBIDDEN,
    CommandErrorKind::Refused,
    "this request does not come from a page of this server",
);
const TOO_LARGE: WebRefusal =
    WebRefusal(StatusCode::PAYLOAD_TOO_LARGE, CommandErrorKind::Usage, "the body is too large");
const TOO_SLOW: WebRefusal =
    WebRefusal(StatusCode::REQUEST_TIMEOUT, CommandErrorKind::Usage, "the body did not arrive in time");
const NOT_READABLE: WebRefusal =
    WebRefusal(StatusCode::BAD_REQUEST, CommandErrorKind::Usage, "the body cannot be read");
const WRONG_TYPE: WebRefusal = WebRefusal(
    StatusCode::UNSUPPORTED_MEDIA_TYPE,
    CommandErrorKind::Usage,
    "send application/json, or a form of a page",
);
const SLOW_ANSWER: WebRefusal =
    WebRefusal(StatusCode::SERVICE_UNAVAILABLE, CommandErrorKind::Failed, "the answer takes too long");
const MANY_STREAMS: WebRefusal =
    WebRefusal(StatusCode::SERVICE_UNAVAILABLE, CommandErrorKind::Held, "too many streams are open");
const USED_LINK: WebRefusal = WebRefusal(
    StatusCode::UNAUTHORIZED,
    CommandErrorKind::Refused,
    "this link was used already, or is too old: `loopwright web` prints another one",
);

impl WebRefusal {
    fn reply(&self, form: ReplyForm) -> WebReply {
        let Self(status, kind, text) = self;
        let reply = match form {
            ReplyForm::Document => reply::error_document(*status, *kind, text, &[]),
            ReplyForm::Page => reply::page(*status, pages::problem(status.as_str(), text, &[])),
        };
        if *status == StatusCode::PAYLOAD_TOO_LARGE || *status == StatusCode::REQUEST_TIMEOUT {
            return reply::closing(reply);
        }
        reply
    }
}

/// Answers a request.
pub(super) async fn respond(state: &Arc<WebState>, request: Request<Incoming>, progress: &RequestProgress) -> WebReply {
    let path = request.uri().path();
    let is_api = path.starts_with("/api/") || path == "/metrics" || path == "/mcp";
    let is_form = content_type(request.headers()) == "application/x-www-form-urlencoded";
    let form = if is_api && !is_form { ReplyForm::Document } else { ReplyForm::Page };
    let headers = request.headers().clone();
    let reply = match answer(state, request, progress, form).await {
        Ok(reply) => reply,
        Err(refusal) => refusal.reply(form),
    };
    reply::compressed(reply, &headers)
}

fn content_type(headers: &HeaderMap) -> &str {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim()
}

async fn answer(
    state: &Arc<WebState>,
    request: Request<Incoming>,
    progress: &RequestProgress,
    form: ReplyForm,
) -> Result<WebReply, WebRefusal> {
    if !state.guard.is_own_host(request.headers()) {
        return Err(FOREIGN_HOST);
    }
    let (route, mut values) = match routes::find(request.method(), request.uri().path()) {
        RouteMatch::Found(route, parts) => (route, parts),
        RouteMatch::WrongMethod => return Err(WRONG_METHOD),
        RouteMatch::NotFound => return Err(NOT_FOUND),
    };
    let sender = admitted(state, route, request.headers())?;
    let query = pairs(request.uri().query().unwrap_or_default()).ok_or(NOT_READABLE)?;
    add_missing(&mut values, query);
    let (head, body) = request.into_parts();
    let mut message = Bytes::new();
    if head.method == Method::POST {
        message = read_bytes(&head.headers, body).await?;
        let sent = match route.action {
            // Its body is a message and has no values.
            RouteAction::Mcp => RequestValues::new(),
            _ => body_values(&head.headers, &message)?,
        };
        let csrf = sent.get("csrf").map(String::as_str).or_else(|| header(&head.headers, "x-csrf"));
        let is_own = sender.as_ref().is_some_and(|sender| state.guard.is_own_form(sender, &head.headers, csrf));
        if !is_own {
            return Err(FOREIGN_FORM);
        }
        add_missing(&mut values, sent);
    }
    progress.set_whole();
    let call = RouteCall {
        state,
        route,
        sender,
        values,
        headers: &head.headers,
        message,
        form,
        files: LoopFilesOnce::default(),
    };
    match tokio::time::timeout(READ_TIMEOUT, call.perform()).await {
        Ok(done) => done,
        Err(_) => Err(SLOW_ANSWER),
    }
}

/// The sender, if the route needs one. A stream or a read from a foreign page is refused too.
fn admitted(state: &WebState, route: &WebRoute, headers: &HeaderMap) -> Result<Option<SignedIn>, WebRefusal> {
    if state.guard.is_own_origin(headers) == Some(false) {
        return Err(FOREIGN_FORM);
    }
    let Some(role) = route.role else { return Ok(None) };
    let sender = state.guard.identify(headers).ok_or(NO_TOKEN)?;
    if sender.may(role) { Ok(Some(sender)) } else { Err(WEAK_ROLE) }
}

fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// Adds values by names that are not taken: a part of the path cannot be replaced.
fn add_missing(values: &mut RequestValues, more: RequestValues) {
    for (name, value) in more {
        values.entry(name).or_insert(value);
    }
}

/// The values of a query or of a form; `None` for text that is not encoded as such.
fn pairs(text: &str) -> Option<RequestValues> {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Some((decode(&name.replace('+', " "))?, decode(&value.replace('+', " "))?))
    };
    text.split('&').filter(|pair| !pair.is_empty()).map(pair).collect()
}

async fn read_bytes(headers: &HeaderMap, body: Incoming) -> Result<Bytes, WebRefusal> {
    let length = header(headers, CONTENT_LENGTH.as_str()).and_then(|text| text.parse::<u64>().ok());
    if length.is_some_and(|length| length > BODY_MAX as u64) {
        return Err(TOO_LARGE);
    }
    match tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, BODY_MAX).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(TOO_LARGE),
        Ok(Err(_)) => Err(NOT_READABLE),
        Err(_) => Err(TOO_SLOW),
    }
}

/// The values of a body: those of a form, or of a JSON object.
fn body_values(headers: &HeaderMap, bytes: &[u8]) -> Result<RequestValues, WebRefusal> {
    if bytes.is_empty() {
        return Ok(RequestValues::new());
    }
    let text = std::str::from_utf8(bytes).map_err(|_| NOT_READABLE)?;
    match content_type(headers) {
        "application/x-www-form-urlencoded" => pairs(text).ok_or(NOT_READABLE),
        "application/json" => json_values(text).ok_or(NOT_READABLE),
        _ => Err(WRONG_TYPE),
    }
}

/// The texts, numbers and flags of a JSON object.
fn json_values(text: &str) -> Option<RequestValues> {
    let Value::Object(fields) = serde_json::from_str(text).ok()? else { return None };
    let value = |(name, value): (String, Value)| match value {
        Value::String(text) => Some((name, text)),
        Value::Number(number) => Some((name, number.to_string())),
        Value::Bool(flag) => Some((name, flag.to_string())),
        _ => None,
    };
    // A null counts as an absent value; anything else that is no plain value is an error.
    fields.into_iter().filter(|(_, value)| !value.is_null()).map(value).collect()
}

/// A request that passed all checks.
pub(super) struct RouteCall<'c> {
    pub(super) state: &'c Arc<WebState>,
    pub(super) route: &'static WebRoute,
    pub(super) sender: Option<SignedIn>,
    pub(super) values: RequestValues,
    pub(super) headers: &'c HeaderMap,
    /// The body of a write, as it was sent.
    message: Bytes,
    pub(super) form: ReplyForm,
    files: LoopFilesOnce,
}

impl RouteCall<'_> {
    async fn perform(&self) -> Result<WebReply, WebRefusal> {
        match self.route.action {
            RouteAction::Page(page) => Ok(pages::show(self, page).await),
            RouteAction::Read(template) => Ok(self.read(template).await),
            RouteAction::Write(template) => Ok(self.write(template).await),
            RouteAction::Events => {
                let id = self.sender.as_ref().map_or("", |sender| sender.entry.id.as_str());
                let place = self.state.streams.take(id).ok_or(MANY_STREAMS)?;
                let last = header(self.headers, "last-event-id").and_then(|text| text.parse().ok());
                let after = last.or_else(|| self.values.get("after")?.parse().ok());
                let (state, sender) = (Arc::clone(self.state), self.sender.clone());
                let is_admitted = move || sender.as_ref().is_some_and(|sender| state.guard.is_valid(sender));
                let folder = self.state.own.state_dir().map_err(|_| NOT_FOUND)?.0;
                Ok(stream::start((&self.state.engine, &folder), after, place, is_admitted))
            }
            RouteAction::OpenApi => Ok(reply::document(StatusCode::OK, &openapi::description())),
            RouteAction::Metrics => Ok(metrics::reply(self).await),
            RouteAction::Mcp => Ok(mcp::reply(self, &self.message).await),
            RouteAction::Asset(name) => pages::asset(name).ok_or(NOT_FOUND),
            RouteAction::SignIn => self.sign_in(),
            RouteAction::SignOut => Ok(self.sign_out()),
        }
    }

    /// The person or program behind the request.
    pub(super) fn actor(&self) -> Actor {
        self.sender.as_ref().map_or_else(|| Actor::embedder("web"), |sender| sender.entry.actor())
    }

    /// Runs a command with these words.
    pub(super) async fn run(&self, words: Vec<String>) -> Result<FaceAnswer, crate::error::CommandError> {
        let request = FaceRequest { files: Some(self.files.clone()), ..self.request(words).await? };
        self.state.control.perform_for_face(&self.state.own, request).await
    }

    /// The command of these words, in the repository that the request names.
    pub(super) async fn request(&self, words: Vec<String>) -> Result<FaceRequest, crate::error::CommandError> {
        let repo: Option<PathBuf> = match self.values.get("repo") {
            Some(id) => Some(pages::repo_path(self.state, id).await?),
            None => None,
        };
        Ok(FaceRequest { words, repo, actor: self.actor(), files: None })
    }

    async fn read(&self, template: &[&str]) -> WebReply {
        let words = std::iter::once("--json".to_owned()).chain(words(template, &self.values)).collect();
        reply_from(self.run(words).await)
    }

    fn sign_in(&self) -> Result<WebReply, WebRefusal> {
        let owner = self.values.get("code").and_then(|code| self.state.links.redeem(code)).ok_or(USED_LINK)?;
        let (name, uid) = (owner.name, owner.uid);
        let new = NewAccess { name, role: AccessRole::Approve, kind: AccessKind::Session, lasts_ms: SESSION_MS, uid };
        let Ok((_, secret)) = self.state.guard.registry().add(new) else {
            return Err(WebRefusal(
                StatusCode::INTERNAL_SERVER_ERROR,
                CommandErrorKind::Failed,
                "the session could not be stored: see `loopwright token list`",
            ));
        };
        Ok(reply::with_cookie(reply::see_other("/"), &self.state.guard.cookie(&secret, SESSION_MS / 1000)))
    }

    fn sign_out(&self) -> WebReply {
        if let Some(sender) = &self.sender {
            // An entry that cannot be removed expires; the browser forgets its secret anyway.
            let _ = self.state.guard.registry().revoke(&sender.entry.id);
        }
        let page = pages::problem("Signed out", "`loopwright web` prints a link that signs in again", &[]);
        reply::with_cookie(reply::page(StatusCode::OK, page), &self.state.guard.cookie("", 0))
    }
}

/// The answer of a command as a document.
pub(super) fn reply_from(answer: Result<FaceAnswer, crate::error::CommandError>) -> WebReply {
    match answer {
        Ok(answer) => match answer.document() {
            Some(document) => reply::document(status_of(&document), &document),
            None => reply::error_document(
                StatusCode::INTERNAL_SERVER_ERROR,
                CommandErrorKind::Failed,
                "the command printed no document",
                &[],
            ),
        },
        Err(error) => reply::error_document(status_of_kind(error.kind), error.kind, &error.text, &error.hints),
    }
}

/// The status of a document: that of its error, if it is one.
pub(super) fn status_of(document: &Value) -> StatusCode {
    match document.get("error").and_then(|error| error.get("kind")) {
        Some(kind) => serde_json::from_value(kind.clone()).map_or(StatusCode::INTERNAL_SERVER_ERROR, status_of_kind),
        None => StatusCode::OK,
    }
}

fn status_of_kind(kind: CommandErrorKind) -> StatusCode {
    match kind {
        CommandErrorKind::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        CommandErrorKind::Usage => StatusCode::BAD_REQUEST,
        CommandErrorKind::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
        CommandErrorKind::Unknown => StatusCode::NOT_FOUND,
        CommandErrorKind::Refused => StatusCode::CONFLICT,
        CommandErrorKind::Held | CommandErrorKind::Interrupted => StatusCode::SERVICE_UNAVAILABLE,
    }
}
