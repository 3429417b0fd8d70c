//! Keeps the engine's bare repositories small: removes refs that nothing needs any more, and packs refs and objects. A
//! round never does this: its cost does not depend on the number of refs or loose objects.

use std::path::Path;
use std::time::Duration;

use super::{EngineRepo, Git, GitCall, GitError, TREE_MAX};

/// A repository with many large files takes minutes.
const PACK_DEADLINE: Duration = Duration::from_secs(30 * 60);

/// The prefix of every ref that the engine makes.
const PREFIX: &str = "refs/loopwright/";

/// The owner of a ref of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefOwner<'r> {
    /// A prepared base, by its commit.
    Base(&'r str),
    /// A round, by its id.
    Round(&'r str),
}

/// How many objects may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ObjectPruning {
    /// No process writes objects here now, so every object that no ref reaches goes.
    All,
    /// A process may be writing objects that no ref reaches yet. Only loose ones of yesterday and before go.
    Old,
}

impl<'r> RefOwner<'r> {
    /// `None` for a ref that is not the engine's.
    pub(crate) fn of(reference: &'r str) -> Option<Self> {
        let (owner, name) = reference.strip_prefix(PREFIX)?.split_once('/')?;
        match owner {
            "base" => Some(Self::Base(name)),
            // The record of a push has the name of the branch, which ends with the round that created it.
            "pushed" => name.rsplit('/').nth(1).map(Self::Round),
            round => Some(Self::Round(round)),
        }
    }
}

impl EngineRepo {
    /// The names of all refs.
    pub(crate) async fn refs(&self) -> Result<Vec<String>, GitError> {
        let call = self.call("git.for-each-ref").args(["--format=%(refname)", PREFIX]).out_max(TREE_MAX);
        let answer = self.git().run(call).await?;
        Ok(String::from_utf8_lossy(&answer.stdout).lines().map(str::to_owned).collect())
    }

    /// Removes refs, all or none of them.
    pub(crate) async fn remove_refs(&self, refs: &[String]) -> Result<(), GitError> {
        if refs.is_empty() {
            return Ok(());
        }
        let removals: String = refs.iter().map(|name| format!("delete {name}\n")).collect();
        let call = self.call("git.update-ref").arg("--stdin").stdin(format!("start\n{removals}commit\n"));
        self.git().run(call).await.map(drop)
    }
}

impl EngineRepo {
    /// Packs refs and objects, and removes objects that no ref reaches.
    pub(crate) async fn compact(&self, pruning: ObjectPruning) -> Result<(), GitError> {
        let call = self.call("git.pack-refs").deadline(PACK_DEADLINE).args(["--all", "--prune"]);
        self.git().run(call).await?;
        pack_objects(self.git(), self.dir(), pruning).await
    }
}

/// Packs the objects of a bare repository, and removes those that no ref reaches.
pub(crate) async fn pack_objects(git: &Git, dir: &Path, pruning: ObjectPruning) -> Result<(), GitError> {
    let call = |site: &'static str| GitCall::new(site).git_dir(dir).deadline(PACK_DEADLINE);
    // With `--geometric`, git combines small packs and never drops an object.
    let (way, age) = match pruning {
        ObjectPruning::All => ("-a", "--expire=now"),
        ObjectPruning::Old => ("--geometric=2", "--expire=1.day.ago"),
    };
    git.run(call("git.repack").args(["-d", "-l", "-q", way])).await?;
    git.run(call("git.prune").arg(age)).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refs_belong_to_bases_and_rounds() {
        assert_eq!(RefOwner::of("refs/loopwright/base/abc"), Some(RefOwner::Base("abc")));
        assert_eq!(RefOwner::of("refs/loopwright/r01/attempt-1"), Some(RefOwner::Round("r01")));
        assert_eq!(RefOwner::of("refs/loopwright/pushed/loop/fix/r01/abc"), Some(RefOwner::Round("r01")));
        for other in ["refs/heads/main", "refs/loopwright/odd", "HEAD"] {
            assert_eq!(RefOwner::of(other), None, "{other}");
        }
    }
}
