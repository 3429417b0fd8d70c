//! Isolate: a workspace at a pinned base, and the gates' results there before the maker starts.

use super::event::{AgentEnd, BaselineFinished, RebaseOrigin, Stage, WorkspaceIsolated};
use super::facts::Attempt;
use super::gate::gate_reason;
use super::{Action, Phase, Round, Step, UnexpectedEvent, calibrate, plan};
use crate::gate::GateStatus;
use crate::level::LoopLevel;
use crate::outcome::RoundOutcome;
use crate::spec::{BaseWord, CountFloor, Gate, RunGate};

pub(super) fn on_isolated(mut round: Round, isolated: WorkspaceIsolated) -> Result<Step, UnexpectedEvent> {
    if round.phase != Phase::Isolating {
        return Err(round.misfit("isolated", "no workspace was asked for"));
    }
    round.facts.base = Some(isolated.base);
    round.facts.branch = isolated.branch;
    if round.facts.started.calibration {
        return Ok(calibrate::on_isolated(round));
    }
    if round.facts.started.spec.gates.iter().any(compares_with_base) {
        return Ok(round.to(Phase::Baselining, vec![Action::Baseline]));
    }
    Ok(to_work(round))
}

/// A round that only reports has no change for its gates to judge; their results on base are recorded before.
fn to_work(mut round: Round) -> Step {
    if round.facts.lowered_from.is_some() && round.facts.started.spec.level == LoopLevel::L1Report {
        let spec = &mut round.facts.started.spec;
        spec.gates.clear();
        spec.heldout.clear();
    }
    if let Some(origin) = round.facts.started.rebase.clone() {
        return to_rebase(round, origin);
    }
    plan::begin_work(round)
}

/// The change of an earlier round takes the place of a maker's work; it is sealed, gated and checked as any other.
fn to_rebase(mut round: Round, origin: RebaseOrigin) -> Step {
    let text = match &round.facts.started.workflow {
        Some(place) => format!("the changes of all items of workflow {} become one candidate", place.id),
        None => format!("base has moved: the proposal of round {} is moved onto it", origin.round),
    };
    round.facts.add_reason(Stage::Isolate, "rebase", text);
    let (items, end) = (origin.items, Some(AgentEnd::Exited { code: 0 }));
    round.facts.attempts.push(Attempt { items, end, ..Attempt::default() });
    round.to(Phase::Sealing, vec![Action::Seal])
}

fn is_red_first(gate: &Gate) -> bool {
    matches!(gate, Gate::Run(RunGate { red_before: true, .. }))
}

/// Whether a gate has to run on base before the maker starts.
#[must_use]
pub(super) fn compares_with_base(gate: &Gate) -> bool {
    let Gate::Run(RunGate { red_before, evidence, score, .. }) = gate else { return false };
    let base = Some(CountFloor::Base(BaseWord::Base));
    *red_before
        || evidence.as_ref().is_some_and(|rule| rule.tests_at_least == base)
        || score.as_ref().is_some_and(|rule| rule.at_least == base)
}

pub(super) fn on_baselined(mut round: Round, baselined: BaselineFinished) -> Result<Step, UnexpectedEvent> {
    if round.phase != Phase::Baselining {
        return Err(round.misfit("baselined", "no gate was asked for on base"));
    }
    let declared =
        |name: &str| round.facts.started.spec.gates.iter().any(|gate| gate.name() == name && is_red_first(gate));
    let red_first: Vec<_> = baselined.results.iter().filter(|result| declared(&result.name)).cloned().collect();
    round.facts.baseline = baselined.results;
    if let Some(broken) = red_first.iter().find(|result| result.status == GateStatus::Failed) {
        let text = format!("gate `{}` could not run on base: {}", broken.name, gate_reason(broken));
        return Ok(round.end(RoundOutcome::Failed, Stage::Isolate, "gate-failed", text));
    }
    let all_green = !red_first.is_empty() && red_first.iter().all(|result| result.status == GateStatus::Passed);
    if all_green {
        let text = "every gate that must be red before is green on base";
        return Ok(round.end(RoundOutcome::NothingToDo, Stage::Isolate, "already-green", text));
    }
    Ok(to_work(round))
}
