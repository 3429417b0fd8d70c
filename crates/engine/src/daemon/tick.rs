//! One pass: it starts the loops that are due now, waits for their rounds, and does nothing else. For people who run it
//! from cron or launchd.

use super::dispatch_loop::DispatchMode;
use super::fleet::LoopFleet;
use super::{DaemonEnd, open};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::events::{EventKind, EventSink, LiveEvent};
use crate::lease;
use crate::proc::CancelToken;
use crate::store::{DISPATCHER, StoreError, StoreErrorKind};
use loopwright_core::dispatch::{ConcurrencyLimits, LoopKey, OccurrenceReceipt};
use loopwright_core::outcome::RoundOutcome;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The report of one pass.
#[derive(Debug, Clone, Default)]
pub struct TickReport {
    /// The rounds that it started or resumed, in the order of their end.
    pub rounds: Vec<TickRound>,
    /// The receipts of occurrences that started no round.
    pub receipts: Vec<OccurrenceReceipt>,
    /// Loops that could not be started, and why.
    pub failed: Vec<(LoopKey, String)>,
}

/// A round of one pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TickRound {
    /// Its loop.
    pub key: LoopKey,
    /// The round.
    pub round: String,
    /// The outcome; `None` when the round only released its slot.
    pub outcome: Option<RoundOutcome>,
}

/// Runs one pass over the loops that are due now and waits for the rounds that it started. Answers from elsewhere are
/// decided before it, and new questions are asked after it. Loops that become due in the
/// meantime are left for the next pass. Rounds are interrupted when `cancel` is set.
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
    if engine.live_rounds.admission().is_some() {
        return Err(EngineError::Daemon("a daemon runs on this engine already".to_owned()));
    }
    // Answers that arrived since the last pass come first.
    ask_people(&engine, fleet.as_ref()).await?;
    let (own, binder) = (engine.clone(), Arc::clone(&fleet));
    let (desk, post) = open::open_dispatch_loop(engine, fleet, limits, DispatchMode::Once).await?;
    let mut pass = std::pin::pin!(desk.run());
    let ended = tokio::select! {
        ended = &mut pass => ended,
        () = cancel.cancelled() => {
            // A pass ends by itself, and is perhaps over already.
            let _ = post.send(|desk| desk.drain(Duration::ZERO));
            pass.await
        }
    };
    // The questions of this pass, unless another process schedules now: that one asks them.
    match ask_people(&own, binder.as_ref()).await {
        Ok(()) => lease::give_back(&own, DISPATCHER).await,
        Err(error) if is_held(&error) => {}
        Err(error) => return Err(error),
    }
    match ended {
        DaemonEnd::Drained => Ok(std::mem::take(&mut *notes.lock())),
        DaemonEnd::Fenced(why) | DaemonEnd::Failed(why) => Err(EngineError::Daemon(why)),
    }
}

/// Asks people and decides their answers, as the one process that schedules: another one may be sending the same question
/// right now. This process keeps the lease.
async fn ask_people(engine: &Engine, binder: &dyn LoopFleet) -> Result<(), EngineError> {
    engine.lease_dispatcher().await?;
    let asked = crate::questions::ask_people(engine, binder).await;
    if asked.is_err() {
        lease::give_back(engine, DISPATCHER).await;
    }
    asked.map(drop)
}

/// Whether another process has the lease.
fn is_held(error: &EngineError) -> bool {
    matches!(error, EngineError::Store(StoreError { kind: StoreErrorKind::Held(_), .. }))
}

/// Collects the events of a pass.
#[derive(Default)]
struct TickRecorder {
    report: Mutex<TickReport>,
}

impl TickRecorder {
    fn lock(&self) -> MutexGuard<'_, TickReport> {
        // Every change under the lock is complete in itself.
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
