//! The folders that a daemon watches for itself: the `.loopwright/` folders of its repositories, the user's configuration, and
//! the file that stops everything. The engine's watch over files does the watching.

use crate::context::CommandContext;
use loopwright::triggers::{FolderContent, WatchedFolder};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use tokio::sync::Notify;

/// Wakes a daemon when something changed in a watched folder.
#[derive(Debug, Default)]
pub(super) struct FolderNews {
    /// Loop files or configuration.
    pub(super) loops: Notify,
    /// Something in the state directory itself.
    pub(super) state: Notify,
}

impl FolderNews {
    pub(super) fn report(&self, content: FolderContent) {
        match content {
            FolderContent::Loops => self.loops.notify_one(),
            FolderContent::State => self.state.notify_one(),
        }
    }
}

/// Every working copy that there was, so that one that was moved away is seen to come back.
#[derive(Debug, Default)]
pub(super) struct WatchedTrees(BTreeSet<PathBuf>);

impl WatchedTrees {
    /// The folders to watch when these working copies are there. A folder that is not there is seen when it comes, by way of
    /// the one around it.
    pub(super) fn folders(&mut self, cx: &CommandContext, work_trees: &[PathBuf]) -> Vec<WatchedFolder> {
        self.0.extend(work_trees.iter().cloned());
        let mut folders: Vec<_> = self.0.iter().flat_map(|tree| of_tree(tree, work_trees.contains(tree))).collect();
        let config = cx.env.config.as_ref().map(|named| cx.env.cwd.join(named)).or_else(|| cx.env.user_config());
        folders.extend(config.as_deref().and_then(by_name));
        let state = cx.state_dir().map(|(dir, _)| (dir, Some("STOP".into()), FolderContent::State));
        folders.extend(state.map(|(dir, name, content)| WatchedFolder { dir, name, content }));
        folders
    }
}

fn of_tree(tree: &Path, is_wanted: bool) -> Vec<WatchedFolder> {
    let own = tree.join(".loopwright");
    let mut folders: Vec<_> = ["", "loops", "prompts", "skills"].map(|folder| every_name(&own.join(folder))).into();
    folders.extend(by_name(&own));
    // Of no interest while it is there. One that was moved away comes back by its name, and when its `.git` is whole.
    if !is_wanted || !tree.join(".git").exists() {
        folders.extend(by_name(tree));
        folders.push(every_name(&tree.join(".git")));
    }
    folders
}

/// The folder around a file, for the file alone.
fn by_name(file: &Path) -> Option<WatchedFolder> {
    let (dir, name) = (file.parent()?.to_owned(), file.file_name().map(OsStr::to_owned));
    Some(WatchedFolder { dir, name, content: FolderContent::Loops })
}

fn every_name(dir: &Path) -> WatchedFolder {
    WatchedFolder { dir: dir.to_owned(), name: None, content: FolderContent::Loops }
}
