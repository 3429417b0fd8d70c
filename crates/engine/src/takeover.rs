//! Taking over: what a dead engine left is swept and taken to its end, questions that nobody answered in time are closed.
//! Every process that changes something begins with it, be it a command or the daemon; what another living process is at is
//! left alone. A round that cannot go on is told and left
//! open: it must not keep the others from working.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::live::By;
use crate::proc::Cancel;
use crate::round::Bindings;
use crate::store::{StoreError, StoreErrorKind};
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::round::{Broke, Event, Expired, Phase, Round, Started};
use loopwright_core::worded;

/// Binds recorded rounds to agents again.
pub trait Rebind: Send + Sync {
    /// What a recorded round is bound to, and the engine as it is told for the round's repository. An agent that has gone
    /// since makes the round fail, not whoever asks.
    fn rebind(&self, engine: &Engine, started: &Started) -> (Engine, Bindings);
}

worded! {
    /// What was done with a round.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Takeover {
        /// It was left by a dead engine, and was taken to its rest.
        Recovered = "recovered",
        /// Its question expired.
        Expired = "expired",
        /// It was suspended, and goes on.
        Resumed = "resumed",
    }
}

/// A round that was taken over, and how that went.
#[derive(Debug)]
pub struct Taken {
    /// What was done.
    pub what: Takeover,
    /// The round.
    pub round: String,
    /// Its loop; unknown for a round whose record cannot be read.
    pub loop_name: Option<String>,
    /// How it stands then, or why it cannot go on.
    pub ended: Result<Option<RoundOutcome>, EngineError>,
}

impl Engine {
    /// Takes over what a dead engine left: rounds under way, one after the other, then questions that have expired.
    ///
    /// # Errors
    /// When the store cannot be read or written; a round's own trouble is told.
    pub async fn take_over(
        &self,
        rebind: &dyn Rebind,
        cancel: &Cancel,
        tell: &mut (dyn FnMut(Taken) + Send),
    ) -> Result<(), EngineError> {
        for row in self.abandoned().await? {
            let ended = self.retake(&row.id, rebind, cancel, By::Hand).await;
            if !is_elsewhere(&ended) {
                tell(taken(Takeover::Recovered, &row.id, ended)?.of(&row.loop_name));
            }
        }
        for id in self.expired().await? {
            let ended = self.let_expire(&id, rebind).await;
            if !is_elsewhere(&ended) {
                tell(taken(Takeover::Expired, &id, ended)?);
            }
        }
        Ok(())
    }

    /// Takes an abandoned round to its rest.
    pub(crate) async fn retake(
        &self,
        id: &str,
        rebind: &dyn Rebind,
        cancel: &Cancel,
        by: By,
    ) -> Result<Round, EngineError> {
        let (engine, bind) = rebind.rebind(self, &self.recorded(id).await?.round.facts().started);
        engine.answer_by(id, Event::Recovered, &bind, cancel, by).await
    }

    /// Ends a round whose own code broke, with what it said; one that was sending goes on with that instead.
    pub(crate) async fn retake_broken(
        &self,
        id: &str,
        text: &str,
        rebind: &dyn Rebind,
        cancel: &Cancel,
    ) -> Result<Round, EngineError> {
        let recorded = self.recorded(id).await?;
        let (engine, bind) = rebind.rebind(self, &recorded.round.facts().started);
        let event = match recorded.round.phase() {
            Phase::Sending(_) | Phase::Recording(_) => Event::Recovered,
            phase => Event::Broke(Broke {
                stage: phase.stage(),
                code: "panic".to_owned(),
                text: crate::round::bounded(&format!("this is a bug: {text}")),
            }),
        };
        if recorded.round.is_at_rest() {
            return Ok(recorded.round);
        }
        engine.answer_by(id, event, &bind, cancel, By::Dispatcher).await
    }

    /// Closes an expired question with the no of silence.
    pub(crate) async fn let_expire(&self, id: &str, rebind: &dyn Rebind) -> Result<Round, EngineError> {
        let (engine, bind) = rebind.rebind(self, &self.recorded(id).await?.round.facts().started);
        let expired = Event::Expired(Expired { at_ms: Some(self.now_ms()) });
        engine.answer_by(id, expired, &bind, &Cancel::new(), By::Dispatcher).await
    }
}

impl Taken {
    fn of(self, loop_name: &str) -> Self {
        Self { loop_name: Some(loop_name.to_owned()), ..self }
    }
}

/// Whether somebody else was faster, and takes the round to its end.
fn is_elsewhere(ended: &Result<Round, EngineError>) -> bool {
    let fenced = |kind: &StoreErrorKind| matches!(kind, StoreErrorKind::Fenced { .. });
    match ended {
        Err(EngineError::Busy { .. } | EngineError::Stale(_)) => true,
        Err(EngineError::Store(error)) => fenced(&error.kind),
        Ok(_) | Err(_) => false,
    }
}

/// A store that fails ends the whole; anything else is the round's own.
fn taken(what: Takeover, id: &str, ended: Result<Round, EngineError>) -> Result<Taken, StoreError> {
    let ended = match ended {
        Err(EngineError::Store(error)) => return Err(error),
        Ok(round) => Ok(round.outcome()),
        Err(error) => Err(error),
    };
    Ok(Taken { what, round: id.to_owned(), loop_name: None, ended })
}
