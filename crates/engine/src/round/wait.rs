//! Wait and resume: a round that its provider blocks waits until a given time, or a person resumes it.

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
    /// Waits until the given time, or until the round is stopped. The wait does not count towards the round's wall
    /// time.
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
        self.resume_suspended_as(round, actor, raised, bind, cancel, RoundStarter::Manual).await
    }

    /// The same, for the daemon or for a manual start.
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
        // The raises for the round since it was last resumed.
        let facts = self.load_round(round).await?.round.facts().clone();
        let added = self.total_raised(&facts.started.repo, &facts.started.spec.name, round).await?;
        let raised = raised.plus(added.less(facts.raised));
        let resumed = Event::Resumed(RoundResumed { actor: actor.to_owned(), provider_wait_ms, raised });
        let after = self.apply_answer_as(round, resumed, bind, cancel, by).await?;
        self.round_report(&after).await
    }

    /// Rounds that were suspended before a given time and have not been resumed.
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
