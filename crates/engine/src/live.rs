//! Rounds under way in this process, and the loops they are of. What the record calls unfinished is abandoned only when nobody
//! here is at it, so that loops which share an engine neither end each other's agents nor answer for the same round twice.
//!
//! Where a daemon runs on the engine it is asked before a round begins, whoever begins it: one round of a loop at a time.
//! Without one, several of a loop at once in one process are the embedder's business. What they lock is not, and between
//! processes a loop has one round at a time: both are kept by the leases of the store.

use crate::error::EngineError;
use crate::proc::Cancel;
use loopwright_core::BoxFuture;
use loopwright_core::dispatch::{Claims, LoopKey};
use loopwright_core::round::{Round, Started};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The ids of the rounds under way, and who is asked before one begins.
#[derive(Clone, Default)]
pub(crate) struct Live(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    rounds: HashSet<String>,
    porter: Option<Arc<dyn Porter>>,
}

/// Held while a round is under way; dropped, also by a panic or an abandoned future, it is not any more.
pub(crate) struct Here {
    live: Live,
    round: String,
}

/// Who is asked before a round of a loop begins.
pub(crate) trait Porter: Send + Sync {
    /// Lets it in, unless a round of the loop is under way or another one has what it takes. It can be stopped by the switch.
    fn admit<'a>(&'a self, arrival: Arrival, cancel: &'a Cancel) -> BoxFuture<'a, Result<Admission, EngineError>>;

    /// A round came to rest; so that its loop's schedule, and loops that follow it, can learn from it.
    fn rested<'a>(&'a self, round: &'a Round) -> BoxFuture<'a, ()>;

    /// A round was answered, and what followed could not be done to its rest: somebody has to look after it.
    fn left(&self, started: &Started);

    /// The loops of the repository that are due when a round of this one ends.
    fn followers(&self, repo: &str, loop_name: &str) -> Vec<Arc<str>>;

    /// There is more room in the loop's budget.
    fn raised(&self, repo: &str, loop_name: &str);
}

/// A round that wants to begin or to go on.
#[derive(Debug, Clone)]
pub(crate) struct Arrival {
    pub(crate) key: LoopKey,
    pub(crate) round: String,
    /// What it takes whatever it is about; as its loop's file has it, when absent.
    pub(crate) claims: Option<Claims>,
    pub(crate) items: Vec<Arc<str>>,
    pub(crate) pick: Pick,
}

/// Of the items that a round wants to be about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pick {
    /// All: somebody named them.
    Every,
    /// Those on which nobody else works: a probe found them.
    Free,
}

/// A round that was let in.
pub(crate) struct Admission {
    /// Held while it is under way, where somebody keeps places.
    pub(crate) stay: Option<Box<dyn Stay>>,
    /// What it may be about.
    pub(crate) items: Vec<Arc<str>>,
}

impl Arrival {
    /// What it takes and is about, unless something is in its way.
    pub(crate) fn settled(
        &self,
        in_the_way: impl Fn(&Claims) -> Option<String>,
    ) -> Result<(Claims, Vec<Arc<str>>), String> {
        let plain = self.claims.clone().unwrap_or_default();
        let about = |items: &[Arc<str>]| plain.about(&self.key.repo, items);
        let is_free = |item: &&Arc<str>| in_the_way(&about(std::slice::from_ref(*item))).is_none();
        let items = match self.pick {
            Pick::Every => self.items.clone(),
            Pick::Free => self.items.iter().filter(is_free).cloned().collect(),
        };
        // Where nothing is left, what is in the way of all of it is told.
        let claims = about(if items.is_empty() { &self.items } else { &items });
        in_the_way(&claims).map_or(Ok((claims, items)), Err)
    }

    pub(crate) fn busy(&self, why: String) -> EngineError {
        EngineError::Busy { loop_name: self.key.name.to_string(), why }
    }
}

/// The place of one round in its loop; given back when it is dropped.
pub(crate) trait Stay: Send + Sync {}

/// Who begins a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// The daemon itself, which has made room for it.
    Dispatcher,
    /// Anybody else: a command, an embedder.
    Hand,
}

impl Live {
    /// Takes a round, unless somebody in this process has it.
    pub(crate) fn enter(&self, round: &str) -> Option<Here> {
        let new = self.lock().rounds.insert(round.to_owned());
        new.then(|| Here { live: self.clone(), round: round.to_owned() })
    }

    /// Whether somebody in this process is at it.
    pub(crate) fn holds(&self, round: &str) -> bool {
        self.lock().rounds.contains(round)
    }

    /// Who is asked, if anybody is.
    pub(crate) fn porter(&self) -> Option<Arc<dyn Porter>> {
        self.lock().porter.clone()
    }

    /// From now on this one is asked; `false` when there is one already.
    pub(crate) fn post(&self, porter: Arc<dyn Porter>) -> bool {
        let mut inner = self.lock();
        let is_free = inner.porter.is_none();
        if is_free {
            inner.porter = Some(porter);
        }
        is_free
    }

    /// Nobody is asked any more.
    pub(crate) fn dismiss(&self) {
        self.lock().porter = None;
    }

    /// The set stays right when a holder panics: each change is one call.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        self.live.lock().rounds.remove(&self.round);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_under_way_once_and_until_it_is_left() {
        let live = Live::default();
        let here = live.enter("r1").expect("nobody is at it");
        assert!(live.holds("r1") && live.enter("r1").is_none() && live.enter("r2").is_some());
        drop(here);
        assert!(!live.holds("r1") && live.enter("r1").is_some());
    }
}
