//! What runs, and what it holds: slots of the limits, and locks. Who goes next is the queue's.

use super::lock::{self, ItemLocks, Lock};
use super::member::Waiting;
use super::{Claims, Entry, Limits, LoopKey, Signal};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Something that a round holds and that there is only so much of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Resource {
    Repo(Arc<str>),
    Agent(Arc<str>),
    Lock(Lock),
}

impl Resource {
    /// Whether holding the one keeps from the other.
    pub(super) fn meets(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Lock(one), Self::Lock(other)) => one.meets(other),
            (one, other) => one == other,
        }
    }
}

/// A round, from the decision to start it until its end.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) phase: RunPhase,
    pub(super) since_ms: i64,
    /// When its own limit ends it.
    pub(super) until_ms: Option<i64>,
    /// What it holds; the loop's file may say something else by now.
    pub(super) held: Vec<Resource>,
    /// The items of a round whose loop is not known yet.
    pub(super) items: Vec<Arc<str>>,
    pub(super) is_cancelled: bool,
    pub(super) is_told_stalled: bool,
}

#[derive(Debug)]
pub(super) enum RunPhase {
    /// The birth is not durable yet.
    Starting(Box<Starting>),
    /// The round.
    Running(String),
}

/// A start whose answer is awaited.
#[derive(Debug)]
pub(super) struct Starting {
    pub(super) due: Option<Waiting>,
    pub(super) signals: Vec<Signal>,
}

impl Run {
    pub(super) fn new(phase: RunPhase, now_ms: i64, wall_ms: Option<i64>) -> Self {
        let until_ms = wall_ms.map(|wall_ms| now_ms.saturating_add(wall_ms));
        let (held, items) = (Vec::new(), Vec::new());
        Self { phase, since_ms: now_ms, until_ms, held, items, is_cancelled: false, is_told_stalled: false }
    }

    pub(super) fn round(&self) -> Option<&String> {
        match &self.phase {
            RunPhase::Running(round) => Some(round),
            RunPhase::Starting(_) => None,
        }
    }

    pub(super) fn is_starting(&self) -> bool {
        matches!(self.phase, RunPhase::Starting(_))
    }
}

/// All rounds and what they hold.
#[derive(Debug)]
pub(super) struct Slots {
    limits: Limits,
    used: BTreeMap<Resource, usize>,
    runs: BTreeMap<LoopKey, Run>,
}

impl Slots {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, used: BTreeMap::new(), runs: BTreeMap::new() }
    }

    /// Changes the limits; says whether they are others.
    pub(super) fn limit_to(&mut self, limits: Limits) -> bool {
        std::mem::replace(&mut self.limits, limits) != self.limits
    }

    pub(super) fn run(&self, key: &LoopKey) -> Option<&Run> {
        self.runs.get(key)
    }

    pub(super) fn run_mut(&mut self, key: &LoopKey) -> Option<&mut Run> {
        self.runs.get_mut(key)
    }

    pub(super) fn runs(&self) -> impl Iterator<Item = (&LoopKey, &Run)> {
        self.runs.iter()
    }

    pub(super) fn total(&self) -> usize {
        self.limits.total.max(1)
    }

    pub(super) fn is_full(&self) -> bool {
        self.runs.len() >= self.total()
    }

    /// How many there are of a resource.
    pub(super) fn limit(&self, resource: &Resource) -> usize {
        match resource {
            Resource::Repo(_) => self.limits.per_repo.max(1),
            Resource::Agent(agent) => self.limits.per_agent.get(agent).map_or(usize::MAX, |limit| (*limit).max(1)),
            Resource::Lock(_) => 1,
        }
    }

    /// How many of a resource are free.
    pub(super) fn free(&self, resource: &Resource) -> usize {
        if let Resource::Lock(lock) = resource
            && lock.is_path()
        {
            return usize::from(!self.is_met(resource, None));
        }
        self.limit(resource).saturating_sub(self.used.get(resource).copied().unwrap_or(0))
    }

    /// Whether a round, but for that of a loop, holds something that keeps from this.
    pub(super) fn is_met(&self, resource: &Resource, but: Option<&LoopKey>) -> bool {
        let mut others = self.runs.iter().filter(|(key, _)| but != Some(*key));
        others.any(|(_, run)| run.held.iter().any(|held| held.meets(resource)))
    }

    /// Gives a round more to hold.
    pub(super) fn take(&mut self, key: &LoopKey, more: Vec<Resource>) {
        let Some(mut run) = self.runs.remove(key) else { return };
        let more = more.into_iter().filter(|need| !run.held.contains(need)).collect();
        self.hold(&mut run, more);
        self.runs.insert(key.clone(), run);
    }

    /// Adds a round, which takes what its loop needs, or what is left of it when nobody asked before.
    pub(super) fn add(&mut self, key: LoopKey, mut run: Run, needs: Vec<Resource>) {
        self.hold(&mut run, needs);
        self.runs.insert(key, run);
    }

    /// Gives a round what its loop is known to need by now.
    pub(super) fn complete(&mut self, key: &LoopKey, entry: &Entry) {
        let Some(mut run) = self.runs.remove(key) else { return };
        if run.until_ms.is_none() {
            run.until_ms = entry.wall_ms.map(|wall_ms| run.since_ms.saturating_add(wall_ms));
        }
        let items = std::mem::take(&mut run.items);
        let missing = needs(entry, &items).into_iter().filter(|need| !run.held.contains(need)).collect();
        self.hold(&mut run, missing);
        self.runs.insert(key.clone(), run);
    }

    fn hold(&mut self, run: &mut Run, needs: Vec<Resource>) {
        for need in needs {
            // A lock has one owner, also when a round came in by another door.
            if matches!(need, Resource::Lock(_)) && self.free(&need) == 0 {
                continue;
            }
            *self.used.entry(need.clone()).or_default() += 1;
            run.held.push(need);
        }
    }

    /// Takes a round out and gives back what it held.
    pub(super) fn remove(&mut self, key: &LoopKey) -> Option<Run> {
        let run = self.runs.remove(key)?;
        for resource in &run.held {
            if let Some(used) = self.used.get_mut(resource) {
                *used = used.saturating_sub(1);
                if *used == 0 {
                    self.used.remove(resource);
                }
            }
        }
        Some(run)
    }
}

/// What a round of the loop about some items needs, each once.
pub(super) fn needs(entry: &Entry, items: &[Arc<str>]) -> Vec<Resource> {
    let locks = lock::widest(entry.locks.iter().cloned().chain(item_locks(entry, items)));
    once(&entry.key.repo, &entry.agents, locks)
}

/// What a round needs that says so itself.
pub(super) fn needs_of(repo: &Arc<str>, claims: &Claims) -> Vec<Resource> {
    once(repo, &claims.agents, claims.locks.clone())
}

fn once(repo: &Arc<str>, agents: &[Arc<str>], locks: Vec<Lock>) -> Vec<Resource> {
    let mut needs = vec![Resource::Repo(Arc::clone(repo))];
    for need in agents.iter().cloned().map(Resource::Agent).chain(locks.into_iter().map(Resource::Lock)) {
        if !needs.contains(&need) {
            needs.push(need);
        }
    }
    needs
}

/// The locks on items, where rounds of the loop hold them.
pub(super) fn item_locks(entry: &Entry, items: &[Arc<str>]) -> Vec<Lock> {
    match entry.item_locks {
        ItemLocks::Own => items.iter().map(|item| Lock::of_item(&entry.key.repo, item)).collect(),
        ItemLocks::None => Vec::new(),
    }
}
