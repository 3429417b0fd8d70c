//! Runs the dispatcher's commands in order. A write holds back everything behind it until it is durable, except starts
//! of loops that the write is not about. Everything else is started and runs beside the queue.

use super::agenda::AgendaEntry;
use super::dispatch_loop::{DispatchLoop, DispatchMode, WRITE_MAX, millis};
use super::message::ReplySender;
use super::persist::{self, PendingRows};
use super::round_task::{RoundTask, is_store_lost};
use super::running_rounds::{RetryDecision, RoundTaskOutcome, RunningSlot};
use super::{DaemonEnd, RoundOrigin};
use crate::error::EngineError;
use crate::events::EventKind;
use crate::store::{ReceiptRow, RoundLease, StoreError};
use loopwright_core::BoxFuture;
use loopwright_core::dispatch::{DispatchCommand, DispatchInput, LoopExplanation, LoopKey, RoundEnd, RoundStart};
use loopwright_core::outcome::RoundOutcome;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Delay until a start that did not succeed is tried again.
pub(super) const RETRY_MS: i64 = 5_000;

/// The wait before a start asks its forge again. A wrong token that is sent more often may lock the account.
const FORGE_RETRY_MS: i64 = 30_000;
/// A failed write is tried again after a second, then after twice as long each time, up to this.
const REWRITE_MAX_MS: i64 = 60_000;
/// The longest time that rows wait for others to join their transaction.
const WRITE_DELAY: Duration = Duration::from_millis(5);
/// A round that was left open is resumed after minutes, then after twice as long each time, up to an hour.
const RETAKE_MS: i64 = 60_000;
const DOUBLINGS_MAX: u32 = 6;
/// After a write of at least this many rows the process releases unused memory: thousands of loops were just loaded.
const MANY_ROWS: usize = 1_000;

/// One job of the queue.
pub(super) enum DispatchJob {
    WriteRows(Box<PendingRows>),
    Start(Box<RoundStart>),
    Cancel {
        round: String,
        why: String,
    },
    Publish(Option<LoopKey>, EventKind),
    /// The removal of the file that stops everything, once the flag in a store that machines share is durable.
    RemoveStopFile,
    /// The end of the global stop, once that is durable.
    Thaw,
    /// The answer to a caller, once the jobs before it are durable.
    Answer(ReplySender<Result<(), EngineError>>),
}

/// The first start, if all rows before it are only about the standing of other loops. If those rows are lost, they are
/// decided again, and this start does not depend on them.
fn take_passing_start(line: &mut VecDeque<DispatchJob>, writing: Option<&PendingRows>) -> Option<DispatchJob> {
    let at = line.iter().position(|job| !matches!(job, DispatchJob::WriteRows(_)))?;
    let Some(DispatchJob::Start(start)) = line.get(at) else { return None };
    let before = line.iter().take(at).filter_map(DispatchJob::pending_rows);
    let may_pass = before.chain(writing).all(|keeping| keeping.allows_start_of(&start.key));
    if !may_pass {
        return None;
    }
    let start = line.remove(at);
    join_rows_at(line, at);
    start
}

/// Rows that are queued behind other rows join them, where that is allowed.
pub(super) fn join_rows_at(line: &mut VecDeque<DispatchJob>, at: usize) {
    let is_keep = |job: Option<&DispatchJob>| matches!(job, Some(DispatchJob::WriteRows(_)));
    let Some(before) = at.checked_sub(1).filter(|before| is_keep(line.get(*before)) && is_keep(line.get(at))) else {
        return;
    };
    if let (Some(DispatchJob::WriteRows(next)), Some(DispatchJob::WriteRows(last))) =
        (line.remove(at), line.get_mut(before))
        && let Err(next) = last.join(*next)
    {
        line.insert(at, DispatchJob::WriteRows(next));
    }
}

impl DispatchJob {
    fn pending_rows(&self) -> Option<&PendingRows> {
        match self {
            Self::WriteRows(keeping) => Some(keeping),
            _ => None,
        }
    }
}

/// A running write.
pub(super) struct RowsInFlight {
    pub(super) work: BoxFuture<'static, Result<Vec<ReceiptRow>, StoreError>>,
    rows: PendingRows,
    since: Instant,
    is_reported: bool,
}

impl RowsInFlight {
    /// The time until the write counts as slow.
    pub(super) fn time_until_slow(&self) -> Option<Duration> {
        (!self.is_reported).then(|| WRITE_MAX.saturating_sub(self.since.elapsed()))
    }
}

impl DispatchLoop {
    /// Queues a command.
    pub(super) fn queue(&mut self, command: DispatchCommand) {
        match command {
            DispatchCommand::Persist { receipts, standings, taken } => {
                persist::batch_rows(receipts, standings, &taken)
                    .into_iter()
                    .for_each(|keeping| self.queue_rows(keeping));
            }
            DispatchCommand::Start(start) => self.jobs.push_back(DispatchJob::Start(Box::new(start))),
            DispatchCommand::Granted { ticket, items } => self.answer_claim(ticket, Some(items)),
            DispatchCommand::Withheld { ticket } => self.answer_claim(ticket, None),
            DispatchCommand::Cancel { round, why, .. } => self.jobs.push_back(DispatchJob::Cancel { round, why }),
            DispatchCommand::AskPerson { key, why } => {
                self.ask_person(&key, &why);
                self.jobs.push_back(DispatchJob::Publish(Some(key), EventKind::Asked { why }));
            }
            DispatchCommand::Note(note) => self.jobs.push_back(DispatchJob::Publish(None, EventKind::Scheduler(note))),
        }
    }

    /// Answers a start that asked which of its items it may work on. A withheld start loses its ticket: it is over.
    fn answer_claim(&mut self, ticket: u64, granted: Option<Vec<Arc<str>>>) {
        let Some(slot) = self.rounds.slot_of_ticket(ticket) else { return };
        if granted.is_none() {
            slot.ticket = None;
        }
        if let Some(reply) = slot.claim.take() {
            // A task that has ended needs no answer.
            let _ = reply.send(granted);
        }
    }

    pub(super) fn handle_claim(&mut self, slot: u64, items: Vec<Arc<str>>, reply: ReplySender<Option<Vec<Arc<str>>>>) {
        let Some(place) = self.rounds.get(slot) else { return };
        place.claim = Some(reply);
        if let Some(ticket) = place.ticket {
            self.step(DispatchInput::Claim { ticket, items: items.clone() });
        }
        // A start that the dispatcher does not know any more continues, and learns its outcome when the round starts.
        if let Some(reply) = self.rounds.get(slot).and_then(|place| place.claim.take()) {
            let _ = reply.send(Some(items));
        }
    }

    fn ask_person(&mut self, key: &LoopKey, why: &str) {
        let question = persist::pause_question(key, why, self.engine.now_ms());
        self.queue_rows(PendingRows { question: Some(question), ..PendingRows::default() });
    }

    /// Runs jobs up to the next write; behind that, only jobs that do not depend on it.
    pub(super) fn run_jobs(&mut self) {
        while self.rewrite_ms.is_none() && self.ended.is_none() {
            let job = self.next_job();
            match job {
                Some(DispatchJob::WriteRows(keeping)) => self.write(*keeping),
                Some(DispatchJob::Start(start)) => self.start(*start),
                Some(DispatchJob::Cancel { round, why }) => drop(self.cancel(&round, why)),
                Some(DispatchJob::Publish(key, kind)) => self.publish(key, kind),
                Some(DispatchJob::RemoveStopFile) => self.remove_stop_file(),
                Some(DispatchJob::Thaw) => self.finish_thaw(),
                // The caller may be gone.
                Some(DispatchJob::Answer(reply)) => drop(reply.send(Ok(()))),
                None => return,
            }
        }
    }

    /// A start that may pass goes first: its results may be written in the same transaction.
    fn next_job(&mut self) -> Option<DispatchJob> {
        let start = take_passing_start(&mut self.jobs, self.rows_in_flight.as_ref().map(|writing| &writing.rows));
        match start {
            None if self.rows_in_flight.is_some() || self.waits_for_more() => None,
            None => self.jobs.pop_front(),
            start => start,
        }
    }

    /// Whether the next write waits a moment for the results of starts that run their probes. Loops that are due
    /// together and have no work then take one transaction.
    fn waits_for_more(&mut self) -> bool {
        let Some(DispatchJob::WriteRows(keeping)) = self.jobs.front() else { return false };
        let waits = keeping.loops.is_some() && self.rounds.has_pending_starts();
        if waits {
            self.write_by.get_or_insert_with(|| Instant::now() + WRITE_DELAY);
        }
        waits
    }

    /// Rows have waited long enough for others.
    pub(super) fn write_now(&mut self) {
        self.write_by = None;
        if self.rows_in_flight.is_none() && self.rewrite_ms.is_none() && self.ended.is_none() {
            let next = self.jobs.pop_front_if(|job| matches!(job, DispatchJob::WriteRows(_)));
            if let Some(DispatchJob::WriteRows(keeping)) = next {
                self.write(*keeping);
            }
        }
    }

    fn write(&mut self, keeping: PendingRows) {
        self.write_by = None;
        let work = Box::pin(persist::write_rows(self.engine.clone(), keeping.clone()));
        self.rows_in_flight = Some(RowsInFlight { work, rows: keeping, since: Instant::now(), is_reported: false });
    }

    pub(super) fn report_slow_write(&mut self) {
        let state = self.describe_state();
        let Some(writing) = &mut self.rows_in_flight else { return };
        writing.is_reported = true;
        let for_ms = millis(writing.since.elapsed());
        self.publish(None, EventKind::Slow { what: "a write to the store", for_ms, state });
    }

    pub(super) fn on_rows_written(&mut self, written: Result<Vec<ReceiptRow>, StoreError>) {
        let Some(RowsInFlight { rows: keeping, .. }) = self.rows_in_flight.take() else { return };
        match written {
            Ok(known) => self.on_rows_durable(keeping, &known),
            Err(error) if is_store_lost(&error.kind) => self.end_fenced(error.to_string()),
            Err(error) => self.retry_rows(keeping, &error),
        }
    }

    fn on_rows_durable(&mut self, keeping: PendingRows, known: &[ReceiptRow]) {
        self.tries = 0;
        let PendingRows { mut receipts, changes, .. } = keeping;
        if changes.len() >= MANY_ROWS && self.jobs.is_empty() {
            drop(changes);
            drop(tokio::task::spawn_blocking(crate::proc::release_memory));
        }
        for row in known {
            let key = LoopKey::new(&row.repo, &row.loop_name);
            receipts.retain(|receipt| receipt.key != key || receipt.occurrence != row.occurrence);
            self.publish(Some(key), EventKind::AlreadyDone { occurrence: row.occurrence.clone() });
        }
        if !receipts.is_empty() {
            self.publish(None, EventKind::Receipts(receipts));
        }
    }

    /// Puts the rows back at the front of the queue, and reports the error to callers that wait behind them.
    fn retry_rows(&mut self, keeping: PendingRows, error: &StoreError) {
        let tries = self.tries;
        self.tries = tries.saturating_add(1);
        let again_ms = self.engine.now_ms().saturating_add((1_000_i64 << tries.min(6)).min(REWRITE_MAX_MS));
        self.jobs.push_front(DispatchJob::WriteRows(Box::new(keeping)));
        self.rewrite_ms = Some(again_ms);
        self.publish(None, EventKind::WriteFailed { why: error.to_string(), again_ms });
        for job in std::mem::take(&mut self.jobs) {
            match job {
                DispatchJob::Answer(reply) => {
                    let text = format!("the change is in effect as far as possible, but not recorded yet: {error}");
                    drop(reply.send(Err(EngineError::Daemon(text))));
                }
                job => self.jobs.push_back(job),
            }
        }
        if matches!(self.mode, DispatchMode::Once) {
            self.ended = Some(DaemonEnd::Failed(error.to_string()));
        }
    }

    /// Tries again at once if the clock was set back: the next attempt would otherwise be far away.
    pub(super) fn check_rewrite_time(&mut self) {
        let latest_ms = self.engine.now_ms().saturating_add(REWRITE_MAX_MS);
        self.rewrite_ms = self.rewrite_ms.filter(|at_ms| *at_ms <= latest_ms);
    }

    /// Begins a start, unless the state changed in the meantime.
    fn start(&mut self, start: RoundStart) {
        let ticket = start.ticket;
        self.check_stop_file();
        if self.frozen.is_some() || !matches!(self.mode, DispatchMode::Running | DispatchMode::Once) {
            let why = "everything was stopped in the meantime".to_owned();
            return self.step(DispatchInput::StartFailed { ticket, why, retry_ms: Some(self.now_ms()) });
        }
        let mut slot = RunningSlot::new(start.key.clone(), self.engine.now_ms(), RoundOrigin::Due);
        slot.ticket = Some(ticket);
        slot.occurrence = Some(start.receipt.occurrence.clone());
        let occurrence = start.receipt.occurrence.clone();
        self.publish(Some(start.key.clone()), EventKind::Starting { occurrence });
        let slot = self.rounds.insert(slot);
        let work = self.round_task(slot);
        self.rounds.spawn(slot, work.start(start));
    }

    /// The context of a task for a slot.
    fn round_task(&mut self, slot: u64) -> RoundTask {
        let cancel = self.rounds.get(slot).map(|slot| slot.cancel.clone()).unwrap_or_default();
        RoundTask { engine: self.engine.clone(), fleet: self.fleet.clone(), sender: self.sender.clone(), slot, cancel }
    }

    /// A start became a round.
    pub(super) fn on_round_started(&mut self, slot: u64, round: String) {
        let Some(slot) = self.rounds.get(slot) else { return };
        slot.round = Some(round.clone());
        let (key, occurrence) = (slot.key.clone(), slot.occurrence.clone().unwrap_or_default());
        let ticket = slot.ticket.take();
        self.publish_round(key, &round, EventKind::Started { occurrence });
        if let Some(ticket) = ticket {
            self.step(DispatchInput::StartSucceeded { ticket, round });
        }
    }

    /// A round's task finished.
    pub(super) fn on_task_finished(&mut self, number: u64, finished: Result<RoundTaskOutcome, String>) {
        let finished = match finished {
            Ok(finished) => finished,
            Err(text) => return self.panicked(number, text),
        };
        match finished {
            RoundTaskOutcome::Rested => self.free_slot(number),
            RoundTaskOutcome::Deferred => self.defer(number),
            RoundTaskOutcome::Withheld => drop(self.rounds.remove(number)),
            RoundTaskOutcome::NoWork => self.drop_start(number, |ticket| DispatchInput::NoWork { ticket }),
            RoundTaskOutcome::TooManyOpen { open } => {
                self.drop_start(number, |ticket| DispatchInput::TooManyOpen { ticket, open })
            }
            RoundTaskOutcome::AlreadyRecorded { round } => self.on_known_occurrence(number, round),
            RoundTaskOutcome::NotStarted { why, again } => self.not_started(number, why, again),
            RoundTaskOutcome::LeftOpen { why, again } => self.on_round_left_open(number, why, again),
            RoundTaskOutcome::Fenced(why) => self.end_fenced(why),
        }
    }

    /// Frees the slot, and resumes its round later: nothing else would before the next start of a daemon.
    fn defer(&mut self, number: u64) {
        let slot = self.rounds.get(number);
        if let Some((key, round)) = slot.and_then(|slot| Some((slot.key.clone(), slot.round.clone()?))) {
            self.agenda.schedule(self.now_ms().saturating_add(RETAKE_MS), AgendaEntry::Resume { key, round });
        }
        self.free_slot(number);
    }

    fn drop_start(&mut self, number: u64, input: impl FnOnce(u64) -> DispatchInput) {
        let ticket = self.rounds.remove(number).and_then(|slot| slot.ticket);
        if let Some(ticket) = ticket {
            self.step(input(ticket));
        }
    }

    fn not_started(&mut self, number: u64, why: String, again: RetryDecision) {
        let wait_ms = match again {
            RetryDecision::Soon => Some(RETRY_MS),
            RetryDecision::WithForge => Some(FORGE_RETRY_MS),
            RetryDecision::Never => None,
        };
        let again_ms = wait_ms.map(|wait_ms| self.now_ms().saturating_add(wait_ms));
        if let Some(key) = self.rounds.get(number).map(|slot| slot.key.clone()) {
            self.publish(Some(key), EventKind::NotStarted { why: why.clone(), again_ms });
        }
        self.drop_start(number, |ticket| match (again, again_ms) {
            (RetryDecision::WithForge, Some(retry_ms)) => DispatchInput::StartDelayed { ticket, retry_ms },
            _ => DispatchInput::StartFailed { ticket, why, retry_ms: again_ms },
        });
    }

    fn on_known_occurrence(&mut self, number: u64, round: Option<String>) {
        let Some(slot) = self.rounds.get(number) else { return };
        let (key, occurrence) = (slot.key.clone(), slot.occurrence.clone().unwrap_or_default());
        self.publish(Some(key), EventKind::AlreadyDone { occurrence });
        match round {
            // A start whose answer was lost has left a round that no task runs. That round has the loop's slot: no
            // other round of the loop starts before it has ended.
            Some(round) => {
                self.on_round_started(number, round.clone());
                let work = self.round_task(number);
                // It may be offered to workers.
                self.rounds.spawn(number, work.watch(round));
            }
            None => self.drop_start(number, |ticket| DispatchInput::AlreadyReceipted { ticket }),
        }
    }

    fn panicked(&mut self, number: u64, text: String) {
        let Some(slot) = self.rounds.get(number) else { return };
        let (key, round) = (slot.key.clone(), slot.round.clone());
        self.engine.publish(Some(key), round.as_deref(), EventKind::Panicked { text: text.clone() });
        match round {
            Some(round) => {
                let work = self.round_task(number);
                self.rounds.spawn(number, work.recover_from_panic(round, text));
            }
            None => self.not_started(number, format!("this is a bug: {text}"), RetryDecision::Never),
        }
    }

    /// The round stays open on record, and keeps its loop's slot: no other round of the loop starts before it has
    /// ended. Only a round that can never be resumed frees the slot.
    fn on_round_left_open(&mut self, number: u64, why: String, again: RetryDecision) {
        let now_ms = self.now_ms();
        let Some(slot) = self.rounds.get(number) else { return };
        let (key, round) = (slot.key.clone(), slot.round.clone().unwrap_or_default());
        slot.tries += 1;
        slot.is_parked = true;
        let again_ms = now_ms.saturating_add(RETAKE_MS << slot.tries.min(DOUBLINGS_MAX));
        self.publish_round(key.clone(), &round, EventKind::Parked { why, again_ms });
        if again == RetryDecision::Never {
            return self.free_slot(number);
        }
        self.agenda.schedule(again_ms, AgendaEntry::Retake { key, round });
    }

    /// The holder of a slot is gone. A round that is not at rest stays on record and keeps the slot: its loop starts no
    /// other round before that.
    pub(super) fn on_slot_released(&mut self, number: u64) {
        let left = self.rounds.get(number).filter(|slot| slot.end.is_none()).and_then(|slot| slot.round.clone());
        let Some(round) = left else { return self.free_slot(number) };
        let work = self.round_task(number);
        self.rounds.spawn(number, work.check_abandoned(round));
    }

    /// Frees a slot.
    pub(super) fn free_slot(&mut self, number: u64) {
        let Some(slot) = self.rounds.remove(number) else { return };
        let Some(round) = slot.round else { return };
        let outcome = slot.end.as_ref().map(|end| end.outcome);
        let unknown =
            RoundEnd { outcome: RoundOutcome::Interrupted, signature: None, retry_at_ms: None, open_proposals: 0 };
        let (key, begun) = (slot.key.clone(), slot.begun);
        self.publish_round(key, &round, EventKind::Ended { outcome, begun });
        self.agenda.unblock(self.now_ms());
        self.step(DispatchInput::Ended { key: slot.key, round, end: slot.end.unwrap_or(unknown) });
    }

    /// Runs the agenda entries whose time has come.
    pub(super) fn run_due_entries(&mut self, now_ms: i64) {
        for errand in self.agenda.take_due(now_ms) {
            match errand {
                AgendaEntry::Retake { .. } | AgendaEntry::Resume { .. } => self.resume_recorded(errand),
                AgendaEntry::Expire => self.expire_questions(),
                AgendaEntry::AskPeople => self.ask_people(),
                AgendaEntry::Collect => self.collect_garbage(now_ms),
            }
        }
    }

    /// Watches a round that another process runs; its loop's slot is taken until that round is at rest.
    pub(super) fn watch(&mut self, lease: RoundLease) {
        let key = LoopKey::new(&lease.repo, &lease.loop_name);
        let mut slot = RunningSlot::new(key.clone(), lease.since_ms, RoundOrigin::Elsewhere);
        slot.round = Some(lease.name.clone());
        let number = self.rounds.insert(slot);
        self.step(DispatchInput::Occupied { key, round: lease.name.clone(), items: Vec::new() });
        let work = self.round_task(number);
        self.rounds.spawn(number, work.watch(lease.name));
    }

    /// Resumes a recorded round in its loop's one slot.
    fn resume_recorded(&mut self, errand: AgendaEntry) {
        let is_retake = matches!(errand, AgendaEntry::Retake { .. });
        let (AgendaEntry::Retake { key, round } | AgendaEntry::Resume { key, round }) = errand.clone() else { return };
        if let Some((number, slot)) = self.rounds.slot_of_round(&round) {
            if slot.is_parked {
                slot.is_parked = false;
                let is_resumed = slot.is_resumed;
                self.spawn_recorded(number, round, is_resumed);
            }
            return;
        }
        let is_held = !is_retake && (self.frozen.is_some() || self.is_paused(&key));
        let items = self.items.get(&round).cloned().unwrap_or_default();
        let hindrance = self.dispatcher.resume_blocker(&key, &items, self.now_ms());
        // The round may have the slot already.
        let is_own =
            matches!(&hindrance, Some(LoopExplanation::Running { round: Some(running), .. }) if *running == round);
        if is_held || (hindrance.is_some() && !is_own) {
            if is_retake {
                // It is open on record: no other round of its loop starts before it.
                self.step(DispatchInput::Successor { key, round, items });
            }
            return self.agenda.block(errand);
        }
        self.items.remove(&round);
        let mut slot = RunningSlot::new(key.clone(), self.engine.now_ms(), RoundOrigin::Earlier);
        slot.round = Some(round.clone());
        slot.is_resumed = !is_retake;
        if self.frozen.is_some() {
            // The round only ends: none of its work is started while everything is stopped.
            slot.cancel.cancel();
        }
        let number = self.rounds.insert(slot);
        self.step(DispatchInput::Occupied { key, round: round.clone(), items });
        self.spawn_recorded(number, round, !is_retake);
    }

    fn spawn_recorded(&mut self, number: u64, round: String, is_resumed: bool) {
        let work = self.round_task(number);
        match is_resumed {
            true => self.rounds.spawn(number, work.resume(round)),
            false => self.rounds.spawn(number, work.take_over(round)),
        }
    }
}
