//! People's answers to rounds at rest: approve, deny, and expiry, which counts as a denial; and the resumption of a
//! suspended round. An answer binds the candidate that the person saw.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::proc::CancelToken;
use crate::raise::total_raised;
use crate::report;
use crate::round::rows::question_id;
use crate::round::{LoopBindings, RoundCaller};
use crate::store::{InboxKind, RoundRow};
use loopwright_core::actor::Actor;
use loopwright_core::budget::Reservation;
use loopwright_core::report::RoundReport;
use loopwright_core::round::{Event, Expired, PersonDecision, QuestionHeld, Refusal, Round, RoundPhase, RoundResumed};
use std::time::Duration;

/// The number of open questions that are checked for expiry at a time.
const QUESTIONS: u32 = 1000;

/// A person's request for more time to answer a question.
#[derive(Debug, Clone)]
pub struct QuestionHold {
    /// The person.
    pub actor: Actor,
    /// The candidate that the person saw; empty binds none.
    pub candidate: String,
    /// For how long from now; at most 30 days count.
    pub lasts: Duration,
    /// The reason, if they gave one.
    pub why: Option<String>,
}

impl Engine {
    /// Approves a waiting candidate, and delivers it when enough people have approved. The loop's approval policy
    /// applies to every caller: see [`Refusal`].
    ///
    /// # Errors
    /// [`EngineError::Refused`] when the policy refuses the answer, the candidate is another one or the question has
    /// expired; [`EngineError::Stale`] when the round does not wait.
    pub async fn approve(
        &self,
        round: &str,
        candidate: &str,
        actor: impl Into<Actor>,
        bind: &LoopBindings,
    ) -> Result<RoundReport, EngineError> {
        let (candidate, why, at_ms) = (candidate.to_owned(), None, Some(self.now_ms()));
        let said = PersonDecision { actor: actor.into(), candidate, why, at_ms, position: None, same_as: None };
        if self.is_expired_by_row(round).await? {
            self.expire_round(round, bind).await?;
            return Err(EngineError::Stale("the approval request has expired, which counts as a denial".to_owned()));
        }
        let answered = self.end_waiting(round, Event::Approved(said), bind).await;
        if let Err(EngineError::Refused(Refusal::Expired { .. })) = &answered {
            self.expire_round(round, bind).await?;
        }
        answered
    }

    /// Ends a waiting round with a denial.
    ///
    /// # Errors
    /// [`EngineError::Refused`] when the person may not answer, [`EngineError::Stale`] when the round does not wait.
    pub async fn deny(
        &self,
        round: &str,
        actor: impl Into<Actor>,
        why: &str,
        bind: &LoopBindings,
    ) -> Result<RoundReport, EngineError> {
        self.deny_candidate(round, "", actor, why, bind).await
    }

    /// As [`Engine::deny`], and binds the candidate that the person saw; an empty one binds none.
    ///
    /// # Errors
    /// As [`Engine::deny`]; [`EngineError::Refused`] also when another candidate waits.
    pub async fn deny_candidate(
        &self,
        round: &str,
        candidate: &str,
        actor: impl Into<Actor>,
        why: &str,
        bind: &LoopBindings,
    ) -> Result<RoundReport, EngineError> {
        let (candidate, why, at_ms) = (candidate.to_owned(), Some(why.to_owned()), Some(self.now_ms()));
        let said = PersonDecision { actor: actor.into(), candidate, why, at_ms, position: None, same_as: None };
        self.end_waiting(round, Event::Denied(said), bind).await
    }

    /// Gives a waiting question more time, if the person may answer it. It expires not before the hold ends.
    ///
    /// # Errors
    /// [`EngineError::Refused`] when the person may not answer, another candidate waits, or the question has expired;
    /// [`EngineError::Stale`] when the round does not wait.
    pub async fn hold_question(
        &self,
        round: &str,
        hold: QuestionHold,
        bind: &LoopBindings,
    ) -> Result<RoundReport, EngineError> {
        let QuestionHold { actor, candidate, lasts, why } = hold;
        let (at_ms, lasts_ms) = (self.now_ms(), i64::try_from(lasts.as_millis()).unwrap_or(i64::MAX));
        let held = QuestionHeld { actor, candidate, until_ms: at_ms.saturating_add(lasts_ms), why, at_ms };
        self.end_waiting(round, Event::QuestionHeld(held), bind).await
    }

    /// When the open question of a round expires.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn question_end(&self, round: &str) -> Result<Option<i64>, EngineError> {
        let question = self.store.inbox_item(&question_id(round)).await?;
        Ok(question.and_then(|row| row.expires_ms))
    }

    /// Ends a waiting round whose candidate was answered in another round: the same change is one question. The denial
    /// does not count against the loop.
    ///
    /// # Errors
    /// As [`Engine::deny`].
    pub async fn close_duplicate(
        &self,
        round: &str,
        answered: &str,
        actor: impl Into<Actor>,
        bind: &LoopBindings,
    ) -> Result<RoundReport, EngineError> {
        let why = Some(format!("round {answered} has the same candidate, and was answered"));
        let (candidate, at_ms, same_as) = (String::new(), Some(self.now_ms()), Some(answered.to_owned()));
        let said = PersonDecision { actor: actor.into(), candidate, why, at_ms, position: None, same_as };
        self.end_waiting(round, Event::Denied(said), bind).await
    }

    /// Records what a person saw at the receiver of one item in doubt: it is there, or it is not, with a reason.
    /// [`Engine::approve`] and [`Engine::deny`] answer for all items in doubt at once.
    ///
    /// # Errors
    /// [`EngineError::Refused`] when the person may not answer, [`EngineError::Stale`] when the item is not in doubt.
    pub async fn settle_delivery(
        &self,
        round: &str,
        position: u32,
        actor: impl Into<Actor>,
        missing: Option<&str>,
        bind: &LoopBindings,
    ) -> Result<RoundReport, EngineError> {
        let recorded = self.load_round(round).await?;
        let candidate = recorded.round.facts().attempt().and_then(|attempt| attempt.candidate.clone());
        let (candidate, why) = (candidate.unwrap_or_default(), missing.map(str::to_owned));
        let (at_ms, position) = (Some(self.now_ms()), Some(position));
        let said = PersonDecision { actor: actor.into(), candidate, why, at_ms, position, same_as: None };
        let event = if missing.is_some() { Event::Denied(said) } else { Event::Approved(said) };
        self.end_waiting(round, event, bind).await
    }

    /// Sends an approved candidate again, which its receiver had blocked. The engine first searches for an item
    /// that may have been sent.
    ///
    /// # Errors
    /// [`EngineError::Stale`] when no receiver blocks it.
    pub async fn send_again(
        &self,
        round: &str,
        bind: &LoopBindings,
        cancel: &CancelToken,
    ) -> Result<RoundReport, EngineError> {
        self.send_again_as(round, RoundCaller::manual(bind, cancel)).await
    }

    /// The same, for the daemon or for a manual start.
    pub(crate) async fn send_again_as(&self, round: &str, caller: RoundCaller<'_>) -> Result<RoundReport, EngineError> {
        let after = self.apply_answer(round, Event::Resent, caller).await?;
        self.round_report(&after).await
    }

    /// Ends a round whose question has expired.
    ///
    /// # Errors
    /// When the record cannot be written.
    pub async fn expire_round(&self, round: &str, bind: &LoopBindings) -> Result<RoundReport, EngineError> {
        self.end_waiting(round, Event::Expired(Expired { at_ms: Some(self.now_ms()) }), bind).await
    }

    /// Rounds whose question has expired.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn expired_rounds(&self) -> Result<Vec<String>, EngineError> {
        let now = self.now_ms();
        let open = self.store.inbox(QUESTIONS).await?;
        let late = open
            .into_iter()
            .filter(|row| row.kind == InboxKind::Approval && row.expires_ms.is_some_and(|at| at <= now));
        Ok(late.map(|row| row.round).collect())
    }

    /// Rounds of earlier builds do not record how long they wait; the row of their question does.
    async fn is_expired_by_row(&self, round: &str) -> Result<bool, EngineError> {
        if self.load_round(round).await?.round.facts().window.is_some() {
            return Ok(false);
        }
        let question = self.store.inbox_item(&question_id(round)).await?;
        Ok(question.is_some_and(|row| row.closed_ms.is_none() && row.expires_ms.is_some_and(|at| at <= self.now_ms())))
    }

    async fn end_waiting(&self, round: &str, event: Event, bind: &LoopBindings) -> Result<RoundReport, EngineError> {
        // An answer is always processed completely: a delivery that has begun is not stopped half-way.
        let cancel = CancelToken::new();
        // The work of a whole round is a large future; on the stack of a small thread it would not fit twice.
        let after = Box::pin(self.apply_answer(round, event, RoundCaller::manual(bind, &cancel))).await?;
        self.round_report(&after).await
    }

    /// Resumes a suspended round, with this much added to its ceilings.
    ///
    /// # Errors
    /// [`EngineError::Stale`] when it is not suspended, [`EngineError::WorkGone`] when its workspace is gone.
    pub async fn resume_suspended(
        &self,
        round: &str,
        actor: &str,
        raised: Reservation,
        bind: &LoopBindings,
        cancel: &CancelToken,
    ) -> Result<RoundReport, EngineError> {
        self.resume_suspended_as(round, actor, raised, RoundCaller::manual(bind, cancel)).await
    }

    /// The same, for the daemon or for a manual start.
    pub(crate) async fn resume_suspended_as(
        &self,
        round: &str,
        actor: &str,
        raised: Reservation,
        caller: RoundCaller<'_>,
    ) -> Result<RoundReport, EngineError> {
        let provider_wait_ms = u64::try_from(self.settings.provider_wait.as_millis()).unwrap_or(u64::MAX);
        // The raises for the round since it was last resumed.
        let recorded = self.load_round(round).await?;
        let facts = recorded.round.facts();
        let added = total_raised(self, &facts.started).await?;
        let raised = raised.plus(added.less(facts.raised));
        let resumed = Event::Resumed(RoundResumed { actor: actor.to_owned(), provider_wait_ms, raised });
        let after = self.apply_answer(round, resumed, caller).await?;
        self.round_report(&after).await
    }

    /// Rounds that were suspended before a given time and have not been resumed.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn forgotten_rounds(&self, before_ms: i64) -> Result<Vec<RoundRow>, EngineError> {
        let is_forgotten = |row: &RoundRow| row.phase == RoundPhase::Suspended && !self.live_rounds.contains(&row.id);
        let mut forgotten = Vec::new();
        for row in self.store.open_rounds().await?.into_iter().filter(is_forgotten) {
            let last = self.store.events(&row.id).await?.last().map(|event| event.at_ms);
            if last.is_some_and(|at| at < before_ms) {
                forgotten.push(row);
            }
        }
        Ok(forgotten)
    }

    /// The report of a round.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn round_report(&self, round: &Round) -> Result<RoundReport, EngineError> {
        let outbox = self.store.outbox(&round.facts().started.round).await?;
        Ok(report::build_report(round, &outbox))
    }
}
