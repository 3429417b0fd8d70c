//! Candidates in the engine's repositories: which refs nothing needs any more, and the packing of the rest. Without it,
//! each round would leave a ref and some loose objects that nothing removes.

use super::{GcFailure, GcKind, GcMode, GcRemoval, GcReport, Keep};
use crate::git::{EngineRepo, ObjectFormat, ObjectPruning, RefOwner, pack_objects, remove_stale_locks};
use crate::{Engine, EngineError};
use loopwright_core::round::RoundPhase;
use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Fewer loose objects than this are not worth a pack.
const LOOSE_MAX: usize = 512;

/// Removes the candidates of rounds that ended before the limit, and packs what stays. The caller holds the lock of
/// bases, so that no base is imported meanwhile.
pub(super) async fn collect(
    engine: &Engine,
    keep: &Keep,
    before_ms: i64,
    mode: GcMode,
) -> Result<GcReport, EngineError> {
    let mut swept = GcReport::default();
    if mode == GcMode::Remove {
        remove_stale_locks(engine.state_dir.root(), engine.now_ms());
    }
    let busy = busy_repos(engine).await?;
    for folder in folders(&engine.state_dir.root().join("workspaces")) {
        let is_busy = folder.file_name().and_then(|name| name.to_str()).is_none_or(|name| busy.contains(name));
        let pruning = if is_busy { ObjectPruning::Old } else { ObjectPruning::All };
        let dir = folder.join("engine.git");
        if dir.join("HEAD").is_file() {
            let done = sweep_repo(engine, &folder, keep, before_ms, mode, pruning).await;
            record(&mut swept, &dir, done);
        }
    }
    for folder in folders(&engine.state_dir.root().join("forge")) {
        let dir = folder.join("repo.git");
        if mode == GcMode::Remove && loose_objects(&dir) > LOOSE_MAX {
            let done = pack_objects(&engine.git, &dir, ObjectPruning::Old).await;
            record(&mut swept, &dir, done.map(|()| Vec::new()).map_err(EngineError::from));
        }
    }
    Ok(swept)
}

fn record(swept: &mut GcReport, dir: &Path, done: Result<Vec<GcRemoval>, EngineError>) {
    match done {
        Ok(removed) => swept.removed.extend(removed),
        Err(why) => swept.stuck.push(GcFailure { kind: GcKind::Candidate, path: dir.to_owned(), why }),
    }
}

/// The repositories in which a stage of some round runs.
async fn busy_repos(engine: &Engine) -> Result<HashSet<String>, EngineError> {
    let open = engine.store.open_rounds().await?;
    let is_busy = |phase: &RoundPhase| !matches!(phase, RoundPhase::Waiting | RoundPhase::Suspended);
    Ok(open.into_iter().filter(|row| is_busy(&row.phase)).map(|row| row.repo).collect())
}

async fn sweep_repo(
    engine: &Engine,
    folder: &Path,
    keep: &Keep,
    before_ms: i64,
    mode: GcMode,
    pruning: ObjectPruning,
) -> Result<Vec<GcRemoval>, EngineError> {
    // The format matters only for a repository that does not exist yet.
    let repo = EngineRepo::open(engine.git.clone(), folder.join("engine.git"), ObjectFormat::Sha1).await?;
    let all = repo.refs().await?;
    let rounds: BTreeSet<&str> = all.iter().filter_map(|name| round_of(name)).collect();
    let mut over = BTreeSet::new();
    for round in rounds {
        if engine.store.round(round).await?.is_some_and(|row| keep.is_past(&row, before_ms)) {
            over.insert(round);
        }
    }
    let is_over = |name: &&String| match RefOwner::of(name) {
        Some(RefOwner::Round(round)) => over.contains(round),
        Some(RefOwner::Base(commit)) => !folder.join("bases").join(commit).exists(),
        None => false,
    };
    let (refs, lost) = (repo.dir().join("refs/loopwright"), all.iter().filter(is_over).cloned().collect::<Vec<_>>());
    // A candidate shares its objects with others, so that its size has no meaning.
    let removal = |round: &&str| GcRemoval { kind: GcKind::Candidate, path: refs.join(round), bytes: 0 };
    let removed = over.iter().map(removal).collect();
    if mode == GcMode::Remove && (!lost.is_empty() || loose_objects(repo.dir()) > LOOSE_MAX) {
        repo.remove_refs(&lost).await?;
        repo.compact(pruning).await?;
    }
    Ok(removed)
}

fn round_of(reference: &str) -> Option<&str> {
    match RefOwner::of(reference)? {
        RefOwner::Round(round) => Some(round),
        RefOwner::Base(_) => None,
    }
}

/// How many objects of a repository are files of their own.
fn loose_objects(dir: &Path) -> usize {
    let is_fan = |path: &PathBuf| path.file_name().is_some_and(|name| name.len() == 2);
    let fans = folders(&dir.join("objects")).into_iter().filter(is_fan);
    fans.map(|fan| fs::read_dir(fan).into_iter().flatten().count()).sum()
}

fn folders(parent: &Path) -> Vec<PathBuf> {
    let mut all: Vec<_> = fs::read_dir(parent).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    all.retain(|path| path.is_dir());
    all.sort();
    all
}
