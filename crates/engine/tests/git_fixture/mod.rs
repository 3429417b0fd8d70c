//! Real repositories in temporary folders for the tests of git and of workspaces.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use loopwright::git::{CommitMetadata, Git, Oid};
use loopwright::seam::Seam;
use loopwright::workspace::{CheckoutMethod, SealLimits, SealedTree, Workspace, Workspaces};

/// A user's repository with one commit, and a state folder beside it.
pub(crate) struct Fixture {
    pub(crate) temp: tempfile::TempDir,
    pub(crate) git: Git,
}

impl Fixture {
    /// A repository with a few files of every kind.
    pub(crate) fn new() -> Self {
        let fixture = Self::empty();
        fixture.write("src/a.txt", "one\ntwo\n");
        fixture.write("src/deep/b.txt", "b\n");
        fixture.write("run.sh", "#!/bin/sh\necho run\n");
        fs::set_permissions(fixture.repo().join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        fixture.write(".gitignore", "target/\n*.sock\n");
        std::os::unix::fs::symlink("src/a.txt", fixture.repo().join("link")).unwrap();
        fixture.commit_all("base");
        fixture
    }

    /// A repository without commits.
    pub(crate) fn empty() -> Self {
        let fixture = Self { temp: tempfile::tempdir().unwrap(), git: Git::new(Seam::none()) };
        fs::create_dir(fixture.repo()).unwrap();
        git(&fixture.repo(), &["init", "-q", "-b", "main"]);
        fixture
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.temp.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn repo(&self) -> PathBuf {
        self.path("repo")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.path("state")
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        write(&self.repo(), path, text);
    }

    pub(crate) fn commit_all(&self, message: &str) -> Oid {
        git(&self.repo(), &["add", "-A"]);
        git(&self.repo(), &["commit", "-q", "--allow-empty", "-m", message]);
        git(&self.repo(), &["rev-parse", "HEAD"]).parse().unwrap()
    }

    pub(crate) async fn workspaces(&self) -> Workspaces {
        let repo = self.git.discover(&self.repo()).await.unwrap();
        Workspaces::open(self.git.clone(), &self.state(), repo).await.unwrap()
    }

    pub(crate) async fn head(&self) -> Oid {
        let repo = self.git.discover(&self.repo()).await.unwrap();
        self.git.head(&repo, None).await.unwrap().commit
    }

    /// A fresh workspace at HEAD, as a copy.
    pub(crate) async fn workspace(&self) -> (Workspaces, Workspace) {
        self.workspace_by(CheckoutMethod::Copy).await
    }

    /// A fresh workspace at HEAD.
    pub(crate) async fn workspace_by(&self, method: CheckoutMethod) -> (Workspaces, Workspace) {
        let all = self.workspaces().await;
        let workspace = create(&all, "r1", &self.head().await, method).await;
        (all, workspace)
    }

    /// A folder of the repository's workspaces: `bases`, `rounds`, `trash`.
    pub(crate) fn folder(&self, all: &Workspaces, name: &str) -> PathBuf {
        self.state().join("workspaces").join(&all.repo().id).join(name)
    }
}

/// A round's workspace at a base.
pub(crate) async fn create(all: &Workspaces, round: &str, base: &Oid, method: CheckoutMethod) -> Workspace {
    all.create("fixer", round, base, &method.into()).await.unwrap()
}

pub(crate) fn words() -> CommitMetadata {
    CommitMetadata {
        message: "fix: the sign\n\nLoop: fixer\nRound: r1".to_owned(),
        name: "Loopwright".to_owned(),
        email: "loopwright@example.invalid".to_owned(),
        at_unix: 1_700_000_000,
    }
}

pub(crate) async fn seal(all: &Workspaces, workspace: &Workspace) -> SealedTree {
    all.seal(workspace, &words(), SealLimits::default()).await.unwrap()
}

pub(crate) fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Git as a user or a maker would run it, without the machine's configuration.
pub(crate) fn git(dir: &Path, args: &[&str]) -> String {
    let (ok, out) = try_git(dir, args);
    assert!(ok, "git {args:?}: {out}");
    out
}

#[expect(clippy::disallowed_methods, reason = "the fixture plays the user and the maker")]
pub(crate) fn try_git(dir: &Path, args: &[&str]) -> (bool, String) {
    let mut command = std::process::Command::new("git");
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", "/nonexistent");
    command.envs([("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_AUTHOR_NAME", "u"), ("GIT_AUTHOR_EMAIL", "u@x")]);
    command.envs([("GIT_COMMITTER_NAME", "u"), ("GIT_COMMITTER_EMAIL", "u@x"), ("GIT_EDITOR", "true")]);
    let output = command.current_dir(dir).args(args).output().unwrap();
    let text = if output.status.success() { output.stdout } else { output.stderr };
    (output.status.success(), String::from_utf8_lossy(&text).trim_end().to_owned())
}

/// Every path below a folder with its kind, mode and content.
pub(crate) fn bytes_of(root: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut all = BTreeMap::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            let content = if meta.is_symlink() {
                fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
            } else if meta.is_dir() {
                waiting.push(path.clone());
                Vec::new()
            } else {
                fs::read(&path).unwrap()
            };
            all.insert(path.strip_prefix(root).unwrap().to_owned(), (meta.mode(), content));
        }
    }
    all
}

/// Device and inode of every plain file below a folder.
pub(crate) fn inodes(root: &Path) -> BTreeMap<(u64, u64), PathBuf> {
    let mut all = BTreeMap::new();
    for path in bytes_of(root).into_keys().map(|path| root.join(path)) {
        let meta = fs::symlink_metadata(&path).unwrap();
        if meta.is_file() {
            all.insert((meta.dev(), meta.ino()), path);
        }
    }
    all
}

/// `path:status` of every change, sorted.
pub(crate) fn statuses(sealed: &SealedTree) -> Vec<String> {
    sealed.changes.iter().map(|change| format!("{}:{:?}", change.path, change.status)).collect()
}

/// `path:why` of every refused path, sorted.
pub(crate) fn refusals(sealed: &SealedTree) -> Vec<String> {
    let mut all: Vec<String> =
        sealed.refused.iter().map(|refused| format!("{}:{:?}", refused.path, refused.why)).collect();
    all.sort();
    all
}
