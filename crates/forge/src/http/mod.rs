//! One HTTP request to one configured server: deadlines, a limit on the answer, no redirects, and a clear difference
//! between a request that was not sent and one whose answer was lost. It does not interpret answers.

mod dial;
mod etag;
mod limits;
mod pages;

pub(crate) use dial::ForgeDialer;
pub use dial::NetworkSettings;
pub(crate) use limits::{pause_until, retry_at};
pub(crate) use pages::next_query;

use crate::base_url::BaseUrl;
use crate::secret::SecretText;
use etag::EtagCache;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::timeout;

/// The largest answer: a page of 100 pull requests with texts of 64 KiB.
const ANSWER_BYTES_MAX: usize = 16 << 20;

const USER_AGENT: &str = concat!("loopwright/", env!("CARGO_PKG_VERSION"));

/// Returns the time in milliseconds since 1970; the caller's clock.
pub type NowMs = Arc<dyn Fn() -> i64 + Send + Sync>;

/// A request, relative to the server's base address.
#[derive(Debug, Clone)]
pub(crate) struct HttpCall {
    pub(crate) method: Method,
    /// Starts with `/`; percent-encoded.
    pub(crate) path: String,
    /// Without `?`; percent-encoded.
    pub(crate) query: String,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: Option<Vec<u8>>,
}

impl HttpCall {
    pub(crate) fn new(method: Method, path: impl Into<String>) -> Self {
        Self { method, path: path.into(), query: String::new(), headers: Vec::new(), body: None }
    }

    pub(crate) fn query(mut self, query: impl Into<String>) -> Self {
        self.query = query.into();
        self
    }

    pub(crate) fn json(mut self, body: &serde_json::Value) -> Self {
        self.headers.push((header::CONTENT_TYPE, HeaderValue::from_static("application/json")));
        self.body = Some(body.to_string().into_bytes());
        self
    }

    pub(crate) fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Adds a header whose value is a secret; an unusable value is an error without the value.
    pub(crate) fn secret_header(self, name: HeaderName, value: &SecretText) -> Result<Self, HttpFailure> {
        let mut value = HeaderValue::from_str(value.expose())
            .map_err(|_| HttpFailure::NotSent("the token is not one printable line".to_owned()))?;
        value.set_sensitive(true);
        Ok(self.header(name, value))
    }

    /// Whether the request may change something.
    pub(crate) fn writes(&self) -> bool {
        self.method != Method::GET
    }

    fn target(&self, base: &BaseUrl) -> String {
        let query = if self.query.is_empty() { String::new() } else { format!("?{}", self.query) };
        let path = format!("{}{}{query}", base.path, self.path);
        if path.starts_with('/') { path } else { format!("/{path}") }
    }
}

/// A complete answer, whatever its status.
#[derive(Debug, Clone)]
pub(crate) struct HttpAnswer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl HttpAnswer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// A request without a complete answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HttpFailure {
    /// The server received nothing.
    #[error("{0}")]
    NotSent(String),
    /// The server may have performed the request.
    #[error("{0}")]
    Lost(String),
    /// The server's rate limit is exhausted, so the request was not sent.
    #[error("the rate limit is exhausted")]
    Paused(i64),
}

/// A client of one server.
pub(crate) struct HttpClient {
    base: BaseUrl,
    dialer: ForgeDialer,
    total: Duration,
    now: NowMs,
    etags: Mutex<EtagCache>,
    paused_until_ms: AtomicI64,
}

impl HttpClient {
    pub(crate) fn new(base: BaseUrl, network: &NetworkSettings, now: NowMs) -> Result<Self, String> {
        let dialer = ForgeDialer::new(network, base.is_tls)?;
        let (etags, paused_until_ms) = (Mutex::default(), AtomicI64::new(i64::MIN));
        Ok(Self { base, dialer, total: network.total_timeout, now, etags, paused_until_ms })
    }

    pub(crate) fn base(&self) -> &BaseUrl {
        &self.base
    }

    pub(crate) fn now_ms(&self) -> i64 {
        (self.now)()
    }

    /// Sends a request and reads the whole answer. An answer that asks to wait pauses all later requests until
    /// then, because forges extend a limit that a client ignores.
    pub(crate) async fn send(&self, call: &HttpCall) -> Result<HttpAnswer, HttpFailure> {
        let paused = self.paused_until_ms.load(Ordering::Relaxed);
        if self.now_ms() < paused {
            return Err(HttpFailure::Paused(paused));
        }
        let url = call.target(&self.base);
        let cached = if call.writes() { None } else { self.etags().tag(&url) };
        let exchange = timeout(self.total, self.exchange(call, &url, cached.as_deref()));
        let late = |_| HttpFailure::Lost(format!("no answer within {} s", self.total.as_secs()));
        let answer = exchange.await.map_err(late)??;
        if let Some(until) = pause_until(&answer, self.now_ms()) {
            self.paused_until_ms.fetch_max(until, Ordering::Relaxed);
        }
        Ok(self.remember(call, &url, answer))
    }

    async fn exchange(&self, call: &HttpCall, url: &str, etag: Option<&str>) -> Result<HttpAnswer, HttpFailure> {
        let request = self.request(call, url, etag)?;
        let stream = self.dialer.connect(&self.base).await.map_err(HttpFailure::NotSent)?;
        let not_sent = |error: hyper::Error| HttpFailure::NotSent(reason(&error));
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(not_sent)?;
        // The sender and the body report connection errors. The task ends with the connection.
        let connection = tokio::spawn(connection);
        let answered = sender.send_request(request).await;
        let lost = |error: hyper::Error| match error.is_canceled() {
            true => HttpFailure::NotSent(reason(&error)),
            false => HttpFailure::Lost(reason(&error)),
        };
        let result = match answered {
            Ok(response) => read_answer(response).await,
            Err(error) => Err(lost(error)),
        };
        connection.abort();
        result
    }

    fn request(&self, call: &HttpCall, url: &str, etag: Option<&str>) -> Result<Request<Full<Bytes>>, HttpFailure> {
        let body = Full::new(Bytes::from(call.body.clone().unwrap_or_default()));
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(url)
            .header(header::HOST, self.base.authority())
            .header(header::USER_AGENT, USER_AGENT);
        if let Some(etag) = etag {
            request = request.header(header::IF_NONE_MATCH, etag);
        }
        for (name, value) in &call.headers {
            request = request.header(name, value);
        }
        request.body(body).map_err(|error| HttpFailure::NotSent(error.to_string()))
    }

    /// Replaces "not modified" by the answer that has not been modified, and keeps new answers that have a tag.
    fn remember(&self, call: &HttpCall, url: &str, answer: HttpAnswer) -> HttpAnswer {
        if call.writes() {
            return answer;
        }
        let mut etags = self.etags();
        match answer.status {
            304 => etags.answer(url).unwrap_or(answer),
            200 => {
                if is_kept(url, &answer) {
                    etags.keep(url, &answer);
                }
                answer
            }
            _ => answer,
        }
    }

    fn etags(&self) -> std::sync::MutexGuard<'_, EtagCache> {
        self.etags.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether an answer may stand for a later "not modified". A page of a proxy, or an answer that was cut, must not: its tag
/// would bring it back. A full last page must not either: the page after it appears without a change of this one.
fn is_kept(url: &str, answer: &HttpAnswer) -> bool {
    match serde_json::from_slice::<Vec<serde::de::IgnoredAny>>(&answer.body) {
        Ok(rows) => next_query(answer).is_some() || page_size(url).is_none_or(|size| rows.len() < size),
        Err(_) => serde_json::from_slice::<serde::de::IgnoredAny>(&answer.body).is_ok(),
    }
}

/// The number of rows that a page of a listing may have.
fn page_size(url: &str) -> Option<usize> {
    let (_, query) = url.split_once('?')?;
    let size = |part: &str| part.strip_prefix("per_page=").or_else(|| part.strip_prefix("limit="))?.parse().ok();
    query.split('&').find_map(size)
}

async fn read_answer(response: hyper::Response<hyper::body::Incoming>) -> Result<HttpAnswer, HttpFailure> {
    let (parts, body) = response.into_parts();
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|error| HttpFailure::Lost(format!("the answer is incomplete or too long: {error}")))?;
    Ok(HttpAnswer { status: parts.status.as_u16(), headers: parts.headers, body: body.to_bytes() })
}

/// An error with its cause, which names the reason.
fn reason(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}
