//! A receiver that stores signals, as a store does.

use loopwright::round::SignalNovelty;
use loopwright::store::SignalRow;
use loopwright::triggers::{FolderContent, Signals, WatchedRepo};
use loopwright::{BoxFuture, EngineError, LoopLevel, LoopSpec};
use loopwright_testkit::TestRepo;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

/// Longer than any signal takes to arrive.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The received signals, by loop and key.
#[derive(Default)]
pub(crate) struct Sink {
    rows: Mutex<BTreeMap<(String, String), SignalRow>>,
    news: Mutex<Vec<SignalRow>>,
    changed: Mutex<Vec<FolderContent>>,
    pub(crate) notes: Mutex<Vec<String>>,
    came: Notify,
}

impl Sink {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// The next signal that was new and is not taken.
    pub(crate) async fn next(&self) -> SignalRow {
        let taken = tokio::time::timeout(PATIENCE, async {
            loop {
                let came = self.came.notified();
                if let Some(row) = take_first(&self.news) {
                    return row;
                }
                came.await;
            }
        });
        taken.await.expect("a signal comes")
    }

    /// The signals that were received and not read yet.
    pub(crate) fn rest(&self) -> Vec<SignalRow> {
        std::mem::take(&mut *self.news.lock().expect("no panic"))
    }

    /// The next content of a folder that changed; all reports of it so far are merged.
    pub(crate) async fn changed(&self) -> FolderContent {
        let first = tokio::time::timeout(PATIENCE, async {
            loop {
                let came = self.came.notified();
                let mut changed = self.changed.lock().expect("no panic").split_off(0);
                if !changed.is_empty() {
                    changed.dedup();
                    assert_eq!(changed.len(), 1, "{changed:?}");
                    return changed.remove(0);
                }
                came.await;
            }
        });
        first.await.expect("a change is reported")
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        self.rows.lock().expect("no panic").keys().map(|(_, key)| key.clone()).collect()
    }
}

fn take_first(news: &Mutex<Vec<SignalRow>>) -> Option<SignalRow> {
    let mut news = news.lock().expect("no panic");
    (!news.is_empty()).then(|| news.remove(0))
}

impl Signals for Sink {
    fn signal(&self, signal: SignalRow) -> BoxFuture<'_, Result<SignalNovelty, EngineError>> {
        let place = (format!("{}/{}", signal.repo, signal.loop_name), signal.key.clone());
        let mut rows = self.rows.lock().expect("no panic");
        let is_new = rows.insert(place, signal.clone()).is_none();
        if is_new && signal.taken_ms.is_none() {
            self.news.lock().expect("no panic").push(signal);
            self.came.notify_waiters();
        }
        Box::pin(async move { Ok(if is_new { SignalNovelty::First } else { SignalNovelty::Repeated }) })
    }

    fn has_any<'a>(
        &'a self,
        repo: &'a str,
        loop_name: &'a str,
        prefix: &'a str,
    ) -> BoxFuture<'a, Result<bool, EngineError>> {
        let rows = self.rows.lock().expect("no panic");
        let place = format!("{repo}/{loop_name}");
        let any = rows.keys().any(|(of, key)| *of == place && key.starts_with(prefix));
        Box::pin(async move { Ok(any) })
    }

    fn folder_changed(&self, content: FolderContent) {
        self.changed.lock().expect("no panic").push(content);
        self.came.notify_waiters();
    }

    fn note(&self, text: &str) {
        self.notes.lock().expect("no panic").push(text.to_owned());
    }
}

/// A loop with triggers.
pub(crate) fn waiting(name: &str, with: impl FnOnce(&mut LoopSpec)) -> LoopSpec {
    let mut spec = LoopSpec::new(name, "wait", LoopLevel::L1Report).with_maker_prompt("Wait.");
    with(&mut spec);
    spec
}

pub(crate) async fn watched(repo: &TestRepo, loops: Vec<LoopSpec>) -> WatchedRepo {
    let git = loopwright::git::Git::default();
    WatchedRepo { repo: git.discover(repo.path()).await.expect("a repository"), loops }
}
