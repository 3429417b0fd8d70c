//! Follows sent changes: merged as they were, merged with changes by people, closed, or reverted. It only reads: the
//! forge through `ReadForge`, and the history of base through git. A forge that cannot be read changes nothing.

use super::landing::{BaseHistory, ChangedBlobs};
use super::settle_level;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::git::{EngineRepo, Oid};
use crate::probe::read_forge;
use crate::round::{DeliveryOutlet, LoopBindings, delivery, sent_commit};
use crate::store::{RoundsQuery, RowChange, StoreError, StoreErrorKind, WorkRow};
use crate::takeover::RoundBinder;
use loopwright_core::autonomy::WorkFate;
use loopwright_core::dispatch::LoopKey;
use loopwright_core::forge::{ItemQuery, ItemState, PullRequest, ReadForge, read_rows};
use loopwright_core::hash::hash_fields;
use loopwright_core::round::{Round, RoundStarted};
use loopwright_core::spec::ActionKind;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::path::Path;

/// How long a fate is followed after it was found.
const FOLLOWED_MS: i64 = 90 * 86_400_000;
/// The newest changes, which every pass follows.
const NEWEST_MAX: u32 = 400;
/// The most older changes that one pass follows: another part of them each time.
const OLDER_MAX: u32 = 100;
/// The most of a loop's latest rounds that are searched for one that is no calibration.
const LATEST_MAX: u32 = 20;
/// The most pull requests of a loop that one pass reads.
const PULLS_MAX: NonZeroUsize = NonZeroUsize::new(1_000).expect("it is not zero");

/// The fate that one look found.
struct FoundFate {
    fate: WorkFate,
    detail: String,
}

/// Looks at the changes whose fate may still change, and records the fate. With more than 500 of them, a pass looks at
/// the newest 400 and at 100 of the others, which differ from pass to pass. Returns how many fates changed. Loops whose work was turned down are demoted if the rules demand it.
///
/// # Errors
/// When the store cannot be read or written.
pub async fn follow_works(engine: &Engine, rebind: &dyn RoundBinder) -> Result<usize, EngineError> {
    let works = followed(engine).await?;
    let mut pulls: BTreeMap<LoopKey, Option<Vec<PullRequest>>> = BTreeMap::new();
    let (mut moved, mut touched) = (0, BTreeSet::new());
    for work in works {
        let Ok(recorded) = engine.load_round(&work.round).await else { continue };
        let started = &recorded.round.facts().started;
        let key = LoopKey::new(&work.repo, &work.loop_name);
        if !pulls.contains_key(&key) {
            pulls.insert(key.clone(), read_pulls(engine, rebind, started).await);
        }
        let known = pulls.get(&key).and_then(Option::as_deref).unwrap_or_default();
        let Some(found) = look(engine, &work, &recorded.round, known).await else { continue };
        if record(engine, &work, found).await? {
            moved += 1;
            touched.insert(key);
        }
    }
    for key in touched {
        settle_latest(engine, &key).await?;
    }
    Ok(moved)
}

async fn followed(engine: &Engine) -> Result<Vec<WorkRow>, EngineError> {
    let (store, now_ms) = (&engine.store, engine.now_ms());
    let since_ms = now_ms.saturating_sub(FOLLOWED_MS);
    let mut works = store.followed_works(since_ms, NEWEST_MAX, 0).await?;
    let newest = u64::from(NEWEST_MAX);
    let older = store.count_followed_works(since_ms).await?.saturating_sub(newest);
    if older > 0 {
        let turns = older.div_ceil(u64::from(OLDER_MAX));
        let turn = pseudo_random(now_ms) % turns;
        works.extend(store.followed_works(since_ms, OLDER_MAX, newest + turn * u64::from(OLDER_MAX)).await?);
    }
    Ok(works)
}

/// A number that differs from pass to pass. Passes have a fixed interval, so their times alone would choose the same
/// part again and again.
fn pseudo_random(now_ms: i64) -> u64 {
    let hash = hash_fields(&[b"loopwright follow 1", &now_ms.to_be_bytes()]);
    u64::from_str_radix(hash.get(..15).unwrap_or_default(), 16).unwrap_or_default()
}

/// Settles the level of a loop as its latest round had it: the file may have changed since the work was sent.
async fn settle_latest(engine: &Engine, key: &LoopKey) -> Result<(), EngineError> {
    let (repo, loop_name) = (Some(key.repo.to_string()), Some(key.name.to_string()));
    let query = RoundsQuery { repo, loop_name, limit: LATEST_MAX, ..RoundsQuery::default() };
    for row in engine.store.rounds(query).await? {
        // A record that cannot be read is reported where the round is resumed.
        let Ok(recorded) = engine.load_round(&row.id).await else { continue };
        let started = &recorded.round.facts().started;
        if !started.calibration && !started.dry_run {
            settle_level(engine, key, started.spec.level, &started.spec_hash).await?;
            break;
        }
    }
    Ok(())
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
    let repo = engine.git.discover(Path::new(&facts.started.repo_path)).await.ok()?;
    let spaces = engine.workspaces(repo).await.ok()?;
    let commit = sent_commit(spaces.engine(), &work.round, &sent.commit?).await;
    let pull = pulls.iter().find(|pull| pull.branch == sent.branch);
    // After base moved, the proposal has another commit of ours on the newer base.
    let update = match pull {
        Some(pull) if pull.head != commit => own_update(spaces.engine(), pull).await,
        _ => None,
    };
    let (commit, base) = update.unwrap_or((commit, sent.base_commit));
    let on_forge = pull.and_then(|pull| pull_fate(pull, &commit)).filter(|found| found.fate.may_follow(work.fate));
    let is_merged = item.kind == ActionKind::Commit
        || matches!(on_forge.as_ref().map_or(work.fate, |found| found.fate), WorkFate::Merged | WorkFate::Edited);
    if !is_merged {
        return on_forge;
    }
    let blobs = ChangedBlobs::read(engine, &facts.started, &base, &commit).await?;
    let number = pull.map(|pull| pull.about.number);
    let history = BaseHistory { engine, started: &facts.started, branch: &sent.base_branch, commit: &commit, number };
    let landed = history.look(&base, &blobs).await;
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

/// The head of a pull request and its parent, if the engine pushed that head.
async fn own_update(objects: &EngineRepo, pull: &PullRequest) -> Option<(String, String)> {
    let head: Oid = pull.head.parse().ok()?;
    let is_ours = objects.was_pushed(&pull.branch, &head).await.ok()?;
    let base = objects.parent_of(&head).await.ok().filter(|_| is_ours)?;
    Some((head.to_string(), base.to_string()))
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
