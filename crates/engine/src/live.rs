//! Rounds under way in this process, and the loops they are of. What the record calls unfinished is abandoned only when nobody
//! here is at it, so that loops which share an engine neither end each other's agents nor answer for the same round twice.
//!
//! Where a daemon runs on the engine it is asked before a round begins, whoever begins it: one round of a loop at a time.
//! Without one, several at once are the embedder's business.

use crate::error::EngineError;
use crate::proc::Cancel;
use loopwright_core::BoxFuture;
use loopwright_core::round::Round;
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
    /// Lets it in, unless a round of the loop is under way. It can be stopped by the switch.
    fn admit<'a>(
        &'a self,
        repo: &'a str,
        loop_name: &'a str,
        round: &'a str,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Box<dyn Stay>, EngineError>>;

    /// A round came to rest; so that its loop's schedule, and loops that follow it, can learn from it.
    fn rested<'a>(&'a self, round: &'a Round) -> BoxFuture<'a, ()>;

    /// The loops of the repository that are due when a round of this one ends.
    fn followers(&self, repo: &str, loop_name: &str) -> Vec<Arc<str>>;

    /// There is more room in the loop's budget.
    fn raised(&self, repo: &str, loop_name: &str);
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

    /// Asks for the loop's one place, where somebody keeps it.
    pub(crate) async fn admit(
        &self,
        by: By,
        repo: &str,
        loop_name: &str,
        round: &str,
        cancel: &Cancel,
    ) -> Result<Option<Box<dyn Stay>>, EngineError> {
        match self.porter().filter(|_| by == By::Hand) {
            Some(porter) => porter.admit(repo, loop_name, round, cancel).await.map(Some),
            None => Ok(None),
        }
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
