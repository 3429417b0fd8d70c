//! Wait and go on: a round that its provider keeps from work waits for a moment, or is taken up again by a person.

use super::bindings::LoopBindings;
use super::start::millis;
use super::{RoundDriver, StageError};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::events::EventKind;
use crate::live_rounds::RoundStarter;
use crate::proc::CancelToken;
use crate::store::RoundRow;
use loopwright_core::budget::Reservation;
use loopwright_core::report::RoundReport;
use loopwright_core::round::{Event, RoundPhase, RoundResumed};
use tokio::time::Instant;

impl RoundDriver<'_> {
    /// Waits until a moment, or until somebody stops the round. The round's wall time stands still meanwhile.
    pub(super) async fn wait(&mut self, until_ms: i64) -> Result<Event, StageError> {
        let why = self.round.facts().reasons.last().map_or("", |reason| reason.text.as_str());
        self.publish(EventKind::ProviderWait { until_ms, why: why.to_owned() });
        let begun = Instant::now();
        let stopped = tokio::select! {
            biased;
            () = self.cancel.cancelled() => true,
            () = self.engine.settings.clock.until(until_ms) => false,
        };
        self.begun += begun.elapsed();
        if stopped { Err(StageError::Stopped) } else { Ok(Event::Waited) }
    }
}

impl Engine {
    /// Lets a suspended round go on from where it stood, with this much more than its ceilings.
    ///
    /// # Errors
    /// [`EngineError::Stale`] when it is not suspended, [`EngineError::WorkGone`] when there is nothing to go on from.
    pub async fn resume_suspended(
        &self,
        round: &str,
        actor: &str,
        raised: Reservation,
        bind: &LoopBindings,
        cancel: &CancelToken,
    ) -> Result<RoundReport, EngineError> {
        self.resume_suspended_as(round, actor, raised, bind, cancel, RoundStarter::Manual).await
    }

    /// The same, by the daemon or by hand.
    #[expect(clippy::too_many_arguments, reason = "the arguments of `go_on` and who asks")]
    pub(crate) async fn resume_suspended_as(
        &self,
        round: &str,
        actor: &str,
        raised: Reservation,
        bind: &LoopBindings,
        cancel: &CancelToken,
        by: RoundStarter,
    ) -> Result<RoundReport, EngineError> {
        let provider_wait_ms = millis(self.settings.provider_wait);
        // What people added for the round since it was last resumed.
        let facts = self.load_round(round).await?.round.facts().clone();
        let added = self.total_raised(&facts.started.repo, &facts.started.spec.name, round).await?;
        let raised = raised.plus(added.less(facts.raised));
        let resumed = Event::Resumed(RoundResumed { actor: actor.to_owned(), provider_wait_ms, raised });
        let after = self.apply_answer_as(round, resumed, bind, cancel, by).await?;
        self.round_report(&after).await
    }

    /// Rounds that were suspended before a moment and that nobody took up again.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn forgotten_rounds(&self, before_ms: i64) -> Result<Vec<RoundRow>, EngineError> {
        let mut forgotten = Vec::new();
        let open = self.store.open_rounds().await?;
        for row in
            open.into_iter().filter(|row| row.phase == RoundPhase::Suspended && !self.live_rounds.contains(&row.id))
        {
            let last = self.store.events(&row.id).await?.last().map(|event| event.at_ms);
            if last.is_some_and(|at| at < before_ms) {
                forgotten.push(row);
            }
        }
        Ok(forgotten)
    }
}
