//! Rounds under way in this process. What the record calls unfinished is abandoned only when nobody here is at it, so that
//! loops which share an engine neither end each other's agents nor answer for the same round twice.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The ids of the rounds under way.
#[derive(Clone, Default)]
pub(crate) struct Live(Arc<Mutex<HashSet<String>>>);

/// Held while a round is under way; dropped, also by a panic or an abandoned future, it is not any more.
pub(crate) struct Here {
    live: Live,
    round: String,
}

impl Live {
    /// Takes a round, unless somebody in this process has it.
    pub(crate) fn enter(&self, round: &str) -> Option<Here> {
        let new = self.rounds().insert(round.to_owned());
        new.then(|| Here { live: self.clone(), round: round.to_owned() })
    }

    /// Whether somebody in this process is at it.
    pub(crate) fn holds(&self, round: &str) -> bool {
        self.rounds().contains(round)
    }

    /// The set stays right when a holder panics: each change is one call.
    fn rounds(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        self.live.rounds().remove(&self.round);
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
