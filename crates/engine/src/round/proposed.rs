//! The search for an earlier proposal of the same change. A loop without a probe makes the same change again and again;
//! people see it once. A merged proposal does not count: its change may have been reverted.

use super::StageError;
use super::bindings::DeliveryOutlet;
use super::context::RoundContext;
use crate::probe::read_forge;
use crate::store::{OutboxState, RoundRow, RoundsFilter, RoundsQuery};
use loopwright_core::forge::{ForgeError, ItemQuery, ItemState, PullRequest, ReadForge, read_rows};
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::round::{RoundFacts, RoundPhase, Stage};
use loopwright_core::spec::{ActionKind, LoopSpec};
use std::num::NonZeroUsize;

/// The number of earlier rounds that are searched.
const ROUNDS_MAX: u32 = 500;

/// The number of pull requests that are searched for those of the earlier rounds.
const PULLS_MAX: NonZeroUsize = NonZeroUsize::new(1000).expect("it is not zero");

/// The reason why a sealed tree is not proposed: a round of the loop has proposed it before.
pub(super) async fn proposed_before(
    cx: &RoundContext<'_>,
    facts: &RoundFacts,
    tree: &str,
) -> Result<Option<String>, StageError> {
    let is_named = matches!(cx.bind.outlet, DeliveryOutlet::NamedForge);
    if !is_named || !facts.started.spec.outputs(ActionKind::PullRequest) {
        return Ok(None);
    }
    let earlier = rounds_with_tree(cx, facts, tree).await?;
    if let Some(waiting) = earlier.iter().find(|row| row.phase == RoundPhase::Waiting) {
        return Ok(Some(format!("round {} has the same change and waits for a person", waiting.id)));
    }
    let mut shipped = Vec::new();
    for row in earlier.into_iter().filter(|row| row.outcome == Some(RoundOutcome::Shipped)) {
        let items = cx.engine.store.outbox(&row.id).await?;
        let is_pull = |kind: &str| kind == ActionKind::PullRequest.word();
        if items.iter().any(|item| item.state == OutboxState::Sent && is_pull(&item.kind)) {
            shipped.push(format!("loop/{}/{}", row.loop_name, row.id));
        }
    }
    if shipped.is_empty() {
        return Ok(None);
    }
    let found = pull_of(cx, &facts.started.spec, &shipped).await;
    Ok(found.map_err(|error| StageError::broke(Stage::Seal, "forge", &error))?.map(|pull| {
        let state = if pull.about.state == ItemState::Open { "open" } else { "closed" };
        format!("pull request {} has the same change and is {state}", pull.about.number)
    }))
}

async fn rounds_with_tree(cx: &RoundContext<'_>, facts: &RoundFacts, tree: &str) -> Result<Vec<RoundRow>, StageError> {
    let started = &facts.started;
    let query = RoundsQuery {
        repo: Some(started.repo.clone()),
        loop_name: Some(started.spec.name.clone()),
        which: RoundsFilter::All,
        limit: ROUNDS_MAX,
        ..RoundsQuery::default()
    };
    let mut rows = cx.engine.store.rounds(query).await?;
    rows.retain(|row| row.id != started.round && row.tree.as_deref() == Some(tree));
    Ok(rows)
}

/// The open or closed pull request with one of these branches.
async fn pull_of(
    cx: &RoundContext<'_>,
    spec: &LoopSpec,
    branches: &[String],
) -> Result<Option<PullRequest>, ForgeError> {
    let forge = read_forge(cx.engine, spec, &cx.repo.id, &cx.repo.work_tree).await?;
    let forge: &dyn ReadForge = forge.as_ref();
    let query = ItemQuery { loop_name: Some(spec.name.clone()), ..ItemQuery::default() };
    let query = &query;
    let pulls = read_rows(PULLS_MAX, |from| Box::pin(async move { forge.pulls(query, from.as_ref()).await }));
    let is_ours = |pull: &PullRequest| branches.contains(&pull.branch) && pull.about.state != ItemState::Merged;
    Ok(pulls.await?.into_iter().find(is_ours))
}
