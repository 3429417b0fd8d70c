//! What a round takes that the dispatcher did not start: as the loop says from which it was begun, loaded or not, and
//! whatever its file says by now.

use super::lock::without_covered;
use super::spec_facts::{agents, item_locks, locks, wall_ms};
use super::{ItemLocks, LoopEntry, RoundLock};
use crate::spec::LoopSpec;
use std::sync::Arc;

/// What a round holds while it runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RoundClaims {
    /// The agents it starts.
    pub agents: Vec<Arc<str>>,
    /// Its locks.
    pub locks: Vec<RoundLock>,
    /// Whether the items it is about are among them.
    pub item_locks: ItemLocks,
    /// How long it may take, from which the expiry of its locks is told.
    pub wall_ms: Option<i64>,
}

impl RoundClaims {
    /// Of a round of a loop in a repository, whatever it is about.
    #[must_use]
    pub fn from_spec(spec: &LoopSpec, repo: &str) -> Self {
        Self {
            agents: agents(spec),
            locks: locks(repo, &spec.locks),
            item_locks: item_locks(&spec.locks),
            wall_ms: wall_ms(spec),
        }
    }

    /// The same for a round about some items.
    #[must_use]
    pub fn with_items(&self, repo: &str, items: &[Arc<str>]) -> Self {
        let own =
            items.iter().filter(|_| self.item_locks == ItemLocks::Own).map(|item| RoundLock::for_item(repo, item));
        Self { locks: without_covered(self.locks.iter().cloned().chain(own)), ..self.clone() }
    }

    /// The first lock that another round's keeps from this one, with that of the other.
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
