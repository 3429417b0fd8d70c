//! Triggers other than time: changed files, moved branches, external events. Each becomes a signal; a signal that is
//! already known is ignored.
//!
//! Nothing here starts a round or decides when one starts: signals go to the implementation of [`Signals`]. External
//! text is data; it is capped here and fenced where prompts are made.

mod files;
pub mod hooks;
mod inotify;
mod repo_queries;
mod trigger_hub;
mod walk;
mod watch;
mod watched_repos;
mod webhook;

pub use hooks::poke_folder;
pub(crate) use repo_queries::{branch_heads, commit_contents};
pub use watch::TriggerWatch;
pub use watched_repos::{FolderContent, WatchedFolder, WatchedRepo};
pub use webhook::{BadSecret, BoundWebhookServer, IgnoreReason, WebhookOptions, WebhookSecret, WebhookServer};

use crate::error::EngineError;
use crate::round::SignalNovelty;
use crate::store::{AnswerRow, SignalRow};
use loopwright_core::BoxFuture;

/// The receiver of signals, which make loops due. The key of a signal identifies its event, so that the same event
/// reported twice, by any source, is one signal. A signal is durable when the call returns.
pub trait Signals: Send + Sync {
    /// Records a signal and makes its loop due, unless it is known. A signal that is already marked as taken is only
    /// recorded.
    fn signal(&self, signal: SignalRow) -> BoxFuture<'_, Result<SignalNovelty, EngineError>>;

    /// Whether a loop ever had a signal whose key starts with `prefix`.
    fn has_any<'a>(
        &'a self,
        repo: &'a str,
        loop_name: &'a str,
        prefix: &'a str,
    ) -> BoxFuture<'a, Result<bool, EngineError>>;

    /// Records a person's answer from outside, unless it is known. It is durable when the call returns.
    fn answer(&self, _answer: AnswerRow) -> BoxFuture<'_, Result<SignalNovelty, EngineError>> {
        let error = EngineError::Daemon("answers are not recorded here".to_owned());
        Box::pin(std::future::ready(Err(error)))
    }

    /// A comment was written on a forge; it may answer a question.
    fn commented(&self) {}

    /// Something changed in a [`WatchedFolder`].
    fn folder_changed(&self, _content: FolderContent) {}

    /// A warning for people, such as a folder that cannot be watched. A daemon publishes it on its event stream.
    fn note(&self, _text: &str) {}
}
