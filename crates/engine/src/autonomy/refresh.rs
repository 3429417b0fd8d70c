//! Moves open proposals whose base has moved: each one is merged onto the new base in the engine's repository, and
//! a round gates, checks and seals it before the branch is updated. A branch with other people's commits is left alone,
//! and a conflict is an item for a loop that follows its own pull requests.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::git::{GitError, MergedTree, Oid};
use crate::probe::read_forge;
use crate::proc::CancelToken;
use crate::round::{DeliveryOutlet, LoopBindings, RunRequest, delivery, sent_commit};
use crate::store::{StoreError, StoreErrorKind, WorkRow};
use crate::takeover::RoundBinder;
use crate::workspace::Workspaces;
use loopwright_core::deliver::Delivery;
use loopwright_core::forge::{ItemState, PullRequest};
use loopwright_core::report::RoundReport;
use loopwright_core::round::{RebaseOrigin, Round};
use loopwright_core::spec::ActionKind;
use std::path::Path;

/// The trigger of a round that moves a proposal.
pub(crate) const BASE_MOVED: &str = "base-moved";
/// The most proposals that one pass looks at.
const WORKS_MAX: u32 = 500;
/// The most open questions that are searched for an earlier move.
const INBOX_MAX: u32 = 1000;

/// A proposal whose base has moved, ready to be moved onto it.
struct MovedProposal {
    engine: Engine,
    bind: LoopBindings,
    request: RunRequest,
}

/// Moves every open proposal whose base has moved, each in a round of its own. A loop that is paused or busy, and a
/// forge that cannot be read, are left for the next pass.
///
/// # Errors
/// When the store cannot be read.
pub async fn rebase_proposals(
    engine: &Engine,
    rebind: &dyn RoundBinder,
    cancel: &CancelToken,
) -> Result<Vec<RoundReport>, EngineError> {
    let mut reports = Vec::new();
    for work in engine.store.sent_proposals(WORKS_MAX).await? {
        if cancel.is_cancelled() || engine.global_stop().await?.is_some() {
            continue;
        }
        let Some(moved) = moved(engine, rebind, &work).await? else { continue };
        match moved.engine.run(moved.request, &moved.bind, cancel).await {
            Ok(report) => reports.push(report),
            // The proposal was tried on this base before.
            Err(EngineError::Store(StoreError { kind: StoreErrorKind::Occurrence { .. }, .. })) => {}
            Err(EngineError::Busy { .. }) => {}
            Err(error) => {
                let text = format!("the proposal of round {} was not moved: {error}", work.round);
                engine.events().warn(engine.now_ms(), &text);
            }
        }
    }
    Ok(reports)
}

/// The proposal, if its base has moved and nothing prevents the move.
async fn moved(
    engine: &Engine,
    rebind: &dyn RoundBinder,
    work: &WorkRow,
) -> Result<Option<MovedProposal>, EngineError> {
    let paused = engine.store.schedule(&work.repo, &work.loop_name).await?.is_some_and(|row| row.paused_ms.is_some());
    let Ok(recorded) = engine.load_round(&work.round).await else { return Ok(None) };
    if paused || is_moving(engine, &work.round).await? {
        return Ok(None);
    }
    let started = recorded.round.facts().started.clone();
    let (engine, bind) = rebind.rebind(engine, &started);
    if !matches!(bind.outlet, DeliveryOutlet::LocalForge | DeliveryOutlet::NamedForge) {
        return Ok(None);
    }
    // A repository or a forge that cannot be read now is left for the next pass.
    let Ok(Some(found)) = find_moved(&engine, work, &recorded.round).await else { return Ok(None) };
    let (origin, base) = found;
    let Ok(spec) = started.spec.clone().check() else { return Ok(None) };
    let request = RunRequest {
        trigger: BASE_MOVED.to_owned(),
        occurrence: Some(format!("rebase:{}:{base}", work.round)),
        inputs: started.inputs.clone(),
        rebase: Some(origin),
        ..RunRequest::manual(spec, &started.repo_path, "schedule")
    };
    Ok(Some(MovedProposal { engine, bind, request }))
}

/// Whether an earlier move of the proposal waits for a person.
async fn is_moving(engine: &Engine, round: &str) -> Result<bool, EngineError> {
    for row in engine.store.inbox(INBOX_MAX).await? {
        let Ok(recorded) = engine.load_round(&row.round).await else { continue };
        let origin = recorded.round.facts().started.rebase.as_ref();
        if origin.is_some_and(|origin| origin.round == round) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The proposal on its forge and its new base, if base has moved.
async fn find_moved(
    engine: &Engine,
    work: &WorkRow,
    round: &Round,
) -> Result<Option<(RebaseOrigin, Oid)>, EngineError> {
    let started = &round.facts().started;
    let repo = engine.git.discover(Path::new(&started.repo_path)).await?;
    let base = engine.git.head(&repo, started.spec.base.as_deref()).await?.commit;
    let items = round.facts().attempt().map(|attempt| attempt.items.as_slice()).unwrap_or_default();
    let Some(item) = items.iter().find(|item| item.kind == ActionKind::PullRequest) else { return Ok(None) };
    let sent = delivery(round, item, &work.candidate);
    let forge = read_forge(engine, &started.spec, &started.repo, Path::new(&started.repo_path)).await;
    let pulls = forge.map_err(EngineError::Forge)?.branch_pulls(&sent.branch, &sent.base_branch).await;
    // A person who chose another base for the pull request does not want it on this one.
    let is_movable = |pull: &PullRequest| pull.about.state == ItemState::Open && pull.base_branch == sent.base_branch;
    let open = pulls.map_err(EngineError::Forge)?.into_iter().find(is_movable);
    let Some(pull) = open else { return Ok(None) };
    let spaces = engine.workspaces(repo).await?;
    let Some(head) = movable_head(&spaces, &work.round, &sent, &pull, &base).await? else { return Ok(None) };
    let (round, branch, items) = (work.round.clone(), sent.branch, vec![item.clone()]);
    Ok(Some((RebaseOrigin { round, branch, commit: head.to_string(), items }, base)))
}

/// The head of the pull request, if it is ours, its base is behind, and it can be moved without a conflict.
async fn movable_head(
    spaces: &Workspaces,
    round: &str,
    sent: &Delivery,
    pull: &PullRequest,
    base: &Oid,
) -> Result<Option<Oid>, EngineError> {
    let objects = spaces.engine();
    let Ok(head) = pull.head.parse::<Oid>() else { return Ok(None) };
    let first = sent_commit(objects, round, sent.commit.as_deref().unwrap_or_default()).await;
    if first != pull.head && !objects.was_pushed(&sent.branch, &head).await? {
        return Ok(None);
    }
    let old = objects.parent_of(&head).await?;
    if old == *base {
        return Ok(None);
    }
    spaces.import(base).await?;
    if !objects.is_ancestor(&old, base).await? {
        return Ok(None);
    }
    let merged = objects.merge(base, &head).await?;
    let in_base = objects.tree_of(base).await?;
    Ok(matches!(merged, MergedTree::Clean(tree) if tree != in_base).then_some(head))
}

/// The paths in which a pull request conflicts with the head of its base, if the engine made its commit.
pub(crate) async fn conflicts(spaces: &Workspaces, pull: &PullRequest, base: &Oid) -> Result<Vec<String>, GitError> {
    let objects = spaces.engine();
    let Ok(head) = pull.head.parse::<Oid>() else { return Ok(Vec::new()) };
    if !objects.was_pushed(&pull.branch, &head).await? {
        return Ok(Vec::new());
    }
    Ok(match objects.merge(base, &head).await? {
        MergedTree::Clean(_) => Vec::new(),
        MergedTree::Conflict(paths) => paths,
    })
}
