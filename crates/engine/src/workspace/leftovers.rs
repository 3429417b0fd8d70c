//! Removes the leftovers of crashes in all repositories of a state folder. It touches only folders inside Loopwright's
//! own root that carry its mark.

use std::fs;
use std::path::{Path, PathBuf};

use super::folder::{is_made_here, is_ours, remove_tree, unique};
use super::{WorkspaceError, io};

/// The processes whose leftovers are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftoverScope {
    /// Those of all processes: before this process creates anything.
    All,
    /// Those of other processes, which are dead; this process may be active.
    OfOthers,
}

/// Renames the leftovers of crashes in all repositories under a state folder; the caller deletes them later. Nothing
/// that is created from now on has one of their names.
pub(crate) fn take_leftovers(state: &Path, whose: LeftoverScope) -> Vec<PathBuf> {
    let repos = fs::read_dir(state.join("workspaces")).into_iter().flatten().flatten();
    repos.flat_map(|repo| taken_from(&repo.path(), whose)).collect()
}

/// Removes the leftovers of crashes: trash and incomplete folders. Returns the number of removed folders; the next sweep
/// retries the others.
#[must_use]
pub fn sweep(state: &Path, whose: LeftoverScope) -> usize {
    take_leftovers(state, whose).iter().filter(|path| remove_tree(path).is_ok()).count()
}

fn taken_from(repo: &Path, whose: LeftoverScope) -> Vec<PathBuf> {
    let trash = repo.join("trash");
    let mut taken = Vec::new();
    // Versions up to 0.1 kept checkouts of ended rounds in `slots` and build outputs of makers in `warm`.
    for (folder, prefix) in [("trash", ""), ("rounds", ".half-"), ("bases", ".half-"), ("slots", ""), ("warm", "")] {
        let listed: Vec<_> = fs::read_dir(repo.join(folder)).into_iter().flatten().flatten().collect();
        for entry in listed {
            let (name, path) = (entry.file_name().to_string_lossy().into_owned(), entry.path());
            let may_go = whose == LeftoverScope::All || !is_made_here(&name);
            // Only Loopwright puts folders here; the mark of one in the trash may already be deleted.
            let is_left = name.starts_with(prefix) && (matches!(folder, "trash" | "warm") || is_ours(&path));
            if may_go && is_left && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                taken.push(take(&path, &trash));
            }
        }
    }
    taken
}

/// Moves a folder to an unused name in the trash. A folder that cannot be renamed keeps its path.
fn take(path: &Path, trash: &Path) -> PathBuf {
    let free =
        std::iter::repeat_with(|| trash.join(unique("swept"))).find(|place| fs::symlink_metadata(place).is_err());
    match free {
        Some(place) if fs::rename(path, &place).is_ok() => place,
        _ => path.to_owned(),
    }
}

/// The workspaces of all repositories under a state folder, each with its round; only folders that carry Loopwright's
/// mark.
pub(crate) fn left_rounds(state: &Path) -> Vec<(String, PathBuf)> {
    let inside = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let rounds = inside(state.join("workspaces")).flat_map(|repo| inside(repo.join("rounds")));
    let named = rounds.filter(|path| is_ours(path));
    let mut left: Vec<_> = named.filter_map(|path| Some((path.file_name()?.to_str()?.to_owned(), path))).collect();
    left.sort();
    left
}

/// Removes one of these workspaces, whatever permissions its agent set.
pub(crate) fn remove_left(path: &Path) -> Result<(), WorkspaceError> {
    if is_ours(path) {
        remove_tree(path).map_err(io("remove", path))
    } else {
        Err(WorkspaceError::Foreign(path.to_owned()))
    }
}
