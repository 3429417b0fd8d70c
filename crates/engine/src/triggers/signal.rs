//! A signal: an event that makes a loop due. Its key identifies the event, so that the same event reported twice, by
//! any source, is one signal.

use super::watched_repos::FolderContent;
use crate::error::EngineError;
use crate::round::SignalNovelty;
use crate::store::SignalRow;
use loopwright_core::BoxFuture;

/// The receiver of signals. A signal is durable when the call returns.
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

    /// Something changed in a [`super::WatchedFolder`].
    fn folder_changed(&self, _content: FolderContent) {}

    /// A warning for people, such as a folder that cannot be watched. A daemon publishes it on its event stream.
    fn note(&self, _text: &str) {}
}
