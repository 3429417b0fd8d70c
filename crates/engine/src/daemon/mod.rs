//! The daemon: one task that performs what [`loopwright_core::dispatch`] decides.
//!
//! It owns the dispatcher, one timer and a line of what is to be done. What must survive is written first: nothing that was
//! decided after a write is done before that write is durable, and a start is durable with its receipt and its loop's new mark
//! in one transaction. Each round is a task of its own; what one of them does to itself, also a panic, is that round's.
//!
//! Between two moments nothing wakes it: no ticking, no polling.
//!
//! Rounds by hand need no special care: [`Engine::run`] on an engine with a daemon asks the daemon for the loop's one place
//! and for what the round locks, and answers [`EngineError::Busy`] when somebody has it.

mod admission;
mod agenda;
mod dispatch_loop;
mod fleet;
mod followers;
mod jobs;
mod loop_slot;
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

pub use fleet::{FleetLoops, LoopFleet, PreparedStart, ReadyRound};
pub(crate) use followers::follower_signals;
pub use loop_slot::LoopSlot;
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
use crate::store::SignalRow;
use loopwright_core::dispatch::{ConcurrencyLimits, FleetFreeze, LoopExplanation, LoopKey};
use message::{DaemonMessage, DaemonSender};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// A running daemon; clones are handles to the same one. Dropping them does not end it: [`Daemon::drain`] does.
#[derive(Clone)]
pub struct Daemon {
    engine: Engine,
    sender: DaemonSender,
}

/// The end of a daemon, to be waited for.
pub struct DaemonJoin(JoinHandle<DaemonEnd>);

/// How a daemon ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DaemonEnd {
    /// It was asked to, and everything it started is over.
    Drained,
    /// Another engine has the store.
    Fenced(String),
    /// It broke.
    Failed(String),
}

/// What a daemon is at.
#[derive(Debug, Clone)]
pub struct DaemonSnapshot {
    /// Since when it runs.
    pub since_ms: i64,
    /// How many loops it has.
    pub loops: usize,
    /// The rounds under way.
    pub running: Vec<RunningRound>,
    /// Whether everything is stopped.
    pub frozen: Option<FleetFreeze>,
    /// Whether nothing is scheduled because the clock is far behind the last recorded moment.
    pub is_clock_behind: bool,
    /// Whether it is about to end, and until when rounds may go on.
    pub draining_until_ms: Option<i64>,
    /// When it wakes next by itself.
    pub next_wake_ms: Option<i64>,
    /// How much of what was decided is not written yet.
    pub unwritten: usize,
}

/// What a thaw has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThawReport {
    /// Whether everything was stopped.
    pub was_stopped: bool,
    /// Whether the clock was not believed.
    pub was_clock_behind: bool,
}

impl ThawReport {
    /// Whether there was anything to end.
    #[must_use]
    pub fn has_effect(self) -> bool {
        self.was_stopped || self.was_clock_behind
    }
}

/// A round under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningRound {
    /// Of which loop.
    pub key: LoopKey,
    /// Its id; none while it is being born.
    pub round: Option<String>,
    /// Since when.
    pub since_ms: i64,
    /// Who began it.
    pub begun: RoundOrigin,
    /// Whether nobody is at it for now: it was left open, and is taken up again later.
    pub is_parked: bool,
}

/// Who began a round that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoundOrigin {
    /// The loop was due.
    Due,
    /// A person, or a program beside the daemon.
    Manual,
    /// An earlier engine; this one goes on with it.
    Earlier,
    /// Another process, which is at it: this one only waits for its rest.
    Elsewhere,
}

impl Daemon {
    /// Takes over what a dead engine left, reads the loops, and goes to work. Comes back when the daemon is at work; rounds
    /// that go on do so in the background.
    ///
    /// # Errors
    /// When the store or the loops cannot be read, or a daemon runs on this engine already.
    pub async fn start(
        engine: Engine,
        fleet: Arc<dyn LoopFleet>,
        limits: ConcurrencyLimits,
    ) -> Result<(Self, DaemonJoin), EngineError> {
        let (desk, post) = open::open_dispatch_loop(engine.clone(), fleet, limits, open::DaemonSpan::Lasting).await?;
        let task = tokio::spawn(desk.run());
        Ok((Self { engine, sender: post }, DaemonJoin(task)))
    }

    /// Reads the loops again, now; answers with how many there are.
    ///
    /// # Errors
    /// When they cannot be read; those from before are kept.
    pub async fn reload(&self) -> Result<usize, EngineError> {
        self.sender.request(DaemonMessage::Reload).await?
    }

    /// Something outside happened. Durable when this returns; the same signal twice is one.
    ///
    /// # Errors
    /// When it cannot be kept.
    pub async fn signal(&self, signal: SignalRow) -> Result<SignalNovelty, EngineError> {
        let heard = self.engine.store_signal(signal.clone()).await?;
        if heard == SignalNovelty::First {
            self.sender.send(DaemonMessage::Signal(Box::new(signal)))?;
        }
        Ok(heard)
    }

    /// Nothing of the loop starts by itself from now on, also after a restart.
    ///
    /// # Errors
    /// When it could not be recorded; it is in effect all the same, and recorded as soon as that can be.
    pub async fn pause(&self, key: &LoopKey, by: &str, why: &str) -> Result<(), EngineError> {
        let (key, by, why) = (key.clone(), by.to_owned(), why.to_owned());
        self.sender.request(|reply| DaemonMessage::Pause { key, by, why, reply }).await?
    }

    /// The loop starts by itself again.
    ///
    /// # Errors
    /// When it could not be recorded; it is in effect all the same.
    pub async fn resume(&self, key: &LoopKey, by: &str) -> Result<(), EngineError> {
        let (key, by) = (key.clone(), by.to_owned());
        self.sender.request(|reply| DaemonMessage::Resume { key, by, reply }).await?
    }

    /// The global stop: running rounds are cancelled and nothing starts, also after a restart, until [`Daemon::thaw`].
    ///
    /// # Errors
    /// When it could not be recorded; it is in effect all the same.
    pub async fn freeze(&self, by: &str, why: &str) -> Result<(), EngineError> {
        let (by, why) = (by.to_owned(), why.to_owned());
        self.sender.request(|reply| DaemonMessage::Freeze { by, why, reply }).await?
    }

    /// Ends the global stop, also one that was made by the file, and takes a clock as it is that was not believed.
    ///
    /// # Errors
    /// When it could not be recorded; everything stays stopped then.
    pub async fn thaw(&self, by: &str) -> Result<ThawReport, EngineError> {
        let before = self.snapshot().await?;
        let by = by.to_owned();
        self.sender.request(|reply| DaemonMessage::Thaw { by, reply }).await??;
        Ok(ThawReport { was_stopped: before.frozen.is_some(), was_clock_behind: before.is_clock_behind })
    }

    /// Takes a loop's one place, so that no round of it begins before the permit is dropped. [`Engine::run`] does this by
    /// itself.
    ///
    /// # Errors
    /// [`EngineError::Busy`] when a round of the loop is under way, or one of another loop has what it locks.
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
        self.sender.request(|reply| DaemonMessage::Explain { key, reply }).await
    }

    /// What the daemon is at.
    ///
    /// # Errors
    /// When the daemon has ended.
    pub async fn snapshot(&self) -> Result<DaemonSnapshot, EngineError> {
        self.sender.request(DaemonMessage::Snapshot).await
    }

    /// Asks a round under way to end; says whether there is one of that id.
    ///
    /// # Errors
    /// When the daemon has ended.
    pub async fn cancel(&self, round: &str, why: &str) -> Result<bool, EngineError> {
        let (round, why) = (round.to_owned(), why.to_owned());
        self.sender.request(|reply| DaemonMessage::Cancel { round, why, reply }).await
    }

    /// Nothing new starts; rounds under way may end until the deadline and are cancelled then. A second call cancels them at
    /// once. Comes back when that is under way; [`DaemonJoin::wait`] has the end.
    ///
    /// # Errors
    /// When the daemon has ended.
    pub async fn drain(&self, deadline: Duration) -> Result<(), EngineError> {
        self.sender.request(|reply| DaemonMessage::Drain { deadline, reply }).await
    }
}

impl DaemonJoin {
    /// Drops the daemon and everything it runs where it stands, as a crash would; the next start finds it. For an orderly end
    /// there is [`Daemon::drain`].
    pub async fn abandon(self) {
        self.0.abort();
        // It was ended, or had ended before.
        let _ = self.0.await;
    }

    /// Waits for the end. The state directory is still open then: it is the caller's to close.
    pub async fn wait(self) -> DaemonEnd {
        match self.0.await {
            Ok(ended) => ended,
            Err(error) => DaemonEnd::Failed(running_rounds::panic_text(error)),
        }
    }
}
