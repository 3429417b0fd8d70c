//! Removes workspaces: renamed away at once, deleted in the background. Only folders inside our own
//! root that carry our mark are touched.

use std::fs;
use std::path::{Path, PathBuf};

use super::folder::{is_made_here, is_ours, remove_tree, unique};
use super::{WorkspaceError, Workspaces, blocking, io};

impl Workspaces {
    /// Removes the workspace of a round, if there is one. It is gone from its place when this returns;
    /// its bytes are deleted in the background (seconds for a large checkout).
    ///
    /// # Errors
    /// `Foreign` when the folder does not carry our mark; it is left alone.
    pub async fn discard(&self, round: &str) -> Result<(), WorkspaceError> {
        let root = self.round_root(round)?;
        if fs::symlink_metadata(&root).is_err() {
            return Ok(());
        }
        if !is_ours(&root) {
            return Err(WorkspaceError::Foreign(root));
        }
        let trash = self.root.join("trash").join(unique(round));
        fs::rename(&root, &trash).map_err(io("rename", &root))?;
        // A failed removal is repeated by the next sweep, so nobody waits for this one.
        drop(tokio::task::spawn_blocking(move || remove_tree(&trash)));
        Ok(())
    }

    /// Removes what crashes left: trash and half-made folders. Call it once at start, before any
    /// workspace is being made. Returns how many folders went; those that cannot go stay for the next time.
    ///
    /// # Errors
    /// When a worker thread of ours ends early.
    pub async fn sweep(&self) -> Result<usize, WorkspaceError> {
        let root = self.root.clone();
        blocking(move || {
            Ok(taken_from(&root, LeftoverScope::All).iter().filter(|path| remove_tree(path).is_ok()).count())
        })
        .await
    }
}

/// Whose left-overs are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeftoverScope {
    /// Everybody's: before this process makes anything.
    All,
    /// Those of other processes, which are dead: this one may be at work.
    OfOthers,
}

/// Takes what crashes left in all repositories under a state folder out of the way, to be removed by the caller at its
/// leisure. Nothing that is made from now on has the name of any of it.
pub(crate) fn take_leftovers(state: &Path, whose: LeftoverScope) -> Vec<PathBuf> {
    let repos = fs::read_dir(state.join("workspaces")).into_iter().flatten().flatten();
    repos.flat_map(|repo| taken_from(&repo.path(), whose)).collect()
}

fn taken_from(repo: &Path, whose: LeftoverScope) -> Vec<PathBuf> {
    let trash = repo.join("trash");
    let mut taken = Vec::new();
    // Builds up to 0.1 kept checkouts of ended rounds in `slots`.
    for (folder, prefix) in [("trash", ""), ("rounds", ".half-"), ("bases", ".half-"), ("slots", "")] {
        let listed: Vec<_> = fs::read_dir(repo.join(folder)).into_iter().flatten().flatten().collect();
        for entry in listed {
            let (name, path) = (entry.file_name().to_string_lossy().into_owned(), entry.path());
            let may_go = whose == LeftoverScope::All || !is_made_here(&name);
            // What lies in the trash was put there by us; its mark may be deleted already.
            let is_left = name.starts_with(prefix) && (folder == "trash" || is_ours(&path));
            if may_go && is_left && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                taken.push(take(&path, &trash));
            }
        }
    }
    taken
}

/// Gives a folder a name in the trash that nobody uses. One that cannot be renamed is removed where it is.
fn take(path: &Path, trash: &Path) -> PathBuf {
    let free =
        std::iter::repeat_with(|| trash.join(unique("swept"))).find(|place| fs::symlink_metadata(place).is_err());
    match free {
        Some(place) if fs::rename(path, &place).is_ok() => place,
        _ => path.to_owned(),
    }
}

/// The workspaces of all repositories under a state folder, each with its round; only folders that carry our mark.
pub(crate) fn left_rounds(state: &Path) -> Vec<(String, PathBuf)> {
    let inside = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let rounds = inside(state.join("workspaces")).flat_map(|repo| inside(repo.join("rounds")));
    let named = rounds.filter(|path| is_ours(path));
    let mut left: Vec<_> = named.filter_map(|path| Some((path.file_name()?.to_str()?.to_owned(), path))).collect();
    left.sort();
    left
}

/// Removes one of them, whatever its agent did to the permissions.
pub(crate) fn remove_left(path: &Path) -> Result<(), WorkspaceError> {
    if is_ours(path) {
        remove_tree(path).map_err(io("remove", path))
    } else {
        Err(WorkspaceError::Foreign(path.to_owned()))
    }
}
