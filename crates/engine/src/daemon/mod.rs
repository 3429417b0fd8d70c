//! The daemon: one task that performs what [`loopwright_core::dispatch`] decides.
//!
//! It owns the dispatcher, one timer and a queue of jobs. State that must survive is written first: nothing that was
//! decided after a write is done before that write is durable, and a start is durable with its receipt and its loop's
//! new mark in one transaction. Each round is a task of its own, so a panic in one round affects only that round.
//!
//! Between two events nothing wakes it: it does not tick or poll. On PostgreSQL tasks beside it read the global stop of
//! other machines, and the workers.
//!
//! Manually started rounds need no special care: [`Engine::run`] on an engine with a daemon requests the loop's one
//! slot and the round's locks from the daemon, and returns [`EngineError::Busy`] if one of them is taken.

mod admission;
mod agenda;
mod daily_collection;
mod dispatch_loop;
mod flag_watch;
mod fleet;
mod followers;
mod jobs;
mod member_watch;
mod message;
mod offline_control;
mod open;
mod persist;
mod requests;
mod retries;
mod round_task;
mod running_rounds;
mod stop;
mod tick;

pub(crate) use admission::{DaemonAdmission, open_proposals};
pub use fleet::{FleetLoops, LoopFleet, PreparedStart, ReadyRound};
pub(crate) use followers::follower_signals;
pub use message::LoopSlot;
pub(crate) use persist::pause_question_id;
pub use persist::standing_from_row;
pub use requests::STOP_FLAG;
pub(crate) use retries::retry_signals as signals_again;
pub use stop::STOP_FILE;
pub use tick::{TickReport, TickRound, tick};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::live_rounds::{AdmissionRequest, ItemSelection};
use crate::proc::CancelToken;
use crate::round::SignalNovelty;
use crate::store::{AnswerRow, SignalRow};
use dispatch_loop::{DispatchLoop, DispatchMode};
use loopwright_core::dispatch::{ConcurrencyLimits, FleetFreeze, LoopExplanation, LoopKey};
use message::DaemonSender;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// A running daemon; clones are handles to the same one. Dropping them does not end it: [`Daemon::drain`] does.
#[derive(Clone)]
pub struct Daemon {
    engine: Engine,
    sender: DaemonSender,
}

/// The end of a daemon; the caller can wait for it.
pub struct DaemonJoin(JoinHandle<DaemonEnd>);

/// How a daemon ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DaemonEnd {
    /// It was asked to end, and everything it started is over.
    Drained,
    /// It lost the right to schedule, for this reason.
    Fenced(String),
    /// It failed.
    Failed(String),
}

/// The state of a daemon.
#[derive(Debug, Clone)]
pub struct DaemonSnapshot {
    /// The time at which it started.
    pub since_ms: i64,
    /// The number of its loops.
    pub loops: usize,
    /// The running rounds.
    pub running: Vec<RunningRound>,
    /// The global stop, if everything is stopped.
    pub frozen: Option<FleetFreeze>,
    /// Whether scheduling is suspended because the clock is far behind the last recorded time.
    pub is_clock_behind: bool,
    /// Set if the daemon is shutting down: until when rounds may continue.
    pub draining_until_ms: Option<i64>,
    /// The time at which it wakes next by itself.
    pub next_wake_ms: Option<i64>,
    /// The number of decisions that are not written yet.
    pub unwritten: usize,
}

/// The result of a thaw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThawReport {
    /// Whether everything was stopped.
    pub was_stopped: bool,
    /// Whether the clock had been rejected as implausible.
    pub was_clock_behind: bool,
}

impl ThawReport {
    /// Whether there was anything to end.
    #[must_use]
    pub fn has_effect(self) -> bool {
        self.was_stopped || self.was_clock_behind
    }
}

/// A running round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningRound {
    /// Its loop.
    pub key: LoopKey,
    /// Its id; `None` while it is starting.
    pub round: Option<String>,
    /// The time at which it started.
    pub since_ms: i64,
    /// The origin of the round.
    pub begun: RoundOrigin,
    /// Whether no task runs it for now: it was left open, and is resumed later.
    pub is_parked: bool,
}

/// The origin of a running round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoundOrigin {
    /// The loop was due.
    Due,
    /// A person, or a program beside the daemon, started it.
    Manual,
    /// An earlier engine started it; this one resumes it.
    Earlier,
    /// Another process runs it; this one only waits for its rest.
    Elsewhere,
}

impl Daemon {
    /// Takes over the rounds of a dead engine, loads the loops, and starts scheduling. Returns once the daemon is
    /// running; resumed rounds continue in the background.
    ///
    /// # Errors
    /// When the store or the loops cannot be read, or a daemon runs on this engine already.
    pub async fn start(
        engine: Engine,
        fleet: Arc<dyn LoopFleet>,
        limits: ConcurrencyLimits,
    ) -> Result<(Self, DaemonJoin), EngineError> {
        let (mut desk, post) = open::open_dispatch_loop(engine.clone(), fleet, limits, DispatchMode::Running).await?;
        desk.share_stop_file();
        if engine.store.is_leased() {
            drop(tokio::spawn(flag_watch::follow(engine.clone(), post.clone())));
            drop(tokio::spawn(member_watch::follow(engine.clone(), post.clone())));
        }
        let task = tokio::spawn(desk.run());
        Ok((Self { engine, sender: post }, DaemonJoin(task)))
    }

    /// Loads the loops again, now; returns how many there are.
    ///
    /// # Errors
    /// When they cannot be read; those from before are kept.
    pub async fn reload(&self) -> Result<usize, EngineError> {
        self.sender.request(DispatchLoop::reload).await?
    }

    /// Records an external event. It is durable when this returns; the same signal twice counts once.
    ///
    /// # Errors
    /// When it cannot be stored.
    pub async fn signal(&self, signal: SignalRow) -> Result<SignalNovelty, EngineError> {
        let heard = self.engine.store_signal(signal.clone()).await?;
        if heard == SignalNovelty::First {
            self.sender.send(move |desk| desk.on_signal(signal))?;
        }
        Ok(heard)
    }

    /// Records a person's answer from outside. It is durable when this returns; the same answer twice counts once.
    ///
    /// # Errors
    /// When it cannot be stored.
    pub async fn answer(&self, answer: AnswerRow) -> Result<SignalNovelty, EngineError> {
        let heard = self.engine.store_answer(answer).await?;
        if heard == SignalNovelty::First {
            self.check_questions()?;
        }
        Ok(heard)
    }

    /// Looks for answers to questions that loops ask elsewhere, now.
    ///
    /// # Errors
    /// When the daemon has ended.
    pub fn check_questions(&self) -> Result<(), EngineError> {
        self.sender.send(|desk| desk.agenda.schedule(desk.now_ms(), agenda::AgendaEntry::AskPeople))
    }

    /// Pauses a loop: it does not start by itself from now on, also after a restart.
    ///
    /// # Errors
    /// When the pause could not be recorded. It is in effect anyway, and is recorded as soon as possible.
    pub async fn pause(&self, key: &LoopKey, by: &str, why: &str) -> Result<(), EngineError> {
        let (key, by, why) = (key.clone(), by.to_owned(), why.to_owned());
        self.sender.request(move |desk, reply| desk.pause(key, by, why, reply)).await?
    }

    /// Resumes a paused loop: it starts by itself again.
    ///
    /// # Errors
    /// When it could not be recorded. It is in effect anyway.
    pub async fn resume(&self, key: &LoopKey, by: &str) -> Result<(), EngineError> {
        let (key, by) = (key.clone(), by.to_owned());
        self.sender.request(move |desk, reply| desk.resume(key, &by, reply)).await?
    }

    /// The global stop: running rounds are cancelled and nothing starts, also after a restart, until [`Daemon::thaw`].
    ///
    /// # Errors
    /// When it could not be recorded. It is in effect anyway.
    pub async fn freeze(&self, by: &str, why: &str) -> Result<(), EngineError> {
        let (by, why) = (by.to_owned(), why.to_owned());
        self.sender.request(move |desk, reply| desk.freeze(by, why, reply)).await?
    }

    /// Ends the global stop, also one that the file made, and accepts a clock that was rejected as implausible.
    ///
    /// # Errors
    /// When it could not be recorded; everything stays stopped then.
    pub async fn thaw(&self, by: &str) -> Result<ThawReport, EngineError> {
        let before = self.snapshot().await?;
        let by = by.to_owned();
        self.sender.request(move |desk, reply| desk.thaw(&by, reply)).await??;
        Ok(ThawReport { was_stopped: before.frozen.is_some(), was_clock_behind: before.is_clock_behind })
    }

    /// Takes a loop's one slot, so that no round of it starts before the returned slot is dropped. [`Engine::run`] does
    /// this by itself.
    ///
    /// # Errors
    /// [`EngineError::Busy`] when a round of the loop is running, or a round of another loop holds a conflicting lock.
    pub async fn occupy(&self, key: &LoopKey, round: &str, cancel: &CancelToken) -> Result<LoopSlot, EngineError> {
        let arrival = AdmissionRequest {
            key: key.clone(),
            round: round.to_owned(),
            claims: None,
            items: Vec::new(),
            pick: ItemSelection::All,
        };
        self.sender.occupy(arrival, cancel).await.map(|(permit, _)| permit)
    }

    /// Why a loop is or is not running.
    ///
    /// # Errors
    /// When the daemon has ended.
    pub async fn explain(&self, key: &LoopKey) -> Result<LoopExplanation, EngineError> {
        let key = key.clone();
        self.sender.ask(move |desk| desk.dispatcher.explain(&key, desk.now_ms())).await
    }

    /// The state of the daemon.
    ///
    /// # Errors
    /// When the daemon has ended.
    pub async fn snapshot(&self) -> Result<DaemonSnapshot, EngineError> {
        self.sender.ask(|desk| desk.snapshot()).await
    }

    /// Cancels a running round; returns whether there is one with that id.
    ///
    /// # Errors
    /// When the daemon has ended.
    pub async fn cancel(&self, round: &str, why: &str) -> Result<bool, EngineError> {
        let (round, why) = (round.to_owned(), why.to_owned());
        self.sender.ask(move |desk| desk.cancel(&round, why)).await
    }

    /// Shuts the daemon down: nothing new starts, and running rounds may finish until the deadline and are then
    /// cancelled. A second call cancels them at once. Returns once the shutdown has begun; [`DaemonJoin::wait`] waits
    /// for its end.
    ///
    /// # Errors
    /// When the daemon has ended.
    pub async fn drain(&self, deadline: Duration) -> Result<(), EngineError> {
        self.sender.ask(move |desk| desk.drain(deadline)).await
    }
}

impl DaemonJoin {
    /// Drops the daemon and everything it runs without cleaning up, as a crash would; the next start recovers the
    /// rounds. For an orderly end use [`Daemon::drain`].
    pub async fn abandon(self) {
        self.0.abort();
        // The task was aborted, or had ended before.
        let _ = self.0.await;
    }

    /// Waits for the end. The state directory is still open then: the caller closes it.
    pub async fn wait(self) -> DaemonEnd {
        match self.0.await {
            Ok(ended) => ended,
            Err(error) => DaemonEnd::Failed(running_rounds::panic_text(error)),
        }
    }
}
