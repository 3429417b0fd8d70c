//! The running rounds and the slots and locks they hold. The queue decides which loop starts next.

use super::lock::{self, ItemLocks, RoundLock};
use super::scheduled_loop::PendingDue;
use super::{ConcurrencyLimits, FleetMember, LoopEntry, LoopKey, PlacementNeeds, RoundClaims, TriggerSignal};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A limited resource that a round holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SlotResource {
    Repo(Arc<str>),
    Agent(Arc<str>),
    /// A slot of a worker that has all that the round needs.
    Place(Arc<PlacementNeeds>),
    Lock(RoundLock),
}

impl SlotResource {
    /// Whether a round that holds one of them blocks the other.
    pub(super) fn conflicts_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Lock(one), Self::Lock(other)) => one.conflicts_with(other),
            (one, other) => one == other,
        }
    }
}

/// A round, from the decision to start it until its end.
#[derive(Debug)]
pub(super) struct ActiveRound {
    pub(super) phase: ActiveRoundPhase,
    pub(super) since_ms: i64,
    /// When its time limit ends it.
    pub(super) until_ms: Option<i64>,
    /// The resources it holds; the loop's file may have changed since.
    pub(super) held: Vec<SlotResource>,
    /// The items of a round whose loop is not loaded yet.
    pub(super) items: Vec<Arc<str>>,
    pub(super) is_cancelled: bool,
    pub(super) is_stall_reported: bool,
}

#[derive(Debug)]
pub(super) enum ActiveRoundPhase {
    /// Its start is not durable yet.
    Starting(Box<PendingStart>),
    /// The round.
    Running(String),
}

/// A start whose answer is pending.
#[derive(Debug)]
pub(super) struct PendingStart {
    pub(super) due: Option<PendingDue>,
    pub(super) signals: Vec<TriggerSignal>,
}

impl ActiveRound {
    pub(super) fn new(phase: ActiveRoundPhase, now_ms: i64, wall_ms: Option<i64>) -> Self {
        let until_ms = wall_ms.map(|wall_ms| now_ms.saturating_add(wall_ms));
        let (held, items) = (Vec::new(), Vec::new());
        Self { phase, since_ms: now_ms, until_ms, held, items, is_cancelled: false, is_stall_reported: false }
    }

    pub(super) fn round(&self) -> Option<&String> {
        match &self.phase {
            ActiveRoundPhase::Running(round) => Some(round),
            ActiveRoundPhase::Starting(_) => None,
        }
    }

    pub(super) fn is_starting(&self) -> bool {
        matches!(self.phase, ActiveRoundPhase::Starting(_))
    }
}

/// All rounds and the resources they hold.
#[derive(Debug, Default)]
pub(super) struct SlotTable {
    limits: ConcurrencyLimits,
    /// The workers that rounds of loops with labels are offered to.
    members: Vec<FleetMember>,
    used: BTreeMap<SlotResource, usize>,
    runs: BTreeMap<LoopKey, ActiveRound>,
}

impl SlotTable {
    pub(super) fn new(limits: ConcurrencyLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Changes the limits; returns whether they differ from the old ones.
    pub(super) fn set_limits(&mut self, limits: ConcurrencyLimits) -> bool {
        std::mem::replace(&mut self.limits, limits) != self.limits
    }

    /// Changes the workers; returns whether they differ from the old ones.
    pub(super) fn set_members(&mut self, members: Vec<FleetMember>) -> bool {
        let is_changed = self.members != members;
        self.members = members;
        is_changed
    }

    pub(super) fn members(&self) -> &[FleetMember] {
        &self.members
    }

    pub(super) fn run(&self, key: &LoopKey) -> Option<&ActiveRound> {
        self.runs.get(key)
    }

    pub(super) fn run_mut(&mut self, key: &LoopKey) -> Option<&mut ActiveRound> {
        self.runs.get_mut(key)
    }

    pub(super) fn runs(&self) -> impl Iterator<Item = (&LoopKey, &ActiveRound)> {
        self.runs.iter()
    }

    pub(super) fn total(&self) -> usize {
        self.limits.total.max(1)
    }

    pub(super) fn is_full(&self) -> bool {
        self.runs.len() >= self.total()
    }

    /// How many units of a resource exist.
    pub(super) fn limit(&self, resource: &SlotResource) -> usize {
        match resource {
            SlotResource::Repo(_) => self.limits.per_repo.max(1),
            SlotResource::Agent(agent) => self.limits.per_agent.get(agent).map_or(usize::MAX, |limit| (*limit).max(1)),
            SlotResource::Place(needs) => needs.slots(&self.members),
            SlotResource::Lock(_) => 1,
        }
    }

    /// How many units of a resource are free.
    pub(super) fn available(&self, resource: &SlotResource) -> usize {
        if let SlotResource::Lock(lock) = resource
            && lock.is_path()
        {
            return usize::from(!self.is_blocked(resource, None));
        }
        self.limit(resource).saturating_sub(self.used.get(resource).copied().unwrap_or(0))
    }

    /// Whether a round of a loop other than `but` holds a resource that conflicts with this one.
    pub(super) fn is_blocked(&self, resource: &SlotResource, but: Option<&LoopKey>) -> bool {
        let mut others = self.runs.iter().filter(|(key, _)| but != Some(*key));
        others.any(|(_, run)| run.held.iter().any(|held| held.conflicts_with(resource)))
    }

    /// Adds resources to those a round holds.
    pub(super) fn hold_more(&mut self, key: &LoopKey, more: Vec<SlotResource>) {
        let Some(mut run) = self.runs.remove(key) else { return };
        let more = more.into_iter().filter(|need| !run.held.contains(need)).collect();
        self.hold(&mut run, more);
        self.runs.insert(key.clone(), run);
    }

    /// Adds a round. It takes the resources its loop needs; if availability was not checked before, it takes those that
    /// are free.
    pub(super) fn add(&mut self, key: LoopKey, mut run: ActiveRound, needs: Vec<SlotResource>) {
        self.hold(&mut run, needs);
        self.runs.insert(key, run);
    }

    /// Adds the resources that a round's loop needs, now that the loop is loaded.
    pub(super) fn hold_missing(&mut self, key: &LoopKey, entry: &LoopEntry) {
        let Some(mut run) = self.runs.remove(key) else { return };
        if run.until_ms.is_none() {
            run.until_ms = entry.wall_ms.map(|wall_ms| run.since_ms.saturating_add(wall_ms));
        }
        let items = std::mem::take(&mut run.items);
        let missing = needs(entry, &items).into_iter().filter(|need| !run.held.contains(need)).collect();
        self.hold(&mut run, missing);
        self.runs.insert(key.clone(), run);
    }

    fn hold(&mut self, run: &mut ActiveRound, needs: Vec<SlotResource>) {
        for need in needs {
            // A lock has one owner, also when a round did not pass the admission check.
            if matches!(need, SlotResource::Lock(_)) && self.available(&need) == 0 {
                continue;
            }
            *self.used.entry(need.clone()).or_default() += 1;
            run.held.push(need);
        }
    }

    /// Removes a round and releases its resources.
    pub(super) fn remove(&mut self, key: &LoopKey) -> Option<ActiveRound> {
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

/// The resources that a round of the loop about these items needs, each once.
pub(super) fn needs(entry: &LoopEntry, items: &[Arc<str>]) -> Vec<SlotResource> {
    let locks = lock::without_covered(entry.locks.iter().cloned().chain(item_locks(entry, items)));
    let mut needs = once(&entry.key.repo, &entry.agents, locks);
    needs.extend(entry.place.clone().map(SlotResource::Place));
    needs
}

/// The resources that a round with its own claims needs.
pub(super) fn needs_of_claims(repo: &Arc<str>, claims: &RoundClaims) -> Vec<SlotResource> {
    once(repo, &claims.agents, claims.locks.clone())
}

fn once(repo: &Arc<str>, agents: &[Arc<str>], locks: Vec<RoundLock>) -> Vec<SlotResource> {
    let mut needs = vec![SlotResource::Repo(Arc::clone(repo))];
    for need in agents.iter().cloned().map(SlotResource::Agent).chain(locks.into_iter().map(SlotResource::Lock)) {
        if !needs.contains(&need) {
            needs.push(need);
        }
    }
    needs
}

/// The locks on items, if rounds of the loop hold them.
pub(super) fn item_locks(entry: &LoopEntry, items: &[Arc<str>]) -> Vec<RoundLock> {
    match entry.item_locks {
        ItemLocks::Own => items.iter().map(|item| RoundLock::for_item(&entry.key.repo, item)).collect(),
        ItemLocks::None => Vec::new(),
    }
}
