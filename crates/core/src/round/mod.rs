//! The round: one execution of a loop, as a state machine.
//!
//! [`step`] is the whole policy. It takes a round and an event and returns the new round and the actions to perform; it
//! does nothing itself. The engine records the event first and then performs the actions. Each stage has a file here
//! (what it means) and one of the same name in the engine (how it is done).

mod approval_policy;
mod approve;
mod attack;
mod attempts;
mod calibrate;
mod check;
mod event;
mod facts;
mod gate;
mod goal_event;
pub mod history;
mod isolate;
mod make;
mod own_budget;
mod phase;
mod plan;
mod probe;
mod prove;
mod provider_waits;
mod rank;
mod recall;
mod record;
mod recover;
mod role;
mod seal;
mod send;
mod steer;

pub use approval_policy::{Approval, Refusal};
pub use approve::{ApprovedCandidate, CANARY_UNCALIBRATED, HOLD_MAX_MS};
pub use attack::{AttackerRun, JudgedFinding, PassedCandidate, RegressionCheck};
pub use attempts::{AttemptFeedback, FindingFeedback};
pub use calibrate::{PLANTED_CAUGHT, PLANTED_MISSED};
pub use check::VerifiedCandidate;
pub use event::{
    AgentEnd, AnswerWindow, BaselineFinished, Boundary, BoundaryLevel, CandidateSealed, CeilingReached, ChangeFact,
    CheckerResult, DeliveryEnded, DeliveryResult, Event, Expired, GatesFinished, GoalOrigin, MakerResult,
    MemoryRecalled, PersonDecision, PersonSteer, PlantedChange, ProbeAnswer, ProbeItem, QuestionHeld, RebaseOrigin,
    RoleEnded, RoleResult, RoleStarted, RoundPaused, RoundRecorded, RoundResumed, RoundStarted, RoundStopped,
    SealFindings, ShownChange, Stage, StageFailed, StagedBatch, StoppedBy, WorkspaceIsolated,
};
pub use facts::{Attempt, PhaseSeal, RoundFacts, RoundReason};
pub use gate::GatedCandidate;
pub use goal_event::{
    AttackFinished, AttackerResult, PlannerResult, ProofArtefact, ProofFinished, ProofVerdict, ReproductionEnd,
    ReproductionResult,
};
pub use phase::{AgentRun, Phase, RoundPhase};
pub use probe::CHAIN_TOO_LONG;
pub use prove::ProvenCandidate;
pub(crate) use provider_waits::format_moment;
pub use provider_waits::{AgentChainState, BlockedAgent, ProviderWaits, ResumePoint};
pub use rank::AttemptRank;
pub use seal::ALREADY_PROPOSED;

use crate::human_gate::ProposedAction;
use crate::outcome::RoundOutcome;

/// One execution of a loop.
#[derive(Debug, Clone, PartialEq)]
pub struct Round {
    phase: Phase,
    facts: RoundFacts,
}

/// An action for the engine.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Read the loop's memory.
    Recall,
    /// Ask whether there is work.
    Probe,
    /// Make the workspace.
    Isolate,
    /// Run the comparing gates on base.
    Baseline,
    /// Start a planner.
    Plan,
    /// Start the maker.
    Make(Option<AttemptFeedback>),
    /// Wait until a moment in milliseconds since 1970, unless the round is stopped.
    Wait {
        /// The end of the wait.
        until_ms: i64,
    },
    /// Plant a known-bad change for the checker.
    Plant,
    /// Freeze the candidate.
    Seal,
    /// Run the gates.
    Gate,
    /// Exercise the application.
    Prove,
    /// Start the attackers that are due.
    Attack,
    /// Run the reproductions of the blocking findings.
    Reproduce,
    /// Start a checker.
    Check,
    /// Ask the level's human gate about each kind that would be sent; one denial denies all.
    AskHumanGate(Vec<ProposedAction>),
    /// Deliver the items at these positions.
    Send(Vec<u32>),
    /// Write report and counters; a waiting round is also put in the inbox.
    Record,
}

/// A round after an event, and the actions that follow.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The round now.
    pub round: Round,
    /// The actions to perform.
    pub actions: Vec<Action>,
}

/// An event that does not fit the round's phase. Nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event `{event}` does not fit a round that is {phase}: {why}")]
pub struct UnexpectedEvent {
    /// The event's name.
    pub event: &'static str,
    /// The round's phase.
    pub phase: &'static str,
    /// Why it does not fit.
    pub why: &'static str,
}

/// Why an event was not accepted. The round is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// It does not fit the round's phase.
    #[error(transparent)]
    Misfit(#[from] UnexpectedEvent),
    /// The approval policy refuses it.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

impl Round {
    /// Starts a round from its first event.
    #[must_use]
    pub fn begin(started: RoundStarted) -> Step {
        let round = Self { phase: Phase::Recalling, facts: RoundFacts::new(started) };
        Step { round, actions: vec![Action::Recall] }
    }

    /// Folds recorded events into a round.
    ///
    /// # Errors
    /// If the events do not form a round.
    pub fn replay(events: impl IntoIterator<Item = Event>) -> Result<Step, StepError> {
        let mut events = events.into_iter();
        let Some(Event::Started(started)) = events.next() else {
            return Err(
                UnexpectedEvent { event: "first", phase: "unborn", why: "a history begins with `started`" }.into()
            );
        };
        events.try_fold(Self::begin(*started), |so_far, event| step(&so_far.round, event))
    }

    /// Its phase.
    #[must_use]
    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Its facts.
    #[must_use]
    pub fn facts(&self) -> &RoundFacts {
        &self.facts
    }

    /// How it ended, or `Escalated` while it waits for a person.
    #[must_use]
    pub fn outcome(&self) -> Option<RoundOutcome> {
        match self.phase {
            Phase::Recording(outcome) | Phase::Ended(outcome) | Phase::Suspended(outcome, _) => Some(outcome),
            Phase::Waiting(_) | Phase::Doubting(_) => Some(RoundOutcome::Escalated),
            _ => None,
        }
    }

    /// Whether nothing more happens by itself: the round is over, suspended, or waits for a person with its report
    /// written.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.phase.name().is_at_rest()
    }

    /// When a suspended round may reach its provider again, in milliseconds since 1970, if known.
    #[must_use]
    pub fn retry_at_ms(&self) -> Option<i64> {
        match self.phase {
            Phase::Suspended(RoundOutcome::RateLimited, _) | Phase::Ended(RoundOutcome::RateLimited) => {
                self.facts.provider_waits.retry_at_ms
            }
            _ => None,
        }
    }

    fn misfit(&self, event: &'static str, why: &'static str) -> UnexpectedEvent {
        UnexpectedEvent { event, phase: self.phase.word(), why }
    }

    fn to(mut self, phase: Phase, actions: Vec<Action>) -> Step {
        self.phase = phase;
        Step { round: self, actions }
    }

    fn end(mut self, outcome: RoundOutcome, stage: Stage, code: &str, text: impl Into<String>) -> Step {
        self.facts.add_reason(stage, code, text);
        self.finish(outcome)
    }

    fn finish(mut self, outcome: RoundOutcome) -> Step {
        self.facts.charge_lost_agents();
        self.to(Phase::Recording(outcome), vec![Action::Record])
    }
}

/// The policy of a round: applies an event and returns the new round and the actions to perform.
///
/// # Errors
/// If the event does not fit the phase, or if the approval policy refuses it; the round is unchanged.
pub fn step(round: &Round, event: Event) -> Result<Step, StepError> {
    let round = round.clone();
    Ok(match event {
        Event::Started(_) => return Err(round.misfit("started", "a round starts once").into()),
        Event::Recalled(recalled) => recall::on_recalled(round, recalled)?,
        Event::Probed(probed) => probe::on_probed(round, probed)?,
        Event::Isolated(isolated) => isolate::on_isolated(round, isolated)?,
        Event::Baselined(baselined) => isolate::on_baselined(round, baselined)?,
        Event::RoleStarted(started) => role::started(round, started)?,
        Event::RoleEnded(ended) => role::ended(round, *ended)?,
        Event::Planted(planted) => calibrate::on_planted(round, *planted)?,
        Event::Sealed(sealed) => seal::on_sealed(round, *sealed)?,
        Event::Gated(gated) => gate::on_gated(round, gated)?,
        Event::Proved(proof) => prove::on_proved(round, proof)?,
        Event::Attacked(attacked) => attack::on_attacked(round, attacked)?,
        Event::Decided { decision } => approve::on_decision(round, decision)?,
        Event::Approved(said) => approve::on_approved(round, said)?,
        Event::Denied(said) => approve::on_denied(round, &said)?,
        Event::Expired(expired) => approve::on_expired(round, expired)?,
        Event::Delivered(delivered) => send::on_delivered(round, delivered)?,
        Event::Recorded(recorded) => record::on_recorded(round, recorded)?,
        Event::Ceiling(ceiling) => recover::on_ceiling_reached(round, ceiling)?,
        Event::Broke(broke) => recover::on_stage_failed(round, broke)?,
        Event::Stopped(stopped) => recover::on_stopped(round, stopped)?,
        Event::Recovered => recover::on_recovered(round)?,
        Event::Waited => provider_waits::on_wait_over(round)?,
        Event::Resumed(resumed) => provider_waits::on_resumed(round, resumed)?,
        Event::Resent => approve::on_resent(round)?,
        Event::Steered(steer) => steer::on_steered(round, steer)?,
        Event::Paused(paused) => steer::on_paused(round, &paused)?,
        Event::QuestionHeld(held) => approve::on_held(round, &held)?,
    })
}
