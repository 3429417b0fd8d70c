//! The daemon's one task: waits for the next thing that happens, lets the dispatcher decide, and has it performed. It never
//! waits inside a decision: writes and rounds are under way beside it, and it hears of their end.

use super::agenda::Agenda;
use super::fleet::{Fleet, Loops};
use super::keep::Keeping;
use super::mail::{Mail, Post, Reply, Rest};
use super::perform::{Job, Writing, join_at};
use super::rest::Doorman;
use super::rounds::{Finished, Rounds};
use super::stop::StopFile;
use super::{Ended, Snapshot};
use crate::clock::pause;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::events::EventKind;
use crate::store::{DISPATCHER, ReceiptRow, StoreError};
use loopwright_core::BoxFuture;
use loopwright_core::dispatch::{Dispatcher, Frozen, Input, LoopKey};
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
pub(super) enum Mode {
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
pub(super) struct Desk {
    pub(super) engine: Engine,
    pub(super) fleet: Arc<dyn Fleet>,
    pub(super) doorman: Arc<Doorman>,
    pub(super) dispatcher: Dispatcher,
    pub(super) mail: mpsc::UnboundedReceiver<Mail>,
    pub(super) post: Post,
    /// What is to be done, in order.
    pub(super) line: VecDeque<Job>,
    /// The write that the line waits for.
    pub(super) writing: Option<Writing>,
    /// Until when rows wait for others to come along.
    pub(super) patience: Option<Instant>,
    /// When a write that failed is tried again, and how often it was.
    pub(super) rewrite: Option<i64>,
    pub(super) tries: u32,
    pub(super) rounds: Rounds,
    /// What rounds that are to go on are about.
    pub(super) items: HashMap<String, Vec<Arc<str>>>,
    pub(super) agenda: Agenda,
    /// A reading of the loops that is under way, and who waits for it.
    pub(super) loading: Option<BoxFuture<'static, Result<Loops, EngineError>>>,
    pub(super) reloaders: Vec<Reply<Result<usize, EngineError>>>,
    /// Who came after that reading had begun: it may have passed what they changed, so they wait for the next.
    pub(super) late_reloaders: Vec<Reply<Result<usize, EngineError>>>,
    pub(super) stop: StopFile,
    pub(super) frozen: Option<Frozen>,
    /// Whether the store says so too.
    pub(super) is_flagged: bool,
    /// Loops about which a person is asked.
    pub(super) asked: HashSet<LoopKey>,
    pub(super) mode: Mode,
    /// In one pass, the moment that it is about.
    pub(super) moment: Option<i64>,
    pub(super) since_ms: i64,
    pub(super) loops: usize,
    /// The one timer, armed.
    pub(super) alarm: Option<Alarm>,
    /// Why it must end at once.
    pub(super) over: Option<Ended>,
}

/// A moment that is waited for. It stays armed while other things happen, as long as it is the next one.
pub(super) struct Alarm {
    at_ms: i64,
    rings: BoxFuture<'static, ()>,
}

/// What the task was woken by.
enum Heard {
    Mail(Option<Mail>),
    Written(Result<Vec<ReceiptRow>, StoreError>),
    SlowWrite,
    Impatient,
    Round(u64, Result<Finished, String>),
    Loaded(Result<Loops, EngineError>),
    Time,
    Overtime,
}

impl Desk {
    /// Publishes an event about a loop, or about the scheduler itself.
    pub(super) fn publish(&self, key: Option<LoopKey>, kind: EventKind) {
        self.engine.publish(key, None, kind);
    }

    /// Publishes an event about a round.
    pub(super) fn publish_round(&self, key: LoopKey, round: &str, kind: EventKind) {
        self.engine.publish(Some(key), Some(round), kind);
    }

    pub(super) async fn run(mut self) -> Ended {
        let ended = loop {
            self.perform();
            if let Some(ended) = self.over.take().or_else(|| self.is_done()) {
                break ended;
            }
            let wake_ms = self.wake_ms();
            self.publish(None, EventKind::Sleeping { until_ms: wake_ms, due_ms: self.due_ms() });
            let heard = self.next(wake_ms).await;
            self.take(heard);
        };
        self.end(&ended).await;
        ended
    }

    /// The next thing that happens. Mail goes first, so that a birth is heard of before the round's end.
    async fn next(&mut self, wake_ms: Option<i64>) -> Heard {
        self.arm(wake_ms);
        let slow = self.writing.as_ref().and_then(Writing::slow_in);
        let overtime = match self.mode {
            Mode::Cancelling { since } => Some(CANCELLED_MAX.saturating_sub(since.elapsed())),
            Mode::Running | Mode::Once | Mode::Draining { .. } => None,
        };
        tokio::select! {
            biased;
            mail = self.mail.recv() => Heard::Mail(mail),
            written = done(self.writing.as_mut().map(|writing| &mut writing.work)) => Heard::Written(written),
            loaded = done(self.loading.as_mut()) => Heard::Loaded(loaded),
            (slot, finished) = self.rounds.finished() => Heard::Round(slot, finished),
            () = done(self.alarm.as_mut().map(|alarm| &mut alarm.rings)) => Heard::Time,
            () = moment(slow, pause) => Heard::SlowWrite,
            () = moment(self.patience, |at| pause(at.saturating_duration_since(Instant::now()))) => Heard::Impatient,
            () = moment(overtime, pause) => Heard::Overtime,
        }
    }

    fn arm(&mut self, wake_ms: Option<i64>) {
        if self.alarm.as_ref().map(|alarm| alarm.at_ms) != wake_ms {
            let clock = Arc::clone(&self.engine.settings.clock);
            let ring = |at_ms| Box::pin(async move { clock.until_or_set(at_ms).await });
            self.alarm = wake_ms.map(|at_ms| Alarm { at_ms, rings: ring(at_ms) });
        }
    }

    fn take(&mut self, heard: Heard) {
        // Before anything is decided: whoever stopped everything did so before the moment that has come now.
        self.look_at_stop_file();
        self.look_at_rewrite();
        match heard {
            Heard::Mail(Some(mail)) => self.read(mail),
            // Nobody can ask for anything any more, not even for the end.
            Heard::Mail(None) => self.drain(Duration::ZERO),
            Heard::Written(written) => self.written(written),
            Heard::SlowWrite => self.tell_slow_write(),
            Heard::Impatient => self.write_now(),
            Heard::Round(slot, finished) => {
                let mut next = Some((slot, finished));
                // Those that have come to their end meanwhile are heard at once: what is to be written goes together.
                while let Some((slot, finished)) = next {
                    self.read_all();
                    self.finished(slot, finished);
                    next = self.rounds.has_finished();
                }
            }
            Heard::Loaded(loaded) => self.loaded(loaded),
            Heard::Time => {
                self.alarm = None;
                self.wake();
            }
            Heard::Overtime => self.over = Some(Ended::Drained),
        }
    }

    /// A birth was told before the end of its round was, and is heard of before it.
    fn read_all(&mut self) {
        while let Ok(mail) = self.mail.try_recv() {
            self.read(mail);
        }
    }

    /// The moment has come for something.
    fn wake(&mut self) {
        let now_ms = self.now_ms();
        if matches!(self.mode, Mode::Draining { until_ms } if until_ms <= now_ms) {
            self.cancel_all("the time to end is over");
        }
        self.rewrite = self.rewrite.filter(|at_ms| *at_ms > now_ms);
        self.run_errands(now_ms);
        self.step(Input::Wake);
    }

    /// Lets the dispatcher decide, and puts what it wants into the line.
    pub(super) fn step(&mut self, input: Input) {
        self.step_at(self.now_ms(), input);
    }

    /// The same for what happened before the moment that has come, if one has.
    pub(super) fn step_before(&mut self, input: Input) {
        let due_ms = self.dispatcher.next_wake().unwrap_or(i64::MAX);
        self.step_at(self.now_ms().min(due_ms.saturating_sub(1)), input);
    }

    fn step_at(&mut self, now_ms: i64, input: Input) {
        let begun = Instant::now();
        let commands = self.dispatcher.step(now_ms, input);
        let took = begun.elapsed();
        if took > STEP_MAX {
            self.publish(None, EventKind::Slow { what: "a decision", for_ms: millis(took), state: self.state() });
        }
        for command in commands {
            self.queue(command);
        }
    }

    /// Now, or the moment that one pass is about.
    pub(super) fn now_ms(&self) -> i64 {
        self.moment.unwrap_or_else(|| self.engine.now_ms())
    }

    /// The one timer.
    pub(super) fn wake_ms(&self) -> Option<i64> {
        let rewrite = self.rewrite;
        match self.mode {
            Mode::Running => [self.dispatcher.next_wake(), self.agenda.next_ms(), rewrite].into_iter().flatten().min(),
            Mode::Draining { until_ms } => [Some(until_ms), rewrite].into_iter().flatten().min(),
            Mode::Once | Mode::Cancelling { .. } => None,
        }
    }

    /// When a loop is due or may start next.
    fn due_ms(&self) -> Option<i64> {
        self.dispatcher.next_due().filter(|_| matches!(self.mode, Mode::Running))
    }

    /// Whether there is nothing left to do for a daemon that is asked to end.
    fn is_done(&self) -> Option<Ended> {
        let is_idle = self.rounds.busy() == 0;
        let is_written = self.writing.is_none() && self.line.is_empty();
        match self.mode {
            Mode::Running => None,
            Mode::Once | Mode::Draining { .. } => (is_idle && is_written).then_some(Ended::Drained),
            // What cannot be written now is found again by the next start.
            Mode::Cancelling { .. } => (is_idle && self.writing.is_none()).then_some(Ended::Drained),
        }
    }

    pub(super) fn drain(&mut self, deadline: Duration) {
        if !matches!(self.mode, Mode::Running | Mode::Once) {
            return self.cancel_all("a second request to end");
        }
        let span_ms = i64::try_from(deadline.as_millis()).unwrap_or(i64::MAX);
        let until_ms = self.engine.now_ms().saturating_add(span_ms);
        self.mode = Mode::Draining { until_ms };
        self.publish(None, EventKind::Draining { running: self.rounds.busy(), until_ms });
        self.step(Input::Drain);
        if span_ms == 0 {
            self.cancel_all("nothing is waited for");
        }
    }

    fn cancel_all(&mut self, why: &str) {
        for running in self.rounds.all() {
            let round = running.round.unwrap_or_default();
            self.publish_round(running.key, &round, EventKind::Cancelling { why: why.to_owned() });
        }
        self.rounds.cancel_all();
        self.mode = Mode::Cancelling { since: Instant::now() };
    }

    /// Another process schedules. Whatever runs here must not touch the world any more.
    pub(super) fn fenced(&mut self, why: String) {
        self.publish(None, EventKind::Fenced { why: why.clone() });
        self.rounds.cancel_all();
        self.over = Some(Ended::Fenced(why));
    }

    /// Nobody comes in any more, and nothing that was started stays.
    async fn end(&mut self, ended: &Ended) {
        self.engine.live.dismiss();
        if *ended != Ended::Drained {
            let _ = tokio::time::timeout(CANCELLED_MAX, self.rounds.wait()).await;
        }
        self.rounds.abort().await;
        self.engine.give_back(DISPATCHER).await;
    }

    /// What the task is at, in a line.
    pub(super) fn state(&self) -> String {
        let (busy, line) = (self.rounds.busy(), self.line.len());
        format!("{busy} rounds under way, {line} decisions in line, {:?}", self.mode)
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let unwritten = self.line.iter().filter(|job| matches!(job, Job::Keep(_))).count();
        Snapshot {
            since_ms: self.since_ms,
            loops: self.loops,
            running: self.rounds.all(),
            frozen: self.frozen.clone(),
            is_clock_behind: self.dispatcher.disbelieved_by(self.now_ms()).is_some(),
            draining_until_ms: match self.mode {
                Mode::Draining { until_ms } => Some(until_ms),
                Mode::Cancelling { .. } => Some(self.now_ms()),
                Mode::Running | Mode::Once => None,
            },
            next_wake_ms: self.wake_ms(),
            unwritten: unwritten + usize::from(self.writing.is_some()),
        }
    }

    /// What a round's rest means: signals for its followers, a moment to look at it again.
    pub(super) fn rested(&mut self, rest: Rest) {
        let Rest { key, round, end, signals, too_deep, expires_ms, resume_ms, items } = rest;
        for (follower, depth) in too_deep {
            self.publish(Some(key.clone()), EventKind::ChainTooLong { follower, depth });
        }
        if let Some(at_ms) = expires_ms {
            self.agenda.put_first(at_ms, super::agenda::Errand::Expire);
        }
        if let Some(at_ms) = resume_ms {
            self.agenda.put(at_ms, super::agenda::Errand::Resume { key: key.clone(), round: round.clone() });
        }
        let may_go_on = matches!(end.outcome, RoundOutcome::OverBudget | RoundOutcome::RateLimited);
        if may_go_on && !items.is_empty() && self.items.len() < ITEMS_MAX {
            self.items.insert(round.clone(), items);
        }
        let open = end.open_proposals;
        if let Some((_, slot)) = self.rounds.of_round(&round) {
            slot.end = Some(end);
        }
        self.step(Input::Proposals { key, open });
        // In one pass, what follows is for the next one.
        if self.moment.is_none() {
            for signal in signals {
                self.step(Input::Signal(super::keep::signal(signal)));
            }
        }
    }

    /// Puts rows into the line; they go along with what is to be written just before them, where they may.
    pub(super) fn keep(&mut self, keeping: Keeping) {
        let at = self.line.len();
        self.line.push_back(Job::Keep(Box::new(keeping)));
        join_at(&mut self.line, at);
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
