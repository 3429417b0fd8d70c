//! Recover: a stage failed, the round was stopped, or a new engine found it unfinished.

use super::event::{CeilingReached, RoundStopped, Stage, StageFailed, StoppedBy};
use super::phase::{AgentRun, RoundPhase};
use super::provider_waits::{self, ResumePoint};
use super::{Action, Phase, Round, Step, UnexpectedEvent, approve, send};
use crate::outcome::RoundOutcome;
use crate::spec::LoopMode;

/// Loopwright or its environment failed. Before anything was sent, the round fails; while sending, the open items are
/// in doubt, not lost.
pub(super) fn on_stage_failed(round: Round, broke: StageFailed) -> Result<Step, UnexpectedEvent> {
    let why = match round.phase.name() {
        RoundPhase::Waiting | RoundPhase::Suspended | RoundPhase::Ended => "nothing is under way",
        RoundPhase::At(Stage::Record) => "the end is already decided",
        RoundPhase::At(Stage::Send) => "deliveries end one by one",
        RoundPhase::At(_) | RoundPhase::Held => {
            return Ok(round.end(RoundOutcome::Failed, broke.stage, &broke.code, broke.text));
        }
    };
    Err(round.misfit("broke", why))
}

/// A ceiling was reached before an agent could start; nothing was spent on it, and existing work is kept.
pub(super) fn on_ceiling_reached(round: Round, ceiling: CeilingReached) -> Result<Step, UnexpectedEvent> {
    let due = match round.phase.clone() {
        Phase::Planning(AgentRun::Due) => ResumePoint::Plan,
        Phase::Making(AgentRun::Due) => ResumePoint::Make,
        Phase::Making(AgentRun::NextPhase) => ResumePoint::MakeNext,
        Phase::Attacking(proven) if round.facts.running.is_empty() => ResumePoint::Attack(proven),
        Phase::Making(AgentRun::Again) => ResumePoint::MakeAgain,
        Phase::Checking(passed, AgentRun::Due) => ResumePoint::Check(passed),
        Phase::Calibrating(AgentRun::Due) => {
            return Ok(round.end(RoundOutcome::OverBudget, Stage::Check, "ceiling", ceiling.text));
        }
        _ => return Err(round.misfit("ceiling", "no agent is due")),
    };
    Ok(provider_waits::over_budget(round, due, "ceiling", ceiling.text))
}

/// A stop ends everything that is not approved yet. Deliveries that have begun are finished, because some may be
/// visible.
pub(super) fn on_stopped(round: Round, stopped: RoundStopped) -> Result<Step, UnexpectedEvent> {
    let (outcome, is_signal) = match stopped.by {
        StoppedBy::Signal => (RoundOutcome::Interrupted, true),
        StoppedBy::Person => (RoundOutcome::Cancelled, false),
    };
    let why = match (round.phase.name(), &round.phase) {
        (RoundPhase::Ended | RoundPhase::At(Stage::Record), _) => "it is over",
        (RoundPhase::At(Stage::Send), _) => "deliveries are finished, not stopped",
        (_, Phase::Doubting(_)) => "only a look at the receiver ends a doubt",
        (RoundPhase::Waiting | RoundPhase::Suspended, _) if is_signal => "it waits for a person",
        (_, Phase::Waiting(verified)) => {
            let verified = verified.clone();
            return Ok(approve::end_waiting(round, verified, outcome, "stopped", stopped.text));
        }
        (RoundPhase::At(_) | RoundPhase::Held | RoundPhase::Waiting | RoundPhase::Suspended, _) => {
            let stage = round.phase.stage();
            return Ok(round.end(outcome, stage, "stopped", stopped.text));
        }
    };
    Err(round.misfit("stopped", why))
}

/// A new engine takes over. Free and repeatable steps are repeated; a maker that was started never is.
pub(super) fn on_recovered(mut round: Round) -> Result<Step, UnexpectedEvent> {
    // An engine that takes over a round has other work and does not wait for providers on the round's behalf.
    round.facts.provider_waits.wait_max_ms = round.facts.provider_waits.waited_ms;
    let is_goal = round.facts.started.spec.mode == LoopMode::GoalLoop;
    let actions = match round.phase.clone() {
        Phase::Recalling => vec![Action::Recall],
        Phase::Probing => vec![Action::Probe],
        Phase::Isolating | Phase::Baselining | Phase::Making(AgentRun::Due) if round.facts.attempts.is_empty() => {
            return Ok(round.to(Phase::Isolating, vec![Action::Isolate]));
        }
        // No agent was running, and the work is kept; a person decides whether to continue.
        Phase::Making(AgentRun::Again) => return Ok(provider_waits::suspend_left_round(round, ResumePoint::MakeAgain)),
        Phase::Held(due, _) => return Ok(provider_waits::suspend_left_round(round, due)),
        // A goal round resumes where it was: the maker that is due was not started, and the files that it works on are
        // those of the last end on record.
        Phase::Making(AgentRun::Due) if is_goal => return Ok(provider_waits::continue_from(round, ResumePoint::Make)),
        Phase::Making(AgentRun::NextPhase) => return Ok(provider_waits::continue_from(round, ResumePoint::MakeNext)),
        Phase::Sealing if is_goal => vec![Action::Seal],
        Phase::Isolating | Phase::Baselining | Phase::Making(AgentRun::Due | AgentRun::Started) => {
            return Ok(interrupted(round, "the engine ended while the maker was at work"));
        }
        // The change is in the engine's repository, not in a workspace.
        Phase::Sealing if round.facts.started.rebase.is_some() => vec![Action::Seal],
        Phase::Sealing => return Ok(interrupted(round, "the engine ended before the candidate was sealed")),
        Phase::Planting => vec![Action::Plant],
        Phase::PlantGating => vec![Action::Gate],
        Phase::Calibrating(_) => {
            round.facts.charge_lost_agents();
            return Ok(round.to(Phase::Calibrating(AgentRun::Due), vec![Action::Check]));
        }
        Phase::Planning(_) => {
            round.facts.charge_lost_agents();
            return Ok(provider_waits::continue_from(round, ResumePoint::Plan));
        }
        Phase::Gating => vec![Action::Gate],
        Phase::Proving(_) => vec![Action::Prove],
        Phase::Attacking(proven) => {
            round.facts.charge_lost_agents();
            return Ok(provider_waits::continue_from(round, ResumePoint::Attack(proven)));
        }
        Phase::Reproducing(_) => vec![Action::Reproduce],
        Phase::Checking(passed, _) => {
            round.facts.charge_lost_agents();
            return Ok(round.to(Phase::Checking(passed, AgentRun::Due), vec![Action::Check]));
        }
        Phase::Approving(verified) => return Ok(approve::on_verified(round, verified)),
        Phase::Sending(_) => vec![Action::Send(send::unsent(&round.facts))],
        Phase::Waiting(_) | Phase::Doubting(_) | Phase::Suspended(..) | Phase::Recording(_) => vec![Action::Record],
        Phase::Ended(_) => return Err(round.misfit("recovered", "it is over")),
    };
    let phase = round.phase.clone();
    Ok(round.to(phase, actions))
}

fn interrupted(round: Round, text: &str) -> Step {
    round.end(RoundOutcome::Interrupted, Stage::Make, "crash", text)
}
