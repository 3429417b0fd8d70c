//! Commands that change something: each runs to its end even if its client leaves, and a repeated key returns the first
//! answer instead of running again.

use super::pages;
use super::reply::{self, WebReply};
use super::respond::{ReplyForm, RouteCall, reply_from, status_of};
use super::routes::words;
use crate::control::FaceAnswer;
use crate::error::{CommandError, CommandErrorKind};
use hyper::StatusCode;
use loopwright_core::hash::hash_fields;
use serde_json::json;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// How long a client waits for the end of a command; a longer one is accepted and continues.
const WAIT: Duration = Duration::from_secs(5);

/// The keys that are remembered.
const KEYS_MAX: usize = 1000;

/// The longest key.
const KEY_MAX: usize = 128;

/// The end of a command, once it is there.
type WriteEnd = Option<Arc<Result<FaceAnswer, CommandError>>>;

/// A command that was started with a key.
struct KeyedWrite {
    /// The sender and its key.
    key: String,
    /// The route and its values: the same key cannot mean another command.
    meaning: String,
    end: watch::Receiver<WriteEnd>,
}

/// The keys of the last commands, oldest first.
#[derive(Default)]
pub(super) struct WriteLog(Mutex<VecDeque<KeyedWrite>>);

impl WriteLog {
    /// The end of the command with this key, or the place for a new one.
    fn claim(&self, key: &str, meaning: &str) -> Result<watch::Receiver<WriteEnd>, Option<watch::Sender<WriteEnd>>> {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = log.iter().find(|known| known.key == key) {
            return if known.meaning == meaning { Ok(known.end.clone()) } else { Err(None) };
        }
        if log.len() >= KEYS_MAX {
            log.pop_front();
        }
        let (sender, end) = watch::channel(None);
        log.push_back(KeyedWrite { key: key.to_owned(), meaning: meaning.to_owned(), end });
        Err(Some(sender))
    }

    /// Forgets a key whose command did not begin, so that the client can send it again.
    fn forget(&self, key: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|known| known.key != key);
    }
}

impl RouteCall<'_> {
    /// Runs the command of a write, and answers with its document, or with a page for a form.
    pub(super) async fn write(&self, template: &'static [&'static str]) -> WebReply {
        let end = match self.start(template).await {
            Ok(end) => end,
            Err(error) => return self.finished(Err(error)),
        };
        let mut end = end;
        match tokio::time::timeout(WAIT, end.wait_for(Option::is_some)).await {
            Ok(Ok(done)) => {
                let done = done.clone();
                self.finished(copy_of(done.as_deref()))
            }
            Ok(Err(_)) => self.finished(Err(CommandError::failed("the command failed because of a bug"))),
            Err(_) => self.accepted(),
        }
    }

    async fn start(&self, template: &'static [&'static str]) -> Result<watch::Receiver<WriteEnd>, CommandError> {
        if let Some((name, ..)) = self.route.values.iter().find(|(name, needed, _)| *needed && !self.has(name)) {
            return Err(CommandError::new(CommandErrorKind::Usage, format!("`{name}` is missing")));
        }
        // A request that cannot become a command uses no key.
        let words = std::iter::once("--json".to_owned()).chain(words(template, &self.values)).collect();
        let request = self.request(words).await?;
        let key = self.key()?;
        let sender = match self.claim(key.as_deref())? {
            Ok(end) => return Ok(end),
            Err(sender) => sender,
        };
        let (state, end) = (Arc::clone(self.state), sender.subscribe());
        tokio::spawn(async move {
            let answer = state.control.perform_for_face(&state.own, request).await;
            if let (Some(key), Err(error)) = (&key, &answer)
                && error.kind == CommandErrorKind::Held
            {
                state.writes.forget(key);
            }
            // Without a reader, the record of the round has the result.
            let _ = sender.send(Some(Arc::new(answer)));
        });
        Ok(end)
    }

    fn has(&self, name: &str) -> bool {
        self.values.get(name).is_some_and(|value| !value.trim().is_empty())
    }

    /// The sender with the key that it sent, if it sent one.
    fn key(&self) -> Result<Option<String>, CommandError> {
        let sent = self.headers.get("idempotency-key").and_then(|key| key.to_str().ok());
        let Some(key) = sent.or_else(|| self.values.get("key").map(String::as_str)) else { return Ok(None) };
        if key.is_empty() || key.len() > KEY_MAX {
            let text = format!("the idempotency key has more than {KEY_MAX} characters, or none");
            return Err(CommandError::new(CommandErrorKind::Usage, text));
        }
        let sender = self.sender.as_ref().map_or("", |sender| sender.entry.id.as_str());
        Ok(Some(format!("{sender} {key}")))
    }

    /// The place for a new command, or the end of the one with the same key.
    fn claim(
        &self,
        key: Option<&str>,
    ) -> Result<Result<watch::Receiver<WriteEnd>, watch::Sender<WriteEnd>>, CommandError> {
        let Some(key) = key else { return Ok(Err(watch::channel(None).0)) };
        let own = self.values.iter().filter(|(name, _)| !matches!(name.as_str(), "csrf" | "back" | "key"));
        let fields: Vec<&[u8]> = std::iter::once(self.route.path.as_bytes())
            .chain(own.flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]))
            .collect();
        match self.state.writes.claim(key, &hash_fields(&fields)) {
            Ok(end) => Ok(Ok(end)),
            Err(Some(sender)) => Ok(Err(sender)),
            Err(None) => {
                Err(CommandError::new(CommandErrorKind::Usage, "this idempotency key was used for another request"))
            }
        }
    }

    fn finished(&self, answer: Result<FaceAnswer, CommandError>) -> WebReply {
        if self.form == ReplyForm::Document {
            return reply_from(answer);
        }
        let (status, text, hints) = match &answer {
            Ok(answer) => match answer.document() {
                Some(document) if status_of(&document) == StatusCode::OK => return self.back(),
                Some(document) => (status_of(&document), pages::error_text(&document), pages::error_hints(&document)),
                None => (StatusCode::INTERNAL_SERVER_ERROR, answer.err.clone(), Vec::new()),
            },
            Err(error) => (StatusCode::BAD_REQUEST, error.text.clone(), error.hints.clone()),
        };
        reply::page(status, pages::problem("Not done", &text, &hints))
    }

    fn accepted(&self) -> WebReply {
        match self.form {
            ReplyForm::Document => reply::document(StatusCode::ACCEPTED, &json!({"schema": 1, "accepted": true})),
            ReplyForm::Page => self.back(),
        }
    }

    /// Leads back to the page of the form.
    fn back(&self) -> WebReply {
        let back = self.values.get("back").map_or("/", String::as_str);
        let is_own = back.starts_with('/') && !back.starts_with("//") && !back.contains(['\\', '\r', '\n']);
        reply::see_other(if is_own { back } else { "/" })
    }
}

fn copy_of(done: Option<&Result<FaceAnswer, CommandError>>) -> Result<FaceAnswer, CommandError> {
    match done {
        Some(Ok(answer)) => Ok(answer.clone()),
        Some(Err(error)) => {
            Err(CommandError { hints: error.hints.clone(), ..CommandError::new(error.kind, error.text.clone()) })
        }
        None => Err(CommandError::failed("the command has no result")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_runs_once_and_never_means_two_things() {
        let log = WriteLog::default();
        assert!(matches!(log.claim("a", "run fix"), Err(Some(_))));
        assert!(log.claim("a", "run fix").is_ok());
        assert!(matches!(log.claim("a", "run other"), Err(None)));
        assert!(matches!(log.claim("b", "run fix"), Err(Some(_))));
        log.forget("a");
        assert!(matches!(log.claim("a", "run fix"), Err(Some(_))), "a command that did not begin can be sent again");
    }
}
