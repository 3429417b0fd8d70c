//! Passes the signals of triggers to the daemon: a signal is durable before its loop is due.

use super::input_watcher::FolderNews;
use loopwright::daemon::Daemon;
use loopwright::round::SignalNovelty;
use loopwright::store::SignalRow;
use loopwright::triggers::{FolderContent, Signals};
use loopwright::{BoxFuture, Engine, EngineError};
use std::sync::{Arc, OnceLock};

/// Receives signals for a daemon.
pub(super) struct DaemonSignalSink {
    pub(super) engine: Engine,
    /// Set before any trigger is watched.
    pub(super) daemon: OnceLock<Daemon>,
    pub(super) news: Arc<FolderNews>,
}

impl Signals for DaemonSignalSink {
    fn signal(&self, signal: SignalRow) -> BoxFuture<'_, Result<SignalNovelty, EngineError>> {
        Box::pin(async move {
            // A signal that is already taken only marks where the watching began.
            if signal.taken_ms.is_some() {
                return self.engine.store_signal(signal).await;
            }
            let early = || EngineError::Daemon("the daemon is still starting".to_owned());
            self.daemon.get().ok_or_else(early)?.signal(signal).await
        })
    }

    fn has_any<'a>(
        &'a self,
        repo: &'a str,
        loop_name: &'a str,
        prefix: &'a str,
    ) -> BoxFuture<'a, Result<bool, EngineError>> {
        Box::pin(async move { Ok(self.engine.store().has_signal(repo, loop_name, prefix).await?) })
    }

    fn folder_changed(&self, content: FolderContent) {
        self.news.report(content);
    }

    fn note(&self, text: &str) {
        self.engine.events().warn(self.engine.settings().clock.now_ms(), text);
    }
}
