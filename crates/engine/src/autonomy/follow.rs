//! Follows sent changes: merged as they were, merged with changes by people, closed, or reverted. It only reads: the
//! forge through `ReadForge`, and the history of base through git. A forge that cannot be read changes nothing.

use super::landing::{BaseHistory, ChangedBlobs};
use super::settle_level;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::probe::read_forge;
use crate::round::{DeliveryOutlet, LoopBindings, delivery};
use crate::store::{RowChange, StoreError, StoreErrorKind, WorkRow};
use crate::takeover::RoundBinder;
use loopwright_core::autonomy::WorkFate;
use loopwright_core::dispatch::LoopKey;
use loopwright_core::forge::{ItemQuery, ItemState, PullRequest, ReadForge, read_rows};
use loopwright_core::round::{Round, RoundStarted};
use loopwright_core::spec::ActionKind;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;

/// How long a fate is followed after it was found.
const FOLLOWED_MS: i64 = 90 * 86_400_000;
/// The most changes that one pass follows.
const WORKS_MAX: u32 = 500;
/// The most pull requests of a loop that one pass reads.
const PULLS_MAX: NonZeroUsize = NonZeroUsize::new(1_000).expect("it is not zero");

/// The fate that one look found.
struct FoundFate {
    fate: WorkFate,
    detail: String,
}

impl Engine {
    /// Looks once at every change whose fate may still change, and records the fate. Returns how many fates
    /// changed. Loops whose work was turned down are demoted if the rules demand it.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub async fn follow_works(&self, rebind: &dyn RoundBinder) -> Result<usize, EngineError> {
        let works = self.store.followed_works(self.now_ms().saturating_sub(FOLLOWED_MS), WORKS_MAX).await?;
        let mut pulls: BTreeMap<LoopKey, Option<Vec<PullRequest>>> = BTreeMap::new();
        let (mut moved, mut touched) = (0, BTreeMap::new());
        for work in works {
            let Ok(recorded) = self.load_round(&work.round).await else { continue };
            let started = &recorded.round.facts().started;
            let key = LoopKey::new(&work.repo, &work.loop_name);
            if !pulls.contains_key(&key) {
                pulls.insert(key.clone(), read_pulls(self, rebind, started).await);
            }
            let known = pulls.get(&key).and_then(Option::as_deref).unwrap_or_default();
            let Some(found) = look(self, &work, &recorded.round, known).await else { continue };
            if record(self, &work, found).await? {
                moved += 1;
                touched.insert(key, started.clone());
            }
        }
        for (key, started) in touched {
            settle_level(self, &key, started.spec.level, &started.spec_hash).await?;
        }
        Ok(moved)
    }
}

/// All pull requests of a loop; `None` if its forge cannot be read now.
async fn read_pulls(engine: &Engine, rebind: &dyn RoundBinder, started: &RoundStarted) -> Option<Vec<PullRequest>> {
    let (engine, bind): (Engine, LoopBindings) = rebind.rebind(engine, started);
    if !matches!(bind.outlet, DeliveryOutlet::LocalForge | DeliveryOutlet::NamedForge) {
        return None;
    }
    let forge = read_forge(&engine, &started.spec, &started.repo, Path::new(&started.repo_path)).await.ok()?;
    let query = ItemQuery { loop_name: Some(started.spec.name.clone()), ..ItemQuery::default() };
    let (forge, query): (&dyn ReadForge, _) = (forge.as_ref(), &query);
    read_rows(PULLS_MAX, |from| Box::pin(async move { forge.pulls(query, from.as_ref()).await })).await.ok()
}

/// One look at a change: the state of its pull request first, then the history of base.
async fn look(engine: &Engine, work: &WorkRow, round: &Round, pulls: &[PullRequest]) -> Option<FoundFate> {
    let facts = round.facts();
    let item = facts.attempt()?.items.iter().find(|item| item.kind.word() == work.kind)?;
    let sent = delivery(round, item, &work.candidate);
    let commit = sent.commit?;
    let pull = pulls.iter().find(|pull| pull.branch == sent.branch);
    let on_forge = pull.and_then(|pull| pull_fate(pull, &commit)).filter(|found| found.fate.may_follow(work.fate));
    let is_merged = item.kind == ActionKind::Commit
        || matches!(on_forge.as_ref().map_or(work.fate, |found| found.fate), WorkFate::Merged | WorkFate::Edited);
    if !is_merged {
        return on_forge;
    }
    let blobs = ChangedBlobs::read(engine, &facts.started, &sent.base_commit, &commit).await?;
    let number = pull.map(|pull| pull.about.number);
    let history = BaseHistory { engine, started: &facts.started, branch: &sent.base_branch, commit: &commit, number };
    let landed = history.look(&sent.base_commit, &blobs).await;
    if let Some(by) = landed.reverted_by {
        return Some(FoundFate { fate: WorkFate::Reverted, detail: by });
    }
    match on_forge {
        Some(found) if found.fate == WorkFate::Merged && landed.is_edited => {
            let detail = format!("{}; the merged content differs", found.detail);
            Some(FoundFate { fate: WorkFate::Edited, detail })
        }
        None if item.kind == ActionKind::Commit && WorkFate::Merged.may_follow(work.fate) => {
            Some(FoundFate { fate: WorkFate::Merged, detail: "committed to base".to_owned() })
        }
        found => found,
    }
}

fn pull_fate(pull: &PullRequest, commit: &str) -> Option<FoundFate> {
    let name = format!("pull request {}", pull.about.number);
    let (fate, detail) = match pull.about.state {
        ItemState::Open => return None,
        ItemState::Closed => (WorkFate::Closed, format!("{name} was closed without a merge")),
        ItemState::Merged if pull.head == commit => (WorkFate::Merged, format!("{name} was merged")),
        ItemState::Merged => (WorkFate::Edited, format!("{name} was merged with further commits")),
    };
    Some(FoundFate { fate, detail })
}

/// Records a fate once: if another process was faster, its record stands.
async fn record(engine: &Engine, work: &WorkRow, found: FoundFate) -> Result<bool, EngineError> {
    if !found.fate.may_follow(work.fate) {
        return Ok(false);
    }
    let moves = (work.fate, found.fate);
    let change = RowChange::WorkFate { id: work.id.clone(), moves, detail: found.detail };
    match engine.write_rows(vec![change]).await {
        Ok(()) => Ok(true),
        Err(EngineError::Store(StoreError { kind: StoreErrorKind::Conflict(_), .. })) => Ok(false),
        Err(error) => Err(error),
    }
}
