//! Steering: a person's words for the next agent, and a pause before it. Both take effect when an agent is due, so they
//! never touch work that is under way.

use super::event::{CeilingReached, PersonSteer, RoundPaused};
use super::provider_waits::{self, ResumePoint};
use super::{Phase, Round, Step, UnexpectedEvent, recover};
use crate::budget::BudgetLimit;

/// Keeps a person's words for every agent that starts from now on. The same agent stays due.
pub(super) fn on_steered(mut round: Round, steer: PersonSteer) -> Result<Step, UnexpectedEvent> {
    let Some(due) = due_agent(&round) else { return Err(round.misfit("steered", "no agent is due")) };
    round.facts.add_reason(due.stage(), "steered", format!("{} wrote: {}", steer.actor, steer.text));
    round.facts.steers.push(steer);
    Ok(provider_waits::continue_from(round, due))
}

/// Suspends the round before the agent that is due, with its work kept. It continues when a person resumes it.
pub(super) fn on_paused(round: Round, paused: &RoundPaused) -> Result<Step, UnexpectedEvent> {
    let Some(due) = due_agent(&round) else { return Err(round.misfit("paused", "no agent is due")) };
    Ok(provider_waits::pause(round, due, format!("paused by {}: {}", paused.actor, paused.why)))
}

/// The agent that is due: a ceiling can suspend a round before it, so a person can, too.
fn due_agent(round: &Round) -> Option<ResumePoint> {
    let ceiling = CeilingReached { limit: BudgetLimit::Day, text: String::new() };
    let suspended = recover::on_ceiling_reached(round.clone(), ceiling).ok()?;
    if let Phase::Suspended(_, due) = suspended.round.phase { Some(due) } else { None }
}

impl Round {
    /// Whether an agent is due, so that a person's words or pause fit.
    #[must_use]
    pub fn is_agent_due(&self) -> bool {
        due_agent(self).is_some()
    }
}
