//! A signal: an event that makes a loop due. Its key identifies the event, so that the same event reported twice, by
//! any source, is one signal.

use super::watched_repos::FolderContent;
use crate::error::EngineError;
use crate::store::SignalRow;
use loopwright_core::BoxFuture;

/// Whether a signal is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum New {
    /// It is recorded, and its loop is due.
    Yes,
    /// It was recorded before and has no further effect.
    Known,
}

/// The receiver of signals. A signal is durable when the call returns.
pub trait Signals: Send + Sync {
    /// Records a signal and makes its loop due, unless it is known. A signal that is already marked as taken is only
    /// recorded.
    fn signal(&self, signal: SignalRow) -> BoxFuture<'_, Result<New, EngineError>>;

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
