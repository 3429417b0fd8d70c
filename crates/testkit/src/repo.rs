//! Real git repositories for tests, without any of the developer's configuration.

use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Settings of every git command here: no hooks, no signing, and no background work.
const SETTINGS: [&str; 6] = [
    "core.hooksPath=/dev/null",
    "commit.gpgSign=false",
    "init.defaultBranch=main",
    "gc.auto=0",
    "maintenance.auto=false",
    "core.fsmonitor=false",
];

/// One time for every commit, so that the same content has the same hash in every run.
const COMMIT_TIME: &str = "2026-01-01T00:00:00Z";

/// A git repository with a work tree, on branch `main`.
#[derive(Debug)]
pub struct TestRepo {
    path: PathBuf,
    _folder: Option<tempfile::TempDir>,
}

impl TestRepo {
    /// An empty repository in a new temporary folder.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().canonicalize().expect("the folder exists");
        Self { _folder: Some(folder), ..Self::init_at(&path) }
    }

    /// An empty repository in `path`, which is created if missing and stays when the value is dropped.
    pub fn init_at(path: &Path) -> Self {
        std::fs::create_dir_all(path).expect("the repository's folder can be made");
        let repo = Self { path: path.to_path_buf(), _folder: None };
        repo.git(["init", "--quiet"]);
        repo
    }

    /// The work tree's folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file of the work tree, with its folders.
    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) -> &Self {
        let file = self.path.join(path);
        std::fs::create_dir_all(file.parent().expect("a file is in a folder")).expect("folders can be made");
        std::fs::write(file, content).expect("a file can be written");
        self
    }

    /// Writes a file of the work tree that can be executed.
    pub fn write_executable(&self, path: &str, content: impl AsRef<[u8]>) -> &Self {
        self.write(path, content);
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(self.path.join(path), mode).expect("a file's mode can be set");
        self
    }

    /// Removes a file of the work tree.
    pub fn remove(&self, path: &str) -> &Self {
        std::fs::remove_file(self.path.join(path)).expect("the file was there");
        self
    }

    /// Reads a file of the work tree.
    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path.join(path)).expect("the file is there and is text")
    }

    /// Commits everything in the work tree, also when nothing changed, and returns the commit's hash.
    pub fn commit(&self, message: &str) -> String {
        self.git(["add", "--all"]);
        self.git(["commit", "--quiet", "--allow-empty", "-m", message]);
        self.head()
    }

    /// Makes a branch at the current commit and checks it out.
    pub fn branch(&self, name: &str) -> &Self {
        self.git(["checkout", "--quiet", "-b", name]);
        self
    }

    /// Checks out an existing branch or commit.
    pub fn checkout(&self, name: &str) -> &Self {
        self.git(["checkout", "--quiet", name]);
        self
    }

    /// The current commit's hash.
    pub fn head(&self) -> String {
        self.git(["rev-parse", "HEAD"])
    }

    /// Runs git in the work tree and returns its output; panics with its error message if it fails.
    #[track_caller]
    pub fn git<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> String {
        git(&self.path, words)
    }

    /// Every byte of the work tree and of `.git`, as a value to compare with a later one.
    pub fn tree_digest(&self) -> TreeDigest {
        TreeDigest::of_folder(&self.path)
    }
}

impl Default for TestRepo {
    fn default() -> Self {
        Self::new()
    }
}

/// Runs git in any folder (for example a bare repository of the local forge) with the same cleared environment.
#[track_caller]
pub fn git<S: AsRef<OsStr>>(folder: &Path, words: impl IntoIterator<Item = S>) -> String {
    let mut command = Command::new("git");
    command.current_dir(folder).stdin(Stdio::null()).env_clear();
    command.envs([("PATH", crate::TRUSTED_PATH), ("HOME", "/nonexistent"), ("LC_ALL", "C.UTF-8")]);
    command.envs([("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_TERMINAL_PROMPT", "0")]);
    command.envs([("GIT_AUTHOR_NAME", "Test"), ("GIT_AUTHOR_EMAIL", "test@example.org")]);
    command.envs([("GIT_COMMITTER_NAME", "Test"), ("GIT_COMMITTER_EMAIL", "test@example.org")]);
    command.envs([("GIT_AUTHOR_DATE", COMMIT_TIME), ("GIT_COMMITTER_DATE", COMMIT_TIME)]);
    command.args(SETTINGS.iter().flat_map(|setting| ["-c", setting])).args(words);
    let output = command.output().expect("git can be started");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} in {}: {errors}", folder.display());
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

/// The state of a folder: for every path its kind, mode and content hash, without times, because reading changes them.
#[derive(Clone, PartialEq, Eq)]
pub struct TreeDigest {
    entries: BTreeMap<String, String>,
}

impl TreeDigest {
    /// Reads the whole folder without following links.
    pub fn of_folder(folder: &Path) -> Self {
        let mut entries = BTreeMap::new();
        collect(folder, folder, &mut entries);
        Self { entries }
    }

    /// The paths that are new, missing or different in `later`, each with its sign.
    pub fn changes(&self, later: &Self) -> Vec<String> {
        let gone = self.entries.keys().filter(|path| !later.entries.contains_key(*path)).map(|path| format!("-{path}"));
        let other = later.entries.iter().filter_map(|(path, entry)| match self.entries.get(path) {
            None => Some(format!("+{path}")),
            Some(before) if before != entry => Some(format!("~{path}")),
            Some(_) => None,
        });
        gone.chain(other).collect()
    }

    /// Panics with the changed paths if `later` is not byte for byte the same.
    #[track_caller]
    pub fn assert_untouched(&self, later: &Self) {
        let changes = self.changes(later);
        assert!(changes.is_empty(), "touched: {changes:?}");
    }
}

impl std::fmt::Debug for TreeDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut hasher = Sha256::new();
        for (path, entry) in &self.entries {
            hasher.update(format!("{path}\0{entry}\0"));
        }
        write!(f, "TreeDigest({} paths, {})", self.entries.len(), hex(&hasher.finalize()))
    }
}

fn collect(root: &Path, folder: &Path, entries: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(folder).expect("the folder can be listed") {
        let path = entry.expect("an entry can be read").path();
        let name = path.strip_prefix(root).expect("the path is below the root").to_string_lossy().into_owned();
        let about = std::fs::symlink_metadata(&path).expect("an entry has metadata");
        let mode = about.permissions().mode();
        let content = if about.is_symlink() {
            std::fs::read_link(&path).expect("a link can be read").to_string_lossy().into_owned()
        } else if about.is_file() {
            hex(&Sha256::digest(std::fs::read(&path).expect("a file can be read")))
        } else {
            String::new()
        };
        entries.insert(name, format!("{mode:o} {content}"));
        if about.is_dir() {
            collect(root, &path, entries);
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_content_has_the_same_commit_in_every_run() {
        let commit =
            || TestRepo::new().write("a/b.txt", "one\n").write_executable("run", "#!/bin/sh\n").commit("first");
        assert_eq!(commit(), commit());
    }

    #[test]
    fn a_digest_sees_content_modes_links_and_the_git_folder() {
        let repo = TestRepo::new();
        repo.write("a", "one").write("b", "two").write("c", "three").commit("first");
        let before = repo.tree_digest();
        before.assert_untouched(&repo.tree_digest());
        repo.write("a", "two").remove("b").write_executable("c", "three").write(".git/hooks/post-commit", "");
        std::os::unix::fs::symlink("a", repo.path().join("d")).expect("a link can be made");
        let after = repo.tree_digest();
        assert_eq!(before.changes(&after), ["-b", "+.git/hooks/post-commit", "~a", "~c", "+d"]);
        assert_ne!(before, after);
        assert_ne!(format!("{before:?}"), format!("{after:?}"));
    }

    #[test]
    fn branches_are_created_and_checked_out() {
        let repo = TestRepo::new();
        let first = repo.write("a", "one").commit("first");
        let second = repo.branch("other").write("a", "two").commit("second");
        assert_ne!(first, second);
        repo.checkout("main");
        assert_eq!((repo.head(), repo.read("a")), (first, "one".to_owned()));
    }
}
