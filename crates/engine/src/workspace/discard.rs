//! Removes workspaces: renamed away at once, deleted in the background. Only folders inside our own
//! root that carry our mark are touched.

use std::fs;
use std::path::{Path, PathBuf};

use super::folder::{is_ours, remove_tree, unique};
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
    /// workspace is being made. Returns how many folders went.
    ///
    /// # Errors
    /// When a folder of ours cannot be listed or removed.
    pub async fn sweep(&self) -> Result<usize, WorkspaceError> {
        let mut leftovers = Vec::new();
        for (folder, prefix) in [("trash", ""), ("rounds", ".half-"), ("bases", ".half-")] {
            let path = self.root.join(folder);
            for entry in fs::read_dir(&path).map_err(io("list", &path))?.flatten() {
                let named = entry.file_name().to_string_lossy().starts_with(prefix);
                // What lies in the trash was put there by us; its mark may be deleted already.
                if named && (folder == "trash" || is_ours(&entry.path())) && entry.path().is_dir() {
                    leftovers.push(entry.path());
                }
            }
        }
        let count = leftovers.len();
        blocking(move || leftovers.iter().try_for_each(|path| remove_tree(path).map_err(io("remove", path)))).await?;
        Ok(count)
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
