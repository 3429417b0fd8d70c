//! The rounds that run in this process, and their loops. An unfinished round on record counts as abandoned only if no
//! task here works on it, so that loops which share an engine neither end each other's agents nor answer for the same
//! round twice.
//!
//! If a daemon runs on the engine, every round asks it for admission: one round of a loop at a time. Without a daemon,
//! the embedder decides whether several rounds of one loop run at once in one process. The store's leases still guard
//! the locks of rounds, and between processes a loop has one round at a time.

use crate::daemon::{DaemonAdmission, LoopSlot};
use crate::error::EngineError;
use crate::proc::CancelToken;
use loopwright_core::dispatch::{LoopKey, RoundClaims};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The ids of the running rounds, and the admission that is asked before one starts.
#[derive(Clone, Default)]
pub(crate) struct LiveRounds(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    /// Each with the token that ends its agents, once it has one.
    rounds: HashMap<String, Option<CancelToken>>,
    admission: Option<Arc<DaemonAdmission>>,
}

/// Held while a round runs. Dropping it, also by a panic or an abandoned future, unregisters the round.
pub(crate) struct LiveRoundGuard {
    live: LiveRounds,
    round: String,
}

/// A round that is about to start or resume.
#[derive(Debug, Clone)]
pub(crate) struct AdmissionRequest {
    pub(crate) key: LoopKey,
    pub(crate) round: String,
    /// Its claims without items; `None` takes those of its loop's file.
    pub(crate) claims: Option<RoundClaims>,
    pub(crate) items: Vec<Arc<str>>,
    pub(crate) pick: ItemSelection,
}

/// Which of the requested items a round gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ItemSelection {
    /// All: they were named explicitly.
    All,
    /// Those that no other round works on: a probe found them.
    Free,
}

/// A round that was admitted.
pub(crate) struct AdmittedRound {
    /// Held while the round runs, if a daemon manages slots.
    pub(crate) slot: Option<LoopSlot>,
    /// The items that the round may work on.
    pub(crate) items: Vec<Arc<str>>,
}

impl AdmissionRequest {
    /// The round's claims and items, or the reason why it is blocked.
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
        // If no item is free, the message names the conflict of all of them.
        let claims = about(if items.is_empty() { &self.items } else { &items });
        in_the_way(&claims).map_or(Ok((claims, items)), Err)
    }

    pub(crate) fn busy_error(&self, why: String) -> EngineError {
        EngineError::Busy { loop_name: self.key.name.to_string(), why }
    }
}

/// The starter of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RoundStarter {
    /// The daemon's dispatcher, which has reserved the slot.
    Dispatcher,
    /// Any other caller: a command, an embedder.
    Manual,
}

impl LiveRounds {
    /// Registers a round, unless it already runs in this process.
    pub(crate) fn register(&self, round: &str) -> Option<LiveRoundGuard> {
        let mut inner = self.lock();
        let is_new = !inner.rounds.contains_key(round);
        is_new.then(|| {
            inner.rounds.insert(round.to_owned(), None);
            LiveRoundGuard { live: self.clone(), round: round.to_owned() }
        })
    }

    /// Whether the round runs in this process.
    pub(crate) fn contains(&self, round: &str) -> bool {
        self.lock().rounds.contains_key(round)
    }

    /// The rounds that run in this process and whose agents can be ended. A round that is being taken over, or that
    /// another process may hold, is not one of them yet.
    pub(crate) fn names(&self) -> Vec<String> {
        let inner = self.lock();
        inner.rounds.iter().filter(|(_, token)| token.is_some()).map(|(name, _)| name.clone()).collect()
    }

    /// Ends the agents of a round that runs here.
    pub(crate) fn end(&self, round: &str, why: &str) {
        let token = self.lock().rounds.get(round).cloned().flatten();
        if let Some(token) = token {
            token.cancel_because(why);
        }
    }

    /// The admission that is asked, if there is one.
    pub(crate) fn admission(&self) -> Option<Arc<DaemonAdmission>> {
        self.lock().admission.clone()
    }

    /// Sets the admission; returns `false` if there already is one.
    pub(crate) fn set_admission(&self, admission: Arc<DaemonAdmission>) -> bool {
        let mut inner = self.lock();
        let is_free = inner.admission.is_none();
        if is_free {
            inner.admission = Some(admission);
        }
        is_free
    }

    /// Removes the admission.
    pub(crate) fn clear_admission(&self) {
        self.lock().admission = None;
    }

    /// The set is sound even if a holder panics: each change is one call.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LiveRoundGuard {
    /// This token ends the agents of the round.
    pub(crate) fn ends_by(&self, token: &CancelToken) {
        if let Some(known) = self.live.lock().rounds.get_mut(&self.round) {
            *known = Some(token.clone());
        }
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
    fn round_is_registered_once_until_its_guard_is_dropped() {
        let live = LiveRounds::default();
        let here = live.register("r1").expect("the round is not running");
        assert!(live.contains("r1") && live.register("r1").is_none() && live.register("r2").is_some());
        let token = CancelToken::new();
        assert!(live.names().is_empty(), "nothing can end it yet");
        live.end("r1", "it has no agent yet");
        here.ends_by(&token);
        assert_eq!(live.names(), ["r1"]);
        live.end("r2", "it is not here");
        assert!(!token.is_cancelled());
        live.end("r1", "taken");
        assert_eq!(token.why().as_deref(), Some("taken"));
        drop(here);
        assert!(!live.contains("r1") && live.register("r1").is_some());
    }
}
