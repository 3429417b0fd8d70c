//! Plan: a goal round has a frozen plan before anything is made. Only the planner's two files count.

use super::event::{AgentEnd, RoleStarted, Stage};
use super::goal_event::PlannerResult;
use super::phase::AgentRun;
use super::provider_waits::{self, ResumePoint};
use super::{Action, Phase, Round, Step, UnexpectedEvent};
use crate::goal_plan::{PlanDraft, RoundPlan};
use crate::outcome::RoundOutcome;
use crate::spec::Role;

/// How often a planner is started: once, and a second time if it left no usable plan.
const TRIES: u32 = 2;

/// Starts the work of a round: a goal round without a plan plans first.
pub(super) fn begin_work(round: Round) -> Step {
    if round.facts.started.spec.plays(Role::Planner) && round.facts.plan.is_none() {
        return round.to(Phase::Planning(AgentRun::Due), vec![Action::Plan]);
    }
    round.to(Phase::Making(AgentRun::Due), vec![Action::Make(None)])
}

pub(super) fn on_planner_started(mut round: Round, started: RoleStarted) -> Result<Step, UnexpectedEvent> {
    if round.phase != Phase::Planning(AgentRun::Due) || started.attempt != round.facts.attempt_number() {
        return Err(round.misfit("role-started", "no planner is due"));
    }
    round.facts.planner_starts += 1;
    round.facts.planner_tries += 1;
    round.facts.running.push(started);
    Ok(round.to(Phase::Planning(AgentRun::Started), Vec::new()))
}

pub(super) fn ended(
    mut round: Round,
    running: &RoleStarted,
    end: &AgentEnd,
    planned: PlannerResult,
) -> Result<Step, UnexpectedEvent> {
    if round.phase != Phase::Planning(AgentRun::Started) {
        return Err(round.misfit("role-ended", "no planner runs"));
    }
    let unusable = match end {
        AgentEnd::Provider { .. } => return Ok(blocked(round, running, end)),
        AgentEnd::Unusable { .. } if running.left > 0 => return Ok(blocked(round, running, end)),
        AgentEnd::Exited { code: 0 } => None,
        AgentEnd::Exited { code } => Some(format!("the planner exited with {code}")),
        AgentEnd::Signaled { signal } => Some(format!("the planner died by signal {signal}")),
        AgentEnd::Limit { limit, .. } => Some(format!("the planner ran out of {}", limit.label())),
        // A program that cannot start cannot start a second time either.
        AgentEnd::Unusable { text } => {
            return Ok(round.end(RoundOutcome::Failed, Stage::Plan, "planner-failed", text.clone()));
        }
    };
    round.facts.provider_waits.clear_blocked(Role::Planner);
    if let Some(limit) = round.facts.reached_limit() {
        return Ok(provider_waits::ceiling_passed(round, ResumePoint::Plan, limit));
    }
    if let Some(text) = unusable {
        return Ok(try_again(round, "planner-failed", text));
    }
    if let Some(why) = planned.cannot {
        return Ok(round.end(RoundOutcome::Cannot, Stage::Plan, "cannot", why));
    }
    Ok(match planned.plan {
        PlanDraft::Written { brief, plan, phases } => {
            let frozen = RoundPlan::freeze(&round.facts.started.spec_hash, brief, plan, phases);
            round.facts.plan = Some(frozen);
            begin_work(round)
        }
        PlanDraft::Missing { file } => try_again(round, "no-plan", format!("the planner left no {file}")),
        PlanDraft::Malformed { why } => try_again(round, "malformed-plan", why),
    })
}

fn blocked(mut round: Round, running: &RoleStarted, end: &AgentEnd) -> Step {
    // The second try is only for unusable plans.
    round.facts.planner_tries = round.facts.planner_tries.saturating_sub(1);
    provider_waits::on_agent_blocked(round, ResumePoint::Plan, running, end)
}

fn try_again(mut round: Round, code: &str, text: String) -> Step {
    if round.facts.planner_tries >= TRIES {
        return round.end(RoundOutcome::Failed, Stage::Plan, code, text);
    }
    round.facts.add_reason(Stage::Plan, code, format!("{text}; asking again"));
    round.to(Phase::Planning(AgentRun::Due), vec![Action::Plan])
}
