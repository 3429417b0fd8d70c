//! Make: the maker works. Its words are claims; only how it ended, its staged items and its files count.

use super::event::{AgentEnd, MakerResult, RoleStarted, Stage, StagedBatch};
use super::facts::Attempt;
use super::phase::AgentRun;
use super::provider_waits::{self, ResumePoint};
use super::{Action, Phase, Round, Step, UnexpectedEvent};
use crate::memory;
use crate::outcome::RoundOutcome;
use crate::spec::Role;

pub(super) fn on_maker_started(mut round: Round, started: RoleStarted) -> Result<Step, UnexpectedEvent> {
    let number = round.facts.attempt_number();
    let due = match round.phase {
        Phase::Making(AgentRun::Due) => number.saturating_add(1),
        Phase::Making(AgentRun::Again | AgentRun::NextPhase) => number,
        _ => return Err(round.misfit("role-started", "no maker is due")),
    };
    if started.attempt != due {
        return Err(round.misfit("role-started", "another attempt is due"));
    }
    if due > number {
        round.facts.attempts.push(Attempt::default());
    }
    round.facts.attempt_mut().starts += 1;
    round.facts.running.push(started);
    Ok(round.to(Phase::Making(AgentRun::Started), Vec::new()))
}

pub(super) fn ended(
    mut round: Round,
    running: &RoleStarted,
    end: AgentEnd,
    made: MakerResult,
) -> Result<Step, UnexpectedEvent> {
    if round.phase != Phase::Making(AgentRun::Started) {
        return Err(round.misfit("role-ended", "no maker runs"));
    }
    let attempt = round.facts.attempt_mut();
    attempt.end = Some(end.clone());
    attempt.text = made.text;
    attempt.staged_secrets = made.secrets;
    attempt.notes = made.notes.kept;
    if !made.notes.left_out.is_empty() {
        let text = format!("of {}, this is not remembered: {}", memory::FILE, made.notes.left_out.join("; "));
        round.facts.add_reason(Stage::Make, "memory", text);
    }
    if made.survivors > 0 {
        let text = format!("{} processes outlived the maker and were killed", made.survivors);
        round.facts.add_reason(Stage::Make, "survivors", text);
    }
    match end {
        AgentEnd::Limit { limit, text } => {
            let key = limit.file_key().map(|key| format!("; `budget.round.{key}` sets this limit for later rounds"));
            let text = format!("{}: {text}{}", limit.label(), key.unwrap_or_default());
            return Ok(provider_waits::over_budget(round, ResumePoint::MakeAgain, limit.code(), text));
        }
        AgentEnd::Unusable { .. } | AgentEnd::Provider { .. } => {
            return Ok(provider_waits::on_agent_blocked(round, ResumePoint::MakeAgain, running, &end));
        }
        AgentEnd::Exited { .. } | AgentEnd::Signaled { .. } => round.facts.provider_waits.clear_blocked(Role::Maker),
    }
    if let Some(why) = made.cannot {
        return Ok(round.end(RoundOutcome::Cannot, Stage::Make, "cannot", why));
    }
    Ok(staged(round, made.staged))
}

/// Passes the maker's staged items to the seal. If a ceiling was exceeded, a person must allow it first.
fn staged(mut round: Round, staged: StagedBatch) -> Step {
    match staged {
        StagedBatch::Refused { problems } => {
            round.end(RoundOutcome::Refused, Stage::Make, "bad-outbox", problems.join("; "))
        }
        StagedBatch::Items { items } => {
            round.facts.attempt_mut().items = items;
            if let Some(limit) = round.facts.reached_limit() {
                return provider_waits::ceiling_passed(round, ResumePoint::Seal, limit);
            }
            round.to(Phase::Sealing, vec![Action::Seal])
        }
    }
}
