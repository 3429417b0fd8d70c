//! The daemon's one task: it waits for the next event, asks the dispatcher for a decision, and performs it. It never
//! waits inside a decision: writes and rounds run beside it and report their end to it.

use super::admission::DaemonAdmission;
use super::agenda::DaemonAgenda;
use super::fleet::{FleetLoops, LoopFleet};
use super::jobs::{DispatchJob, RowsInFlight, join_rows_at};
use super::message::{DaemonMessage, DaemonSender, ReplySender, RoundAtRest};
use super::persist::PendingRows;
use super::running_rounds::{RoundTaskOutcome, RunningRounds};
use super::stop::StopFile;
use super::{DaemonEnd, DaemonSnapshot};
use crate::clock::pause;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::events::EventKind;
use crate::store::{DISPATCHER, ReceiptRow, StoreError};
use loopwright_core::BoxFuture;
use loopwright_core::config::SharedBudget;
use loopwright_core::dispatch::{DispatchInput, Dispatcher, FleetFreeze, LoopKey};
use loopwright_core::outcome::RoundOutcome;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// The longest time that cancelled rounds have to end.
const CANCELLED_MAX: Duration = Duration::from_secs(30);
/// A decision that takes longer is reported as slow.
const STEP_MAX: Duration = Duration::from_millis(250);
/// A write that takes longer is reported as slow while it runs.
pub(super) const WRITE_MAX: Duration = Duration::from_secs(5);

/// The most rounds whose items are remembered; other rounds resume with their items unknown.
const ITEMS_MAX: usize = 10_000;

/// The daemon's mode.
#[derive(Debug, Clone, Copy)]
pub(super) enum DispatchMode {
    /// Loops start as they are due.
    Running,
    /// Only loops that were due at the start of the pass run.
    Once,
    /// Nothing new starts; running rounds may finish until this time.
    Draining { until_ms: i64 },
    /// Running rounds have been cancelled.
    Cancelling { since: Instant },
}

/// The state of the task.
pub(super) struct DispatchLoop {
    pub(super) engine: Engine,
    pub(super) fleet: Arc<dyn LoopFleet>,
    pub(super) admission: Arc<DaemonAdmission>,
    pub(super) dispatcher: Dispatcher,
    pub(super) messages: mpsc::UnboundedReceiver<DaemonMessage>,
    pub(super) sender: DaemonSender,
    /// The queue of jobs, in order.
    pub(super) jobs: VecDeque<DispatchJob>,
    /// The write that the queue waits for.
    pub(super) rows_in_flight: Option<RowsInFlight>,
    /// Until when rows wait for others to join their transaction.
    pub(super) write_by: Option<Instant>,
    /// When a failed write is tried again, and how often it has failed.
    pub(super) rewrite_ms: Option<i64>,
    pub(super) tries: u32,
    pub(super) rounds: RunningRounds,
    /// The items of rounds that are to resume.
    pub(super) items: HashMap<String, Vec<Arc<str>>>,
    pub(super) agenda: DaemonAgenda,
    /// A load of the loops that is running, and the callers that wait for it.
    pub(super) loading: Option<BoxFuture<'static, Result<FleetLoops, EngineError>>>,
    pub(super) reloaders: Vec<ReplySender<Result<usize, EngineError>>>,
    /// Callers that arrived after that load began. It may have missed their changes, so they wait for the next load.
    pub(super) late_reloaders: Vec<ReplySender<Result<usize, EngineError>>>,
    pub(super) stop: StopFile,
    pub(super) frozen: Option<FleetFreeze>,
    /// Whether the store has the stop flag too.
    pub(super) is_flagged: bool,
    /// Whether the store had the flag when it was last read for other processes' changes.
    pub(super) is_flag_seen: bool,
    /// The number of stops that ended.
    pub(super) thaws: u64,
    pub(super) mode: DispatchMode,
    /// In one pass, the time of the pass.
    pub(super) pass_ms: Option<i64>,
    pub(super) since_ms: i64,
    pub(super) loops: usize,
    /// The ceilings that the loops of each repository share, as they were loaded last.
    pub(super) budgets: BTreeMap<Arc<str>, SharedBudget>,
    /// The one timer, if it is armed.
    pub(super) alarm: Option<ArmedTimer>,
    /// Why the task must end at once.
    pub(super) ended: Option<DaemonEnd>,
}

/// An armed timer. It stays armed through other events while its time is the next one.
pub(super) struct ArmedTimer {
    at_ms: i64,
    fires: BoxFuture<'static, ()>,
}

/// The event that woke the task.
enum WakeReason {
    Message(Option<DaemonMessage>),
    Written(Result<Vec<ReceiptRow>, StoreError>),
    SlowWrite,
    WriteDue,
    Round(u64, Result<RoundTaskOutcome, String>),
    Loaded(Result<FleetLoops, EngineError>),
    Time,
    Overtime,
}

impl DispatchLoop {
    /// Publishes an event about a loop, or about the scheduler itself.
    pub(super) fn publish(&self, key: Option<LoopKey>, kind: EventKind) {
        self.engine.publish(key, None, kind);
    }

    /// Publishes an event about a round.
    pub(super) fn publish_round(&self, key: LoopKey, round: &str, kind: EventKind) {
        self.engine.publish(Some(key), Some(round), kind);
    }

    pub(super) async fn run(mut self) -> DaemonEnd {
        let ended = loop {
            self.run_jobs();
            if let Some(ended) = self.ended.take().or_else(|| self.is_done()) {
                break ended;
            }
            let wake_ms = self.wake_ms();
            self.publish(None, EventKind::Sleeping { until_ms: wake_ms, due_ms: self.due_ms() });
            let heard = self.next(wake_ms).await;
            self.handle(heard);
        };
        self.end(&ended).await;
        ended
    }

    /// The next event. Messages come first, so that the start of a round is processed before its end.
    async fn next(&mut self, wake_ms: Option<i64>) -> WakeReason {
        self.arm(wake_ms);
        let slow = self.rows_in_flight.as_ref().and_then(RowsInFlight::time_until_slow);
        let overtime = match self.mode {
            DispatchMode::Cancelling { since } => Some(CANCELLED_MAX.saturating_sub(since.elapsed())),
            DispatchMode::Running | DispatchMode::Once | DispatchMode::Draining { .. } => None,
        };
        tokio::select! {
            biased;
            mail = self.messages.recv() => WakeReason::Message(mail),
            written = done(self.rows_in_flight.as_mut().map(|writing| &mut writing.work)) => WakeReason::Written(written),
            loaded = done(self.loading.as_mut()) => WakeReason::Loaded(loaded),
            (slot, finished) = self.rounds.next_finished() => WakeReason::Round(slot, finished),
            () = done(self.alarm.as_mut().map(|alarm| &mut alarm.fires)) => WakeReason::Time,
            () = moment(slow, pause) => WakeReason::SlowWrite,
            () = moment(self.write_by, |at| pause(at.saturating_duration_since(Instant::now()))) => WakeReason::WriteDue,
            () = moment(overtime, pause) => WakeReason::Overtime,
        }
    }

    fn arm(&mut self, wake_ms: Option<i64>) {
        if self.alarm.as_ref().map(|alarm| alarm.at_ms) != wake_ms {
            let clock = Arc::clone(&self.engine.settings.clock);
            let ring = |at_ms| Box::pin(async move { clock.until_or_set(at_ms).await });
            self.alarm = wake_ms.map(|at_ms| ArmedTimer { at_ms, fires: ring(at_ms) });
        }
    }

    fn handle(&mut self, heard: WakeReason) {
        // This check comes before any decision: a person who wrote the stop file did so before the current time.
        self.check_stop_file();
        self.check_rewrite_time();
        match heard {
            WakeReason::Message(Some(work)) => work(self),
            // All senders are gone, so no request can arrive any more, not even a request to end.
            WakeReason::Message(None) => self.drain(Duration::ZERO),
            WakeReason::Written(written) => self.on_rows_written(written),
            WakeReason::SlowWrite => self.report_slow_write(),
            WakeReason::WriteDue => self.write_now(),
            WakeReason::Round(slot, finished) => {
                let mut next = Some((slot, finished));
                // All tasks that have finished by now are processed together, so that one transaction holds their rows.
                while let Some((slot, finished)) = next {
                    self.handle_queued_messages();
                    self.on_task_finished(slot, finished);
                    next = self.rounds.try_next_finished();
                }
            }
            WakeReason::Loaded(loaded) => self.on_loops_loaded(loaded),
            WakeReason::Time => {
                self.alarm = None;
                self.wake();
            }
            WakeReason::Overtime => self.ended = Some(DaemonEnd::Drained),
        }
    }

    /// A round's start was sent before its end, so it is processed first.
    fn handle_queued_messages(&mut self) {
        while let Ok(work) = self.messages.try_recv() {
            work(self);
        }
    }

    /// The timer fired.
    fn wake(&mut self) {
        let now_ms = self.now_ms();
        if matches!(self.mode, DispatchMode::Draining { until_ms } if until_ms <= now_ms) {
            self.cancel_all("the time limit for the shutdown has passed");
        }
        self.rewrite_ms = self.rewrite_ms.filter(|at_ms| *at_ms > now_ms);
        self.run_due_entries(now_ms);
        self.step(DispatchInput::Wake);
    }

    /// Asks the dispatcher for a decision, and queues its commands.
    pub(super) fn step(&mut self, input: DispatchInput) {
        self.step_at(self.now_ms(), input);
    }

    /// The same for an event that happened before the due time that has come, if there is one.
    pub(super) fn step_before(&mut self, input: DispatchInput) {
        let due_ms = self.dispatcher.next_wake().unwrap_or(i64::MAX);
        self.step_at(self.now_ms().min(due_ms.saturating_sub(1)), input);
    }

    fn step_at(&mut self, now_ms: i64, input: DispatchInput) {
        let begun = Instant::now();
        let commands = self.dispatcher.step(now_ms, input);
        let took = begun.elapsed();
        if took > STEP_MAX {
            self.publish(
                None,
                EventKind::Slow { what: "a decision", for_ms: millis(took), state: self.describe_state() },
            );
        }
        for command in commands {
            self.queue(command);
        }
    }

    /// The current time, or the time of the one pass.
    pub(super) fn now_ms(&self) -> i64 {
        self.pass_ms.unwrap_or_else(|| self.engine.now_ms())
    }

    /// The time for the one timer.
    pub(super) fn wake_ms(&self) -> Option<i64> {
        let rewrite = self.rewrite_ms;
        match self.mode {
            DispatchMode::Running => {
                [self.dispatcher.next_wake(), self.agenda.next_ms(), rewrite].into_iter().flatten().min()
            }
            DispatchMode::Draining { until_ms } => [Some(until_ms), rewrite].into_iter().flatten().min(),
            DispatchMode::Once | DispatchMode::Cancelling { .. } => None,
        }
    }

    /// The next time at which a loop is due or may start.
    fn due_ms(&self) -> Option<i64> {
        self.dispatcher.next_due().filter(|_| matches!(self.mode, DispatchMode::Running))
    }

    /// The end of the daemon, if it was asked to end and has nothing left to do.
    fn is_done(&self) -> Option<DaemonEnd> {
        let is_idle = self.rounds.busy_count() == 0;
        let is_written = self.rows_in_flight.is_none() && self.jobs.is_empty();
        match self.mode {
            DispatchMode::Running => None,
            DispatchMode::Once | DispatchMode::Draining { .. } => (is_idle && is_written).then_some(DaemonEnd::Drained),
            // The next start decides again about rows that cannot be written now.
            DispatchMode::Cancelling { .. } => (is_idle && self.rows_in_flight.is_none()).then_some(DaemonEnd::Drained),
        }
    }

    pub(super) fn drain(&mut self, deadline: Duration) {
        if !matches!(self.mode, DispatchMode::Running | DispatchMode::Once) {
            return self.cancel_all("shutdown was requested a second time");
        }
        let span_ms = i64::try_from(deadline.as_millis()).unwrap_or(i64::MAX);
        let until_ms = self.engine.now_ms().saturating_add(span_ms);
        self.mode = DispatchMode::Draining { until_ms };
        self.publish(None, EventKind::Draining { running: self.rounds.busy_count(), until_ms });
        self.step(DispatchInput::Drain);
        if span_ms == 0 {
            self.cancel_all("the shutdown does not wait for rounds");
        }
    }

    fn cancel_all(&mut self, why: &str) {
        for running in self.rounds.list_running() {
            let round = running.round.unwrap_or_default();
            self.publish_round(running.key, &round, EventKind::Cancelling { why: why.to_owned() });
        }
        self.rounds.cancel_all();
        self.mode = DispatchMode::Cancelling { since: Instant::now() };
    }

    /// Another process schedules. Rounds of this process must not act on external systems any more.
    pub(super) fn end_fenced(&mut self, why: String) {
        self.publish(None, EventKind::Fenced { why: why.clone() });
        self.rounds.cancel_all();
        self.ended = Some(DaemonEnd::Fenced(why));
    }

    /// Admits no more rounds, and ends everything that was started.
    async fn end(&mut self, ended: &DaemonEnd) {
        self.engine.live_rounds.clear_admission();
        if *ended != DaemonEnd::Drained {
            let _ = tokio::time::timeout(CANCELLED_MAX, self.rounds.wait()).await;
        }
        self.rounds.abort().await;
        crate::lease::give_back(&self.engine, DISPATCHER).await;
    }

    /// The state of the task in one line.
    pub(super) fn describe_state(&self) -> String {
        let (busy, line) = (self.rounds.busy_count(), self.jobs.len());
        format!("{busy} rounds running, {line} jobs queued, {:?}", self.mode)
    }

    pub(super) fn snapshot(&self) -> DaemonSnapshot {
        let unwritten = self.jobs.iter().filter(|job| matches!(job, DispatchJob::WriteRows(_))).count();
        DaemonSnapshot {
            since_ms: self.since_ms,
            loops: self.loops,
            running: self.rounds.list_running(),
            frozen: self.frozen.clone(),
            is_clock_behind: self.dispatcher.clock_behind(self.now_ms()).is_some(),
            draining_until_ms: match self.mode {
                DispatchMode::Draining { until_ms } => Some(until_ms),
                DispatchMode::Cancelling { .. } => Some(self.now_ms()),
                DispatchMode::Running | DispatchMode::Once => None,
            },
            next_wake_ms: self.wake_ms(),
            unwritten: unwritten + usize::from(self.rows_in_flight.is_some()),
        }
    }

    /// Processes a round's rest: signals for its followers, and a time at which to resume the round.
    pub(super) fn on_round_at_rest(&mut self, rest: RoundAtRest) {
        let RoundAtRest { key, round, end, signals, too_deep, expires_ms, asks, resume_ms, items } = rest;
        for (follower, depth) in too_deep {
            self.publish(Some(key.clone()), EventKind::ChainTooLong { follower, depth });
        }
        if let Some(at_ms) = expires_ms {
            self.agenda.schedule_earliest(at_ms, super::agenda::AgendaEntry::Expire);
        }
        if asks {
            self.agenda.schedule(self.now_ms(), super::agenda::AgendaEntry::AskPeople);
        }
        if let Some(at_ms) = resume_ms {
            self.agenda.schedule(at_ms, super::agenda::AgendaEntry::Resume { key: key.clone(), round: round.clone() });
        }
        let may_go_on = matches!(end.outcome, RoundOutcome::OverBudget | RoundOutcome::RateLimited);
        if may_go_on && !items.is_empty() && self.items.len() < ITEMS_MAX {
            self.items.insert(round.clone(), items);
        }
        let open = end.open_proposals;
        if let Some((_, slot)) = self.rounds.slot_of_round(&round) {
            slot.end = Some(end);
        }
        self.step(DispatchInput::Proposals { key, open });
        // In one pass, followers are left for the next pass.
        if self.pass_ms.is_none() {
            for signal in signals {
                self.step(DispatchInput::Signal(super::persist::signal_from_row(signal)));
            }
        }
    }

    /// Queues rows. They join the rows that are queued just before them, where that is allowed.
    pub(super) fn queue_rows(&mut self, keeping: PendingRows) {
        let at = self.jobs.len();
        self.jobs.push_back(DispatchJob::WriteRows(Box::new(keeping)));
        join_rows_at(&mut self.jobs, at);
    }
}

/// The result of the future; pending forever if there is none.
async fn done<T>(work: Option<&mut BoxFuture<'static, T>>) -> T {
    match work {
        Some(work) => work.await,
        None => std::future::pending().await,
    }
}

/// Waits until the time; pending forever if there is none.
async fn moment<T, F: Future<Output = ()>>(at: Option<T>, until: impl FnOnce(T) -> F) {
    match at {
        Some(at) => until(at).await,
        None => std::future::pending().await,
    }
}

pub(super) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
