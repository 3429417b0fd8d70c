//! Calls with a token and JSON: one error with one message for each way in which a call can fail.

use super::error::CallContext;
use super::{ApiError, ApiErrorKind, CallResult, ForgeWords};
use crate::github::AppTokens;
use crate::http::{HttpAnswer, HttpCall, HttpClient, next_query, retry_at};
use crate::secret::SecretText;
use hyper::Method;
use hyper::header::{ACCEPT, AUTHORIZATION, HeaderName, HeaderValue};
use loopwright_core::forge::{ForgePage, PageToken};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;

/// The source of the token in each call.
pub(crate) enum TokenSource {
    /// A token with the word before it in the header, such as `Bearer`.
    Fixed(&'static str, SecretText),
    /// The installation of a GitHub App.
    App(Box<AppTokens>),
}

/// A client of one repository on one forge.
pub(crate) struct ApiClient {
    /// Shared by the clients of all repositories of one account, because rate limits hold for accounts.
    pub(crate) http: Arc<HttpClient>,
    pub(crate) words: ForgeWords,
    /// `owner/name`.
    pub(crate) repository: String,
    /// The location of the token, for messages.
    pub(crate) token_name: String,
    pub(crate) token: TokenSource,
    /// Headers of every call, such as the version of the API.
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    host: String,
}

impl ApiClient {
    pub(crate) fn new(
        http: Arc<HttpClient>,
        words: ForgeWords,
        repository: &str,
        token: TokenSource,
        token_name: &str,
    ) -> Self {
        let (host, headers) = (http.base().authority(), Vec::new());
        let (repository, token_name) = (repository.to_owned(), token_name.to_owned());
        Self { http, words, repository, token_name, token, headers, host }
    }

    /// The token of the next call, for a push.
    pub(crate) async fn current_token(&self) -> CallResult<SecretText> {
        match &self.token {
            TokenSource::Fixed(_, token) => Ok(token.clone()),
            TokenSource::App(app) => app.token(self).await,
        }
    }

    /// Sends a call with the token; an answer other than success is an error.
    pub(crate) async fn send(&self, call: HttpCall) -> CallResult<HttpAnswer> {
        let word = match &self.token {
            TokenSource::Fixed(word, _) => word,
            TokenSource::App(_) => "Bearer",
        };
        let value = SecretText::new(format!("{word} {}", self.current_token().await?.expose()));
        self.send_as(call, &value).await
    }

    /// As [`ApiClient::send`], with another `Authorization` header.
    pub(crate) async fn send_as(&self, call: HttpCall, authorization: &SecretText) -> CallResult<HttpAnswer> {
        let context = self.context(&call);
        let failure = |failure| context.failure(&failure);
        let mut call = call.secret_header(AUTHORIZATION, authorization).map_err(failure)?;
        call.headers.extend(self.headers.iter().cloned());
        if !call.headers.iter().any(|(name, _)| name == ACCEPT) {
            call = call.header(ACCEPT, HeaderValue::from_static("application/json"));
        }
        let answer = self.http.send(&call).await.map_err(failure)?;
        let now_ms = self.http.now_ms();
        match (answer.status, retry_at(&answer, now_ms)) {
            (200..300, _) => Ok(answer),
            (_, Some(until)) => Err(context.limited(until)),
            _ => Err(context.status(&answer, now_ms)),
        }
    }

    fn context(&self, call: &HttpCall) -> CallContext<'_> {
        CallContext {
            words: self.words,
            host: &self.host,
            repository: &self.repository,
            token_name: &self.token_name,
            call: format!("{} {}", call.method, call.path),
            writes: call.writes(),
        }
    }

    fn parse<T: DeserializeOwned>(&self, call: &CallContext<'_>, answer: &HttpAnswer) -> CallResult<T> {
        serde_json::from_slice(&answer.body).map_err(|error| call.garbled(&error))
    }

    /// Sends a call and parses the answer.
    pub(crate) async fn call<T: DeserializeOwned>(&self, call: HttpCall) -> CallResult<T> {
        let context = self.context(&call);
        let answer = self.send(call).await?;
        self.parse(&context, &answer)
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str, query: &str) -> CallResult<T> {
        self.call(HttpCall::new(Method::GET, path).query(query)).await
    }

    /// `None` if it does not exist.
    pub(crate) async fn find<T: DeserializeOwned>(&self, path: &str, query: &str) -> CallResult<Option<T>> {
        match self.get(path, query).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.kind == ApiErrorKind::Missing => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn write<T: DeserializeOwned>(&self, method: Method, path: &str, body: &Value) -> CallResult<T> {
        self.call(HttpCall::new(method, path).json(body)).await
    }

    pub(crate) async fn post<T: DeserializeOwned>(&self, path: &str, body: &Value) -> CallResult<T> {
        self.write(Method::POST, path, body).await
    }

    /// One page of a listing; `query` is that of the first page.
    pub(crate) async fn page<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &str,
        from: Option<&PageToken>,
    ) -> CallResult<ForgePage<T>> {
        let query = from.map_or(query, |token| &token.0);
        let call = HttpCall::new(Method::GET, path).query(query);
        let context = self.context(&call);
        let answer = self.send(call).await?;
        Ok(ForgePage { rows: self.parse(&context, &answer)?, next: next_query(&answer).map(PageToken) })
    }

    /// One page of several listings that follow each other, with the number of the listing. A token is the number of
    /// the listing and the query of the page.
    pub(crate) async fn chained_page<T: DeserializeOwned>(
        &self,
        paths: &[String],
        query: &str,
        from: Option<&PageToken>,
    ) -> CallResult<(usize, ForgePage<T>)> {
        let (at, inner) = match from.and_then(|token| token.0.split_once(':')) {
            Some((at, "")) => (at.parse().unwrap_or(0), None),
            Some((at, query)) => (at.parse().unwrap_or(0), Some(PageToken(query.to_owned()))),
            None => (0, None),
        };
        let Some(path) = paths.get(at) else { return Ok((at, ForgePage { rows: Vec::new(), next: None })) };
        let page = self.page(path, query, inner.as_ref()).await?;
        let next = match page.next {
            Some(next) => Some(PageToken(format!("{at}:{}", next.0))),
            None => (at + 1 < paths.len()).then(|| PageToken(format!("{}:", at + 1))),
        };
        Ok((at, ForgePage { rows: page.rows, next }))
    }

    /// The rows of the first pages, and the page after them.
    pub(crate) async fn first_rows<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &str,
        pages_max: usize,
    ) -> CallResult<(Vec<T>, Option<PageToken>)> {
        let (mut rows, mut from) = (Vec::new(), None);
        for _ in 0..pages_max {
            let page = self.page(path, query, from.as_ref()).await?;
            rows.extend(page.rows);
            from = page.next;
            if from.is_none() {
                break;
            }
        }
        Ok((rows, from))
    }

    /// All rows. More than `pages_max` pages are an error: a search that stopped early would create an item twice.
    pub(crate) async fn all_rows<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &str,
        pages_max: usize,
    ) -> CallResult<Vec<T>> {
        match self.first_rows(path, query, pages_max).await? {
            (rows, None) => Ok(rows),
            _ => Err(self.context(&HttpCall::new(Method::GET, path)).too_many(pages_max)),
        }
    }

    /// The error of a missing repository.
    pub(crate) fn no_repository(&self) -> ApiError {
        self.context(&HttpCall::new(Method::GET, "")).no_repository()
    }
}
