//! The running rounds: each has a task and a cancel token of its own, or belongs to another caller and only holds a
//! slot here. This module does not know what rounds do, only their results.

use super::message::ReplySender;
use super::{RoundOrigin, RunningRound};
use crate::proc::CancelToken;
use loopwright_core::dispatch::{LoopKey, RoundEnd};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tokio::task::{Id, JoinError, JoinSet};

/// The result of a round's task.
#[derive(Debug)]
pub(super) enum RoundTaskOutcome {
    /// The round is at rest.
    Rested,
    /// The round is at rest and was to resume, but another process has its loop's slot; it resumes later.
    Deferred,
    /// There is no round; `again` says whether there may be one later.
    NotStarted { why: String, again: RetryDecision },
    /// The loop has no work.
    NoWork,
    /// The loop has as many open pull requests as it may have.
    TooManyOpen { open: u32 },
    /// Rounds of other loops work on all of its items; it starts again later.
    Withheld,
    /// The occurrence has its receipt already, and perhaps a round that must be resumed.
    AlreadyRecorded { round: Option<String> },
    /// The round is left open on record.
    LeftOpen { why: String, again: RetryDecision },
    /// This process lost the right to schedule, for this reason.
    Fenced(String),
}

/// Whether another try makes sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetryDecision {
    /// The cause may go away soon.
    Soon,
    /// The forge does not answer, or gives no access until a person fixes it. The occurrence waits for that.
    WithForge,
    /// The cause stays.
    Never,
}

/// A loop's slot that is taken.
pub(super) struct RunningSlot {
    pub(super) key: LoopKey,
    /// The dispatcher's ticket of the start, until the round has started.
    pub(super) ticket: Option<u64>,
    /// The channel for the answer to its claim.
    pub(super) claim: Option<ReplySender<Option<Vec<Arc<str>>>>>,
    pub(super) occurrence: Option<String>,
    pub(super) round: Option<String>,
    pub(super) cancel: CancelToken,
    pub(super) since_ms: i64,
    pub(super) begun: RoundOrigin,
    /// The end of its round, once it is at rest.
    pub(super) end: Option<RoundEnd>,
    /// The number of times its round was left open.
    pub(super) tries: u32,
    /// Whether no task runs it for now.
    pub(super) is_parked: bool,
    /// Whether its round was at rest and is to resume: it is not over when it is found at rest again.
    pub(super) is_resumed: bool,
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
            is_resumed: false,
        }
    }
}

/// All taken slots and their tasks.
#[derive(Default)]
pub(super) struct RunningRounds {
    set: JoinSet<RoundTaskOutcome>,
    tasks: HashMap<Id, u64>,
    slots: BTreeMap<u64, RunningSlot>,
    next: u64,
}

impl RunningRounds {
    /// Adds a slot; returns its number.
    pub(super) fn insert(&mut self, slot: RunningSlot) -> u64 {
        let number = self.next;
        self.next += 1;
        self.slots.insert(number, slot);
        number
    }

    /// Starts a task for a slot.
    pub(super) fn spawn(&mut self, slot: u64, work: impl Future<Output = RoundTaskOutcome> + Send + 'static) {
        let task = self.set.spawn(work);
        self.tasks.insert(task.id(), slot);
    }

    /// Starts a task that has no slot and whose result is not needed.
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

    /// The next finished task, with its result or the text of its panic. Pending forever if there are no tasks.
    pub(super) async fn next_finished(&mut self) -> (u64, Result<RoundTaskOutcome, String>) {
        loop {
            let Some(joined) = self.set.join_next_with_id().await else { std::future::pending().await };
            if let Some(finished) = self.of_place(joined) {
                return finished;
            }
        }
    }

    /// Another task that has finished already.
    pub(super) fn try_next_finished(&mut self) -> Option<(u64, Result<RoundTaskOutcome, String>)> {
        loop {
            let joined = self.set.try_join_next_with_id()?;
            if let Some(finished) = self.of_place(joined) {
                return Some(finished);
            }
        }
    }

    /// The result of a slot's task; `None` for a task without a slot.
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

    /// The slot of a round.
    pub(super) fn slot_of_round(&mut self, round: &str) -> Option<(u64, &mut RunningSlot)> {
        let mut all = self.slots.iter_mut();
        all.find(|(_, slot)| slot.round.as_deref() == Some(round)).map(|(number, slot)| (*number, slot))
    }

    /// The slot of a start.
    pub(super) fn slot_of_ticket(&mut self, ticket: u64) -> Option<&mut RunningSlot> {
        self.slots.values_mut().find(|slot| slot.ticket == Some(ticket))
    }

    /// Whether a start is pending: there is no round yet, and the start has not been given up.
    pub(super) fn has_pending_starts(&self) -> bool {
        self.slots.values().any(|slot| slot.ticket.is_some())
    }

    /// The number of slots with a running task of this process. Rounds of other processes do not hold up its end.
    pub(super) fn busy_count(&self) -> usize {
        self.slots.values().filter(|slot| !slot.is_parked && slot.begun != RoundOrigin::Elsewhere).count()
    }

    pub(super) fn list_running(&self) -> Vec<RunningRound> {
        let describe = |slot: &RunningSlot| RunningRound {
            key: slot.key.clone(),
            round: slot.round.clone(),
            since_ms: slot.since_ms,
            begun: slot.begun,
            is_parked: slot.is_parked,
        };
        self.slots.values().map(describe).collect()
    }

    /// Cancels all of them because this process ends.
    pub(super) fn cancel_all(&self) {
        self.slots.values().for_each(|slot| slot.cancel.cancel());
    }

    /// Cancels all of them for the given reason.
    pub(super) fn cancel_all_because(&self, why: &str) {
        self.slots.values().for_each(|slot| slot.cancel.cancel_because(why));
    }

    /// Aborts tasks that do not end by themselves; processes that they started are killed with them.
    pub(super) async fn abort(&mut self) {
        self.set.shutdown().await;
        self.tasks.clear();
        self.slots.clear();
    }
}

/// The text of a panic.
pub(super) fn panic_text(error: JoinError) -> String {
    let Ok(payload) = error.try_into_panic() else { return "its task was aborted".to_owned() };
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a message".to_owned())
}
