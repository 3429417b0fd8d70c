//! The bare repositories of the fake forge. Only git's own programs read and write them.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Refuses a push to a branch that the file `protected` names.
const UPDATE_HOOK: &str = "#!/bin/sh
if [ -f protected ] && grep -qxF -- \"$1\" protected; then
    echo \"error: GH006: Protected branch update failed for $1.\" >&2
    echo \"error: Changes must be made through a pull request.\" >&2
    exit 1
fi
";

/// Settings as on the forges: any reachable commit can be fetched, a push can force, the forge's own refs are hidden.
const SETTINGS: [(&str, &str); 6] = [
    ("http.receivepack", "true"),
    ("receive.autogc", "false"),
    ("receive.denyNonFastForwards", "false"),
    ("receive.hideRefs", "refs/pull"),
    ("uploadpack.allowReachableSHA1InWant", "true"),
    ("gc.auto", "0"),
];

/// A bare repository on disk.
#[derive(Debug, Clone)]
pub(super) struct BareRepo {
    path: PathBuf,
}

/// The facts of a commit.
#[derive(Debug, Clone)]
pub(super) struct CommitFacts {
    pub(super) sha: String,
    pub(super) tree: String,
    pub(super) parents: Vec<String>,
    pub(super) name: String,
    pub(super) email: String,
    pub(super) date: String,
    pub(super) message: String,
}

/// One changed file between two commits.
#[derive(Debug, Clone)]
pub(super) struct DiffFile {
    pub(super) path: String,
    pub(super) status: char,
    pub(super) added: u64,
    pub(super) removed: u64,
}

/// A git command in `folder` with a cleared environment.
pub(super) fn git_command(folder: &Path) -> Command {
    let mut command = Command::new("git");
    command.current_dir(folder).env_clear();
    command.envs([("PATH", crate::TRUSTED_PATH), ("HOME", "/nonexistent"), ("LC_ALL", "C.UTF-8")]);
    command.envs([("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_TERMINAL_PROMPT", "0")]);
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "Person").env(format!("GIT_{role}_EMAIL"), "person@example.org");
        command.env(format!("GIT_{role}_DATE"), "2026-01-01T00:00:00Z");
    }
    command
}

impl BareRepo {
    /// Creates a repository with one commit on `main`.
    pub(super) fn create(path: &Path) -> Self {
        std::fs::create_dir_all(path).expect("the repository's folder can be made");
        let repo = Self { path: path.to_path_buf() };
        repo.must(&["init", "--quiet", "--bare", "--initial-branch=main"]);
        for (name, value) in SETTINGS {
            repo.must(&["config", name, value]);
        }
        let hook = path.join("hooks/update");
        std::fs::create_dir_all(path.join("hooks")).expect("a folder for hooks can be made");
        std::fs::write(&hook, UPDATE_HOOK).expect("a hook can be written");
        std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).expect("a hook's mode can be set");
        repo.add_commit("main", None, "README.md", "# A repository\n", "Initial commit");
        repo
    }

    /// Takes every branch of another repository on this machine.
    pub(super) fn copy_from(&self, source: &Path) {
        let source = source.to_str().expect("a path of text");
        self.must(&["fetch", "--quiet", "--force", "--update-head-ok", source, "refs/heads/*:refs/heads/*"]);
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Runs git and returns its output, or its error message.
    pub(super) fn run(&self, words: &[&str], input: &str) -> Result<String, String> {
        let mut command = git_command(&self.path);
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("start git: {error}"))?;
        let mut pipe = child.stdin.take().ok_or("git has no standard input")?;
        // Git may exit without reading its input; its status decides.
        let _ = pipe.write_all(input.as_bytes());
        drop(pipe);
        let output = child.wait_with_output().map_err(|error| format!("wait for git: {error}"))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned());
        }
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn must(&self, words: &[&str]) -> String {
        self.run(words, "").unwrap_or_else(|error| panic!("git {words:?}: {error}"))
    }

    /// Branches with their commits.
    pub(super) fn branches(&self) -> BTreeMap<String, String> {
        let text = self.must(&["for-each-ref", "--format=%(objectname) %(refname:lstrip=2)", "refs/heads"]);
        let rows = text.lines().filter_map(|line| line.split_once(' '));
        rows.map(|(sha, name)| (name.to_owned(), sha.to_owned())).collect()
    }

    /// Sets refs in one transaction.
    pub(super) fn set_refs(&self, rows: &[(String, String)]) {
        if rows.is_empty() {
            return;
        }
        let text: String = rows.iter().map(|(name, sha)| format!("update {name} {sha}\n")).collect();
        self.run(&["update-ref", "--stdin"], &text).unwrap_or_else(|error| panic!("set refs: {error}"));
    }

    /// Moves a branch to any commit, or deletes it.
    pub(super) fn set_branch(&self, name: &str, sha: Option<&str>) -> Result<(), String> {
        let name = format!("refs/heads/{name}");
        match sha {
            Some(sha) => self.run(&["update-ref", &name, sha], ""),
            None => self.run(&["update-ref", "-d", &name], ""),
        }
        .map(|_| ())
    }

    /// The full hash of the commit that a name stands for.
    pub(super) fn resolve(&self, name: &str) -> Option<String> {
        if name.starts_with('-') {
            return None;
        }
        self.run(&["rev-parse", "--verify", "--quiet", "--end-of-options", &format!("{name}^{{commit}}")], "").ok()
    }

    /// Reads commits: the first `most` that `range` reaches.
    pub(super) fn commits(&self, range: &str, most: usize) -> Vec<CommitFacts> {
        let format = "--format=%H%x00%T%x00%P%x00%an%x00%ae%x00%ad%x00%B%x01";
        let count = format!("--max-count={most}");
        let date = "--date=format-local:%Y-%m-%dT%H:%M:%SZ";
        let text = self.run(&["log", format, date, &count, "--end-of-options", range, "--"], "").unwrap_or_default();
        text.split('\u{1}').filter_map(|row| parse_commit(row.trim_start())).collect()
    }

    pub(super) fn commit(&self, sha: &str) -> Option<CommitFacts> {
        self.commits(sha, 1).into_iter().next()
    }

    /// The number of commits in a range.
    pub(super) fn count(&self, range: &str) -> u64 {
        let text = self.run(&["rev-list", "--count", "--end-of-options", range, "--"], "").unwrap_or_default();
        text.parse().unwrap_or(0)
    }

    pub(super) fn merge_base(&self, one: &str, other: &str) -> Option<String> {
        self.run(&["merge-base", one, other], "").ok()
    }

    /// The files that `head` changes since it left `base`.
    pub(super) fn changed_files(&self, base: &str, head: &str) -> Vec<DiffFile> {
        let range = format!("{base}...{head}");
        let words =
            |kind| self.run(&["diff", "--no-renames", kind, "--end-of-options", &range, "--"], "").unwrap_or_default();
        let (states, counts) = (words("--name-status"), words("--numstat"));
        let rows = states.lines().zip(counts.lines()).filter_map(|(state, count)| {
            let (status, path) = state.split_once('\t')?;
            let mut numbers = count.split('\t').map(|word| word.parse().unwrap_or(0));
            let (added, removed) = (numbers.next()?, numbers.next()?);
            Some(DiffFile { path: path.to_owned(), status: status.chars().next()?, added, removed })
        });
        rows.collect()
    }

    /// The diff of one file since `head` left `base`.
    pub(super) fn patch(&self, base: &str, head: &str, path: &str) -> String {
        let range = format!("{base}...{head}");
        let words = ["diff", "--no-renames", "--end-of-options", &range, "--", path];
        let text = self.run(&words, "").unwrap_or_default();
        text.find("@@").map(|at| text[at..].to_owned()).unwrap_or_default()
    }

    /// The whole diff since `head` left `base`.
    pub(super) fn diff(&self, base: &str, head: &str) -> String {
        self.run(&["diff", "--no-renames", "--end-of-options", &format!("{base}...{head}"), "--"], "")
            .unwrap_or_default()
    }

    /// A file's content at a commit.
    pub(super) fn file(&self, commit: &str, path: &str) -> Option<String> {
        self.run(&["cat-file", "blob", &format!("{commit}:{path}")], "").ok()
    }

    /// The object of a path at a commit.
    pub(super) fn object(&self, commit: &str, path: &str) -> Option<String> {
        self.run(&["rev-parse", "--verify", "--quiet", &format!("{commit}:{path}")], "").ok()
    }

    /// Commits one file on a branch and returns the commit. The commit has no parent if there is none.
    pub(super) fn add_commit(
        &self,
        branch: &str,
        parent: Option<&str>,
        path: &str,
        content: &str,
        message: &str,
    ) -> String {
        let index = tempfile::Builder::new().prefix("index-").tempdir_in(&self.path).expect("a folder for an index");
        let index = index.path().join("index");
        let index = format!("{}", index.display());
        let git = |words: &[&str], input: &str| {
            let mut command = git_command(&self.path);
            command.env("GIT_INDEX_FILE", &index).args(words);
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn().expect("git can be started");
            child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("git reads its input");
            let output = child.wait_with_output().expect("git ends");
            assert!(output.status.success(), "git {words:?}");
            String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
        };
        if let Some(parent) = parent {
            git(&["read-tree", parent], "");
        }
        let blob = git(&["hash-object", "-w", "--stdin"], content);
        git(&["update-index", "--add", "--cacheinfo", &format!("100644,{blob},{path}")], "");
        let tree = git(&["write-tree"], "");
        let mut words = vec!["commit-tree", &tree, "-m", message];
        words.extend(parent.iter().flat_map(|parent| ["-p", *parent]));
        let commit = git(&words, "");
        self.set_branch(branch, Some(&commit)).expect("a branch can be set");
        commit
    }

    /// Merges `head` into `base` and returns the new commit: with both parents, or squashed into one commit.
    pub(super) fn merge(&self, base: &str, head: &str, squash: bool, message: &str) -> Result<String, String> {
        let tree = self.run(&["merge-tree", "--write-tree", base, head], "")?;
        let mut words = vec!["commit-tree", tree.lines().next().unwrap_or_default(), "-m", message, "-p", base];
        if !squash {
            words.extend(["-p", head]);
        }
        self.run(&words, "")
    }

    /// Writes the list of protected branches for the hook.
    pub(super) fn protect(&self, branches: &[String]) {
        let text: String = branches.iter().map(|name| format!("refs/heads/{name}\n")).collect();
        std::fs::write(self.path.join("protected"), text).expect("the list of protected branches can be written");
    }
}

fn parse_commit(row: &str) -> Option<CommitFacts> {
    let mut fields = row.splitn(7, '\0').map(str::to_owned);
    let mut next = || fields.next();
    let (sha, tree, parents) = (next()?, next()?, next()?);
    Some(CommitFacts {
        sha,
        tree,
        parents: parents.split_whitespace().map(str::to_owned).collect(),
        name: next()?,
        email: next()?,
        date: next()?,
        message: next()?.trim_end().to_owned(),
    })
}

/// Whether a patch shows a line of the new (`RIGHT`) or the old (`LEFT`) file, so that a comment can be put on it.
pub(super) fn patch_has_line(patch: &str, side: &str, line: u64) -> bool {
    let (mut old, mut new) = (0, 0);
    for row in patch.lines() {
        if let Some(rest) = row.strip_prefix("@@ -") {
            let numbers = |text: &str| text.split([',', ' ']).next().and_then(|word| word.parse::<u64>().ok());
            old = numbers(rest).unwrap_or(0);
            new = rest.split_once('+').and_then(|(_, text)| numbers(text)).unwrap_or(0);
            continue;
        }
        let (is_old, is_new) = (!row.starts_with('+'), !row.starts_with('-'));
        let at = if side == "LEFT" { is_old.then_some(old) } else { is_new.then_some(new) };
        if at == Some(line) {
            return true;
        }
        old += u64::from(is_old);
        new += u64::from(is_new);
    }
    false
}
