//! What the daemon's one task is told and asked. Every asker waits for its answer, so the line is as long as there are askers;
//! what cannot wait (a place that is given back) is told without an answer.

use super::DaemonSnapshot;
use super::loop_slot::LoopSlot;
use crate::error::EngineError;
use crate::live_rounds::AdmissionRequest;
use crate::proc::CancelToken;
use crate::store::SignalRow;
use loopwright_core::dispatch::{LoopExplanation, LoopKey, RoundEnd};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Where an answer goes.
pub(super) type ReplySender<T> = oneshot::Sender<T>;

/// A place, and what the round that has it may be about.
pub(super) type OccupiedSlot = (LoopSlot, Vec<Arc<str>>);

/// One message.
pub(super) enum DaemonMessage {
    /// Read the loops again.
    Reload(ReplySender<Result<usize, EngineError>>),
    /// A durable signal.
    Signal(Box<SignalRow>),
    Pause {
        key: LoopKey,
        by: String,
        why: String,
        reply: ReplySender<Result<(), EngineError>>,
    },
    Resume {
        key: LoopKey,
        by: String,
        reply: ReplySender<Result<(), EngineError>>,
    },
    Freeze {
        by: String,
        why: String,
        reply: ReplySender<Result<(), EngineError>>,
    },
    Thaw {
        by: String,
        reply: ReplySender<Result<(), EngineError>>,
    },
    /// A round that the dispatcher did not start wants its loop's place.
    Occupy {
        arrival: Box<AdmissionRequest>,
        cancel: CancelToken,
        reply: ReplySender<Result<OccupiedSlot, EngineError>>,
    },
    /// The place is free again.
    SlotReleased {
        slot: u64,
    },
    /// What the probe of a start found; answered with what of it the round may be about, or nothing when it comes later.
    Claim {
        slot: u64,
        items: Vec<Arc<str>>,
        reply: ReplySender<Option<Vec<Arc<str>>>>,
    },
    /// A start became a round.
    RoundStarted {
        slot: u64,
        round: String,
    },
    /// A round came to rest.
    RoundAtRest(Box<RoundAtRest>),
    Explain {
        key: LoopKey,
        reply: ReplySender<LoopExplanation>,
    },
    Snapshot(ReplySender<DaemonSnapshot>),
    Cancel {
        round: String,
        why: String,
        reply: ReplySender<bool>,
    },
    Drain {
        deadline: Duration,
        reply: ReplySender<()>,
    },
    /// Suspended rounds of a loop may have room now.
    BudgetRaised(LoopKey),
    /// One of them.
    ResumeRound {
        key: LoopKey,
        round: String,
    },
    /// A round may be open on record with nobody at it.
    LeftOpen {
        key: LoopKey,
        round: String,
    },
    /// The next question expires then.
    NextExpiry(i64),
}

/// What a round's rest means for its loop and for others.
pub(super) struct RoundAtRest {
    pub(super) key: LoopKey,
    pub(super) round: String,
    pub(super) end: RoundEnd,
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
pub(super) struct DaemonSender(mpsc::UnboundedSender<DaemonMessage>);

impl DaemonSender {
    pub(super) fn channel() -> (Self, mpsc::UnboundedReceiver<DaemonMessage>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), receiver)
    }

    pub(super) fn send(&self, mail: DaemonMessage) -> Result<(), EngineError> {
        self.0.send(mail).map_err(|_| gone())
    }

    /// Asks and waits for the answer.
    pub(super) async fn request<T>(
        &self,
        mail: impl FnOnce(ReplySender<T>) -> DaemonMessage,
    ) -> Result<T, EngineError> {
        let (reply, answer) = oneshot::channel();
        self.send(mail(reply))?;
        answer.await.map_err(|_| gone())
    }

    pub(super) async fn occupy(
        &self,
        arrival: AdmissionRequest,
        cancel: &CancelToken,
    ) -> Result<OccupiedSlot, EngineError> {
        let (arrival, cancel) = (Box::new(arrival), cancel.clone());
        self.request(|reply| DaemonMessage::Occupy { arrival, cancel, reply }).await?
    }
}

fn gone() -> EngineError {
    EngineError::Daemon("the daemon has ended".to_owned())
}
