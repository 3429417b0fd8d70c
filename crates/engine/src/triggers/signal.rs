//! A signal: something happened for which a loop is due. Its key says what happened, so that the same thing told twice, by
//! whichever way, is one signal.

use super::watched_repos::FolderContent;
use crate::error::EngineError;
use crate::store::SignalRow;
use loopwright_core::BoxFuture;

/// Whether a signal was news.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum New {
    /// It is recorded, and its loop is due.
    Yes,
    /// It was there before; nothing follows.
    Known,
}

/// Where signals go. A signal is durable when the answer is there.
pub trait Signals: Send + Sync {
    /// Records a signal and makes its loop due, unless it is known. One that is taken already is recorded and nothing more.
    fn signal(&self, signal: SignalRow) -> BoxFuture<'_, Result<New, EngineError>>;

    /// Whether a loop ever had a signal whose key starts so.
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
