//! The resources of a round that the dispatcher did not start. They come from the loop file as it was when the round
//! started, even if the file has changed since or is not loaded.

use super::lock::without_covered;
use super::spec_facts::{agents, item_locks, locks, wall_ms};
use super::{ItemLocks, LoopEntry, RoundLock};
use crate::spec::LoopSpec;
use std::sync::Arc;

/// The resources that a round holds while it runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RoundClaims {
    /// The agents it starts.
    pub agents: Vec<Arc<str>>,
    /// Its locks.
    pub locks: Vec<RoundLock>,
    /// Whether it also locks the items it works on.
    pub item_locks: ItemLocks,
    /// Its time limit, from which the expiry of its locks is computed.
    pub wall_ms: Option<i64>,
}

impl RoundClaims {
    /// The claims of a round of this loop, before its items are known.
    #[must_use]
    pub fn from_spec(spec: &LoopSpec, repo: &str) -> Self {
        Self {
            agents: agents(spec),
            locks: locks(repo, &spec.locks),
            item_locks: item_locks(&spec.locks),
            wall_ms: wall_ms(spec),
        }
    }

    /// The same claims for a round about these items.
    #[must_use]
    pub fn with_items(&self, repo: &str, items: &[Arc<str>]) -> Self {
        let own =
            items.iter().filter(|_| self.item_locks == ItemLocks::Own).map(|item| RoundLock::for_item(repo, item));
        Self { locks: without_covered(self.locks.iter().cloned().chain(own)), ..self.clone() }
    }

    /// The first own lock that conflicts with a lock of another round, and that other lock.
    #[must_use]
    pub fn conflict_with<'a>(&'a self, other: &'a Self) -> Option<(&'a RoundLock, &'a RoundLock)> {
        let met = |own: &'a RoundLock| other.locks.iter().find(|lock| lock.conflicts_with(own)).map(|lock| (own, lock));
        self.locks.iter().find_map(met)
    }
}

impl From<&LoopEntry> for RoundClaims {
    fn from(entry: &LoopEntry) -> Self {
        let (agents, locks) = (entry.agents.clone(), entry.locks.clone());
        Self { agents, locks, item_locks: entry.item_locks, wall_ms: entry.wall_ms }
    }
}
