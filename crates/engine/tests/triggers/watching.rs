//! Files and branches. A marker file at the end of a test shows that nothing came before it: events keep their order.

use super::sink::{Sink, waiting, watched};
use loopwright::clock::SystemClock;
use loopwright::git::Git;
use loopwright::store::SignalRow;
use loopwright::triggers::{FolderContent, TriggerWatch, WatchedFolder, poke_folder};
use loopwright_testkit::TestRepo;
use std::path::Path;
use std::sync::Arc;

fn start(state: &Path, sink: &Arc<Sink>) -> TriggerWatch {
    let sink = Arc::clone(sink);
    TriggerWatch::start(Git::default(), state, Arc::new(SystemClock), sink)
}

fn on_files(name: &str, globs: &[&str]) -> loopwright::LoopSpec {
    waiting(name, |spec| spec.on.files = globs.iter().map(|glob| (*glob).to_owned()).collect())
}

fn on_push(name: &str, branches: &[&str]) -> loopwright::LoopSpec {
    waiting(name, |spec| spec.on.push = branches.iter().map(|branch| (*branch).to_owned()).collect())
}

fn paths(row: &SignalRow) -> String {
    let data: serde_json::Value = serde_json::from_str(row.data.as_deref().expect("has data")).expect("is JSON");
    let all = data["paths"].as_array().expect("has paths").iter().map(|path| path.as_str().expect("text").to_owned());
    all.collect::<Vec<_>>().join(" ")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn burst_of_changes_is_one_signal_that_names_matching_paths() {
    let (repo, state, sink) = (TestRepo::new(), tempfile::tempdir().expect("a folder"), Sink::new());
    repo.write("src/a.rs", "1").write("docs/x.md", "1").commit("first");
    let watch = start(state.path(), &sink);
    watch.watch_only(vec![watched(&repo, vec![on_files("code", &["src/**"])]).await]).await;
    for content in ["2", "3", "4"] {
        repo.write("src/a.rs", content).write("src/new/deep/b.rs", content).write("docs/x.md", content);
    }
    let row = sink.next().await;
    assert_eq!((row.trigger.as_str(), row.loop_name.as_str()), ("files", "code"));
    assert!(row.key.starts_with("files:") && paths(&row).contains("src/a.rs"), "{row:?}");
    assert!(!paths(&row).contains("docs"), "{row:?}");
    // A file in a new folder is seen too, with the burst or after it.
    repo.write("src/new/deep/c.rs", "5");
    while !paths(&sink.next().await).contains("src/new/deep/c.rs") {}
    assert_eq!(sink.rest(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ignored_files_git_s_own_and_our_state_make_nothing_due() {
    let (repo, sink) = (TestRepo::new(), Sink::new());
    let state = repo.path().join("state");
    std::fs::create_dir(&state).expect("a folder");
    repo.write(".gitignore", "target/\n*.log\n").write("a.txt", "1").write("target/old", "1").commit("first");
    let watch = start(&state, &sink);
    watch.watch_only(vec![watched(&repo, vec![on_files("all", &["**"])]).await]).await;
    repo.write("target/old", "2").write("target/debug/x", "2").write("x.log", "2");
    std::fs::write(state.join("store.db"), "2").expect("written");
    repo.git(["branch", "take/one"]);
    repo.write("a.txt", "2");
    assert_eq!(paths(&sink.next().await), "a.txt");
    std::fs::create_dir_all(repo.path().join("sub/target/x")).expect("folders");
    repo.write("sub/target/x/y", "3").write("sub/z", "3");
    assert_eq!(paths(&sink.next().await), "sub sub/z");
    assert_eq!(sink.rest(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renamed_and_deleted_files_count_and_the_same_content_written_again_is_news() {
    let (repo, state, sink) = (TestRepo::new(), tempfile::tempdir().expect("a folder"), Sink::new());
    repo.write("src/a", "1").write("src/b/c", "1").commit("first");
    let watch = start(state.path(), &sink);
    watch.watch_only(vec![watched(&repo, vec![on_files("code", &["src/**"])]).await]).await;
    std::fs::rename(repo.path().join("src/b"), repo.path().join("src/d")).expect("renamed");
    assert_eq!(paths(&sink.next().await), "src/b src/d src/d/c");
    repo.write("src/d/c", "1");
    assert_eq!(paths(&sink.next().await), "src/d/c");
    for _ in 0..2 {
        repo.remove("src/a");
        assert_eq!(paths(&sink.next().await), "src/a", "gone");
        repo.write("src/a", "1");
        assert_eq!(paths(&sink.next().await), "src/a", "there again");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn root_folder_of_a_glob_that_is_moved_away_and_a_file_restored_with_its_old_times_are_news() {
    let (repo, state, sink) = (TestRepo::new(), tempfile::tempdir().expect("a folder"), Sink::new());
    repo.write("src/a", "1").write("docs/b", "1").commit("first");
    let watch = start(state.path(), &sink);
    watch.watch_only(vec![watched(&repo, vec![on_files("code", &["src/**"])]).await]).await;
    let file = || std::fs::File::options().write(true).open(repo.path().join("src/a")).expect("the file");
    let before = file().metadata().and_then(|about| about.modified()).expect("its time");
    for content in ["2", "1", "2"] {
        repo.write("src/a", content);
        file().set_modified(before).expect("its old time");
        assert_eq!(paths(&sink.next().await), "src/a", "{content}");
    }
    std::fs::rename(repo.path().join("docs"), repo.path().join("papers")).expect("moved, and no matter");
    std::fs::rename(repo.path().join("src"), repo.path().join("old")).expect("moved away");
    assert_eq!(paths(&sink.next().await), "src");
    std::fs::rename(repo.path().join("old"), repo.path().join("src")).expect("moved back");
    assert_eq!(paths(&sink.next().await), "src/a src");
    assert_eq!(sink.rest(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_set_of_watched_loops_changes_without_a_gap() {
    let (repo, state, sink) = (TestRepo::new(), tempfile::tempdir().expect("a folder"), Sink::new());
    repo.write("a/x", "1").write("b/x", "1").commit("first");
    let watch = start(state.path(), &sink);
    watch.watch_only(vec![watched(&repo, vec![on_files("one", &["a/**"])]).await]).await;
    watch.watch_only(vec![watched(&repo, vec![on_files("two", &["b/**"])]).await]).await;
    repo.write("a/x", "2").write("b/x", "2");
    assert_eq!(sink.next().await.loop_name, "two");
    assert_eq!(sink.rest(), []);
}

fn folder(dir: &Path, name: Option<&str>, content: FolderContent) -> WatchedFolder {
    WatchedFolder { dir: dir.to_owned(), name: name.map(Into::into), content }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_folder_may_be_watched_for_several_reasons_beside_triggers() {
    let (repo, state, sink) = (TestRepo::new(), tempfile::tempdir().expect("a folder"), Sink::new());
    repo.write("a/x", "1").commit("first");
    let watch = start(state.path(), &sink);
    let folders = || {
        vec![
            folder(state.path(), Some("my.yaml"), FolderContent::Loops),
            folder(state.path(), Some("STOP"), FolderContent::State),
        ]
    };
    watch.set_folders(folders()).await;
    // Folders stay watched when the loops change.
    watch.watch_only(vec![watched(&repo, vec![on_files("one", &["a/**"])]).await]).await;
    let write = |name: &str| std::fs::write(state.path().join(name), "").expect("it can be written");
    write("other");
    write("my.yaml");
    assert_eq!(sink.changed().await, FolderContent::Loops);
    write("STOP");
    assert_eq!(sink.changed().await, FolderContent::State);
    watch.set_folders(vec![folder(state.path(), Some("STOP"), FolderContent::State)]).await;
    write("my.yaml");
    std::fs::remove_file(state.path().join("STOP")).expect("it is there");
    assert_eq!(sink.changed().await, FolderContent::State);
    repo.write("a/x", "2");
    assert_eq!(sink.next().await.loop_name, "one");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn folder_that_is_moved_away_is_reported_as_gone_and_as_restored() {
    let (state, world, sink) =
        (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"), Sink::new());
    let (tree, aside) = (world.path().join("repo"), world.path().join("aside"));
    std::fs::create_dir(&tree).expect("it can be made");
    let watch = start(state.path(), &sink);
    watch.set_folders(vec![folder(&tree, Some(".loopwright"), FolderContent::Loops)]).await;
    std::fs::rename(&tree, &aside).expect("it can be moved");
    assert_eq!(sink.changed().await, FolderContent::Loops);
    watch.set_folders(vec![folder(world.path(), Some("repo"), FolderContent::Loops)]).await;
    std::fs::write(aside.join(".loopwright"), "").expect("it can be written");
    std::fs::create_dir(&tree).expect("it can be made");
    assert_eq!(sink.changed().await, FolderContent::Loops);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn branch_is_signalled_when_it_moves_but_not_for_its_first_position() {
    let (repo, state, sink) = (TestRepo::new(), tempfile::tempdir().expect("a folder"), Sink::new());
    let first = repo.commit("first");
    let watch = start(state.path(), &sink);
    let loops = || vec![on_push("on-main", &["main"]), on_push("on-both", &["main", "feature/x"])];
    watch.watch_only(vec![watched(&repo, loops()).await]).await;
    assert_eq!(sink.rest(), []);
    assert_eq!(sink.keys(), [format!("push:main:{first}"), format!("push:main:{first}")]);
    let second = repo.commit("second");
    let names = [sink.next().await, sink.next().await].map(|row| (row.loop_name, row.key));
    let key = format!("push:main:{second}");
    assert_eq!(names, [("on-main".to_owned(), key.clone()), ("on-both".to_owned(), key)]);
    // The first sight of a branch is its baseline, in every folder; its next move counts.
    repo.branch("feature/x");
    repo.git(["pack-refs", "--all"]);
    testing_until_known(&sink, "push:feature/x:").await;
    let third = repo.commit("third");
    let row = sink.next().await;
    assert_eq!((row.loop_name.as_str(), row.key), ("on-both", format!("push:feature/x:{third}")));
    assert_eq!(sink.rest(), []);
}

async fn testing_until_known(sink: &Sink, prefix: &str) {
    let known = || sink.keys().iter().any(|key| key.starts_with(prefix));
    tokio::task::block_in_place(|| {
        loopwright_testkit::wait::until("the branch is known", super::sink::PATIENCE, known);
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn branch_that_moved_while_not_watched_is_found_at_the_next_start_once() {
    let (repo, state, sink) = (TestRepo::new(), tempfile::tempdir().expect("a folder"), Sink::new());
    repo.commit("first");
    let loops = || vec![on_push("on-main", &["main"])];
    {
        let watch = start(state.path(), &sink);
        watch.watch_only(vec![watched(&repo, loops()).await]).await;
    }
    let moved = repo.commit("second");
    for _ in 0..2 {
        let watch = start(state.path(), &sink);
        watch.watch_only(vec![watched(&repo, loops()).await]).await;
    }
    let keys: Vec<String> = sink.rest().into_iter().map(|row| row.key).collect();
    assert_eq!(keys, [format!("push:main:{moved}")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn poke_of_a_hook_is_one_check_and_pokes_for_other_repositories_are_ignored() {
    let (repo, state, sink) = (TestRepo::new(), tempfile::tempdir().expect("a folder"), Sink::new());
    repo.commit("first");
    let watch = start(state.path(), &sink);
    let one = watched(&repo, vec![on_push("on-main", &["main"])]).await;
    let id = one.repo.id.clone();
    watch.watch_only(vec![one]).await;
    let second = repo.commit("second");
    for name in ["somebody-else", "..", &id] {
        // A name that is a folder cannot be written; the test expects that.
        let _ = std::fs::write(poke_folder(state.path()).join(name), "");
    }
    assert_eq!(sink.next().await.key, format!("push:main:{second}"));
    assert_eq!(sink.rest(), []);
}
