//! The log of requests, without secrets: a token appears as the name of its account.

use super::faults::{ForgeFault, matches_path};
use super::http::RawRequest;
use super::state::ForgeState;
use serde_json::Value;

/// The largest part of a body that is not JSON and that the log keeps.
const BODY_BYTES_MAX: usize = 4096;

/// The API that a request used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForgeFace {
    /// GitHub's REST API.
    GitHub,
    /// GitLab's API, version 4.
    GitLab,
    /// The API of Gitea and Forgejo, version 1.
    Gitea,
    /// Git over smart HTTP.
    Git,
}

/// A request that the forge received.
#[derive(Debug, Clone)]
pub struct ForgeLogEntry {
    /// The API.
    pub face: ForgeFace,
    /// The method.
    pub method: String,
    /// The path below the base of the API, without the query.
    pub path: String,
    /// The query, without tokens.
    pub query: String,
    /// The headers with names in lower case; the value of a secret one is the account, such as `<token of bot>`.
    pub headers: Vec<(String, String)>,
    /// The body as JSON; a text if it is not JSON.
    pub body: Value,
    /// The status of the answer; `None` if the connection was cut.
    pub status: Option<u16>,
    /// The body of the answer as JSON; `Null` if there is none.
    pub answer: Value,
    /// The scripted fault of this request.
    pub fault: Option<ForgeFault>,
}

impl ForgeLogEntry {
    /// Whether it has this method and matches this path, in which `*` stands for one part and `**` for the rest.
    #[must_use]
    pub fn is(&self, method: &str, path: &str) -> bool {
        self.method == method && matches_path(path, &self.path)
    }

    /// A header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Logs a request that has no answer yet.
    pub(super) fn new(state: &ForgeState, face: ForgeFace, path: &str, request: &RawRequest) -> Self {
        let owner = request.token().and_then(|token| state.tokens.get(&token).map(|grant| grant.user.clone()));
        let owner = owner.map_or("<unknown token>".to_owned(), |user| format!("<token of {user}>"));
        let headers = request.headers.iter().map(|(name, value)| {
            let is_secret = ["authorization", "private-token", "cookie"].contains(&name.as_str());
            (name.clone(), if is_secret { owner.clone() } else { value.clone() })
        });
        let is_token = |pair: &&str| pair.split('=').next().is_some_and(|name| name.ends_with("token"));
        let query: Vec<&str> = request.query.split('&').filter(|pair| !is_token(pair)).collect();
        Self {
            face,
            method: request.method.clone(),
            path: path.to_owned(),
            query: query.join("&"),
            headers: headers.collect(),
            body: readable(&request.body),
            status: None,
            answer: Value::Null,
            fault: None,
        }
    }
}

/// Bytes as JSON, or as a text of limited length.
pub(super) fn readable(bytes: &[u8]) -> Value {
    if bytes.is_empty() {
        return Value::Null;
    }
    let text = || String::from_utf8_lossy(&bytes[..bytes.len().min(BODY_BYTES_MAX)]).into_owned();
    serde_json::from_slice(bytes).unwrap_or_else(|_| Value::String(text()))
}
