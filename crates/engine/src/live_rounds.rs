//! Rounds under way in this process, and the loops they are of. What the record calls unfinished is abandoned only when nobody
//! here is at it, so that loops which share an engine neither end each other's agents nor answer for the same round twice.
//!
//! Where a daemon runs on the engine it is asked before a round begins, whoever begins it: one round of a loop at a time.
//! Without one, several of a loop at once in one process are the embedder's business. What they lock is not, and between
//! processes a loop has one round at a time: both are kept by the leases of the store.

use crate::error::EngineError;
use crate::proc::CancelToken;
use loopwright_core::BoxFuture;
use loopwright_core::dispatch::{LoopKey, RoundClaims};
use loopwright_core::round::{Round, RoundStarted};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The ids of the rounds under way, and who is asked before one begins.
#[derive(Clone, Default)]
pub(crate) struct LiveRounds(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    rounds: HashSet<String>,
    admission: Option<Arc<dyn RoundAdmission>>,
}

/// Held while a round is under way; dropped, also by a panic or an abandoned future, it is not any more.
pub(crate) struct LiveRoundGuard {
    live: LiveRounds,
    round: String,
}

/// Who is asked before a round of a loop begins.
pub(crate) trait RoundAdmission: Send + Sync {
    /// Lets it in, unless a round of the loop is under way or another one has what it takes. It can be stopped by the switch.
    fn admit<'a>(
        &'a self,
        arrival: AdmissionRequest,
        cancel: &'a CancelToken,
    ) -> BoxFuture<'a, Result<AdmittedRound, EngineError>>;

    /// A round came to rest; so that its loop's schedule, and loops that follow it, can learn from it.
    fn on_round_at_rest<'a>(&'a self, round: &'a Round) -> BoxFuture<'a, ()>;

    /// A round was answered, and what followed could not be done to its rest: somebody has to look after it.
    fn on_round_left_open(&self, started: &RoundStarted);

    /// The loops of the repository that are due when a round of this one ends.
    fn followers(&self, repo: &str, loop_name: &str) -> Vec<Arc<str>>;

    /// There is more room in the loop's budget.
    fn on_budget_raised(&self, repo: &str, loop_name: &str);
}

/// A round that wants to begin or to go on.
#[derive(Debug, Clone)]
pub(crate) struct AdmissionRequest {
    pub(crate) key: LoopKey,
    pub(crate) round: String,
    /// What it takes whatever it is about; as its loop's file has it, when absent.
    pub(crate) claims: Option<RoundClaims>,
    pub(crate) items: Vec<Arc<str>>,
    pub(crate) pick: ItemSelection,
}

/// Of the items that a round wants to be about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ItemSelection {
    /// All: somebody named them.
    All,
    /// Those on which nobody else works: a probe found them.
    Free,
}

/// A round that was let in.
pub(crate) struct AdmittedRound {
    /// Held while it is under way, where somebody keeps places.
    pub(crate) slot_hold: Option<Box<dyn LoopSlotHold>>,
    /// What it may be about.
    pub(crate) items: Vec<Arc<str>>,
}

impl AdmissionRequest {
    /// What it takes and is about, unless something is in its way.
    pub(crate) fn resolve_items(
        &self,
        in_the_way: impl Fn(&RoundClaims) -> Option<String>,
    ) -> Result<(RoundClaims, Vec<Arc<str>>), String> {
        let plain = self.claims.clone().unwrap_or_default();
        let about = |items: &[Arc<str>]| plain.with_items(&self.key.repo, items);
        let is_free = |item: &&Arc<str>| in_the_way(&about(std::slice::from_ref(*item))).is_none();
        let items = match self.pick {
            ItemSelection::All => self.items.clone(),
            ItemSelection::Free => self.items.iter().filter(is_free).cloned().collect(),
        };
        // Where nothing is left, what is in the way of all of it is told.
        let claims = about(if items.is_empty() { &self.items } else { &items });
        in_the_way(&claims).map_or(Ok((claims, items)), Err)
    }

    pub(crate) fn busy_error(&self, why: String) -> EngineError {
        EngineError::Busy { loop_name: self.key.name.to_string(), why }
    }
}

/// The place of one round in its loop; given back when it is dropped.
pub(crate) trait LoopSlotHold: Send + Sync {}

/// Who begins a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RoundStarter {
    /// The daemon itself, which has made room for it.
    Dispatcher,
    /// Anybody else: a command, an embedder.
    Manual,
}

impl LiveRounds {
    /// Takes a round, unless somebody in this process has it.
    pub(crate) fn register(&self, round: &str) -> Option<LiveRoundGuard> {
        let new = self.lock().rounds.insert(round.to_owned());
        new.then(|| LiveRoundGuard { live: self.clone(), round: round.to_owned() })
    }

    /// Whether somebody in this process is at it.
    pub(crate) fn contains(&self, round: &str) -> bool {
        self.lock().rounds.contains(round)
    }

    /// Who is asked, if anybody is.
    pub(crate) fn admission(&self) -> Option<Arc<dyn RoundAdmission>> {
        self.lock().admission.clone()
    }

    /// From now on this one is asked; `false` when there is one already.
    pub(crate) fn set_admission(&self, porter: Arc<dyn RoundAdmission>) -> bool {
        let mut inner = self.lock();
        let is_free = inner.admission.is_none();
        if is_free {
            inner.admission = Some(porter);
        }
        is_free
    }

    /// Nobody is asked any more.
    pub(crate) fn clear_admission(&self) {
        self.lock().admission = None;
    }

    /// The set stays right when a holder panics: each change is one call.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for LiveRoundGuard {
    fn drop(&mut self) {
        self.live.lock().rounds.remove(&self.round);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_under_way_once_and_until_it_is_left() {
        let live = LiveRounds::default();
        let here = live.register("r1").expect("nobody is at it");
        assert!(live.contains("r1") && live.register("r1").is_none() && live.register("r2").is_some());
        drop(here);
        assert!(!live.contains("r1") && live.register("r1").is_some());
    }
}
