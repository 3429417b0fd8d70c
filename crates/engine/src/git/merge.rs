//! Merges two commits without a working copy, and remembers the commits that the engine pushed: only those may be
//! replaced on a branch.

use super::user_repo::parse_oid;
use super::{EngineRepo, GitError, GitErrorKind, Oid};

/// The longest diff that is compared with others.
const DIFF_MAX: usize = 1 << 20;
/// The most conflicting paths that are named.
const PATHS_MAX: usize = 20;

/// The result of a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MergedTree {
    /// The tree with both changes.
    Clean(Oid),
    /// The paths in which the changes conflict, the first ones.
    Conflict(Vec<String>),
}

impl EngineRepo {
    /// Merges the change of `head` into `base`. Nothing but objects is written.
    ///
    /// # Errors
    /// When one of them is not here, or they have no common history.
    pub async fn merge(&self, base: &Oid, head: &Oid) -> Result<MergedTree, GitError> {
        let call = self.call("git.merge-tree").args(["--write-tree", "--name-only", "--no-messages", "-z"]);
        let answer = self.git().run(call.args([base.as_str(), head.as_str()]).allow_exit_one()).await?;
        let text = String::from_utf8_lossy(&answer.stdout).into_owned();
        let mut parts = text.split('\0').filter(|part| !part.is_empty());
        let tree = parts.next().unwrap_or_default();
        match answer.code {
            Some(0) => parse_oid(tree.trim_end()).map(MergedTree::Clean),
            _ => Ok(MergedTree::Conflict(parts.take(PATHS_MAX).map(str::to_owned).collect())),
        }
    }

    /// A name for the change between two trees or commits that is the same on another base. `None` for a change that is
    /// too long, empty, or has binary files, which a diff does not show.
    ///
    /// # Errors
    /// `UnknownRef` when one of them is not here.
    pub async fn change_id(&self, from: &Oid, to: &Oid) -> Result<Option<String>, GitError> {
        let diff = self.unified_diff(from, to, DIFF_MAX).await?;
        if !diff.whole || diff.text.lines().any(|line| line.starts_with("Binary files ")) {
            return Ok(None);
        }
        let named = self.git().run(self.call("git.patch-id").arg("--stable").stdin(diff.text)).await?;
        Ok(named.line().split(' ').next().filter(|id| !id.is_empty()).map(str::to_owned))
    }

    /// Remembers that the engine pushes this commit as the head of this branch.
    ///
    /// # Errors
    /// When the branch's name is not valid, or git fails.
    pub async fn record_push(&self, branch: &str, commit: &Oid) -> Result<(), GitError> {
        let reference = pushed_ref(branch, commit);
        self.git().run(self.call("git.update-ref").args(["--", &reference, commit.as_str()])).await.map(drop)
    }

    /// Whether the engine pushed this commit as the head of this branch.
    ///
    /// # Errors
    /// When git fails.
    pub async fn was_pushed(&self, branch: &str, commit: &Oid) -> Result<bool, GitError> {
        Ok(self.resolve(&pushed_ref(branch, commit)).await?.as_ref() == Some(commit))
    }

    /// The first parent of a commit.
    ///
    /// # Errors
    /// `UnknownRef` when the commit is not here or has none.
    pub(crate) async fn parent_of(&self, commit: &Oid) -> Result<Oid, GitError> {
        let found = self.resolve(&format!("{commit}^1")).await?;
        found.ok_or_else(|| GitError::new("rev-parse", &[commit.to_string()], GitErrorKind::UnknownRef, b""))
    }
}

fn pushed_ref(branch: &str, commit: &Oid) -> String {
    format!("refs/loopwright/pushed/{branch}/{commit}")
}
