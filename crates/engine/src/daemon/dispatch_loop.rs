//! The daemon's one task: waits for the next thing that happens, lets the dispatcher decide, and has it performed. It never
//! waits inside a decision: writes and rounds are under way beside it, and it hears of their end.

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
use loopwright_core::dispatch::{DispatchInput, Dispatcher, FleetFreeze, LoopKey};
use loopwright_core::outcome::RoundOutcome;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// How long cancelled rounds may take to end.
const CANCELLED_MAX: Duration = Duration::from_secs(30);
/// A decision that takes longer is told.
const STEP_MAX: Duration = Duration::from_millis(250);
/// A write that takes longer is told, while it does.
pub(super) const WRITE_MAX: Duration = Duration::from_secs(5);

/// Rounds of which it is remembered what they are about; of others it is not known when they go on.
const ITEMS_MAX: usize = 10_000;

/// What the daemon is up to.
#[derive(Debug, Clone, Copy)]
pub(super) enum DispatchMode {
    /// Loops start as they are due.
    Running,
    /// What was due when it began, and no more.
    Once,
    /// Nothing new starts, rounds may end until a moment.
    Draining { until_ms: i64 },
    /// Rounds have been asked to end.
    Cancelling { since: Instant },
}

/// Everything the task owns.
pub(super) struct DispatchLoop {
    pub(super) engine: Engine,
    pub(super) fleet: Arc<dyn LoopFleet>,
    pub(super) admission: Arc<DaemonAdmission>,
    pub(super) dispatcher: Dispatcher,
    pub(super) messages: mpsc::UnboundedReceiver<DaemonMessage>,
    pub(super) sender: DaemonSender,
    /// What is to be done, in order.
    pub(super) jobs: VecDeque<DispatchJob>,
    /// The write that the line waits for.
    pub(super) rows_in_flight: Option<RowsInFlight>,
    /// Until when rows wait for others to come along.
    pub(super) write_by: Option<Instant>,
    /// When a write that failed is tried again, and how often it was.
    pub(super) rewrite_ms: Option<i64>,
    pub(super) tries: u32,
    pub(super) rounds: RunningRounds,
    /// What rounds that are to go on are about.
    pub(super) items: HashMap<String, Vec<Arc<str>>>,
    pub(super) agenda: DaemonAgenda,
    /// A reading of the loops that is under way, and who waits for it.
    pub(super) loading: Option<BoxFuture<'static, Result<FleetLoops, EngineError>>>,
    pub(super) reloaders: Vec<ReplySender<Result<usize, EngineError>>>,
    /// Who came after that reading had begun: it may have passed what they changed, so they wait for the next.
    pub(super) late_reloaders: Vec<ReplySender<Result<usize, EngineError>>>,
    pub(super) stop: StopFile,
    pub(super) frozen: Option<FleetFreeze>,
    /// Whether the store says so too.
    pub(super) is_flagged: bool,
    /// Loops about which a person is asked.
    pub(super) paused_questions: HashSet<LoopKey>,
    pub(super) mode: DispatchMode,
    /// In one pass, the moment that it is about.
    pub(super) pass_ms: Option<i64>,
    pub(super) since_ms: i64,
    pub(super) loops: usize,
    /// The one timer, armed.
    pub(super) alarm: Option<ArmedTimer>,
    /// Why it must end at once.
    pub(super) ended: Option<DaemonEnd>,
}

/// A moment that is waited for. It stays armed while other things happen, as long as it is the next one.
pub(super) struct ArmedTimer {
    at_ms: i64,
    fires: BoxFuture<'static, ()>,
}

/// What the task was woken by.
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

    /// The next thing that happens. Mail goes first, so that a birth is heard of before the round's end.
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
        // Before anything is decided: whoever stopped everything did so before the moment that has come now.
        self.check_stop_file();
        self.check_rewrite_time();
        match heard {
            WakeReason::Message(Some(mail)) => self.handle_message(mail),
            // Nobody can ask for anything any more, not even for the end.
            WakeReason::Message(None) => self.drain(Duration::ZERO),
            WakeReason::Written(written) => self.on_rows_written(written),
            WakeReason::SlowWrite => self.report_slow_write(),
            WakeReason::WriteDue => self.write_now(),
            WakeReason::Round(slot, finished) => {
                let mut next = Some((slot, finished));
                // Those that have come to their end meanwhile are heard at once: what is to be written goes together.
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

    /// A birth was told before the end of its round was, and is heard of before it.
    fn handle_queued_messages(&mut self) {
        while let Ok(mail) = self.messages.try_recv() {
            self.handle_message(mail);
        }
    }

    /// The moment has come for something.
    fn wake(&mut self) {
        let now_ms = self.now_ms();
        if matches!(self.mode, DispatchMode::Draining { until_ms } if until_ms <= now_ms) {
            self.cancel_all("the time to end is over");
        }
        self.rewrite_ms = self.rewrite_ms.filter(|at_ms| *at_ms > now_ms);
        self.run_due_entries(now_ms);
        self.step(DispatchInput::Wake);
    }

    /// Lets the dispatcher decide, and puts what it wants into the line.
    pub(super) fn step(&mut self, input: DispatchInput) {
        self.step_at(self.now_ms(), input);
    }

    /// The same for what happened before the moment that has come, if one has.
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

    /// Now, or the moment that one pass is about.
    pub(super) fn now_ms(&self) -> i64 {
        self.pass_ms.unwrap_or_else(|| self.engine.now_ms())
    }

    /// The one timer.
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

    /// When a loop is due or may start next.
    fn due_ms(&self) -> Option<i64> {
        self.dispatcher.next_due().filter(|_| matches!(self.mode, DispatchMode::Running))
    }

    /// Whether there is nothing left to do for a daemon that is asked to end.
    fn is_done(&self) -> Option<DaemonEnd> {
        let is_idle = self.rounds.busy_count() == 0;
        let is_written = self.rows_in_flight.is_none() && self.jobs.is_empty();
        match self.mode {
            DispatchMode::Running => None,
            DispatchMode::Once | DispatchMode::Draining { .. } => (is_idle && is_written).then_some(DaemonEnd::Drained),
            // What cannot be written now is found again by the next start.
            DispatchMode::Cancelling { .. } => (is_idle && self.rows_in_flight.is_none()).then_some(DaemonEnd::Drained),
        }
    }

    pub(super) fn drain(&mut self, deadline: Duration) {
        if !matches!(self.mode, DispatchMode::Running | DispatchMode::Once) {
            return self.cancel_all("a second request to end");
        }
        let span_ms = i64::try_from(deadline.as_millis()).unwrap_or(i64::MAX);
        let until_ms = self.engine.now_ms().saturating_add(span_ms);
        self.mode = DispatchMode::Draining { until_ms };
        self.publish(None, EventKind::Draining { running: self.rounds.busy_count(), until_ms });
        self.step(DispatchInput::Drain);
        if span_ms == 0 {
            self.cancel_all("nothing is waited for");
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

    /// Another process schedules. Whatever runs here must not touch the world any more.
    pub(super) fn end_fenced(&mut self, why: String) {
        self.publish(None, EventKind::Fenced { why: why.clone() });
        self.rounds.cancel_all();
        self.ended = Some(DaemonEnd::Fenced(why));
    }

    /// Nobody comes in any more, and nothing that was started stays.
    async fn end(&mut self, ended: &DaemonEnd) {
        self.engine.live_rounds.clear_admission();
        if *ended != DaemonEnd::Drained {
            let _ = tokio::time::timeout(CANCELLED_MAX, self.rounds.wait()).await;
        }
        self.rounds.abort().await;
        self.engine.give_back(DISPATCHER).await;
    }

    /// What the task is at, in a line.
    pub(super) fn describe_state(&self) -> String {
        let (busy, line) = (self.rounds.busy_count(), self.jobs.len());
        format!("{busy} rounds under way, {line} decisions in line, {:?}", self.mode)
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

    /// What a round's rest means: signals for its followers, a moment to look at it again.
    pub(super) fn on_round_at_rest(&mut self, rest: RoundAtRest) {
        let RoundAtRest { key, round, end, signals, too_deep, expires_ms, resume_ms, items } = rest;
        for (follower, depth) in too_deep {
            self.publish(Some(key.clone()), EventKind::ChainTooLong { follower, depth });
        }
        if let Some(at_ms) = expires_ms {
            self.agenda.schedule_earliest(at_ms, super::agenda::AgendaEntry::Expire);
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
        // In one pass, what follows is for the next one.
        if self.pass_ms.is_none() {
            for signal in signals {
                self.step(DispatchInput::Signal(super::persist::signal_from_row(signal)));
            }
        }
    }

    /// Puts rows into the line; they go along with what is to be written just before them, where they may.
    pub(super) fn queue_rows(&mut self, keeping: PendingRows) {
        let at = self.jobs.len();
        self.jobs.push_back(DispatchJob::WriteRows(Box::new(keeping)));
        join_rows_at(&mut self.jobs, at);
    }
}

/// The end of some work; never, where there is none.
async fn done<T>(work: Option<&mut BoxFuture<'static, T>>) -> T {
    match work {
        Some(work) => work.await,
        None => std::future::pending().await,
    }
}

/// A moment; never, where there is none.
async fn moment<T, F: Future<Output = ()>>(at: Option<T>, until: impl FnOnce(T) -> F) {
    match at {
        Some(at) => until(at).await,
        None => std::future::pending().await,
    }
}

pub(super) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
