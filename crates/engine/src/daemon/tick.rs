//! One pass: what is due now is started and waited for, and nothing else. For people who have cron or launchd drive it.

use super::fleet::LoopFleet;
use super::message::DaemonMessage;
use super::{DaemonEnd, open};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::events::{EventKind, EventSink, LiveEvent};
use crate::proc::CancelToken;
use loopwright_core::dispatch::{ConcurrencyLimits, LoopKey, OccurrenceReceipt};
use loopwright_core::outcome::RoundOutcome;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// What one pass did.
#[derive(Debug, Clone, Default)]
pub struct TickReport {
    /// The rounds that it started or went on with, in the order of their end.
    pub rounds: Vec<TickRound>,
    /// What became of occurrences that started nothing.
    pub receipts: Vec<OccurrenceReceipt>,
    /// Loops that could not be started, and why.
    pub failed: Vec<(LoopKey, String)>,
}

/// A round of one pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TickRound {
    /// Of which loop.
    pub key: LoopKey,
    /// The round.
    pub round: String,
    /// How it ended or stands.
    pub outcome: Option<RoundOutcome>,
}

/// Makes one pass over what is due now and waits for the rounds that it started. What becomes due meanwhile is for the next.
/// Rounds are interrupted when somebody asks for the end.
///
/// # Errors
/// When the store or the loops cannot be read, or what was decided cannot be written.
pub async fn tick(
    engine: Engine,
    fleet: Arc<dyn LoopFleet>,
    limits: ConcurrencyLimits,
    cancel: &CancelToken,
) -> Result<TickReport, EngineError> {
    let notes = Arc::new(TickRecorder::default());
    let _attached = engine.events().attach(Arc::clone(&notes) as _);
    let (desk, post) = open::open_dispatch_loop(engine, fleet, limits, open::DaemonSpan::Once).await?;
    let mut pass = std::pin::pin!(desk.run());
    let ended = tokio::select! {
        ended = &mut pass => ended,
        () = cancel.cancelled() => {
            // A pass that is over needs nobody to end it, and nobody waits for the answer.
            let (reply, _) = oneshot::channel();
            let _ = post.send(DaemonMessage::Drain { deadline: Duration::ZERO, reply });
            pass.await
        }
    };
    match ended {
        DaemonEnd::Drained => Ok(std::mem::take(&mut *notes.lock())),
        DaemonEnd::Fenced(why) | DaemonEnd::Failed(why) => Err(EngineError::Daemon(why)),
    }
}

/// Collects the events of a pass.
#[derive(Default)]
struct TickRecorder {
    report: Mutex<TickReport>,
}

impl TickRecorder {
    fn lock(&self) -> MutexGuard<'_, TickReport> {
        // Every change under the lock is whole in itself.
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventSink for TickRecorder {
    fn event(&self, event: &LiveEvent) {
        match (&event.kind, &event.loop_key, &event.round) {
            (EventKind::Ended { outcome, .. }, Some(key), Some(round)) => {
                let ended = TickRound { key: key.clone(), round: round.clone(), outcome: *outcome };
                self.lock().rounds.push(ended);
            }
            (EventKind::Receipts(receipts), ..) => self.lock().receipts.extend(receipts.iter().cloned()),
            (EventKind::NotStarted { why, .. }, Some(key), _) => self.lock().failed.push((key.clone(), why.clone())),
            _ => {}
        }
    }
}
