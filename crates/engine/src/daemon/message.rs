//! Messages to the daemon's one task: each is work that the task does with its state. Every caller waits for its answer,
//! so the queue is as long as there are callers. A message that cannot wait, such as the release of a slot, has no
//! answer.

use super::dispatch_loop::DispatchLoop;
use crate::error::EngineError;
use crate::live_rounds::AdmissionRequest;
use crate::proc::CancelToken;
use crate::store::SignalRow;
use loopwright_core::dispatch::{LoopKey, RoundEnd};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// One message.
pub(super) type DaemonMessage = Box<dyn FnOnce(&mut DispatchLoop) + Send>;

/// The channel for an answer.
pub(super) type ReplySender<T> = oneshot::Sender<T>;

/// A slot, and the items that its round may work on.
pub(super) type OccupiedSlot = (LoopSlot, Vec<Arc<str>>);

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
    /// Whether its loop asks people elsewhere: there may be a question to ask or to close.
    pub(super) asks: bool,
    /// The earliest time at which it can resume.
    pub(super) resume_ms: Option<i64>,
    /// The keys of its items.
    pub(super) items: Vec<Arc<str>>,
}

/// The sender of messages to the task.
#[derive(Debug, Clone)]
pub(super) struct DaemonSender(mpsc::UnboundedSender<DaemonMessage>);

impl DaemonSender {
    pub(super) fn channel() -> (Self, mpsc::UnboundedReceiver<DaemonMessage>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), receiver)
    }

    /// Returns when the task has ended.
    pub(super) async fn closed(&self) {
        self.0.closed().await;
    }

    /// Sends a message that needs no answer.
    pub(super) fn send(&self, work: impl FnOnce(&mut DispatchLoop) + Send + 'static) -> Result<(), EngineError> {
        self.0.send(Box::new(work)).map_err(|_| gone())
    }

    /// Sends a message and waits until the task, or a later job of it, sends the answer.
    pub(super) async fn request<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut DispatchLoop, ReplySender<T>) + Send + 'static,
    ) -> Result<T, EngineError> {
        let (reply, answer) = oneshot::channel();
        self.send(move |desk| work(desk, reply))?;
        answer.await.map_err(|_| gone())
    }

    /// Sends a message and waits for its result.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut DispatchLoop) -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        // The caller may be gone.
        self.request(move |desk, reply| drop(reply.send(work(desk)))).await
    }

    pub(super) async fn occupy(
        &self,
        arrival: AdmissionRequest,
        cancel: &CancelToken,
    ) -> Result<OccupiedSlot, EngineError> {
        let cancel = cancel.clone();
        self.ask(move |desk| desk.occupy(arrival, cancel)).await?
    }
}

fn gone() -> EngineError {
    EngineError::Daemon("the daemon has ended".to_owned())
}

/// Holds a loop's one slot. Dropping it releases the slot, also after a panic or in an abandoned future.
#[derive(Debug)]
pub struct LoopSlot {
    pub(super) sender: DaemonSender,
    pub(super) slot: u64,
}

impl Drop for LoopSlot {
    fn drop(&mut self) {
        let slot = self.slot;
        // A daemon that has ended grants no more slots.
        let _ = self.sender.send(move |desk| desk.on_slot_released(slot));
    }
}
