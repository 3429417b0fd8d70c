//! Takeover: the engine recovers the rounds of a dead engine and closes questions that have expired. Every process that
//! changes state starts with it, both commands and the daemon; it does not touch rounds that another living process
//! works on. A round that cannot continue is reported and left open, so that it does not block the others.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::live_rounds::RoundStarter;
use crate::proc::CancelToken;
use crate::round::LoopBindings;
use crate::store::{StoreError, StoreErrorKind};
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::round::{Event, Expired, Phase, Round, RoundStarted, StageFailed};
use loopwright_core::worded;

/// Binds recorded rounds to agents again.
pub trait RoundBinder: Send + Sync {
    /// The bindings of a recorded round, and the engine with the settings of the round's repository. An agent that no
    /// longer exists makes the round fail, not the caller.
    fn rebind(&self, engine: &Engine, started: &RoundStarted) -> (Engine, LoopBindings);
}

worded! {
    /// The kind of takeover.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum TakeoverKind {
        /// A dead engine left the round; it was recovered.
        Recovered = "recovered",
        /// Its question expired.
        Expired = "expired",
        /// It was suspended, and resumes.
        Resumed = "resumed",
    }
}

/// A round that was taken over, and the result.
#[derive(Debug)]
pub struct TakenOverRound {
    /// The kind of takeover.
    pub what: TakeoverKind,
    /// The round.
    pub round: String,
    /// Its loop; unknown for a round whose record cannot be read.
    pub loop_name: Option<String>,
    /// The round's outcome, or the reason why it cannot continue.
    pub ended: Result<Option<RoundOutcome>, EngineError>,
}

impl Engine {
    /// Takes over the work of a dead engine: running rounds, one after the other, then questions that have expired.
    ///
    /// # Errors
    /// When the store cannot be read or written; a failure of one round goes to the callback.
    pub async fn take_over(
        &self,
        rebind: &dyn RoundBinder,
        cancel: &CancelToken,
        tell: &mut (dyn FnMut(TakenOverRound) + Send),
    ) -> Result<(), EngineError> {
        let stopped = CancelToken::new();
        let cancel = match self.global_stop().await? {
            // The rounds only end: none of their work starts while everything is stopped.
            Some(_) => {
                stopped.cancel();
                &stopped
            }
            None => cancel,
        };
        for row in self.collect_abandoned().await? {
            let ended = self.take_over_round(&row.id, rebind, cancel, RoundStarter::Manual).await;
            if !is_elsewhere(&ended) {
                tell(taken(TakeoverKind::Recovered, &row.id, ended)?.with_loop(&row.loop_name));
            }
        }
        for id in self.expired_rounds().await? {
            let ended = self.close_expired(&id, rebind).await;
            if !is_elsewhere(&ended) {
                tell(taken(TakeoverKind::Expired, &id, ended)?);
            }
        }
        Ok(())
    }

    /// Recovers an abandoned round.
    pub(crate) async fn take_over_round(
        &self,
        id: &str,
        rebind: &dyn RoundBinder,
        cancel: &CancelToken,
        by: RoundStarter,
    ) -> Result<Round, EngineError> {
        let (engine, bind) = rebind.rebind(self, &self.load_round(id).await?.round.facts().started);
        engine.apply_answer_as(id, Event::Recovered, &bind, cancel, by).await
    }

    /// Ends a round whose code panicked, with the panic message; a round that was already sending is recovered instead.
    pub(crate) async fn end_broken_round(
        &self,
        id: &str,
        text: &str,
        rebind: &dyn RoundBinder,
        cancel: &CancelToken,
    ) -> Result<Round, EngineError> {
        let recorded = self.load_round(id).await?;
        let (engine, bind) = rebind.rebind(self, &recorded.round.facts().started);
        let event = match recorded.round.phase() {
            Phase::Sending(_) | Phase::Recording(_) => Event::Recovered,
            phase => Event::Broke(StageFailed {
                stage: phase.stage(),
                code: "panic".to_owned(),
                text: crate::round::bounded(&format!("this is a bug: {text}")),
            }),
        };
        if recorded.round.is_at_rest() {
            return Ok(recorded.round);
        }
        engine.apply_answer_as(id, event, &bind, cancel, RoundStarter::Dispatcher).await
    }

    /// Closes an expired question as a denial.
    pub(crate) async fn close_expired(&self, id: &str, rebind: &dyn RoundBinder) -> Result<Round, EngineError> {
        let (engine, bind) = rebind.rebind(self, &self.load_round(id).await?.round.facts().started);
        let expired = Event::Expired(Expired { at_ms: Some(self.now_ms()) });
        engine.apply_answer_as(id, expired, &bind, &CancelToken::new(), RoundStarter::Dispatcher).await
    }
}

impl TakenOverRound {
    fn with_loop(self, loop_name: &str) -> Self {
        Self { loop_name: Some(loop_name.to_owned()), ..self }
    }
}

/// Whether another process was faster and recovers the round.
fn is_elsewhere(ended: &Result<Round, EngineError>) -> bool {
    let fenced = |kind: &StoreErrorKind| matches!(kind, StoreErrorKind::Fenced { .. });
    match ended {
        Err(EngineError::Busy { .. } | EngineError::Stale(_)) => true,
        Err(EngineError::Store(error)) => fenced(&error.kind),
        Ok(_) | Err(_) => false,
    }
}

/// A store error ends the takeover; any other error belongs to the round.
fn taken(what: TakeoverKind, id: &str, ended: Result<Round, EngineError>) -> Result<TakenOverRound, StoreError> {
    let ended = match ended {
        Err(EngineError::Store(error)) => return Err(error),
        Ok(round) => Ok(round.outcome()),
        Err(error) => Err(error),
    };
    Ok(TakenOverRound { what, round: id.to_owned(), loop_name: None, ended })
}
