//! People's answers: approve, deny, and the no of silence. An answer binds the candidate that was seen.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::proc::Cancel;
use crate::progress::Progress;
use crate::report;
use crate::round::Bindings;
use crate::round::journal::question_id;
use crate::store::{InboxKind, InboxQuery};
use loopwright_core::report::RoundReport;
use loopwright_core::round::{Event, PersonSaid, Round};

/// How many open questions are looked at when time runs out for some.
const QUESTIONS: u32 = 1000;

impl Engine {
    /// Lets a waiting candidate out and delivers it.
    ///
    /// # Errors
    /// [`EngineError::Stale`] when the round does not wait, or waits with another candidate, or the question has expired.
    pub async fn approve(
        &self,
        round: &str,
        candidate: &str,
        actor: &str,
        bind: &Bindings,
        progress: &dyn Progress,
    ) -> Result<RoundReport, EngineError> {
        if self.is_expired(round).await? {
            self.end_waiting(round, Event::Expired, bind, progress).await?;
            return Err(EngineError::Stale("the question has expired; silence is a no".to_owned()));
        }
        let said = PersonSaid { actor: actor.to_owned(), candidate: candidate.to_owned(), why: None };
        self.end_waiting(round, Event::Approved(said), bind, progress).await
    }

    /// Ends a waiting round with a no.
    ///
    /// # Errors
    /// [`EngineError::Stale`] when the round does not wait.
    pub async fn deny(
        &self,
        round: &str,
        actor: &str,
        why: &str,
        bind: &Bindings,
        progress: &dyn Progress,
    ) -> Result<RoundReport, EngineError> {
        let said = PersonSaid { actor: actor.to_owned(), candidate: String::new(), why: Some(why.to_owned()) };
        self.end_waiting(round, Event::Denied(said), bind, progress).await
    }

    /// Ends one round whose question has expired.
    ///
    /// # Errors
    /// When the record cannot be kept.
    pub async fn expire(
        &self,
        round: &str,
        bind: &Bindings,
        progress: &dyn Progress,
    ) -> Result<RoundReport, EngineError> {
        self.end_waiting(round, Event::Expired, bind, progress).await
    }

    /// Rounds whose question has expired.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn expired(&self) -> Result<Vec<String>, EngineError> {
        let now = self.now_ms();
        let open = self.store.inbox(InboxQuery::Open(QUESTIONS)).await?;
        let late = open
            .into_iter()
            .filter(|row| row.kind == InboxKind::Approval && row.expires_ms.is_some_and(|at| at <= now));
        Ok(late.map(|row| row.round).collect())
    }

    async fn is_expired(&self, round: &str) -> Result<bool, EngineError> {
        let question = self.store.inbox_item(&question_id(round)).await?;
        Ok(question.is_some_and(|row| row.closed_ms.is_none() && row.expires_ms.is_some_and(|at| at <= self.now_ms())))
    }

    async fn end_waiting(
        &self,
        round: &str,
        event: Event,
        bind: &Bindings,
        progress: &dyn Progress,
    ) -> Result<RoundReport, EngineError> {
        // An answer is carried out to its end: a delivery that has begun is not stopped half-way.
        let after = self.answer(round, event, bind, progress, &Cancel::new()).await?;
        self.report_of(&after).await
    }

    /// The report of a round.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn report_of(&self, round: &Round) -> Result<RoundReport, EngineError> {
        let outbox = self.store.outbox(&round.facts().started.round).await?;
        Ok(report::of(round, &outbox))
    }
}
