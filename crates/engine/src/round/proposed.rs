//! The search for an earlier proposal of the same change. A loop without a probe makes the same change again and again;
//! people see it once. A merged proposal does not count: its change may have been reverted.

use super::StageError;
use super::bindings::DeliveryOutlet;
use super::context::{RoundContext, object_name, pinned_base};
use super::send::proposal_branch;
use crate::probe::read_forge;
use crate::store::{OutboxRow, OutboxState};
use loopwright_core::forge::{ForgeError, ItemQuery, ItemState, PullRequest, read_rows};
use loopwright_core::round::{RoundFacts, RoundPhase, RoundStarted, Stage};
use loopwright_core::spec::ActionKind;
use std::num::NonZeroUsize;

/// The most earlier proposals whose change is compared.
const COMPARED_MAX: u32 = 20;
/// The most earlier proposals whose branches are looked up.
const BRANCHES_MAX: usize = 20;
/// The most open pull requests of a loop that are read.
const OPEN_MAX: NonZeroUsize = NonZeroUsize::new(1_000).expect("not zero");

/// The reason why a sealed tree is not proposed: a round of the loop has proposed it before. The outbox decides, not the
/// outcome of the round: a pull request may be there although another item of its round failed.
pub(super) async fn proposed_before(
    cx: &RoundContext<'_>,
    facts: &RoundFacts,
    tree: &str,
) -> Result<Option<String>, StageError> {
    if !facts.started.spec.outputs(ActionKind::PullRequest) {
        return Ok(None);
    }
    match cx.bind.outlet {
        DeliveryOutlet::NamedForge => on_named_forge(cx, facts, tree).await,
        DeliveryOutlet::LocalForge => on_local_forge(cx, facts, tree).await,
        _ => Ok(None),
    }
}

/// On a forge of other people, a proposal that waits or that a person closed counts as well.
async fn on_named_forge(cx: &RoundContext<'_>, facts: &RoundFacts, tree: &str) -> Result<Option<String>, StageError> {
    let (started, spec) = (&facts.started, &facts.started.spec);
    let mut earlier = cx.engine.store.outbox_of_tree(&started.repo, &spec.name, tree).await?;
    earlier.retain(|row| row.round != started.round && row.kind == ActionKind::PullRequest);
    let is_pending = |row: &&OutboxRow| !matches!(row.state, OutboxState::Sent | OutboxState::InDoubt);
    if let Some(row) = earlier.iter().find(is_pending) {
        return Ok(Some(format!("round {} has the same change, which waits or is being sent", row.round)));
    }
    let mut rounds: Vec<String> = earlier.into_iter().map(|row| row.round).collect();
    rounds.extend(same_change(cx, facts, tree, &|_| true).await?);
    rounds.truncate(BRANCHES_MAX);
    for round in &rounds {
        if is_waiting(cx, round).await? {
            return Ok(Some(format!("round {round} has the same change, which waits for a person")));
        }
    }
    Ok(pull_of(cx, facts, &rounds).await.map_err(unreadable)?.map(|pull| sentence(&pull)))
}

/// The local forge is a folder of this machine: only a pull request that is still open counts. A person who closes it or
/// deletes its page can have the change again, and the inbox shows identical candidates that wait as one question.
async fn on_local_forge(cx: &RoundContext<'_>, facts: &RoundFacts, tree: &str) -> Result<Option<String>, StageError> {
    let open = open_pulls(cx, facts).await.map_err(unreadable)?;
    if open.is_empty() {
        return Ok(None);
    }
    let is_open = |earlier: &RoundStarted| open.iter().any(|pull| pull.branch == proposal_branch(earlier));
    let same = same_change(cx, facts, tree, &is_open).await?;
    let Some(round) = same.first() else { return Ok(None) };
    let (branch, _) = origin_of(cx, facts, round).await;
    Ok(open.iter().find(|pull| pull.branch == branch).map(sentence))
}

fn unreadable(error: ForgeError) -> StageError {
    StageError::broke(Stage::Seal, "forge", &error)
}

fn sentence(pull: &PullRequest) -> String {
    let state = match pull.about.state {
        ItemState::Open => "open",
        ItemState::Closed => "closed",
        ItemState::Merged => "merged; fetch its base before the next round",
    };
    format!("pull request {} has the same change and is {state}", pull.about.number)
}

/// The loop's open pull requests to the branch of this round.
async fn open_pulls(cx: &RoundContext<'_>, facts: &RoundFacts) -> Result<Vec<PullRequest>, ForgeError> {
    let forge = read_forge(cx.engine, &facts.started.spec, &cx.repo.id, &cx.repo.work_tree).await?;
    let query = &ItemQuery {
        loop_name: Some(facts.started.spec.name.clone()),
        base_branch: Some(base_branch(facts).to_owned()),
        ..ItemQuery::open()
    };
    let forge = forge.as_ref();
    read_rows(OPEN_MAX, |from| Box::pin(async move { forge.pulls(query, from.as_ref()).await })).await
}

fn base_branch(facts: &RoundFacts) -> &str {
    facts.branch.as_deref().unwrap_or("main")
}

/// The earlier rounds of the loop with the same change, also on another base: base moved, and the change is still the
/// same.
async fn same_change(
    cx: &RoundContext<'_>,
    facts: &RoundFacts,
    tree: &str,
    is_wanted: &(dyn Fn(&RoundStarted) -> bool + Sync),
) -> Result<Vec<String>, StageError> {
    let (started, objects) = (&facts.started, cx.objects());
    let rounds = cx.engine.store.proposing_rounds(&started.repo, &started.spec.name, COMPARED_MAX).await?;
    if rounds.iter().all(|round| *round == started.round) {
        return Ok(Vec::new());
    }
    let broke = |error: &dyn std::error::Error| StageError::broke(Stage::Seal, "compare", error);
    let own =
        objects.change_id(&pinned_base(facts)?, &object_name(Some(tree))?).await.map_err(|error| broke(&error))?;
    let mut same = Vec::new();
    for round in rounds.into_iter().filter(|round| *round != started.round) {
        // A record or objects that are gone cannot be compared.
        let Ok(recorded) = cx.engine.load_round(&round).await else { continue };
        let facts = recorded.round.facts();
        if !is_wanted(&facts.started) {
            continue;
        }
        let attempt = facts.attempt();
        if attempt.and_then(|attempt| attempt.tree.as_deref()) == Some(tree) {
            same.push(round);
            continue;
        }
        // A change without an id, such as one of binary files, is compared by its tree only.
        let commit = attempt.and_then(|attempt| attempt.commit.as_deref()?.parse().ok());
        let (Some(own), Some(commit), Ok(base)) = (&own, commit, pinned_base(facts)) else { continue };
        if objects.change_id(&base, &commit).await.ok().flatten().as_ref() == Some(own) {
            same.push(round);
        }
    }
    Ok(same)
}

async fn is_waiting(cx: &RoundContext<'_>, round: &str) -> Result<bool, StageError> {
    Ok(cx.engine.store.round(round).await?.is_some_and(|row| row.phase == RoundPhase::Waiting))
}

/// The open or closed pull request of one of these items. A merged one counts as long as this round starts from the same
/// base: the user's clone does not have the merge yet. Later, the same change is only possible after it was undone.
async fn pull_of(
    cx: &RoundContext<'_>,
    facts: &RoundFacts,
    earlier: &[String],
) -> Result<Option<PullRequest>, ForgeError> {
    if earlier.is_empty() {
        return Ok(None);
    }
    let forge = read_forge(cx.engine, &facts.started.spec, &cx.repo.id, &cx.repo.work_tree).await?;
    for round in earlier {
        let (branch, base) = origin_of(cx, facts, round).await;
        let pulls = forge.branch_pulls(&branch, base_branch(facts)).await?;
        let counts = |pull: &PullRequest| pull.about.state != ItemState::Merged || base == facts.base;
        let proposed = pulls.into_iter().find(counts);
        if proposed.is_some() {
            return Ok(proposed);
        }
    }
    Ok(None)
}

/// The branch on which a round proposed its change, and the base that it started from. A round whose record is gone
/// proposed it under its own name.
async fn origin_of(cx: &RoundContext<'_>, facts: &RoundFacts, round: &str) -> (String, Option<String>) {
    match cx.engine.load_round(round).await {
        Ok(recorded) => {
            let earlier = recorded.round.facts();
            (proposal_branch(&earlier.started), earlier.base.clone())
        }
        Err(_) => (format!("loop/{}/{round}", facts.started.spec.name), None),
    }
}
