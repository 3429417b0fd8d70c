//! Calibrate: a planted, known-bad change is shown to the loop's checker, and the answer is counted.
//!
//! A calibration round cannot ship: its phases carry no `PassedCandidate`, without which no later phase can be built.

use super::event::{AgentEnd, CheckerResult, GatesFinished, PlantedChange, RoleStarted, Stage};
use super::facts::Attempt;
use super::phase::AgentRun;
use super::{Action, Phase, Round, Step, UnexpectedEvent};
use crate::gate::GateStatus;
use crate::outcome::RoundOutcome;
use crate::verdict::Judgement;

/// The code of the reason if the checker did not pass the planted change.
pub const PLANTED_CAUGHT: &str = "planted-caught";
/// The code of the reason if the checker passed it.
pub const PLANTED_MISSED: &str = "planted-missed";

/// The workspace is ready: the engine plants the change.
pub(super) fn on_isolated(round: Round) -> Step {
    round.to(Phase::Planting, vec![Action::Plant])
}

pub(super) fn on_planted(mut round: Round, planted: PlantedChange) -> Result<Step, UnexpectedEvent> {
    if round.phase != Phase::Planting {
        return Err(round.misfit("planted", "no change was to be planted"));
    }
    let text = format!("planted a known-bad change ({}) in {}:{}", planted.kind, planted.path, planted.line);
    round.facts.add_reason(Stage::Seal, "planted", text);
    round.facts.attempts.push(Attempt {
        tree: Some(planted.tree),
        commit: Some(planted.commit),
        candidate: Some(planted.candidate),
        changes: planted.changes,
        ..Attempt::default()
    });
    let spec = &round.facts.started.spec;
    if spec.gates.is_empty() && spec.heldout.is_empty() {
        return Ok(to_check(round));
    }
    Ok(round.to(Phase::PlantGating, vec![Action::Gate]))
}

fn to_check(round: Round) -> Step {
    round.to(Phase::Calibrating(AgentRun::Due), vec![Action::Check])
}

/// The gates' results are recorded and shown to the checker, as for every candidate. The checker is asked in any case,
/// because the catch rate is its own.
pub(super) fn on_gated(mut round: Round, gated: GatesFinished) -> Step {
    let caught = gated.results.iter().filter(|gate| gate.status != GateStatus::Passed);
    let caught: Vec<&str> = caught.map(|gate| gate.name.as_str()).collect();
    let text = match caught.as_slice() {
        [] => "every gate passed the planted change".to_owned(),
        names => format!("the planted change did not pass: {}", names.join(", ")),
    };
    round.facts.add_reason(Stage::Gate, "planted-gates", text);
    round.facts.attempt_mut().gates = gated.results;
    to_check(round)
}

pub(super) fn on_checker_started(mut round: Round, started: RoleStarted) -> Step {
    round.facts.attempt_mut().checker_starts += 1;
    round.facts.running.push(started);
    round.to(Phase::Calibrating(AgentRun::Started), Vec::new())
}

/// Every verdict except a pass catches the change. Without a verdict nothing is counted.
pub(super) fn ended(mut round: Round, end: &AgentEnd, checked: CheckerResult) -> Step {
    let judgement = matches!(end, AgentEnd::Exited { code: 0 }).then_some(checked.judgement);
    round.facts.attempt_mut().judgement.clone_from(&judgement);
    let (code, text) = match judgement {
        Some(Judgement::Pass { .. }) => (PLANTED_MISSED, "the checker passed the planted change"),
        Some(Judgement::Fail { .. } | Judgement::Escalate { .. }) => {
            (PLANTED_CAUGHT, "the checker did not pass the planted change")
        }
        Some(Judgement::Malformed { .. } | Judgement::Missing | Judgement::Forged { .. }) | None => {
            let text = "the checker gave no verdict on the planted change, so nothing is counted";
            return round.end(RoundOutcome::Failed, Stage::Check, "not-calibrated", text);
        }
    };
    round.end(RoundOutcome::Reported, Stage::Check, code, text)
}
