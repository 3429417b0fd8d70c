//! Decides which bases are kept: those that a round still uses, and the last few of each repository. A cleanup removes
//! the others, and so does a lack of disk space.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::base::BasePool;
use super::create::lower_of;
use super::folder::{is_ours, remove_tree, unique};
use super::layers::anchors_of;
use super::{WorkspaceError, blocking, io};
use crate::git::Oid;

/// Number of bases of one repository that are kept although no round uses them.
const KEPT: usize = 3;
/// The file whose modification time is the last use of a base.
const USED: &str = "used";

/// Records that a base is used now.
pub(super) fn mark_used(base: &Path) -> Result<(), WorkspaceError> {
    let path = base.join(USED);
    fs::write(&path, b"").map_err(io("write", &path))
}

/// The bases of all repositories under a state folder that are no longer needed.
#[must_use]
pub fn unused_bases(state: &Path) -> Vec<PathBuf> {
    let mut left: Vec<_> = list(&state.join("workspaces")).iter().flat_map(|repo| unneeded(repo, KEPT)).collect();
    left.sort();
    left
}

/// Removes one of them. It is renamed first, so that a partly deleted base is never used.
pub(crate) fn remove_base(path: &Path) -> Result<(), WorkspaceError> {
    let trash = path.ancestors().nth(2).unwrap_or(path).join("trash").join(unique("base"));
    fs::rename(path, &trash).map_err(io("rename", path))?;
    remove_tree(&trash).map_err(io("remove", &trash))
}

/// Frees disk space: if the file system is short of it, removes bases that no round uses, the oldest first.
pub(super) async fn make_room(bases: &BasePool, base: &Oid) -> Result<(), WorkspaceError> {
    let repo = bases.folder.parent().unwrap_or(&bases.folder).to_owned();
    if has_room(&repo).is_ok() {
        return Ok(());
    }
    let _one = bases.lock().await?;
    let keep = bases.dir(base);
    blocking(move || {
        for path in unneeded(&repo, 0).into_iter().filter(|path| *path != keep) {
            remove_base(&path)?;
            if has_room(&repo).is_ok() {
                break;
            }
        }
        has_room(&repo)
    })
    .await
}

/// The bases of one repository that no round uses, except the `kept` last used ones; the oldest first.
fn unneeded(repo: &Path, kept: usize) -> Vec<PathBuf> {
    let pool = repo.join("bases");
    let mut bases: BTreeMap<SystemTime, Vec<String>> = BTreeMap::new();
    for path in list(&pool).into_iter().filter(|path| is_ours(path)) {
        if let Some(name) = commit_of(&path) {
            bases.entry(last_used(&path)).or_default().push(name);
        }
    }
    let by_age: Vec<String> = bases.into_values().flatten().collect();
    let mut needed = stood_on(&repo.join("rounds"), &pool);
    needed.extend(by_age.iter().rev().take(kept).cloned());
    let anchors: Vec<String> = needed.iter().flat_map(|name| anchors_of(&pool.join(name))).collect();
    needed.extend(anchors);
    by_age.into_iter().filter(|name| !needed.contains(name)).map(|name| pool.join(name)).collect()
}

/// The bases that rounds use, as layers or as the source of a copy.
fn stood_on(rounds: &Path, pool: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for round in list(rounds) {
        names.extend(fs::read_to_string(round.join("base")).ok().map(|text| text.trim().to_owned()));
        let lower = lower_of(&round).ok().flatten().unwrap_or_default();
        let inside = lower.iter().filter_map(|layer| layer.strip_prefix(pool).ok()?.iter().next()?.to_str());
        names.extend(inside.map(str::to_owned));
    }
    names
}

fn commit_of(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    name.parse::<Oid>().ok().map(|_| name.to_owned())
}

fn last_used(base: &Path) -> SystemTime {
    let time = |name: &str| fs::metadata(base.join(name)).and_then(|about| about.modified()).ok();
    time(USED).or_else(|| time("tree")).unwrap_or(UNIX_EPOCH)
}

fn list(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// The bounds of the disk space that must stay free: on a full disk the store could not write its next row.
const FLOOR_MIN: u64 = 64 << 20;
const FLOOR_MAX: u64 = 1 << 30;

/// Two percent of the file system, at least 64 MiB and at most 1 GiB.
fn floor_of(total: u64) -> u64 {
    (total / 50).clamp(FLOOR_MIN, FLOOR_MAX)
}

/// Fails when the file system of a folder has too little free space.
fn has_room(path: &Path) -> Result<(), WorkspaceError> {
    let about = rustix::fs::statvfs(path).map_err(|errno| io("measure", path)(errno.into()))?;
    let free = about.f_bavail.saturating_mul(about.f_frsize);
    let floor = floor_of(about.f_blocks.saturating_mul(about.f_frsize));
    if free < floor {
        return Err(WorkspaceError::Full { path: path.to_owned(), free, floor });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floor_is_a_share_between_two_bounds() {
        assert_eq!(floor_of(1 << 30), FLOOR_MIN);
        assert_eq!(floor_of(20 << 30), (20 << 30) / 50);
        assert_eq!(floor_of(1 << 40), FLOOR_MAX);
    }
}
