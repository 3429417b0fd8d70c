//! A loop's configuration and the machine's limits, as the dispatcher uses them. The changing state of a loop is in
//! `standing`.

use super::lock::{ItemLocks, RoundLock};
use crate::cadence::LoopSchedule;
use crate::spec::{CatchUp, Overlap};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A loop of a repository.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LoopKey {
    /// The repository, as the store names it.
    pub repo: Arc<str>,
    /// The loop's name.
    pub name: Arc<str>,
}

impl LoopKey {
    /// The key of a loop in a repository.
    #[must_use]
    pub fn new(repo: &str, name: &str) -> Self {
        Self { repo: repo.into(), name: name.into() }
    }
}

impl PartialOrd for LoopKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for LoopKey {
    /// By repository, then by name. Loops of one repository mostly share the `Arc` of its name, and ten thousand of
    /// them are compared a million times when they are loaded.
    fn cmp(&self, other: &Self) -> Ordering {
        let by_repo = if Arc::ptr_eq(&self.repo, &other.repo) { Ordering::Equal } else { self.repo.cmp(&other.repo) };
        by_repo.then_with(|| self.name.cmp(&other.name))
    }
}

impl fmt::Display for LoopKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.repo, self.name)
    }
}

/// A loop as its file defines it now.
#[derive(Debug, Clone)]
pub struct LoopEntry {
    /// Which loop.
    pub key: LoopKey,
    /// When it is due.
    pub schedule: LoopSchedule,
    /// The rule for an occurrence that is due while a round of the loop runs.
    pub overlap: Overlap,
    /// The rule for missed occurrences.
    pub catch_up: CatchUp,
    /// Higher starts first.
    pub priority: i64,
    /// The agents a round starts, each counted once against its limit.
    pub agents: Vec<Arc<str>>,
    /// Locks that a round holds from its start to its end.
    pub locks: Vec<RoundLock>,
    /// Whether a round also locks the items it works on.
    pub item_locks: ItemLocks,
    /// The most items of events that one round takes.
    pub batch: usize,
    /// With this many open proposals, the loop starts nothing new.
    pub open_max: u32,
    /// Its triggers besides the cadence, as text (`push to main`), for explanations.
    pub events: Vec<Arc<str>>,
    /// The time limit of a round. The expiry of its locks is computed from it, and it shows that a round has stalled.
    pub wall_ms: Option<i64>,
}

impl LoopEntry {
    /// A loop with the default settings and no locks.
    #[must_use]
    pub fn new(key: LoopKey, schedule: LoopSchedule) -> Self {
        Self {
            key,
            schedule,
            overlap: Overlap::default(),
            catch_up: CatchUp::default(),
            priority: 0,
            agents: Vec::new(),
            locks: Vec::new(),
            item_locks: ItemLocks::None,
            batch: 1,
            open_max: 3,
            events: Vec::new(),
            wall_ms: None,
        }
    }
}

/// How many rounds may run at once. A limit of zero would silently stop everything, so it counts as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConcurrencyLimits {
    /// In all.
    pub total: usize,
    /// Of one repository.
    pub per_repo: usize,
    /// With one agent; an agent that is not named here has no limit of its own.
    pub per_agent: BTreeMap<Arc<str>, usize>,
}

impl Default for ConcurrencyLimits {
    fn default() -> Self {
        Self { total: 4, per_repo: 4, per_agent: BTreeMap::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_are_ordered_by_repository_and_name_whatever_memory_they_share() {
        let texts = [("a", "x"), ("a", "y"), ("ab", "a"), ("b", "a"), ("b", "b")];
        let (shared, own): (Arc<str>, _) = ("b".into(), texts.map(|(repo, name)| LoopKey::new(repo, name)));
        let mut keys = own.to_vec();
        keys.extend(["b", "a"].map(|name| LoopKey { repo: Arc::clone(&shared), name: name.into() }));
        for one in &keys {
            for other in &keys {
                let wanted = (&*one.repo, &*one.name).cmp(&(&*other.repo, &*other.name));
                assert_eq!((one.cmp(other), one == other), (wanted, wanted == Ordering::Equal), "{one} {other}");
            }
        }
    }
}
