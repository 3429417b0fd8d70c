//! Questions about waiting candidates in places outside of this machine, and people's answers from there.
//!
//! A pass asks, reads answers, decides them, replies to those that do not count, and closes decided questions. Only the
//! process that schedules runs passes. Each message has a durable row before it is sent and is found again by its
//! marker, as every delivery is. `core`'s approval policy decides the answers; nothing here counts an approval.

mod asking;
mod deciding;
mod hearing;
mod labels;
mod message;

use crate::engine::Engine;
use crate::error::EngineError;
use crate::takeover::RoundBinder;
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// The pace at which forges are read for answers. A webhook from a forge starts a pass at once.
const POLL_MS: i64 = 60_000;
/// The most rows of each kind in one pass; the next pass takes the others.
const ROWS_MAX: u32 = 1000;

/// The state that passes of one process share.
#[derive(Debug, Default)]
pub(crate) struct QuestionTurns {
    /// One pass at a time asks, reads and replies.
    turn: tokio::sync::Mutex<()>,
    /// The answers that are being decided. A delivery can take long, and other passes run meanwhile.
    deciding: Mutex<HashSet<String>>,
}

impl QuestionTurns {
    /// Marks an answer as being decided; false if it is already.
    fn begin(&self, answer: &str) -> bool {
        self.deciding.lock().unwrap_or_else(PoisonError::into_inner).insert(answer.to_owned())
    }

    fn end(&self, answer: &str) {
        self.deciding.lock().unwrap_or_else(PoisonError::into_inner).remove(answer);
    }
}

/// Runs one pass over the questions that loops ask elsewhere. Returns when the next pass is due; `None` if no
/// question is open.
///
/// # Errors
/// When the store cannot be read or written. A place that cannot be reached is a warning and is tried again.
pub(crate) async fn ask_people(engine: &Engine, rebind: &dyn RoundBinder) -> Result<Option<i64>, EngineError> {
    if engine.global_stop().await?.is_none() {
        {
            let _turn = engine.questions.turn.lock().await;
            asking::ask(engine, rebind).await?;
            hearing::hear(engine, rebind).await?;
        }
        deciding::decide(engine, rebind).await?;
        let _turn = engine.questions.turn.lock().await;
        asking::reply(engine, rebind).await?;
        asking::close(engine, rebind).await?;
    }
    let is_open =
        !engine.store.open_questions(1).await?.is_empty() || !engine.store.pending_answers(1).await?.is_empty();
    Ok(is_open.then(|| engine.now_ms().saturating_add(POLL_MS)))
}

/// A warning for the log.
fn warn_about_question(engine: &Engine, text: &str) {
    engine.events().warn(engine.now_ms(), text);
}
