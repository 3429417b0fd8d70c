//! A call that failed, its message for people, and its meaning for a delivery or a read.

use super::ForgeWords;
use crate::http::{HttpAnswer, HttpFailure, pause_until};
use loopwright_core::deliver::DeliverError;
use loopwright_core::forge::ForgeError;
use serde_json::Value;

/// The most characters of a forge's own message.
const WORDS_MAX: usize = 300;

/// The meaning of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApiErrorKind {
    /// The forge received nothing, or refused to work on it for now.
    Unavailable,
    /// The forge may have performed the call.
    Lost,
    /// The token, its permissions, or the address of the repository must be changed by a person.
    Access,
    /// The thing does not exist, or the token may not see it.
    Missing,
    /// The forge rejects the content of the call.
    Rejected,
    /// The call contradicts the present state, which may change: another process was faster.
    Conflict,
}

/// A failed call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub(crate) struct ApiError {
    pub(crate) kind: ApiErrorKind,
    pub(crate) text: String,
    pub(crate) retry_at_ms: Option<i64>,
    /// Whether the call could change something.
    pub(crate) writes: bool,
    /// Whether an earlier call for the same item changed something.
    pub(crate) is_after_effect: bool,
}

/// The facts about a call that its error names.
#[derive(Debug, Clone)]
pub(crate) struct CallContext<'a> {
    pub(crate) words: ForgeWords,
    pub(crate) host: &'a str,
    pub(crate) repository: &'a str,
    pub(crate) token_name: &'a str,
    /// The method and path.
    pub(crate) call: String,
    pub(crate) writes: bool,
}

impl CallContext<'_> {
    fn error(&self, kind: ApiErrorKind, text: String) -> ApiError {
        ApiError { kind, text, retry_at_ms: None, writes: self.writes, is_after_effect: false }
    }

    /// The error of a call without an answer.
    pub(crate) fn failure(&self, failure: &HttpFailure) -> ApiError {
        let forge = self.words.name;
        match failure {
            HttpFailure::NotSent(why) => {
                self.error(ApiErrorKind::Unavailable, format!("{forge} at {} cannot be reached: {why}", self.host))
            }
            HttpFailure::Lost(why) => {
                self.error(ApiErrorKind::Lost, format!("{forge} at {}: {} has no answer: {why}", self.host, self.call))
            }
            HttpFailure::Paused(until) => self.limited(*until),
        }
    }

    /// The error of an exhausted rate limit.
    pub(crate) fn limited(&self, retry_at_ms: i64) -> ApiError {
        let text = format!(
            "{} at {} limits the requests of the token from {}, or is unavailable; Loopwright waits as long as the forge \
             asks for",
            self.words.name, self.host, self.token_name
        );
        ApiError { retry_at_ms: Some(retry_at_ms), ..self.error(ApiErrorKind::Unavailable, text) }
    }

    /// The error of an answer that is not the promised JSON.
    pub(crate) fn garbled(&self, why: &dyn std::fmt::Display) -> ApiError {
        let text = format!(
            "{} at {}: the answer to {} is not as documented: {why}; check that the address is that of the API",
            self.words.name, self.host, self.call
        );
        self.error(ApiErrorKind::Lost, text)
    }

    /// The error of an answer with a status other than success and rate limit.
    pub(crate) fn status(&self, answer: &HttpAnswer, now_ms: i64) -> ApiError {
        // Long because each status has its own sentence, and one table shows them all.
        let (forge, host, repository, token) = (self.words.name, self.host, self.repository, self.token_name);
        let said = said(answer);
        let error = |kind, text| self.error(kind, text);
        match answer.status {
            401 => error(
                ApiErrorKind::Access,
                format!(
                    "{forge} at {host} does not accept the token from {token} (401{said}); create a token with {} and \
                     store it there",
                    self.words.scopes
                ),
            ),
            403 | 423 if mentions(&said, "archived") => error(
                ApiErrorKind::Access,
                format!(
                    "{forge} at {host}: `{repository}` is archived and read-only ({}{said}); unarchive it, or retire the \
                     loop",
                    answer.status
                ),
            ),
            403 | 423 if mentions(&said, "locked") => error(
                ApiErrorKind::Rejected,
                format!("{forge} rejects {}: a person locked the conversation ({}{said})", self.call, answer.status),
            ),
            403 => error(
                ApiErrorKind::Access,
                format!(
                    "{forge}: the token from {token} lacks a permission for {} in `{repository}` (403{said}); {}",
                    self.call,
                    needed(answer, self.words)
                ),
            ),
            404 if self.writes && lacks_scope(answer) => error(
                ApiErrorKind::Access,
                format!(
                    "{forge}: the token from {token} lacks a scope for {} in `{repository}` (404); it needs {}",
                    self.call, self.words.scopes
                ),
            ),
            404 | 410 => {
                error(ApiErrorKind::Missing, format!("{forge} at {host} does not find {} (404{said})", self.call))
            }
            300..=399 => error(
                ApiErrorKind::Access,
                format!(
                    "{forge} at {host} redirects {}; the repository `{repository}` may have moved: set its new name in \
                     the configuration",
                    self.call
                ),
            ),
            425 => error(ApiErrorKind::Unavailable, format!("{forge} at {host}: {} is too early (425)", self.call)),
            409 => {
                error(ApiErrorKind::Conflict, format!("{forge} at {host}: {} is in conflict (409{said})", self.call))
            }
            423 => error(
                ApiErrorKind::Access,
                format!("{forge} at {host}: {} is locked (423{said}); unlock it", self.call),
            ),
            408 | 500.. => ApiError {
                retry_at_ms: pause_until(answer, now_ms),
                ..error(
                    ApiErrorKind::Lost,
                    format!("{forge} at {host}: {} failed ({}{said})", self.call, answer.status),
                )
            },
            status => error(ApiErrorKind::Rejected, format!("{forge} rejects {} ({status}{said})", self.call)),
        }
    }

    /// The error of a listing with more rows than a search reads.
    pub(crate) fn too_many(&self, pages: usize) -> ApiError {
        let text = format!("{} at {}: {} has more than {pages} pages", self.words.name, self.host, self.call);
        self.error(ApiErrorKind::Rejected, text)
    }

    /// The error of a repository that does not exist, or that the token cannot see.
    pub(crate) fn no_repository(&self) -> ApiError {
        let text = format!(
            "{} at {} has no repository `{}`, or the token from {} may not see it; check the name, and that the token \
             has access to this repository",
            self.words.name, self.host, self.repository, self.token_name
        );
        self.error(ApiErrorKind::Access, text)
    }
}

fn mentions(said: &str, word: &str) -> bool {
    said.to_lowercase().split(|c: char| !c.is_alphanumeric()).any(|part| part == word)
}

/// Whether a token of GitHub lists its scopes and `repo` or `public_repo` is not among them. GitHub then answers writes
/// with "not found".
fn lacks_scope(answer: &HttpAnswer) -> bool {
    let is_repo = |scope: &str| matches!(scope.trim(), "repo" | "public_repo");
    answer.header("x-oauth-scopes").is_some_and(|scopes| !scopes.split(',').any(is_repo))
}

/// The permission that a forbidden call needs, if the forge names it.
fn needed(answer: &HttpAnswer, words: ForgeWords) -> String {
    if let Some(sso) = answer.header("x-github-sso") {
        let url = sso.split("url=").nth(1).unwrap_or_default();
        let url: String = url.chars().filter(char::is_ascii_graphic).take(WORDS_MAX).collect();
        return format!("authorize the token for the organization's single sign-on: {url}");
    }
    let header = |name| answer.header(name).filter(|value| !value.trim().is_empty());
    let named = header("x-accepted-github-permissions").or_else(|| header("x-accepted-oauth-scopes"));
    match named {
        Some(named) => format!("it needs `{}`", plain(named)),
        None => format!("it needs {}", words.scopes),
    }
}

/// The forge's own message: `: …`, or nothing.
fn said(answer: &HttpAnswer) -> String {
    let Ok(body) = serde_json::from_slice::<Value>(&answer.body) else { return String::new() };
    let mut parts = Vec::new();
    for key in ["message", "error", "error_description", "errors"] {
        collect(&body[key], &mut parts);
    }
    parts.dedup();
    if parts.is_empty() { String::new() } else { format!(": {}", plain(&parts.join("; "))) }
}

/// The texts of a message, which may be a text, a list, or lists by field.
fn collect(value: &Value, parts: &mut Vec<String>) {
    match value {
        Value::String(text) => parts.push(text.clone()),
        Value::Array(all) => all.iter().for_each(|one| collect(one, parts)),
        Value::Object(map) if map.contains_key("code") => {
            let word = |key: &str| map.get(key).and_then(Value::as_str).unwrap_or_default();
            let text = [word("field"), word("code"), word("message")].join(" ");
            parts.push(text.trim().to_owned());
        }
        Value::Object(map) => map.values().for_each(|one| collect(one, parts)),
        _ => {}
    }
}

/// A forge's text as one short line.
fn plain(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(WORDS_MAX).collect();
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl ApiError {
    /// The same error, after earlier calls for the item that changed something, if `is_begun`.
    pub(crate) fn after(self, is_begun: bool) -> Self {
        Self { is_after_effect: self.is_after_effect || is_begun, ..self }
    }

    /// The error of a delivery.
    pub(crate) fn in_delivery(self) -> DeliverError {
        let is_after_effect = self.is_after_effect;
        DeliverError { is_after_effect, ..self.without_effect() }
    }

    fn without_effect(self) -> DeliverError {
        match (self.kind, self.writes) {
            (ApiErrorKind::Lost, true) => DeliverError::in_doubt(self.text).retry_at(self.retry_at_ms),
            (ApiErrorKind::Unavailable | ApiErrorKind::Lost | ApiErrorKind::Conflict, _) => {
                DeliverError::transient(self.text).retry_at(self.retry_at_ms)
            }
            (ApiErrorKind::Access, _) => DeliverError::blocked(self.text),
            (ApiErrorKind::Missing | ApiErrorKind::Rejected, _) => DeliverError::refused(self.text),
        }
    }

    /// The error of a read.
    pub(crate) fn in_read(self) -> ForgeError {
        match self.kind {
            ApiErrorKind::Unavailable | ApiErrorKind::Lost | ApiErrorKind::Conflict => {
                ForgeError::Unavailable { text: self.text, retry_at_ms: self.retry_at_ms }
            }
            ApiErrorKind::Access | ApiErrorKind::Missing | ApiErrorKind::Rejected => ForgeError::Refused(self.text),
        }
    }
}
