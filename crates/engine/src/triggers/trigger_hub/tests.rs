//! Events without a recorded signal are not lost: the next pass tries again.

use super::*;
use crate::clock::SystemClock;
use crate::error::EngineError;
use crate::round::SignalNovelty;
use loopwright_core::BoxFuture;
use loopwright_core::level::LoopLevel;
use loopwright_core::spec::LoopSpec;
use loopwright_testkit::TestRepo;
use std::sync::Mutex;

/// A store that may be full.
#[derive(Default)]
struct Book {
    keys: Mutex<BTreeSet<String>>,
    is_full: Mutex<bool>,
}

impl Book {
    fn fill(&self) {
        *self.is_full.lock().expect("no panic") = true;
    }

    fn make_room(&self) {
        *self.is_full.lock().expect("no panic") = false;
    }

    fn has(&self, key: &str) -> bool {
        self.keys.lock().expect("no panic").contains(key)
    }
}

impl Signals for Book {
    fn signal(&self, signal: SignalRow) -> BoxFuture<'_, Result<SignalNovelty, EngineError>> {
        let is_full = *self.is_full.lock().expect("no panic");
        let answer = match is_full {
            true => Err(EngineError::Daemon("the disk is full".to_owned())),
            false if self.keys.lock().expect("no panic").insert(signal.key) => Ok(SignalNovelty::First),
            false => Ok(SignalNovelty::Repeated),
        };
        Box::pin(std::future::ready(answer))
    }

    fn has_any<'a>(&'a self, _: &'a str, _: &'a str, prefix: &'a str) -> BoxFuture<'a, Result<bool, EngineError>> {
        let any = self.keys.lock().expect("no panic").iter().any(|key| key.starts_with(prefix));
        Box::pin(std::future::ready(Ok(any)))
    }
}

#[tokio::test]
async fn branch_whose_move_could_not_be_recorded_is_checked_again() {
    let (repo, state, book) = (TestRepo::new(), tempfile::tempdir().expect("a folder"), Arc::new(Book::default()));
    repo.commit("first");
    let mut spec = LoopSpec::new("on-main", "wait", LoopLevel::L1Report);
    spec.on.push = vec!["main".to_owned()];
    let user = Git::default().discover(repo.path()).await.expect("a repository");
    let id = user.id.clone();
    let mut hub = TriggerHub::new(Git::default(), state.path(), Arc::new(SystemClock), Arc::clone(&book) as _);
    assert!(hub.watch_only(vec![WatchedRepo { repo: user, loops: vec![spec.clone()] }]).await);
    let second = format!("push:main:{}", repo.commit("second"));
    book.fill();
    hub.pending_for(&id).branches = true;
    assert!(
        !hub.process_pending().await && !hub.process_pending().await,
        "it is not recorded, however often it is tried"
    );
    book.make_room();
    assert!(hub.process_pending().await && book.has(&second), "{:?}", hub.pending);
    assert!(hub.pending.is_empty(), "and then it is done: {:?}", hub.pending);
}

#[tokio::test]
async fn lost_events_make_each_loop_with_files_due_once_and_check_branches() {
    let (repo, state, book) = (TestRepo::new(), tempfile::tempdir().expect("a folder"), Arc::new(Book::default()));
    repo.write("src/a", "1").commit("first");
    let mut spec = LoopSpec::new("both", "wait", LoopLevel::L1Report);
    (spec.on.push, spec.on.files) = (vec!["main".to_owned()], vec!["src/**".to_owned()]);
    let user = Git::default().discover(repo.path()).await.expect("a repository");
    let mut hub = TriggerHub::new(Git::default(), state.path(), Arc::new(SystemClock), Arc::clone(&book) as _);
    assert!(hub.watch_only(vec![WatchedRepo { repo: user, loops: vec![spec.clone()] }]).await);
    let second = format!("push:main:{}", repo.commit("second"));
    let seen = FolderEvent {
        wd: -1,
        what: FolderEventKind::Overflow,
        name: Default::default(),
        is_dir: false,
        is_moved: false,
    };
    assert!(hub.record_events(Ok(vec![seen])), "there is something to process");
    assert!(hub.process_pending().await && book.has(&second), "the branch moved meanwhile");
    let files = || book.keys.lock().expect("no panic").iter().filter(|key| key.starts_with("files:")).count();
    assert_eq!(files(), 1);
    assert!(hub.process_pending().await && files() == 1, "once");
}

#[tokio::test]
async fn folder_that_is_removed_keeps_its_watches_until_they_end_and_one_that_moved_loses_them() {
    let (repo, state, book) = (TestRepo::new(), tempfile::tempdir().expect("a folder"), Arc::new(Book::default()));
    repo.write("src/deep/a", "1").write("src/b", "1").commit("first");
    let mut spec = LoopSpec::new("files", "wait", LoopLevel::L1Report);
    spec.on.files = vec!["src/**".to_owned()];
    let user = Git::default().discover(repo.path()).await.expect("a repository");
    let mut hub = TriggerHub::new(Git::default(), state.path(), Arc::new(SystemClock), Arc::clone(&book) as _);
    assert!(hub.watch_only(vec![WatchedRepo { repo: user, loops: vec![spec.clone()] }]).await);
    let wd_of = |hub: &TriggerHub, end: &str| {
        hub.folder_watches.iter().find(|(_, place)| place.dir.ends_with(end)).map(|(wd, _)| *wd)
    };
    let root = repo.path().file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
    let above = wd_of(&hub, &root).expect("the root is watched");
    let gone =
        |is_moved| FolderEvent { wd: above, what: FolderEventKind::Gone, name: "src".into(), is_dir: true, is_moved };
    assert!(hub.record_events(Ok(vec![gone(false)])), "it is news");
    assert!(wd_of(&hub, "src").is_some() && wd_of(&hub, "src/deep").is_some(), "no watch was searched for");
    assert!(hub.record_events(Ok(vec![gone(true)])));
    assert!(wd_of(&hub, "src").is_none() && wd_of(&hub, "src/deep").is_none());
}

#[tokio::test]
async fn path_behind_a_link_counts_and_keeps_no_ignored_file_from_being_left_out() {
    let (repo, state, book) = (TestRepo::new(), tempfile::tempdir().expect("a folder"), Arc::new(Book::default()));
    repo.write(".gitignore", "*.log\n").write("src/a", "1").commit("first");
    let mut spec = LoopSpec::new("files", "wait", LoopLevel::L1Report);
    spec.on.files = vec!["**".to_owned()];
    let user = Git::default().discover(repo.path()).await.expect("a repository");
    let id = user.id.clone();
    let mut hub = TriggerHub::new(Git::default(), state.path(), Arc::new(SystemClock), Arc::clone(&book) as _);
    assert!(hub.watch_only(vec![WatchedRepo { repo: user, loops: vec![spec.clone()] }]).await);
    std::os::unix::fs::symlink(state.path(), repo.path().join("link")).expect("a link");
    let files = || book.keys.lock().expect("no panic").iter().filter(|key| key.starts_with("files:")).count();
    repo.write("noise.log", "1");
    hub.pending_for(&id).paths.extend(["link/x.log".to_owned(), "noise.log".to_owned()]);
    assert!(hub.process_pending().await && files() == 1, "a path without an answer from git counts");
    hub.pending_for(&id).paths.insert("noise.log".to_owned());
    assert!(hub.process_pending().await && files() == 1, "an ignored path does not count");
    let repo = hub.repos[&id].watched.repo.clone();
    let both = ["link/x.log".to_owned(), "noise.log".to_owned()].into_iter();
    assert_eq!(hub.not_ignored(&repo, both).await, ["link/x.log"]);
}
