//! The loops of each repository, as far as triggers are concerned.

use crate::git::UserRepo;
use loopwright_core::spec::LoopSpec;
use std::ffi::OsString;
use std::path::PathBuf;

/// A repository and its loops.
#[derive(Debug, Clone)]
pub struct WatchedRepo {
    /// The repository.
    pub repo: UserRepo,
    /// Its loops.
    pub loops: Vec<LoopSpec>,
}

/// A folder whose changes go to [`super::Signals::folder_changed`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedFolder {
    /// The folder; a missing folder is not watched.
    pub dir: PathBuf,
    /// Only this name in it; every name if absent.
    pub name: Option<OsString>,
    /// The content that changes.
    pub content: FolderContent,
}

/// The content of a watched folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FolderContent {
    /// Loop files, their prompts, or configuration. A burst of changes is reported once, when it is over.
    Loops,
    /// The state directory itself, reported at once.
    State,
}

/// Whether this program creates the branch: events on such branches are its own and make nothing due.
pub(super) fn is_own_branch(branch: &str) -> bool {
    loopwright_core::spec::OWN_BRANCHES.iter().any(|own| branch.starts_with(own))
}
