//! A loop's configuration and the machine's limits, as the dispatcher uses them, and the state of a loop between two
//! rounds: one row of `schedules`, which must survive a restart.

use super::PlacementNeeds;
use super::lock::{ItemLocks, RoundLock};
use crate::cadence::LoopSchedule;
use crate::spec::{CatchUp, Overlap};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A loop of a repository; sorted by repository, then by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
    /// The needs of a round from its machine; `None` for a loop whose rounds run where they are started.
    pub place: Option<Arc<PlacementNeeds>>,
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
            place: None,
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

/// The state of a loop. Every due time at or before the mark has its receipt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopStanding {
    /// The loop.
    pub key: LoopKey,
    /// The fingerprint of the cadence that the mark belongs to; empty if the loop was removed.
    pub fingerprint: String,
    /// The high-water mark.
    pub mark_ms: i64,
    /// Whether and why the loop starts nothing by itself.
    pub paused: Option<LoopPause>,
    /// Rounds in a row that failed.
    pub streak: u32,
    /// How often in a row the last rounds failed alike, and the signature. Only the dispatcher reads it.
    pub signature: Option<String>,
    /// Until when it backs off.
    pub wait: Option<LoopDelay>,
}

impl LoopStanding {
    /// The standing of a new loop: due times before the mark are not caught up.
    #[must_use]
    pub fn new(key: LoopKey, fingerprint: &str, mark_ms: i64) -> Self {
        Self { key, fingerprint: fingerprint.to_owned(), mark_ms, paused: None, streak: 0, signature: None, wait: None }
    }
}

/// A loop that starts nothing until a person resumes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopPause {
    /// Since when.
    pub since_ms: i64,
    /// The user who paused it; `breaker` if repeated failures did.
    pub by: String,
    /// Why.
    pub why: String,
}

/// A loop that starts nothing before a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopDelay {
    /// Until when.
    pub until_ms: i64,
    /// Why.
    pub why: String,
}

/// Everything is stopped, also after a restart, until a person thaws it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetFreeze {
    /// Since when.
    pub since_ms: i64,
    /// The user or component that stopped it.
    pub by: String,
    /// Why.
    pub why: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cmp::Ordering;

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
