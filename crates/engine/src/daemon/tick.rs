//! One pass: what is due now is started and waited for, and nothing else. For people who have cron or launchd drive it.

use super::fleet::Fleet;
use super::mail::Mail;
use super::told::{News, Told};
use super::{Ended, open};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::proc::Cancel;
use loopwright_core::dispatch::{Limits, LoopKey, Receipt};
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
    pub receipts: Vec<Receipt>,
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
    fleet: Arc<dyn Fleet>,
    limits: Limits,
    told: Arc<dyn Told>,
    cancel: &Cancel,
) -> Result<TickReport, EngineError> {
    let notes = Arc::new(Notes { report: Mutex::default(), told });
    let (desk, post) = open::open(engine, fleet, limits, Arc::clone(&notes) as _, open::Span::Once).await?;
    let mut pass = std::pin::pin!(desk.run());
    let ended = tokio::select! {
        ended = &mut pass => ended,
        () = cancel.cancelled() => {
            // A pass that is over needs nobody to end it, and nobody waits for the answer.
            let (reply, _) = oneshot::channel();
            let _ = post.send(Mail::Drain { deadline: Duration::ZERO, reply });
            pass.await
        }
    };
    match ended {
        Ended::Drained => Ok(std::mem::take(&mut *notes.lock())),
        Ended::Fenced(why) | Ended::Failed(why) => Err(EngineError::Daemon(why)),
    }
}

/// Notes what is told, and passes it on.
struct Notes {
    report: Mutex<TickReport>,
    told: Arc<dyn Told>,
}

impl Notes {
    fn lock(&self) -> MutexGuard<'_, TickReport> {
        // Every change under the lock is whole in itself.
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Told for Notes {
    fn tell(&self, news: &News) {
        match news {
            News::Ended { key, round, outcome, .. } => {
                let ended = TickRound { key: key.clone(), round: round.clone(), outcome: *outcome };
                self.lock().rounds.push(ended);
            }
            News::Kept { receipts } => self.lock().receipts.extend(receipts.iter().cloned()),
            News::NotStarted { key, why, .. } => self.lock().failed.push((key.clone(), why.clone())),
            _ => {}
        }
        self.told.tell(news);
    }
}
