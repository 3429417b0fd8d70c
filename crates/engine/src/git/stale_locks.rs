//! Lock files that a git process left when it was killed. Git never removes them by itself, so without this each later
//! call that packs refs or sends a branch would fail. Only repositories in the state directory are touched.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// A git process that works on these repositories holds a lock for a much shorter time.
const STALE_MS: i64 = 600_000;

/// Removes the old lock files of all repositories in a state directory; returns how many there were.
pub(crate) fn remove_stale_locks(state: &Path, now_ms: i64) -> usize {
    let is_stale = |path: &PathBuf| modified_ms(path).is_some_and(|at_ms| at_ms < now_ms.saturating_sub(STALE_MS));
    let repos = [("workspaces", "engine.git"), ("forge", "repo.git")]
        .into_iter()
        .flat_map(|(folder, name)| entries(&state.join(folder)).into_iter().map(move |repo| repo.join(name)));
    let locks = repos.flat_map(|repo| entries(&repo)).filter(|path| path.extension().is_some_and(|end| end == "lock"));
    locks.filter(is_stale).filter(|path| fs::remove_file(path).is_ok()).count()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn modified_ms(path: &Path) -> Option<i64> {
    let file = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file)?;
    i64::try_from(file.modified().ok()?.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
}
