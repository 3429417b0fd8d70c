//! The git module with real repositories: the user's repository is only read, no program that it names runs, and the
//! engine's own repository and the local forge's are written under leases.
#![expect(clippy::unwrap_used, reason = "tests")]

mod git_fixture;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use git_fixture::{Fixture, bytes_of, git, seal, try_git, write};
use loopwright::git::{ForgeRepo, Git, GitErrorKind, ObjectFormat, Oid};
use loopwright::seam::{Seam, SeamFault, SeamHook, SeamMoment};
use loopwright::workspace::CheckoutMethod;

#[tokio::test]
async fn installed_git_is_new_enough() {
    assert!(Fixture::empty().git.version().await.unwrap().starts_with("2."));
}

#[tokio::test]
async fn folder_that_is_not_a_repository_is_an_error_with_a_hint() {
    let fixture = Fixture::empty();
    fs::create_dir(fixture.path("plain")).unwrap();
    for path in ["plain", "missing"] {
        let error = fixture.git.discover(&fixture.path(path)).await.unwrap_err();
        assert_eq!(error.kind, GitErrorKind::NotARepository, "{error}");
        assert!(error.hint().unwrap().contains("git init"));
    }
}

#[tokio::test]
async fn bare_repository_is_refused() {
    let fixture = Fixture::empty();
    git(&fixture.path(""), &["init", "-q", "--bare", "bare.git"]);
    assert_eq!(fixture.git.discover(&fixture.path("bare.git")).await.unwrap_err().kind, GitErrorKind::Bare);
}

#[tokio::test]
async fn empty_repository_has_no_commits_and_says_how_to_make_one() {
    let fixture = Fixture::empty();
    let repo = fixture.git.discover(&fixture.repo()).await.unwrap();
    for base in [None, Some("main")] {
        let error = fixture.git.head(&repo, base).await.unwrap_err();
        assert_eq!(error.kind, GitErrorKind::NoCommits, "{error}");
        assert!(error.hint().unwrap().contains("git commit"));
    }
}

#[tokio::test]
async fn base_is_the_checked_out_branch_a_named_one_or_a_commit() {
    let fixture = Fixture::new();
    let first = fixture.head().await;
    git(&fixture.repo(), &["branch", "old"]);
    git(&fixture.repo(), &["tag", "-a", "v1", "-m", "v1"]);
    let second = fixture.commit_all("second");
    let repo = fixture.git.discover(&fixture.repo().join("src")).await.unwrap();
    assert_eq!(repo.work_tree, fixture.repo());
    let ask = async |base| fixture.git.head(&repo, base).await.unwrap();
    assert_eq!((ask(None).await.commit, ask(None).await.branch.as_deref()), (second, Some("main")));
    assert_eq!((ask(Some("old")).await.commit, ask(Some("old")).await.branch.as_deref()), (first.clone(), Some("old")));
    assert_eq!((ask(Some("v1")).await.commit, ask(Some("v1")).await.branch), (first.clone(), None));
    git(&fixture.repo(), &["checkout", "-q", "--detach", "old"]);
    assert_eq!((ask(None).await.commit, ask(None).await.branch), (first, None));
    for odd in ["nope", "--all", "", "a..b", "-x", "HEAD:src"] {
        assert_eq!(fixture.git.head(&repo, Some(odd)).await.unwrap_err().kind, GitErrorKind::UnknownRef, "{odd}");
    }
}

#[tokio::test]
async fn linked_worktree_belongs_to_the_same_repository() {
    let fixture = Fixture::new();
    git(&fixture.repo(), &["worktree", "add", "-q", "-b", "side", "../side"]);
    let main = fixture.git.discover(&fixture.repo()).await.unwrap();
    let side = fixture.git.discover(&fixture.path("side")).await.unwrap();
    assert_eq!(main.common_dir, side.common_dir);
    assert_ne!(main.git_dir, side.git_dir);
    assert_eq!(fixture.git.head(&side, None).await.unwrap().branch.as_deref(), Some("side"));
}

/// Programs that a repository's own files can name; each leaves a canary file when it runs.
fn plant_programs(dir: &std::path::Path, canary: &std::path::Path) {
    let script = dir.join("evil.sh");
    fs::write(&script, format!("#!/bin/sh\necho \"$0 $@\" >> {}\ncat\n", canary.display())).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let evil = script.to_str().unwrap();
    fs::create_dir_all(dir.join("hooks")).unwrap();
    for hook in [
        "post-checkout",
        "reference-transaction",
        "pre-commit",
        "post-index-change",
        "fsmonitor-watchman",
        "post-merge",
    ] {
        fs::copy(&script, dir.join("hooks").join(hook)).unwrap();
    }
    fs::write(dir.join("more.config"), format!("[core]\n\tpager = {evil}\n\tsshCommand = {evil}\n")).unwrap();
    let config = format!(
        "[core]\n\tfsmonitor = {evil}\n\thooksPath = {}\n\teditor = {evil}\n\talternateRefsCommand = {evil}\n[include]\n\tpath = more.config\n\
         [filter \"evil\"]\n\tclean = {evil}\n\tsmudge = {evil}\n\tprocess = {evil}\n\trequired = true\n[diff]\n\texternal = {evil}\n\
         [diff \"evil\"]\n\ttextconv = {evil}\n\tcommand = {evil}\n[alias]\n\tfetch = !{evil}\n\trev-parse = !{evil}\n[uploadpack]\n\tpackObjectsHook = {evil}\n\
         [credential]\n\thelper = !{evil}\n[gpg]\n\tprogram = {evil}\n[commit]\n\tgpgSign = true\n[merge \"evil\"]\n\tdriver = {evil}\n",
        dir.join("hooks").display()
    );
    let path = dir.join("config");
    fs::write(&path, fs::read_to_string(&path).unwrap() + &config).unwrap();
}

#[tokio::test]
async fn nothing_that_the_user_repository_or_the_maker_names_is_run() {
    let fixture = Fixture::new();
    fixture.write(".gitattributes", "* filter=evil diff=evil merge=evil\n");
    fixture.commit_all("attributes");
    let canary = fixture.path("canary");
    plant_programs(&fixture.repo().join(".git"), &canary);
    let before = bytes_of(&fixture.repo());
    let (all, workspace) = fixture.workspace().await;
    plant_programs(&workspace.dir.join(".git"), &canary);
    fs::remove_file(workspace.dir.join(".git/evil.sh")).unwrap();
    plant_programs(&workspace.dir.join(".git"), &canary);
    write(&workspace.dir, "src/a.txt", "one\nTWO\n");
    write(&workspace.dir, "new.txt", "new\n");
    let sealed = seal(&all, &workspace).await;
    assert_eq!(sealed.changes.len(), 2);
    all.engine().unified_diff(&workspace.base, &sealed.tree, 1 << 20).await.unwrap();
    all.snapshot(&workspace, "gates", &sealed.commit, loopwright::workspace::SnapshotKind::WithGit, &[]).await.unwrap();
    assert_eq!(bytes_of(&fixture.repo()), before);
    all.repo().add_take_branch(&fixture.git, all.engine(), "r1", &sealed.commit, &workspace.base).await.unwrap();
    assert!(!canary.exists(), "{}", fs::read_to_string(&canary).unwrap());
    // The trap itself works: git without the engine's flags runs the planted program.
    try_git(&fixture.repo(), &["status"]);
    assert!(canary.exists());
}

#[tokio::test]
async fn users_checkout_stays_byte_for_byte_in_every_state() {
    let fixture = Fixture::new();
    let repo = fixture.repo();
    git(&repo, &["branch", "topic"]);
    fixture.write("src/a.txt", "main\n");
    fixture.commit_all("on main");
    let prepare: [(&str, &dyn Fn()); 4] = [
        ("clean", &|| ()),
        ("dirty", &|| {
            fixture.write("src/a.txt", "dirty\n");
            fixture.write("untracked", "u\n");
            fixture.write("staged", "s\n");
            git(&repo, &["add", "staged"]);
            fs::write(repo.join(".git/index.lock"), "").unwrap();
        }),
        ("rebasing", &|| {
            fs::remove_file(repo.join(".git/index.lock")).unwrap();
            git(&repo, &["reset", "-q", "--hard"]);
            git(&repo, &["checkout", "-q", "topic"]);
            fixture.write("src/a.txt", "topic\n");
            fixture.commit_all("conflict");
            assert!(!try_git(&repo, &["rebase", "main"]).0);
        }),
        ("detached", &|| {
            git(&repo, &["rebase", "--abort"]);
            git(&repo, &["checkout", "-q", "--detach", "main"]);
        }),
    ];
    for (name, prepare) in prepare {
        prepare();
        let before = bytes_of(&repo);
        let (all, workspace) = fixture.workspace().await;
        write(&workspace.dir, "src/a.txt", "maker\n");
        let sealed = seal(&all, &workspace).await;
        all.engine().set_round_ref("r1", name, &sealed.commit).await.unwrap();
        all.discard("r1").await.unwrap();
        assert!(bytes_of(&repo) == before, "the checkout changed while {name}");
    }
}

#[tokio::test]
async fn take_adds_one_branch_and_switches_nothing() {
    let fixture = Fixture::new();
    fixture.commit_all("more");
    let (all, workspace) = fixture.workspace().await;
    write(&workspace.dir, "src/a.txt", "taken\n");
    let sealed = seal(&all, &workspace).await;
    fixture.write("dirty", "d\n");
    let status = git(&fixture.repo(), &["status", "--porcelain=v2", "--branch"]);
    let take =
        async || all.repo().add_take_branch(&fixture.git, all.engine(), "r1", &sealed.commit, &workspace.base).await;
    assert_eq!(take().await.unwrap(), "take/r1");
    assert_eq!(git(&fixture.repo(), &["rev-parse", "take/r1^{tree}"]), sealed.tree.as_str());
    assert_eq!(git(&fixture.repo(), &["status", "--porcelain=v2", "--branch"]), status);
    assert_eq!(git(&fixture.repo(), &["log", "--format=%s", "take/r1"]), "fix: the sign\nmore\nbase");
    git(&fixture.repo(), &["fsck", "--strict"]);
    assert!(!fixture.repo().join(".git/shallow").exists() && !fixture.repo().join(".git/FETCH_HEAD").exists());
    let refs = git(&fixture.repo(), &["for-each-ref", "--format=%(refname)"]);
    assert_eq!(refs, "refs/heads/main\nrefs/heads/take/r1");
    assert_eq!(take().await.unwrap_err().kind, GitErrorKind::Moved);
}

#[tokio::test]
async fn deep_history_is_cut_and_still_ends_cleanly_everywhere() {
    let fixture = Fixture::new();
    for n in 0..60 {
        git(&fixture.repo(), &["commit", "-q", "--allow-empty", "-m", &format!("c{n}")]);
    }
    let (all, workspace) = fixture.workspace().await;
    assert_eq!(git(&workspace.dir, &["rev-list", "--count", "HEAD"]), "50");
    git(&workspace.dir, &["fsck", "--strict"]);
    write(&workspace.dir, "x", "x\n");
    let sealed = seal(&all, &workspace).await;
    let forge = ForgeRepo::open(fixture.git.clone(), fixture.path("forge/repo.git"), ObjectFormat::Sha1).await.unwrap();
    forge.push(all.engine(), &sealed.commit, &sealed.tree, "loop/fixer/r1", None).await.unwrap();
    git(forge.dir(), &["fsck", "--strict"]);
    // A person fetches the proposal into the full clone; the clone stays full.
    git(&fixture.repo(), &["fetch", "-q", forge.dir().to_str().unwrap(), "loop/fixer/r1:review"]);
    assert_eq!(git(&fixture.repo(), &["rev-list", "--count", "review"]), "62");
    all.repo().add_take_branch(&fixture.git, all.engine(), "r1", &sealed.commit, &workspace.base).await.unwrap();
    assert_eq!(git(&fixture.repo(), &["rev-list", "--count", "take/r1"]), "62");
    // The next base is fetched incrementally, and workspaces of both stay intact.
    let next = fixture.commit_all("next");
    let second = all.create("fixer", "r2", &next, &CheckoutMethod::Copy.into()).await.unwrap();
    git(&second.dir, &["fsck", "--strict"]);
    assert_eq!(git(&second.dir, &["log", "-1", "--format=%s"]), "next");
}

#[tokio::test]
async fn push_moves_a_branch_only_from_its_expected_commit() {
    let fixture = Fixture::new();
    let (all, workspace) = fixture.workspace().await;
    write(&workspace.dir, "x", "1\n");
    let one = seal(&all, &workspace).await;
    write(&workspace.dir, "x", "2\n");
    let two = seal(&all, &workspace).await;
    let forge = ForgeRepo::open(fixture.git.clone(), fixture.path("forge/repo.git"), ObjectFormat::Sha1).await.unwrap();
    let branch = "loop/fixer/r1";
    let pushed = forge.push(all.engine(), &one.commit, &one.tree, branch, None).await.unwrap();
    assert_eq!((&pushed.commit, &pushed.tree), (&one.commit, &one.tree));
    let kind = |error: loopwright::git::GitError| error.kind;
    let again = forge.push(all.engine(), &two.commit, &two.tree, branch, None).await;
    assert_eq!(again.map_err(kind), Err(GitErrorKind::Moved));
    assert_eq!(forge.branch(branch).await.unwrap(), Some(one.commit.clone()));
    // Another user pushes; our lease names the old commit.
    let foreign: Oid = workspace.base.clone();
    git(forge.dir(), &["update-ref", &format!("refs/heads/{branch}"), foreign.as_str()]);
    let stale = forge.push(all.engine(), &two.commit, &two.tree, branch, Some(&one.commit)).await;
    assert_eq!(stale.map_err(kind), Err(GitErrorKind::Moved));
    assert_eq!(forge.branch(branch).await.unwrap(), Some(foreign.clone()));
    forge.push(all.engine(), &two.commit, &two.tree, branch, Some(&foreign)).await.unwrap();
    assert_eq!(forge.branch(branch).await.unwrap(), Some(two.commit));
}

/// Counts the fetches.
#[derive(Default)]
struct FetchCounter(std::sync::atomic::AtomicUsize);

impl SeamHook for FetchCounter {
    fn hit(&self, moment: SeamMoment, site: &'static str) -> Result<(), SeamFault> {
        if moment == SeamMoment::Before && site == "git.fetch" {
            self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        }
        Ok(())
    }
}

#[tokio::test]
async fn push_fetches_once_for_each_base_because_a_fetch_reads_every_ref() {
    let fixture = Fixture::new();
    let (all, workspace) = fixture.workspace().await;
    let fetches = std::sync::Arc::new(FetchCounter::default());
    let git_with_count = Git::new(Seam::hooked(std::sync::Arc::clone(&fetches) as _));
    let place = fixture.path("forge/repo.git");
    let forge = ForgeRepo::open(git_with_count, place.clone(), ObjectFormat::Sha1).await.unwrap();
    for number in 0..4 {
        write(&workspace.dir, "x", &format!("{number}\n"));
        let sealed = seal(&all, &workspace).await;
        let branch = format!("loop/fixer/r{number}");
        let pushed = forge.push(all.engine(), &sealed.commit, &sealed.tree, &branch, None).await.unwrap();
        assert_eq!(pushed.tree, sealed.tree);
    }
    assert_eq!(fetches.0.load(std::sync::atomic::Ordering::SeqCst), 1);
    git(&place, &["fsck", "--strict", "--connectivity-only"]);
}

#[tokio::test]
async fn push_of_another_tree_than_the_one_that_passed_is_refused() {
    let fixture = Fixture::new();
    let (all, workspace) = fixture.workspace().await;
    write(&workspace.dir, "x", "passed\n");
    let passed = seal(&all, &workspace).await;
    write(&workspace.dir, "x", "swapped\n");
    let swapped = seal(&all, &workspace).await;
    let forge = ForgeRepo::open(fixture.git.clone(), fixture.path("forge/repo.git"), ObjectFormat::Sha1).await.unwrap();
    let pushed = forge.push(all.engine(), &swapped.commit, &passed.tree, "b", None).await;
    assert_eq!(pushed.unwrap_err().kind, GitErrorKind::Moved);
    assert_eq!(forge.branch("b").await.unwrap(), None);
}

#[tokio::test]
async fn base_branch_of_the_forge_only_moves_forward() {
    let fixture = Fixture::new();
    let (all, workspace) = fixture.workspace().await;
    write(&workspace.dir, "x", "1\n");
    let one = seal(&all, &workspace).await;
    write(&workspace.dir, "x", "2\n");
    let sibling = seal(&all, &workspace).await;
    let forge = ForgeRepo::open(fixture.git.clone(), fixture.path("forge/repo.git"), ObjectFormat::Sha1).await.unwrap();
    let base_tree = all.engine().tree_of(&workspace.base).await.unwrap();
    forge.fast_forward(all.engine(), &workspace.base, &base_tree, "main").await.unwrap();
    forge.fast_forward(all.engine(), &one.commit, &one.tree, "main").await.unwrap();
    let refused = forge.fast_forward(all.engine(), &sibling.commit, &sibling.tree, "main").await;
    assert_eq!(refused.unwrap_err().kind, GitErrorKind::Moved);
    assert_eq!(forge.branch("main").await.unwrap(), Some(one.commit));
}

#[tokio::test]
async fn sealed_content_is_read_by_object_name_within_limits() {
    let fixture = Fixture::new();
    let (all, workspace) = fixture.workspace().await;
    write(&workspace.dir, "src/a.txt", "one\nTWO\n");
    write(&workspace.dir, ".gitattributes", "*.txt -diff\n");
    let sealed = seal(&all, &workspace).await;
    let engine = all.engine();
    assert_eq!(engine.read_blob(&sealed.tree, "src/a.txt", 100).await.unwrap().as_deref(), Some(&b"one\nTWO\n"[..]));
    for missing in ["nope", "src", "src/a.txt/x", ""] {
        assert_eq!(engine.read_blob(&sealed.tree, missing, 100).await.unwrap(), None, "{missing}");
    }
    assert_eq!(engine.read_blob(&sealed.tree, "src/a.txt", 3).await.unwrap_err().kind, GitErrorKind::TooLarge);
    let paths: Vec<String> =
        engine.list_tree(&sealed.tree).await.unwrap().into_iter().map(|entry| entry.path).collect();
    assert_eq!(paths, [".gitattributes", ".gitignore", "link", "run.sh", "src/a.txt", "src/deep/b.txt"]);
    let diff = engine.unified_diff(&workspace.base, &sealed.tree, 1 << 20).await.unwrap();
    assert!(diff.whole && diff.text.contains("+TWO"), "{}", diff.text);
    let cut = engine.unified_diff(&workspace.base, &sealed.tree, 40).await.unwrap();
    assert!(!cut.whole && cut.text.ends_with("is cut here]\n"), "{}", cut.text);
}

#[tokio::test]
async fn damaged_repository_of_the_engine_is_named_as_such_with_a_way_out() {
    let fixture = Fixture::new();
    let (all, workspace) = fixture.workspace().await;
    write(&workspace.dir, "x", "1\n");
    let sealed = seal(&all, &workspace).await;
    let damage = async |damage: &dyn Fn(&std::path::Path)| {
        damage(all.engine().dir());
        let error = all.engine().list_tree(&sealed.tree).await.unwrap_err();
        assert_eq!(error.kind, GitErrorKind::Damaged, "{error}");
        assert!(error.hint().unwrap().contains("loopwright restore"));
    };
    let (folder, file) = sealed.tree.as_str().split_at(2);
    damage(&|dir| {
        let object = dir.join("objects").join(folder).join(file);
        fs::set_permissions(&object, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(object, "").unwrap();
    })
    .await;
    damage(&|dir| fs::write(dir.join("HEAD"), "").unwrap()).await;
    damage(&|dir| fs::remove_dir_all(dir.join("objects")).unwrap()).await;
}

#[tokio::test]
async fn kept_candidates_are_never_renamed() {
    let fixture = Fixture::new();
    let (all, workspace) = fixture.workspace().await;
    write(&workspace.dir, "x", "1\n");
    let one = seal(&all, &workspace).await;
    write(&workspace.dir, "x", "2\n");
    let two = seal(&all, &workspace).await;
    let name = all.engine().set_round_ref("r1", "attempt-1", &one.commit).await.unwrap();
    assert_eq!(name, "refs/loopwright/r1/attempt-1");
    all.engine().set_round_ref("r1", "attempt-1", &one.commit).await.unwrap();
    assert_eq!(all.engine().set_round_ref("r1", "attempt-1", &two.commit).await.unwrap_err().kind, GitErrorKind::Moved);
    assert_eq!(all.engine().resolve(&name).await.unwrap(), Some(one.commit));
}

#[tokio::test]
async fn injected_faults_reach_the_caller_as_failures() {
    struct FailVersion;
    impl SeamHook for FailVersion {
        fn hit(&self, moment: SeamMoment, site: &'static str) -> Result<(), SeamFault> {
            if moment == SeamMoment::After && site == "git.version" {
                Err(SeamFault { site, when: "after" })
            } else {
                Ok(())
            }
        }
    }
    let git = Git::new(Seam::hooked(std::sync::Arc::new(FailVersion)));
    let error = git.version().await.unwrap_err();
    assert_eq!(error.kind, GitErrorKind::Failed(None));
    assert!(error.to_string().contains("injected fault after `git.version`"));
}

#[tokio::test]
async fn repositories_with_sha256_names_work_too() {
    let fixture = Fixture::empty();
    fs::remove_dir_all(fixture.repo().join(".git")).unwrap();
    git(&fixture.repo(), &["init", "-q", "-b", "main", "--object-format=sha256"]);
    fixture.write("a", "a\n");
    fixture.commit_all("base");
    let (all, workspace) = fixture.workspace().await;
    assert_eq!(git(&workspace.dir, &["status", "--porcelain"]), "");
    write(&workspace.dir, "a", "b\n");
    assert_eq!(seal(&all, &workspace).await.tree.as_str().len(), 64);
}
