//! Git queries for triggers: ignored paths, the commits of branches, the remotes. They only read.

use crate::git::{Git, GitCall, GitError, TREE_MAX, UserRepo};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The most bytes of a commit's subject that are kept.
const SUBJECT_MAX: usize = 200;

/// Git waits forever for a pipe in the place of a file of ignore rules, and the triggers of all repositories wait for git.
const IGNORED_DEADLINE: Duration = Duration::from_secs(10);

/// The head of a branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BranchHead {
    /// Its commit.
    pub(crate) oid: String,
    /// That commit's first line; untrusted.
    pub(crate) subject: String,
}

/// Folders that git ignores, relative to the root of the working copy and without a trailing slash.
pub(super) async fn ignored_folders(git: &Git, repo: &UserRepo) -> Result<BTreeSet<String>, GitError> {
    let call = inside(repo, "git.ls-files").out_max(TREE_MAX).deadline(IGNORED_DEADLINE);
    let call = call.args(["-z", "--others", "--ignored", "--exclude-standard", "--directory"]);
    let answer = git.run(call).await?;
    Ok(names(&answer.stdout).filter_map(|name| name.strip_suffix('/').map(str::to_owned)).collect())
}

/// The given paths that git ignores.
pub(super) async fn ignored_among(git: &Git, repo: &UserRepo, paths: &[String]) -> Result<BTreeSet<String>, GitError> {
    if paths.is_empty() {
        return Ok(BTreeSet::new());
    }
    // This command cannot take paths literally; with a dot in front each of them is read as a plain path.
    let call = inside(repo, "git.check-ignore").env("GIT_LITERAL_PATHSPECS", "0").out_max(TREE_MAX);
    let call = call.deadline(IGNORED_DEADLINE);
    let stdin: String = paths.iter().map(|path| format!("./{path}\0")).collect();
    let answer = git.run(call.args(["-z", "--stdin"]).stdin(stdin).allow_exit_one()).await?;
    Ok(names(&answer.stdout).filter_map(|name| name.strip_prefix("./").map(str::to_owned)).collect())
}

/// The heads of branches; missing branches are left out.
pub(crate) async fn branch_heads(
    git: &Git,
    repo: &UserRepo,
    branches: &BTreeSet<&str>,
) -> Result<BTreeMap<String, BranchHead>, GitError> {
    if branches.is_empty() {
        return Ok(BTreeMap::new());
    }
    let call = GitCall::new("git.for-each-ref").git_dir(&repo.git_dir);
    let call = call.arg("--format=%(refname)%00%(objectname)%00%(contents:subject)");
    let answer = git.run(call.args(branches.iter().map(|branch| format!("refs/heads/{branch}")))).await?;
    let text = String::from_utf8_lossy(&answer.stdout);
    let mut heads = BTreeMap::new();
    for line in text.lines() {
        let mut parts = line.splitn(3, '\0');
        let (name, oid) = (parts.next().and_then(|name| name.strip_prefix("refs/heads/")), parts.next());
        // A name is a prefix too: `feature` would match `feature/one`.
        if let (Some(name), Some(oid)) = (name.filter(|name| branches.contains(name)), oid) {
            let subject: String = parts.next().unwrap_or_default().chars().filter(|c| !c.is_control()).collect();
            let subject = subject[..subject.floor_char_boundary(SUBJECT_MAX)].to_owned();
            heads.insert(name.to_owned(), BranchHead { oid: oid.to_owned(), subject });
        }
    }
    Ok(heads)
}

/// The addresses of a repository's remotes, as its own configuration has them.
pub(super) async fn remote_addresses(git: &Git, repo: &UserRepo) -> Result<Vec<String>, GitError> {
    let call = GitCall::new("git.config").arg("--file").arg(repo.common_dir.join("config")).arg("-z");
    let answer = git.run(call.args(["--get-regexp", r"^remote\..*\.url$"]).allow_exit_one()).await?;
    Ok(names(&answer.stdout).filter_map(|line| line.split_once('\n').map(|(_, url)| url.to_owned())).collect())
}

/// Every file of a commit with the object id of its content.
pub(crate) async fn commit_contents(
    git: &Git,
    repo: &UserRepo,
    commit: &str,
) -> Result<Vec<(String, String)>, GitError> {
    let call = GitCall::new("git.ls-tree").git_dir(&repo.git_dir).out_max(TREE_MAX);
    let answer = git.run(call.args(["-r", "-z", "--full-tree", commit])).await?;
    let entry = |line: String| {
        let (facts, path) = line.split_once('\t')?;
        Some((path.to_owned(), facts.rsplit(' ').next()?.to_owned()))
    };
    Ok(names(&answer.stdout).filter_map(entry).collect())
}

fn inside(repo: &UserRepo, site: &'static str) -> GitCall {
    GitCall::new(site).git_dir(&repo.git_dir).work_tree(&repo.work_tree).in_folder(&repo.work_tree)
}

fn names(bytes: &[u8]) -> impl Iterator<Item = String> + '_ {
    let names = bytes.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    names.map(|name| String::from_utf8_lossy(name).into_owned())
}
