//! Who wants to know of what: the loops of each repository, as far as triggers are concerned.

use crate::git::UserRepo;
use loopwright_core::spec::{LoopSpec, Triggers};

/// A repository and its loops.
#[derive(Debug, Clone)]
pub struct Watched {
    /// The repository.
    pub repo: UserRepo,
    /// Its loops.
    pub loops: Vec<WatchedLoop>,
}

/// What triggers have to know of a loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedLoop {
    /// Its name.
    pub name: String,
    /// What makes it due.
    pub on: Triggers,
    /// The branch it works on, when it says so.
    pub base: Option<String>,
    /// People whose word counts for it.
    pub approvers: Vec<String>,
}

impl From<&LoopSpec> for WatchedLoop {
    fn from(spec: &LoopSpec) -> Self {
        Self {
            name: spec.name.clone(),
            on: spec.on.clone(),
            base: spec.base.clone(),
            approvers: spec.approvers.clone(),
        }
    }
}

/// Branches that this program makes: what happens on them is its own doing and makes nothing due.
pub(super) fn is_own_branch(branch: &str) -> bool {
    loopwright_core::spec::OWN_BRANCHES.iter().any(|own| branch.starts_with(own))
}
