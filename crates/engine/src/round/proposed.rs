//! The search for an earlier proposal of the same change. A loop without a probe makes the same change again and again;
//! people see it once. A merged proposal does not count: its change may have been reverted.

use super::StageError;
use super::bindings::DeliveryOutlet;
use super::context::RoundContext;
use crate::probe::read_forge;
use crate::store::{OutboxRow, OutboxState};
use loopwright_core::forge::{ForgeError, ItemState, PullRequest};
use loopwright_core::round::{RoundFacts, Stage};
use loopwright_core::spec::ActionKind;

/// The most earlier proposals whose branches are looked up.
const BRANCHES_MAX: usize = 20;

/// The reason why a sealed tree is not proposed: a round of the loop has proposed it before. The outbox decides, not the
/// outcome of the round: a pull request may be there although another item of its round failed.
pub(super) async fn proposed_before(
    cx: &RoundContext<'_>,
    facts: &RoundFacts,
    tree: &str,
) -> Result<Option<String>, StageError> {
    // The local forge is a folder of this machine, where a repeated proposal disturbs no other person.
    let is_forge = matches!(cx.bind.outlet, DeliveryOutlet::NamedForge);
    let (started, spec) = (&facts.started, &facts.started.spec);
    if !is_forge || !spec.outputs(ActionKind::PullRequest) {
        return Ok(None);
    }
    let mut earlier = cx.engine.store.outbox_of_tree(&started.repo, &spec.name, tree).await?;
    earlier.retain(|row| row.round != started.round && row.kind == ActionKind::PullRequest.word());
    let is_pending = |row: &&OutboxRow| !matches!(row.state, OutboxState::Sent | OutboxState::InDoubt);
    if let Some(row) = earlier.iter().find(is_pending) {
        return Ok(Some(format!("round {} has the same change, which waits or is being sent", row.round)));
    }
    earlier.truncate(BRANCHES_MAX);
    let found = pull_of(cx, facts, &earlier).await;
    Ok(found.map_err(|error| StageError::broke(Stage::Seal, "forge", &error))?.map(|pull| {
        let state = if pull.about.state == ItemState::Open { "open" } else { "closed" };
        format!("pull request {} has the same change and is {state}", pull.about.number)
    }))
}

/// The open or closed pull request of one of these items.
async fn pull_of(
    cx: &RoundContext<'_>,
    facts: &RoundFacts,
    earlier: &[OutboxRow],
) -> Result<Option<PullRequest>, ForgeError> {
    if earlier.is_empty() {
        return Ok(None);
    }
    let forge = read_forge(cx.engine, &facts.started.spec, &cx.repo.id, &cx.repo.work_tree).await?;
    let base = facts.branch.as_deref().unwrap_or("main");
    for row in earlier {
        let branch = format!("loop/{}/{}", row.loop_name, row.round);
        let pulls = forge.branch_pulls(&branch, base).await?;
        let proposed = pulls.into_iter().find(|pull| pull.about.state != ItemState::Merged);
        if proposed.is_some() {
            return Ok(proposed);
        }
    }
    Ok(None)
}
