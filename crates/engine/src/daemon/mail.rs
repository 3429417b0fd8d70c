//! What the daemon's one task is told and asked. Every asker waits for its answer, so the line is as long as there are askers;
//! what cannot wait (a place that is given back) is told without an answer.

use super::Snapshot;
use super::permit::Permit;
use crate::error::EngineError;
use crate::live::Arrival;
use crate::proc::Cancel;
use crate::store::SignalRow;
use loopwright_core::dispatch::{End, LoopKey, Why};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Where an answer goes.
pub(super) type Reply<T> = oneshot::Sender<T>;

/// A place, and what the round that has it may be about.
pub(super) type Occupied = (Permit, Vec<Arc<str>>);

/// One message.
pub(super) enum Mail {
    /// Read the loops again.
    Reload(Reply<Result<usize, EngineError>>),
    /// A durable signal.
    Signal(Box<SignalRow>),
    Pause {
        key: LoopKey,
        by: String,
        why: String,
        reply: Reply<Result<(), EngineError>>,
    },
    Resume {
        key: LoopKey,
        by: String,
        reply: Reply<Result<(), EngineError>>,
    },
    Freeze {
        by: String,
        why: String,
        reply: Reply<Result<(), EngineError>>,
    },
    Thaw {
        by: String,
        reply: Reply<Result<(), EngineError>>,
    },
    /// A round that the dispatcher did not start wants its loop's place.
    Occupy {
        arrival: Box<Arrival>,
        cancel: Cancel,
        reply: Reply<Result<Occupied, EngineError>>,
    },
    /// The place is free again.
    Vacated {
        slot: u64,
    },
    /// What the probe of a start found; answered with what of it the round may be about, or nothing when it comes later.
    Claim {
        slot: u64,
        items: Vec<Arc<str>>,
        reply: Reply<Option<Vec<Arc<str>>>>,
    },
    /// A start became a round.
    Born {
        slot: u64,
        round: String,
    },
    /// A round came to rest.
    Rested(Box<Rest>),
    Explain {
        key: LoopKey,
        reply: Reply<Why>,
    },
    Snapshot(Reply<Snapshot>),
    Cancel {
        round: String,
        why: String,
        reply: Reply<bool>,
    },
    Drain {
        deadline: Duration,
        reply: Reply<()>,
    },
    /// Suspended rounds of a loop may have room now.
    Raised(LoopKey),
    /// One of them.
    GoOn {
        key: LoopKey,
        round: String,
    },
    /// A round may be open on record with nobody at it.
    LeftOpen {
        key: LoopKey,
        round: String,
    },
    /// The next question expires then.
    Expires(i64),
}

/// What a round's rest means for its loop and for others.
pub(super) struct Rest {
    pub(super) key: LoopKey,
    pub(super) round: String,
    pub(super) end: End,
    /// Signals that its end has made, durable with it.
    pub(super) signals: Vec<SignalRow>,
    /// Followers that got none because the chain is too long, and how long it is.
    pub(super) too_deep: Vec<(LoopKey, u32)>,
    /// When its question expires.
    pub(super) expires_ms: Option<i64>,
    /// From when on it is worth going on with it.
    pub(super) resume_ms: Option<i64>,
    /// What it is about.
    pub(super) items: Vec<Arc<str>>,
}

/// The way to the task.
#[derive(Clone)]
pub(super) struct Post(mpsc::UnboundedSender<Mail>);

impl Post {
    pub(super) fn open() -> (Self, mpsc::UnboundedReceiver<Mail>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), receiver)
    }

    pub(super) fn send(&self, mail: Mail) -> Result<(), EngineError> {
        self.0.send(mail).map_err(|_| gone())
    }

    /// Asks and waits for the answer.
    pub(super) async fn ask<T>(&self, mail: impl FnOnce(Reply<T>) -> Mail) -> Result<T, EngineError> {
        let (reply, answer) = oneshot::channel();
        self.send(mail(reply))?;
        answer.await.map_err(|_| gone())
    }

    pub(super) async fn occupy(&self, arrival: Arrival, cancel: &Cancel) -> Result<Occupied, EngineError> {
        let (arrival, cancel) = (Box::new(arrival), cancel.clone());
        self.ask(|reply| Mail::Occupy { arrival, cancel, reply }).await?
    }
}

fn gone() -> EngineError {
    EngineError::Daemon("the daemon has ended".to_owned())
}
