//! The folders that a daemon watches for its own input: the `.loopwright/` folders of its repositories, the user's
//! configuration, and the file that stops everything. The engine's file watcher does the watching, and passes its signals
//! on: a signal is durable before its loop is due.

use crate::context::CommandContext;
use loopwright::daemon::Daemon;
use loopwright::round::SignalNovelty;
use loopwright::store::{AnswerRow, SignalRow};
use loopwright::triggers::{FolderContent, Signals, WatchedFolder};
use loopwright::{BoxFuture, Engine, EngineError};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use tokio::sync::Notify;

/// Wakes a daemon when something changed in a watched folder.
#[derive(Debug, Default)]
pub(super) struct FolderNews {
    /// Loop files or configuration.
    pub(super) loops: Notify,
    /// Something in the state directory itself.
    pub(super) state: Notify,
}

impl FolderNews {
    pub(super) fn report(&self, content: FolderContent) {
        match content {
            FolderContent::Loops => self.loops.notify_one(),
            FolderContent::State => self.state.notify_one(),
        }
    }
}

/// Every working copy seen so far, so that one that was moved away is noticed when it returns.
#[derive(Debug, Default)]
pub(super) struct WatchedTrees(BTreeSet<PathBuf>);

impl WatchedTrees {
    /// The folders to watch for these working copies. A missing folder is noticed when it appears, through its parent.
    pub(super) fn folders(&mut self, cx: &CommandContext, work_trees: &[PathBuf]) -> Vec<WatchedFolder> {
        self.0.extend(work_trees.iter().cloned());
        let mut folders: Vec<_> = self.0.iter().flat_map(|tree| of_tree(tree, work_trees.contains(tree))).collect();
        let config = cx.env.config.as_ref().map(|named| cx.env.cwd.join(named)).or_else(|| cx.env.user_config());
        folders.extend(config.as_deref().and_then(by_name));
        let state = cx.state_dir().map(|(dir, _)| (dir, Some("STOP".into()), FolderContent::State));
        folders.extend(state.map(|(dir, name, content)| WatchedFolder { dir, name, content }));
        folders
    }
}

fn of_tree(tree: &Path, is_wanted: bool) -> Vec<WatchedFolder> {
    let own = tree.join(".loopwright");
    let mut folders: Vec<_> = ["", "loops", "prompts", "skills"].map(|folder| every_name(&own.join(folder))).into();
    folders.extend(by_name(&own));
    // Not needed while it exists. One that was moved away is noticed when its name reappears and its `.git` is
    // complete.
    if !is_wanted || !tree.join(".git").exists() {
        folders.extend(by_name(tree));
        folders.push(every_name(&tree.join(".git")));
    }
    folders
}

/// Watches the folder around a file, for the file alone.
fn by_name(file: &Path) -> Option<WatchedFolder> {
    let (dir, name) = (file.parent()?.to_owned(), file.file_name().map(OsStr::to_owned));
    Some(WatchedFolder { dir, name, content: FolderContent::Loops })
}

fn every_name(dir: &Path) -> WatchedFolder {
    WatchedFolder { dir: dir.to_owned(), name: None, content: FolderContent::Loops }
}

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

    fn answer(&self, answer: AnswerRow) -> BoxFuture<'_, Result<SignalNovelty, EngineError>> {
        Box::pin(async move {
            let early = || EngineError::Daemon("the daemon is still starting".to_owned());
            self.daemon.get().ok_or_else(early)?.answer(answer).await
        })
    }

    fn commented(&self) {
        // A daemon that is starting or has ended reads the comments at its next pass.
        let _ = self.daemon.get().map(Daemon::check_questions);
    }

    fn folder_changed(&self, content: FolderContent) {
        self.news.report(content);
    }

    fn note(&self, text: &str) {
        self.engine.events().warn(self.engine.settings().clock.now_ms(), text);
    }
}
