//! Where a change landed on base, and whether it was undone later: from the history of base in the user's repository
//! and in the local forge. Nothing is fetched; a clone that has not seen the merge says nothing.

use crate::engine::Engine;
use crate::git::{Git, GitCall};
use loopwright_core::round::RoundStarted;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The most commits of base that are read.
const COMMITS_MAX: usize = 500;
/// The most commits of base of which the content is compared.
const COMPARED_MAX: usize = 20;
/// The most changed files of which the content is compared.
const PATHS_MAX: usize = 200;

type Blobs = BTreeMap<String, String>;

/// The content of the changed files, before and after the change.
pub(super) struct ChangedBlobs {
    paths: Vec<String>,
    before: Blobs,
    after: Blobs,
}

impl ChangedBlobs {
    /// Reads it from the engine's repository; `None` if the objects are gone.
    pub(super) async fn read(engine: &Engine, started: &RoundStarted, base: &str, commit: &str) -> Option<Self> {
        let repo = engine.git.discover(Path::new(&started.repo_path)).await.ok()?;
        let spaces = engine.workspaces(repo).await.ok()?;
        let (git, dir) = (&engine.git, spaces.engine().dir().to_owned());
        let call = GitCall::new("git.diff-tree").git_dir(&dir).args(["-r", "-z", "--no-renames", "--name-only"]);
        let names = git.run(call.args([base, commit])).await.ok()?;
        let names = names.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        let paths: Vec<_> = names.map(|name| String::from_utf8_lossy(name).into_owned()).take(PATHS_MAX).collect();
        let (before, after) = (blobs_in(git, &dir, base, &paths).await?, blobs_in(git, &dir, commit, &paths).await?);
        (!paths.is_empty()).then_some(Self { paths, before, after })
    }
}

/// The evidence about a change in the history of base.
#[derive(Debug, Default)]
pub(super) struct LandedChange {
    /// Whether people changed it while they merged it.
    pub(super) is_edited: bool,
    /// The commit that undid it, or how it was undone.
    pub(super) reverted_by: Option<String>,
}

/// The history of the branch that a change was proposed for.
pub(super) struct BaseHistory<'a> {
    pub(super) engine: &'a Engine,
    pub(super) started: &'a RoundStarted,
    pub(super) branch: &'a str,
    /// The commit that was sent.
    pub(super) commit: &'a str,
    /// The number of the pull request.
    pub(super) number: Option<u64>,
}

/// One commit of base.
struct BaseCommit {
    id: String,
    parents: Vec<String>,
    message: String,
}

impl BaseHistory<'_> {
    /// Looks at every copy of base on this machine; the first that saw the change undone decides.
    pub(super) async fn look(&self, base: &str, blobs: &ChangedBlobs) -> LandedChange {
        let mut found = LandedChange::default();
        for (dir, tip) in self.tips().await {
            let commits = self.commits(&dir, &tip, base).await;
            let one = self.look_at(&dir, &tip, &commits, blobs).await;
            found.is_edited |= one.is_edited;
            if one.reverted_by.is_some() {
                return one;
            }
        }
        found
    }

    /// The repositories that have the branch, with its tips there.
    async fn tips(&self) -> Vec<(PathBuf, String)> {
        let engine = self.engine;
        let mut dirs = vec![engine.state_dir.forge(&self.started.repo).join("repo.git")];
        if let Ok(repo) = engine.git.discover(Path::new(&self.started.repo_path)).await {
            dirs.push(repo.git_dir);
        }
        let mut tips = Vec::new();
        for dir in dirs.into_iter().filter(|dir| dir.exists()) {
            let call = GitCall::new("git.for-each-ref").git_dir(&dir).arg("--format=%(objectname)");
            let call = call.arg(format!("refs/heads/{}", self.branch)).arg(format!("refs/remotes/*/{}", self.branch));
            let Ok(answer) = engine.git.run(call).await else { continue };
            let text = String::from_utf8_lossy(&answer.stdout).into_owned();
            tips.extend(text.lines().map(|tip| (dir.clone(), tip.to_owned())));
        }
        tips
    }

    /// The commits of base after the one that the change started from, latest first.
    async fn commits(&self, dir: &Path, tip: &str, base: &str) -> Vec<BaseCommit> {
        let format = "--format=%H%x00%P%x00%B%x1e";
        let call = |rest: &[String]| {
            let call =
                GitCall::new("git.log").git_dir(dir).args(["--no-color", "-n", &COMMITS_MAX.to_string(), format]);
            call.args(rest).arg("--")
        };
        let git = &self.engine.git;
        // A repository that does not have the base cannot leave it out.
        let answer = match git.run(call(&[tip.to_owned(), format!("^{base}")])).await {
            Ok(answer) => Ok(answer),
            Err(_) => git.run(call(&[tip.to_owned()])).await,
        };
        let text = answer.map(|answer| String::from_utf8_lossy(&answer.stdout).into_owned()).unwrap_or_default();
        text.split('\u{1e}').filter_map(base_commit).collect()
    }

    async fn look_at(&self, dir: &Path, tip: &str, commits: &[BaseCommit], blobs: &ChangedBlobs) -> LandedChange {
        let named = |commit: &&BaseCommit| self.is_landing(commit);
        let git = &self.engine.git;
        let mut landed: Vec<&BaseCommit> = commits.iter().filter(named).collect();
        let mut is_whole = false;
        for commit in self.touching(dir, tip, commits, &blobs.paths).await {
            if blobs_in(git, dir, &commit.id, &blobs.paths).await.as_ref() == Some(&blobs.after) {
                is_whole = true;
                landed.push(commit);
                break;
            }
        }
        if landed.is_empty() {
            return LandedChange::default();
        }
        let reverting = commits.iter().find(|commit| {
            let undoes = |id: &str| commit.message.contains(&format!("This reverts commit {id}"));
            undoes(self.commit) || landed.iter().any(|landing| undoes(&landing.id))
        });
        let by = match reverting {
            Some(commit) => Some(format!("commit {} reverts it", commit.id)),
            None if is_whole && blobs_in(git, dir, tip, &blobs.paths).await.as_ref() == Some(&blobs.before) => {
                Some(format!("base at {tip} has the content from before the change"))
            }
            None => None,
        };
        LandedChange { is_edited: !is_whole, reverted_by: by }
    }

    /// The commits that touch the changed files.
    async fn touching<'c>(
        &self,
        dir: &Path,
        tip: &str,
        commits: &'c [BaseCommit],
        paths: &[String],
    ) -> Vec<&'c BaseCommit> {
        let limit = COMPARED_MAX.to_string();
        // A name of a file is never a pattern.
        let call = GitCall::new("git.log").git_dir(dir).env("GIT_LITERAL_PATHSPECS", "1");
        let call = call.args(["--no-color", "--format=%H", "-n", &limit, tip, "--"]).args(paths);
        let answer = self.engine.git.run(call).await;
        let text = answer.map(|answer| String::from_utf8_lossy(&answer.stdout).into_owned()).unwrap_or_default();
        text.lines().filter_map(|id| commits.iter().find(|commit| commit.id == id)).collect()
    }

    /// Whether a commit of base brought the change: the commit itself, a merge of it, or a squash that names it.
    fn is_landing(&self, commit: &BaseCommit) -> bool {
        let names_pull = self.number.is_some_and(|number| {
            let subject = commit.message.lines().next().unwrap_or_default();
            subject.ends_with(&format!("(#{number})")) || commit.message.contains(&format!("merge request !{number}\n"))
        });
        commit.id == self.commit || commit.parents.iter().any(|parent| parent == self.commit) || names_pull
    }
}

fn base_commit(record: &str) -> Option<BaseCommit> {
    let mut parts = record.trim_start_matches('\n').splitn(3, '\0');
    let id = parts.next().filter(|id| !id.is_empty())?.to_owned();
    let parents = parts.next()?.split(' ').map(str::to_owned).collect();
    Some(BaseCommit { id, parents, message: parts.next().unwrap_or_default().to_owned() })
}

/// The object of each of these files in a commit; files that are not there are left out.
async fn blobs_in(git: &Git, dir: &Path, commit: &str, paths: &[String]) -> Option<Blobs> {
    let call = GitCall::new("git.ls-tree").git_dir(dir).args(["-r", "-z", "--full-tree", commit, "--"]);
    let answer = git.run(call.args(paths)).await.ok()?;
    let text = String::from_utf8_lossy(&answer.stdout).into_owned();
    let entry = |line: &str| {
        let (facts, path) = line.split_once('\t')?;
        Some((path.to_owned(), facts.rsplit(' ').next()?.to_owned()))
    };
    Some(text.split('\0').filter_map(entry).collect())
}
