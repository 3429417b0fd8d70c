//! Messages to the daemon's one task. Every caller waits for its answer, so the queue is as long as there are callers.
//! A message that cannot wait, such as the release of a slot, has no answer.

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

/// The channel for an answer.
pub(super) type ReplySender<T> = oneshot::Sender<T>;

/// A slot, and the items that its round may work on.
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
    /// A round that the dispatcher did not start requests its loop's slot.
    Occupy {
        arrival: Box<AdmissionRequest>,
        cancel: CancelToken,
        reply: ReplySender<Result<OccupiedSlot, EngineError>>,
    },
    /// The slot is free again.
    SlotReleased {
        slot: u64,
    },
    /// The items that the probe of a start found. The answer is the items that the round may work on, or `None` if the
    /// start is postponed.
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
    /// Suspended rounds of a loop may have budget now.
    BudgetRaised(LoopKey),
    /// One of these rounds.
    ResumeRound {
        key: LoopKey,
        round: String,
    },
    /// A round may be open on record while no task runs it.
    LeftOpen {
        key: LoopKey,
        round: String,
    },
    /// The time at which the next question expires.
    NextExpiry(i64),
}

/// The effect of a round's rest on its loop and on others.
pub(super) struct RoundAtRest {
    pub(super) key: LoopKey,
    pub(super) round: String,
    pub(super) end: RoundEnd,
    /// Signals that its end made, durable with the end.
    pub(super) signals: Vec<SignalRow>,
    /// Followers that got no signal because the chain is too long, and the chain's length.
    pub(super) too_deep: Vec<(LoopKey, u32)>,
    /// The time at which its question expires.
    pub(super) expires_ms: Option<i64>,
    /// The earliest time at which it can resume.
    pub(super) resume_ms: Option<i64>,
    /// The keys of its items.
    pub(super) items: Vec<Arc<str>>,
}

/// The sender of messages to the task.
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

    /// Sends a request and waits for the answer.
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
