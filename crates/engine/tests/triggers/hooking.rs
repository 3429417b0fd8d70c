//! Hooks in a real repository, run by real git: added to existing hooks, removed again, and harmless.

use loopwright::git::Git;
use loopwright::triggers::hooks::{HookState, RepoHooks};
use loopwright::triggers::poke_folder;
use loopwright_testkit::TestRepo;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

async fn hooks(repo: &TestRepo, state: &Path) -> RepoHooks {
    let git = Git::default();
    let user = git.discover(repo.path()).await.expect("a repository");
    RepoHooks::for_repo(&git, &user, state, None, &[]).await.expect("can be read")
}

fn states(found: std::io::Result<Vec<(&'static str, HookState)>>) -> Vec<&'static str> {
    found.expect("can be done").iter().map(|(_, state)| state.word()).collect()
}

/// The test repository's own git has its hooks disabled, so this call passes their folder.
fn commit(repo: &TestRepo, folder: &Path) {
    let path = format!("core.hooksPath={}", folder.display());
    repo.git(["-c", &path, "commit", "--quiet", "--allow-empty", "-m", "again"]);
}

#[tokio::test]
async fn hook_pokes_the_daemon_s_folder_and_is_silent_without_one() {
    let (repo, state) = (TestRepo::new(), tempfile::tempdir().expect("a folder"));
    let state = state.path().join("it's here");
    let hooks = hooks(&repo, &state).await;
    assert_eq!(states(hooks.status()), ["absent"; 3]);
    assert_eq!(states(hooks.install()), ["installed"; 3]);
    commit(&repo, &hooks.folder);
    assert!(!state.exists(), "nothing is made where no daemon ever was");
    std::fs::create_dir_all(poke_folder(&state)).expect("folders");
    commit(&repo, &hooks.folder);
    let names: Vec<_> = std::fs::read_dir(poke_folder(&state)).expect("is there").flatten().collect();
    assert_eq!(names.len(), 1, "one file, named after the repository");
    std::fs::set_permissions(poke_folder(&state), std::fs::Permissions::from_mode(0o500)).expect("a mode");
    commit(&repo, &hooks.folder);
    assert_eq!(states(hooks.uninstall()), ["absent"; 3]);
    assert!(!hooks.folder.join("post-commit").exists(), "a hook that was only ours is gone");
}

#[tokio::test]
async fn existing_hook_content_stays_and_runs() {
    let (repo, state) = (TestRepo::new(), tempfile::tempdir().expect("a folder"));
    std::fs::create_dir_all(poke_folder(state.path())).expect("folders");
    let hooks = hooks(&repo, state.path()).await;
    let own = "#!/bin/bash\nset -e\necho ran > ran.txt\nexit 0";
    repo.write_executable(".git/hooks/post-commit", own);
    repo.write_executable(".git/hooks/post-merge", "#!/usr/bin/env python3\nprint(1)\n");
    assert_eq!(states(hooks.install()), ["installed", "unsuited", "installed"]);
    assert_eq!(states(hooks.install()), ["installed", "unsuited", "installed"], "twice is once");
    commit(&repo, &hooks.folder);
    assert_eq!(repo.read("ran.txt"), "ran\n");
    assert_eq!(std::fs::read_dir(poke_folder(state.path())).expect("is there").count(), 1, "before the script's exit");
    let elsewhere = self::hooks(&repo, Path::new("/other/state")).await;
    assert_eq!(states(elsewhere.status())[0], "elsewhere");
    assert_eq!(states(hooks.uninstall()), ["absent", "unsuited", "absent"]);
    assert_eq!(repo.read(".git/hooks/post-commit"), own);
}

#[tokio::test]
async fn configured_hooks_folder_is_used_and_links_are_left_alone() {
    let (repo, state) = (TestRepo::new(), tempfile::tempdir().expect("a folder"));
    repo.git(["config", "core.hooksPath", "tools/hooks"]);
    repo.write_executable("tools/real", "#!/bin/sh\n");
    std::fs::create_dir_all(repo.path().join("tools/hooks")).expect("folders");
    std::os::unix::fs::symlink("../real", repo.path().join("tools/hooks/post-merge")).expect("a link");
    repo.write("tools/hooks/post-receive", "#!/bin/sh\n");
    let hooks = hooks(&repo, state.path()).await;
    assert_eq!(hooks.folder, repo.path().join("tools/hooks"));
    assert_eq!(states(hooks.install()), ["installed", "unsuited", "asleep"]);
    assert_eq!(repo.read("tools/real"), "#!/bin/sh\n");
    assert!(!repo.path().join(".git/hooks/post-commit").exists());
}
