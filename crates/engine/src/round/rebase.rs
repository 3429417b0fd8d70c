//! Rebase: an open proposal is moved onto a newer base, in the engine's own repository. The merge is mechanical; a
//! conflict ends the round, and a loop that follows its own pull requests gets it as an item.

use super::StageError;
use super::context::{RoundContext, object_name, pinned_base};
use super::workspace_trouble;
use crate::git::{CommitMetadata, MergedTree};
use crate::workspace::{SealedTree, Workspace};
use loopwright_core::round::{RebaseOrigin, RoundFacts, Stage};

/// The proposal's change on the round's base, as a sealed tree.
pub(super) async fn rebased(
    cx: &RoundContext<'_>,
    facts: &RoundFacts,
    origin: &RebaseOrigin,
    workspace: &Workspace,
    words: &CommitMetadata,
) -> Result<SealedTree, StageError> {
    let broke = |error: &dyn std::error::Error| StageError::broke(Stage::Seal, "rebase", error);
    let (base, head) = (pinned_base(facts)?, object_name(Some(&origin.commit))?);
    let tree = match cx.objects().merge(&base, &head).await.map_err(|error| broke(&error))? {
        MergedTree::Clean(tree) => tree,
        MergedTree::Conflict(paths) => {
            let text = format!("the proposal conflicts with base in {}", paths.join(", "));
            return Err(StageError::failed(Stage::Seal, "conflict", text));
        }
    };
    let commit = cx.objects().commit(&tree, &base, words).await.map_err(|error| broke(&error))?;
    cx.workspaces.read_sealed(workspace, &commit).await.map_err(workspace_trouble(Stage::Seal))
}
