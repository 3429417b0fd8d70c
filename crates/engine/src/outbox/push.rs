//! Pushes commits to the local forge's repository: only the tree that passed, never over other people's commits, and
//! with the same result for any number of attempts.

use super::PushRoute;
use crate::git::{EngineRepo, ForgeRepo, GitCall, GitError, GitErrorKind, ObjectFormat, Oid};
use loopwright_core::deliver::{DeliverError, Delivery, PushTarget};
use std::path::Path;

/// The commit of a delivery, with the tree that it must have.
pub(super) struct PassedCommit {
    commit: Oid,
    tree: Oid,
}

impl PassedCommit {
    /// Checks that the commit carries the tree that passed.
    pub(super) async fn from_delivery(item: &Delivery, engine: &EngineRepo) -> Result<Self, DeliverError> {
        let missing = || DeliverError::refused(format!("{} without a change to push", item.item.kind));
        let commit = oid(item.commit.as_deref().ok_or_else(missing)?)?;
        let tree = oid(item.tree.as_deref().ok_or_else(missing)?)?;
        let carried = engine.tree_of(&commit).await.map_err(push_failed)?;
        if carried != tree {
            return Err(DeliverError::refused(format!(
                "the commit's tree is {carried}, the tree that passed is {tree}"
            )));
        }
        Ok(Self { commit, tree })
    }

    pub(super) fn head(&self) -> String {
        self.commit.to_string()
    }

    /// Remembers the push before it happens: only a commit of the engine's own may be replaced later.
    pub(super) async fn record(&self, engine: &EngineRepo, branch: &str) -> Result<(), DeliverError> {
        engine.record_push(branch, &self.commit).await.map_err(push_failed)
    }

    /// Pushes the commit to a remote forge.
    pub(super) async fn push_to(
        &self,
        engine: &EngineRepo,
        target: &PushTarget,
        route: Option<&PushRoute>,
    ) -> Result<(), DeliverError> {
        let pushed = engine.push_to(&self.commit, &self.tree, target, route).await;
        pushed.map_err(|error| push_rejected(error, &target.branch))
    }

    /// Puts the commit on the round's branch.
    pub(super) async fn push(
        &self,
        item: &Delivery,
        engine: &EngineRepo,
        forge: &ForgeRepo,
    ) -> Result<(), DeliverError> {
        seed_base(item, engine, forge).await?;
        let branch = &item.branch;
        if forge.branch(branch).await.map_err(push_failed)?.is_none() {
            self.record(engine, branch).await?;
        }
        match forge.branch(branch).await.map_err(push_failed)? {
            Some(there) if there == self.commit => Ok(()),
            Some(there) if contains(engine, forge, &there, &self.commit).await? => {
                Err(DeliverError::in_doubt(format!("`{branch}` has further commits on top of ours")))
            }
            Some(there) if engine.was_pushed(branch, &there).await.map_err(push_failed)? => {
                self.record(engine, branch).await?;
                let moved = forge.push(engine, &self.commit, &self.tree, branch, Some(&there)).await;
                moved.map(drop).map_err(refused_if_moved)
            }
            Some(there) => Err(DeliverError::refused(format!("`{branch}` is at {there}, which is not ours"))),
            None => match forge.push(engine, &self.commit, &self.tree, branch, None).await {
                Ok(_) => Ok(()),
                // Another deliverer of the same item may have pushed first.
                Err(error) if forge.branch(branch).await.map_err(push_failed)? == Some(self.commit.clone()) => {
                    drop_error(error)
                }
                Err(error) => Err(refused_if_moved(error)),
            },
        }
    }

    /// Moves the base branch forward to the commit.
    pub(super) async fn fast_forward(
        &self,
        item: &Delivery,
        engine: &EngineRepo,
        forge: &ForgeRepo,
    ) -> Result<(), DeliverError> {
        seed_base(item, engine, forge).await?;
        let branch = &item.base_branch;
        if let Some(there) = forge.branch(branch).await.map_err(push_failed)?
            && contains(engine, forge, &there, &self.commit).await?
        {
            return Ok(());
        }
        forge.fast_forward(engine, &self.commit, &self.tree, branch).await.map(drop).map_err(refused_if_moved)
    }
}

/// Opens the forge's repository, with the engine's object format.
pub(super) async fn open(root: &Path, item: &Delivery, engine: &EngineRepo) -> Result<ForgeRepo, DeliverError> {
    let format = if item.base_commit.len() == 64 { ObjectFormat::Sha256 } else { ObjectFormat::Sha1 };
    ForgeRepo::open(engine.git().clone(), root.join("repo.git"), format).await.map_err(push_failed)
}

/// On first use the base branch starts at the commit that the round started from.
async fn seed_base(item: &Delivery, engine: &EngineRepo, forge: &ForgeRepo) -> Result<(), DeliverError> {
    if forge.branch(&item.base_branch).await.map_err(push_failed)?.is_some() {
        return Ok(());
    }
    let base = oid(&item.base_commit)?;
    let tree = engine.tree_of(&base).await.map_err(push_failed)?;
    match forge.push(engine, &base, &tree, &item.base_branch, None).await {
        Ok(_) => Ok(()),
        Err(_) if forge.branch(&item.base_branch).await.map_err(push_failed)?.is_some() => Ok(()),
        Err(error) => Err(push_failed(error)),
    }
}

/// Whether a commit of the forge has another one in its history.
async fn contains(engine: &EngineRepo, forge: &ForgeRepo, there: &Oid, commit: &Oid) -> Result<bool, DeliverError> {
    let call = GitCall::new("git.merge-base").git_dir(forge.dir());
    let call = call.args(["--is-ancestor", commit.as_str(), there.as_str()]);
    // If the forge does not have the commit yet, git reports an error, which means no here.
    Ok(engine.git().ask(&call).await.map_err(push_failed)?.code == Some(0))
}

fn oid(text: &str) -> Result<Oid, DeliverError> {
    text.parse().map_err(|error: crate::git::BadOid| DeliverError::refused(error.to_string()))
}

fn drop_error(_: GitError) -> Result<(), DeliverError> {
    Ok(())
}

/// Pushing again is safe, so any failure is transient.
pub(super) fn push_failed(error: GitError) -> DeliverError {
    DeliverError::transient(error.to_string())
}

/// A forge that denies a push accepts it after a person changed the token, its scopes, the protection of the branch, or
/// the repository.
fn push_rejected(error: GitError, branch: &str) -> DeliverError {
    match error.kind {
        GitErrorKind::Denied => DeliverError::blocked(format!(
            "the forge denies the push to `{branch}`; let the account push there (the token's permissions, the branch's \
             protection): {error}"
        )),
        _ => refused_if_moved(error),
    }
}

pub(super) fn refused_if_moved(error: GitError) -> DeliverError {
    match error.kind {
        GitErrorKind::Moved | GitErrorKind::Denied => DeliverError::refused(error.to_string()),
        _ => push_failed(error),
    }
}
