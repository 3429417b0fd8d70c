//! The rounds under way: each a task of its own with its own switch, or somebody else's with a place here. What they do is
//! not known here; what they came to is.

use super::message::ReplySender;
use super::{RoundOrigin, RunningRound};
use crate::proc::CancelToken;
use loopwright_core::dispatch::{LoopKey, RoundEnd};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tokio::task::{Id, JoinError, JoinSet};

/// What a task of a round came to.
#[derive(Debug)]
pub(super) enum RoundTaskOutcome {
    /// The round is at rest.
    Rested,
    /// There is none, and there may be one later or not.
    NotStarted { why: String, again: RetryDecision },
    /// There is nothing to do.
    NoWork,
    /// The loop has as many open pull requests as it may have.
    TooManyOpen { open: u32 },
    /// Others work on all there is to do; it comes again.
    Withheld,
    /// The occurrence has its receipt already, and perhaps a round that somebody has to look after.
    AlreadyRecorded { round: Option<String> },
    /// The round is left open on record.
    LeftOpen { why: String, again: RetryDecision },
    /// Another engine has the store.
    Fenced(String),
}

/// Whether another try makes sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetryDecision {
    /// The world may be better soon.
    Soon,
    /// It will not.
    Never,
}

/// A loop's place that is taken.
pub(super) struct RunningSlot {
    pub(super) key: LoopKey,
    /// The dispatcher's name of the start, until the round is born.
    pub(super) ticket: Option<u64>,
    /// Where the answer to what it claims goes.
    pub(super) claim: Option<ReplySender<Option<Vec<Arc<str>>>>>,
    pub(super) occurrence: Option<String>,
    pub(super) round: Option<String>,
    pub(super) cancel: CancelToken,
    pub(super) since_ms: i64,
    pub(super) begun: RoundOrigin,
    /// How its round came to rest.
    pub(super) end: Option<RoundEnd>,
    /// How often its round was left open.
    pub(super) tries: u32,
    /// Whether nobody is at it for now.
    pub(super) is_parked: bool,
}

impl RunningSlot {
    pub(super) fn new(key: LoopKey, since_ms: i64, begun: RoundOrigin) -> Self {
        Self {
            key,
            ticket: None,
            claim: None,
            occurrence: None,
            round: None,
            cancel: CancelToken::new(),
            since_ms,
            begun,
            end: None,
            tries: 0,
            is_parked: false,
        }
    }
}

/// All of them.
#[derive(Default)]
pub(super) struct RunningRounds {
    set: JoinSet<RoundTaskOutcome>,
    tasks: HashMap<Id, u64>,
    slots: BTreeMap<u64, RunningSlot>,
    next: u64,
}

impl RunningRounds {
    /// Takes a place; its number names it.
    pub(super) fn insert(&mut self, slot: RunningSlot) -> u64 {
        let number = self.next;
        self.next += 1;
        self.slots.insert(number, slot);
        number
    }

    /// Lets a task work for a place.
    pub(super) fn spawn(&mut self, slot: u64, work: impl Future<Output = RoundTaskOutcome> + Send + 'static) {
        let task = self.set.spawn(work);
        self.tasks.insert(task.id(), slot);
    }

    /// Lets a task work that has no place and that nobody waits for.
    pub(super) fn spawn_aside(&mut self, work: impl Future<Output = ()> + Send + 'static) {
        self.set.spawn(async move {
            work.await;
            RoundTaskOutcome::Rested
        });
    }

    /// Waits for all tasks.
    pub(super) async fn wait(&mut self) {
        while self.set.join_next().await.is_some() {}
    }

    /// The next task that came to its end, with what it came to or the words of its panic. Waits for ever when there is none.
    pub(super) async fn next_finished(&mut self) -> (u64, Result<RoundTaskOutcome, String>) {
        loop {
            let Some(joined) = self.set.join_next_with_id().await else { std::future::pending().await };
            if let Some(finished) = self.of_place(joined) {
                return finished;
            }
        }
    }

    /// Another one that has come to its end already.
    pub(super) fn try_next_finished(&mut self) -> Option<(u64, Result<RoundTaskOutcome, String>)> {
        loop {
            let joined = self.set.try_join_next_with_id()?;
            if let Some(finished) = self.of_place(joined) {
                return Some(finished);
            }
        }
    }

    /// What a task of a place came to; nothing for one that has none.
    fn of_place(
        &mut self,
        joined: Result<(Id, RoundTaskOutcome), JoinError>,
    ) -> Option<(u64, Result<RoundTaskOutcome, String>)> {
        let (id, finished) = match joined {
            Ok((id, finished)) => (id, Ok(finished)),
            Err(error) => (error.id(), Err(panic_text(error))),
        };
        self.tasks.remove(&id).map(|slot| (slot, finished))
    }

    pub(super) fn get(&mut self, slot: u64) -> Option<&mut RunningSlot> {
        self.slots.get_mut(&slot)
    }

    pub(super) fn remove(&mut self, slot: u64) -> Option<RunningSlot> {
        self.slots.remove(&slot)
    }

    /// The place of a round.
    pub(super) fn slot_of_round(&mut self, round: &str) -> Option<(u64, &mut RunningSlot)> {
        let mut all = self.slots.iter_mut();
        all.find(|(_, slot)| slot.round.as_deref() == Some(round)).map(|(number, slot)| (*number, slot))
    }

    /// The place of a start.
    pub(super) fn slot_of_ticket(&mut self, ticket: u64) -> Option<&mut RunningSlot> {
        self.slots.values_mut().find(|slot| slot.ticket == Some(ticket))
    }

    /// Whether a start is being looked at that is neither a round yet nor none.
    pub(super) fn has_pending_starts(&self) -> bool {
        self.slots.values().any(|slot| slot.ticket.is_some())
    }

    /// Places at which somebody works.
    pub(super) fn busy_count(&self) -> usize {
        self.slots.values().filter(|slot| !slot.is_parked).count()
    }

    pub(super) fn list_running(&self) -> Vec<RunningRound> {
        let told = |slot: &RunningSlot| RunningRound {
            key: slot.key.clone(),
            round: slot.round.clone(),
            since_ms: slot.since_ms,
            begun: slot.begun,
            is_parked: slot.is_parked,
        };
        self.slots.values().map(told).collect()
    }

    /// Asks all of them to end, because this process does.
    pub(super) fn cancel_all(&self) {
        self.slots.values().for_each(|slot| slot.cancel.cancel());
    }

    /// Asks all of them to end, because somebody wants it.
    pub(super) fn cancel_all_because(&self, why: &str) {
        self.slots.values().for_each(|slot| slot.cancel.cancel_because(why));
    }

    /// Ends those that do not end by themselves; what they started is killed with them.
    pub(super) async fn abort(&mut self) {
        self.set.shutdown().await;
        self.tasks.clear();
        self.slots.clear();
    }
}

/// The words of a panic.
pub(super) fn panic_text(error: JoinError) -> String {
    let Ok(payload) = error.try_into_panic() else { return "its task was ended".to_owned() };
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without words".to_owned())
}
