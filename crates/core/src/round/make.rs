//! Make: the maker works. Its words are claims; only how it ended, what it staged and what it left are looked at.

use super::event::{AgentEnd, AgentStarted, Made, Stage, Staged};
use super::facts::Attempt;
use super::phase::AgentRun;
use super::{Action, Misfit, Phase, Round, Step};
use crate::budget;
use crate::outcome::RoundOutcome;
use crate::spec::Role;

pub(super) fn started(mut round: Round, started: AgentStarted) -> Result<Step, Misfit> {
    if round.phase != Phase::Making(AgentRun::Due) {
        return Err(round.misfit("maker-started", "no maker is due"));
    }
    if started.attempt != round.facts.attempt_number().saturating_add(1) {
        return Err(round.misfit("maker-started", "another attempt is due"));
    }
    round.facts.attempts.push(Attempt::default());
    round.facts.agent_started(Role::Maker, started);
    Ok(round.to(Phase::Making(AgentRun::Started), Vec::new()))
}

pub(super) fn made(mut round: Round, made: Made) -> Result<Step, Misfit> {
    if round.phase != Phase::Making(AgentRun::Started) || made.attempt != round.facts.attempt_number() {
        return Err(round.misfit("made", "no maker of that attempt runs"));
    }
    round.facts.agent_ended(made.spend, made.models);
    let attempt = round.facts.attempt_mut();
    attempt.end = Some(made.end.clone());
    attempt.text = made.text;
    attempt.transcript = made.transcript;
    attempt.staged_secrets = made.secrets;
    if made.survivors > 0 {
        let text = format!("{} processes outlived the maker and were killed", made.survivors);
        round.facts.because(Stage::Make, "survivors", text);
    }
    if let Some(outcome) = ended_badly(&mut round, &made.end) {
        return Ok(round.finish(outcome));
    }
    if let Some(why) = made.cannot {
        return Ok(round.end(RoundOutcome::Cannot, Stage::Make, "cannot", why));
    }
    if let Some(limit) = budget::met(&round.facts.spend, &round.facts.started.spec.budget.round) {
        let text = format!("the round's ceiling of {} was met", limit.label());
        return Ok(round.end(RoundOutcome::OverBudget, Stage::Make, "ceiling", text));
    }
    match made.staged {
        Staged::Refused { problems } => {
            Ok(round.end(RoundOutcome::Refused, Stage::Make, "bad-outbox", problems.join("; ")))
        }
        Staged::Items { items } => {
            round.facts.attempt_mut().items = items;
            Ok(round.to(Phase::Sealing, vec![Action::Seal]))
        }
    }
}

/// A maker that we ended, or that could not be run, ends the round; one that failed by itself is judged by what it left.
fn ended_badly(round: &mut Round, end: &AgentEnd) -> Option<RoundOutcome> {
    match end {
        AgentEnd::Limit { limit, text } => {
            round.facts.because(Stage::Make, "limit", format!("{}: {text}", limit.label()));
            Some(RoundOutcome::OverBudget)
        }
        AgentEnd::Unusable { text } => {
            round.facts.because(Stage::Make, "agent-unusable", text.clone());
            Some(RoundOutcome::Failed)
        }
        AgentEnd::Provider { trouble } => {
            round.facts.because(Stage::Make, trouble.kind.word(), trouble.text.clone());
            Some(if trouble.kind.passes() { RoundOutcome::RateLimited } else { RoundOutcome::Failed })
        }
        AgentEnd::Exited { .. } | AgentEnd::Signaled { .. } => None,
    }
}
