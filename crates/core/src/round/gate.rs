//! Gate: the mechanical checks on the sealed candidate. The only place that makes the [`PassedCandidate`] token.

use super::attempts;
use super::check;
use super::event::{GatesFinished, Stage};
use super::phase::AgentRun;
use super::{Action, Phase, Round, Step, UnexpectedEvent};
use crate::gate::{GateResult, GateStatus, signature};
use crate::outcome::RoundOutcome;
use crate::spec::{CheckMode, Gate};

/// Proof that every gate of this candidate passed. Only this module can make one.
#[derive(Debug, Clone, PartialEq)]
pub struct PassedCandidate {
    candidate: String,
}

impl PassedCandidate {
    /// The candidate that passed.
    #[must_use]
    pub fn candidate(&self) -> &str {
        &self.candidate
    }
}

pub(super) fn on_gated(mut round: Round, gated: GatesFinished) -> Result<Step, UnexpectedEvent> {
    if round.phase != Phase::Gating || gated.attempt != round.facts.attempt_number() {
        return Err(round.misfit("gated", "no gate of that attempt runs"));
    }
    let attempt = round.facts.attempt_mut();
    attempt.gates = gated.results;
    attempt.inputs_edited = gated.inputs_edited;
    if let Some(broken) = attempt.gates.iter().find(|gate| gate.status == GateStatus::Failed) {
        let text = format!("gate `{}` could not run: {}", broken.name, gate_reason(broken));
        return Ok(round.end(RoundOutcome::Failed, Stage::Gate, "gate-failed", text));
    }
    if let Some(missing) = unanswered(&round) {
        let text = format!("gate `{missing}` has no result");
        return Ok(round.end(RoundOutcome::Failed, Stage::Gate, "gate-missing", text));
    }
    match passed(&round) {
        Some(passed) => Ok(to_check(round, passed)),
        None => Ok(rejected(round)),
    }
}

/// Why a gate did not pass, in one line.
pub(super) fn gate_reason(gate: &GateResult) -> String {
    let code = gate.reason.as_deref().unwrap_or("no reason given");
    let first = gate.evidence.first().map_or(String::new(), |fact| format!(" ({fact})"));
    format!("{code}{first}")
}

/// A declared gate without exactly one result; a missing result never counts as a pass.
fn unanswered(round: &Round) -> Option<String> {
    let results = &round.facts.attempt()?.gates;
    let answers = |name: &str| results.iter().filter(|result| result.name == name).count();
    let spec = &round.facts.started.spec;
    let declared = spec.gates.iter().map(Gate::name).chain(spec.heldout.iter().map(|check| check.name.as_str()));
    declared.map(str::to_owned).find(|name| answers(name) != 1)
}

fn passed(round: &Round) -> Option<PassedCandidate> {
    let attempt = round.facts.attempt()?;
    let green = attempt.gates.iter().all(|gate| gate.status == GateStatus::Passed);
    green.then(|| attempt.candidate.clone()).flatten().map(|candidate| PassedCandidate { candidate })
}

fn rejected(round: Round) -> Step {
    let results = round.facts.attempt().map(|attempt| attempt.gates.clone()).unwrap_or_default();
    let red = results.iter().filter(|gate| gate.status != GateStatus::Passed);
    let text = red.map(|gate| format!("gate `{}`: {}", gate.name, gate_reason(gate))).collect::<Vec<_>>().join("; ");
    attempts::reject(round, Stage::Gate, "gate-rejected", text, signature(&results))
}

fn to_check(mut round: Round, passed: PassedCandidate) -> Step {
    let spec = &round.facts.started.spec;
    if spec.gates.is_empty() && spec.heldout.is_empty() {
        round.facts.add_reason(Stage::Gate, "gates-none", "gates: none; the checker alone decides");
    }
    match round.facts.started.spec.check {
        CheckMode::Required => round.to(Phase::Checking(passed, AgentRun::Due), vec![Action::Check]),
        CheckMode::None => check::skip_check(round, passed),
    }
}
