//! The round: one execution of a loop, as a state machine.
//!
//! [`step`] is the whole policy. It takes a round and an event and says what the round is now and what must be done next; it
//! does nothing itself. The engine records the event first and performs the actions after. Each stage has its file here
//! (what it means) and one of the same name in the engine (how it is done).

mod approval_policy;
mod approve;
mod attempts;
mod check;
mod event;
mod facts;
mod gate;
pub mod history;
mod isolate;
mod make;
mod phase;
mod probe;
mod recall;
mod record;
mod recover;
mod role;
mod seal;
mod send;
mod trouble;

pub use approval_policy::{Approval, Refusal};
pub use approve::Approved;
pub use attempts::Feedback;
pub use check::Verified;
pub use event::{
    AgentEnd, AnswerWindow, Baselined, Boundary, BoundaryLevel, Broke, Ceiling, ChangeFact, CheckerResult, Delivered,
    DeliveryResult, Event, Expired, Gated, Isolated, Item, MakerResult, PersonSaid, Probed, Recalled, Recorded,
    Resumed, RoleEnded, RoleResult, RoleStarted, SealFindings, Sealed, Shown, Stage, Staged, Started, Stopped,
    StoppedBy,
};
pub use facts::{Attempt, Facts, Reason, Running};
pub use gate::Passed;
pub use phase::{AgentRun, Phase, RoundPhase};
pub(crate) use trouble::moment;
pub use trouble::{Chain, Due, Hindered, Patience};

use crate::human_gate::ProposedAction;
use crate::outcome::RoundOutcome;

/// One execution of a loop.
#[derive(Debug, Clone, PartialEq)]
pub struct Round {
    phase: Phase,
    facts: Facts,
}

/// What the engine must do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Read what the loop remembers.
    Recall,
    /// Ask whether there is work.
    Probe,
    /// Make the workspace.
    Isolate,
    /// Run the comparing gates on base.
    Baseline,
    /// Start the maker.
    Make(Option<Feedback>),
    /// Wait until a moment in milliseconds since 1970, unless somebody stops the round.
    Wait {
        /// Until when.
        until_ms: i64,
    },
    /// Freeze the candidate.
    Seal,
    /// Run the gates.
    Gate,
    /// Start a checker.
    Check,
    /// Ask the level's human gate about each kind that would leave; one no is a no.
    AskHumanGate(Vec<ProposedAction>),
    /// Deliver the items at these positions.
    Send(Vec<u32>),
    /// Write report and counters; a waiting round is also put in the inbox.
    Record,
}

/// A round after an event, and what follows.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The round now.
    pub round: Round,
    /// What must be done.
    pub actions: Vec<Action>,
}

/// An event that does not fit where the round stands. Nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event `{event}` does not fit a round that is {phase}: {why}")]
pub struct Misfit {
    /// The event's name.
    pub event: &'static str,
    /// Where the round stands.
    pub phase: &'static str,
    /// Why it does not fit.
    pub why: &'static str,
}

/// Why an event was not accepted. The round is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// It does not fit where the round stands.
    #[error(transparent)]
    Misfit(#[from] Misfit),
    /// The approval policy says no.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

impl Round {
    /// A round from its first event.
    #[must_use]
    pub fn begin(started: Started) -> Step {
        let round = Self { phase: Phase::Recalling, facts: Facts::new(started) };
        Step { round, actions: vec![Action::Recall] }
    }

    /// Folds recorded events into a round.
    ///
    /// # Errors
    /// When the events are not a round's.
    pub fn replay(events: impl IntoIterator<Item = Event>) -> Result<Step, StepError> {
        let mut events = events.into_iter();
        let Some(Event::Started(started)) = events.next() else {
            return Err(Misfit { event: "first", phase: "unborn", why: "a history begins with `started`" }.into());
        };
        events.try_fold(Self::begin(*started), |so_far, event| step(&so_far.round, event))
    }

    /// Where it stands.
    #[must_use]
    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    /// What it knows.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// How it ended, or `Escalated` while it waits for a person.
    #[must_use]
    pub fn outcome(&self) -> Option<RoundOutcome> {
        match self.phase {
            Phase::Recording(outcome) | Phase::Ended(outcome) | Phase::Suspended(outcome, _) => Some(outcome),
            Phase::Waiting(_) | Phase::Doubting(_) => Some(RoundOutcome::Escalated),
            Phase::Recalling
            | Phase::Probing
            | Phase::Isolating
            | Phase::Baselining
            | Phase::Making(_)
            | Phase::Held(..)
            | Phase::Sealing
            | Phase::Gating
            | Phase::Checking(..)
            | Phase::Approving(_)
            | Phase::Sending(_) => None,
        }
    }

    /// Whether nothing more will happen by itself: over, suspended, or waiting for a person with its report written.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.phase.name().is_at_rest()
    }

    /// From when on a suspended round may find its provider again, in milliseconds since 1970, where that is known.
    #[must_use]
    pub fn retry_at_ms(&self) -> Option<i64> {
        match self.phase {
            Phase::Suspended(RoundOutcome::RateLimited, _) | Phase::Ended(RoundOutcome::RateLimited) => {
                self.facts.patience.retry_at_ms
            }
            _ => None,
        }
    }

    /// Whether a ceiling of the round itself leaves no room: only a person changes that, no new day.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.facts.full().is_some() || self.facts.met().is_some()
    }

    fn misfit(&self, event: &'static str, why: &'static str) -> Misfit {
        Misfit { event, phase: self.phase.word(), why }
    }

    fn to(mut self, phase: Phase, actions: Vec<Action>) -> Step {
        self.phase = phase;
        Step { round: self, actions }
    }

    fn end(mut self, outcome: RoundOutcome, stage: Stage, code: &str, text: impl Into<String>) -> Step {
        self.facts.because(stage, code, text);
        self.finish(outcome)
    }

    fn finish(mut self, outcome: RoundOutcome) -> Step {
        self.facts.charge_lost_agents();
        self.to(Phase::Recording(outcome), vec![Action::Record])
    }
}

/// The policy of a round: what an event makes of it and what must be done next.
///
/// # Errors
/// When the event does not fit, or when the approval policy refuses it; the round is unchanged.
pub fn step(round: &Round, event: Event) -> Result<Step, StepError> {
    let round = round.clone();
    Ok(match event {
        Event::Started(_) => return Err(round.misfit("started", "a round starts once").into()),
        Event::Recalled(recalled) => recall::recalled(round, recalled)?,
        Event::Probed(probed) => probe::probed(round, probed)?,
        Event::Isolated(isolated) => isolate::isolated(round, isolated)?,
        Event::Baselined(baselined) => isolate::baselined(round, baselined)?,
        Event::RoleStarted(started) => role::started(round, started)?,
        Event::RoleEnded(ended) => role::ended(round, *ended)?,
        Event::Sealed(sealed) => seal::sealed(round, *sealed)?,
        Event::Gated(gated) => gate::gated(round, gated)?,
        Event::Decided { decision } => approve::decided(round, decision)?,
        Event::Approved(said) => approve::approved(round, said)?,
        Event::Denied(said) => approve::denied(round, &said)?,
        Event::Expired(expired) => approve::expired(round, expired)?,
        Event::Delivered(delivered) => send::delivered(round, delivered)?,
        Event::Recorded(recorded) => record::recorded(round, recorded)?,
        Event::Ceiling(ceiling) => recover::ceiling(round, ceiling)?,
        Event::Broke(broke) => recover::broke(round, broke)?,
        Event::Stopped(stopped) => recover::stopped(round, stopped)?,
        Event::Recovered => recover::recovered(round)?,
        Event::Waited => trouble::waited(round)?,
        Event::Resumed(resumed) => trouble::resumed(round, resumed)?,
    })
}
