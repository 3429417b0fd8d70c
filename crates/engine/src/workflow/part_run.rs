//! The round of one part: it starts once, and continues after a crash.

use super::WorkflowDriver;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::live_rounds::RoundStarter;
use crate::probe::ProbeResult;
use crate::proc::CancelToken;
use crate::round::{LoopBindings, RoundCaller, RunRequest};
use crate::store::WorkflowPartRow;
use loopwright_core::budget::Reservation;
use loopwright_core::name::RoundId;
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::round::{Event, Phase, ProbeItem, Round, RoundPhase};
use loopwright_core::spec::{CheckedSpec, ItemJoin};
use loopwright_core::workflow::{WorkflowPart, WorkflowPlace};
use std::time::Duration;

/// How often this process checks a round that another process recovers.
const LOOKS: Duration = Duration::from_millis(500);

/// Whether a provider blocks the round, or a person paused it; it continues later.
pub(super) fn is_blocked(round: &Round) -> bool {
    matches!(round.phase(), Phase::Suspended(RoundOutcome::RateLimited | RoundOutcome::Escalated, _))
}

/// Whether the round waits for more budget.
pub(super) fn is_suspended(round: &Round) -> bool {
    matches!(round.phase(), Phase::Suspended(..))
}

/// All that the round of a part needs.
pub(super) struct PartRun {
    engine: Engine,
    bind: LoopBindings,
    cancel: CancelToken,
    id: String,
    request: RunRequest,
}

impl WorkflowDriver {
    /// The round of a part that has an id.
    pub(super) fn part_run(
        &self,
        part: &WorkflowPartRow,
        spec: CheckedSpec,
        items: Vec<ProbeItem>,
    ) -> Result<PartRun, EngineError> {
        let id = part.round.clone().ok_or_else(|| EngineError::Unknown(format!("part {}", part.position)))?;
        let round = RoundId::parse(&id).map_err(|_| EngineError::Unknown(id.clone()))?;
        let is_held = part.part == WorkflowPart::Item && self.workflow.join != ItemJoin::Pipeline;
        let place = WorkflowPlace { id: self.row.id.clone(), part: part.part };
        let request = RunRequest {
            trigger: "workflow".to_owned(),
            round: Some(round),
            probe_result: (!items.is_empty()).then_some(ProbeResult::Items(items)),
            dry_run: is_held || self.row.dry_run != 0,
            workflow: Some(place),
            ..RunRequest::manual(spec, &self.repo.work_tree, &self.row.actor)
        };
        let (engine, bind, cancel) = (self.engine.clone(), self.bind.clone(), self.cancel.clone());
        Ok(PartRun { engine, bind, cancel, id, request })
    }
}

impl PartRun {
    /// Changes the request of a round that has not started.
    pub(super) fn with(mut self, change: impl FnOnce(&mut RunRequest)) -> Self {
        change(&mut self.request);
        self
    }

    /// Uses other bindings.
    pub(super) fn bound_to(self, bind: LoopBindings) -> Self {
        Self { bind, ..self }
    }

    /// Runs the round until it is at rest. A round on record is never started again: it continues, or has ended.
    pub(super) async fn perform(self) -> Result<Round, EngineError> {
        loop {
            match self.engine.store.round(&self.id).await? {
                None => {
                    let quiet = &mut |_: &str| ();
                    return Box::pin(self.engine.run_as(self.request.clone(), self.caller(), quiet)).await;
                }
                Some(row) if row.phase == RoundPhase::Suspended => {
                    let (actor, more) = (&self.request.actor, Reservation::default());
                    Box::pin(self.engine.resume_suspended_as(&self.id, actor, more, self.caller())).await?;
                    return Ok(self.engine.load_round(&self.id).await?.round);
                }
                Some(row) if row.phase.is_at_rest() => return Ok(self.engine.load_round(&self.id).await?.round),
                Some(_) => {
                    let resumed = Box::pin(self.engine.apply_answer(&self.id, Event::Recovered, self.caller())).await;
                    match resumed {
                        Err(EngineError::Busy { .. } | EngineError::Stale(_)) if !self.cancel.is_cancelled() => {
                            self.engine.settings.clock.after(LOOKS).await;
                        }
                        resumed => return resumed,
                    }
                }
            }
        }
    }

    /// In a daemon the workflow as a whole has its loop to itself, so its rounds do not wait for each other.
    fn caller(&self) -> RoundCaller<'_> {
        let by = match self.engine.live_rounds.admission() {
            Some(_) => RoundStarter::Dispatcher,
            None => RoundStarter::Manual,
        };
        RoundCaller { bind: &self.bind, cancel: &self.cancel, by }
    }
}
