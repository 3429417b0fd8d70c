//! Gate: the mechanical checks on the sealed candidate. The only place that makes the [`GatedCandidate`] token.

use super::attempts;
use super::calibrate;
use super::event::{GatesFinished, Stage};
use super::facts::RoundFacts;
use super::prove;
use super::{Phase, Round, Step, UnexpectedEvent};
use crate::gate::{GateResult, GateStatus, signature};
use crate::outcome::RoundOutcome;
use crate::spec::Gate;

/// Proof that every gate of this candidate passed. Only this module can make one.
#[derive(Debug, Clone, PartialEq)]
pub struct GatedCandidate {
    candidate: String,
}

impl GatedCandidate {
    /// The candidate that passed its gates.
    #[must_use]
    pub fn candidate(&self) -> &str {
        &self.candidate
    }
}

pub(super) fn on_gated(mut round: Round, gated: GatesFinished) -> Result<Step, UnexpectedEvent> {
    if round.phase == Phase::PlantGating && gated.attempt == round.facts.attempt_number() {
        return Ok(calibrate::on_gated(round, gated));
    }
    if round.phase != Phase::Gating || gated.attempt != round.facts.attempt_number() {
        return Err(round.misfit("gated", "no gate of that attempt runs"));
    }
    let attempt = round.facts.attempt_mut();
    attempt.was_gated = true;
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
    settle_findings(&mut round);
    match passed(&round) {
        Some(gated) => Ok(to_prove(round, gated)),
        None => Ok(rejected(round)),
    }
}

/// Findings of the seal that falsified tests can settle need a person only if they did not.
fn settle_findings(round: &mut Round) {
    let attempt = round.facts.attempt_mut();
    let has_died =
        |gate: &GateResult| gate.canaries.as_ref().is_some_and(|counts| counts.made > 0 && counts.survived == 0);
    let proves = |gate: &GateResult| gate.is_passed() && gate.doubt.is_none() && has_died(gate);
    let (proven, sealed) =
        (attempt.gates.iter().any(proves), attempt.gates.iter().any(|gate| proves(gate) && gate.proven_as_sealed));
    let findings = &mut attempt.findings;
    for (list, settled) in
        [(std::mem::take(&mut findings.steering), proven), (std::mem::take(&mut findings.runner_files), sealed)]
    {
        if settled {
            findings
                .notes
                .extend(list.into_iter().map(|text| format!("{text}; falsified tests failed as they should")));
        } else {
            findings.sensitive.extend(list);
        }
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
    let regressions = round.facts.regressions.iter().map(|check| check.gate.as_str());
    declared.chain(regressions).map(str::to_owned).find(|name| answers(name) != 1)
}

fn passed(round: &Round) -> Option<GatedCandidate> {
    let attempt = round.facts.attempt()?;
    let green = attempt.gates.iter().all(|gate| gate.status == GateStatus::Passed);
    green.then(|| attempt.candidate.clone()).flatten().map(|candidate| GatedCandidate { candidate })
}

fn rejected(round: Round) -> Step {
    let facts = &round.facts;
    let results = facts.attempt().map(|attempt| attempt.gates.clone()).unwrap_or_default();
    let red: Vec<&GateResult> = results.iter().filter(|gate| gate.status != GateStatus::Passed).collect();
    let reason = |gate: &&GateResult| match facts.is_heldout(&gate.name) {
        true => format!("held-out check `{}` failed", gate.name),
        false => format!("gate `{}`: {}", gate.name, gate_reason(gate)),
    };
    let text = red.iter().map(reason).collect::<Vec<_>>().join("; ");
    // A proof that failed has its own code: the tests passed, and the pass meant nothing.
    let code = match red.first().and_then(|gate| gate.reason.as_deref()) {
        Some("canary-survived") => "canary-survived",
        Some("environment-dependent") => "environment-dependent",
        _ => "gate-rejected",
    };
    if failed_heldout_before(facts) && red.iter().any(|gate| facts.is_heldout(&gate.name)) {
        return round.end(RoundOutcome::Rejected, Stage::Gate, code, text);
    }
    // Another score is another failure: a goal that is a number is approached step by step.
    let scores: Vec<String> = results.iter().filter_map(|gate| gate.score).map(|score| score.to_string()).collect();
    let signature = if scores.is_empty() { signature(&results) } else { format!("{} {scores:?}", signature(&results)) };
    attempts::reject(round, Stage::Gate, code, text, signature)
}

/// A maker learns once in a round that a held-out check failed. A second answer would let it search for the cases.
fn failed_heldout_before(facts: &RoundFacts) -> bool {
    let earlier = facts.attempts.split_last().map_or(&[][..], |(_, earlier)| earlier);
    let failed = |gate: &GateResult| gate.status != GateStatus::Passed && facts.is_heldout(&gate.name);
    earlier.iter().any(|attempt| attempt.gates.iter().any(failed))
}

fn to_prove(mut round: Round, gated: GatedCandidate) -> Step {
    let spec = &round.facts.started.spec;
    if spec.gates.is_empty() && spec.heldout.is_empty() {
        round.facts.add_reason(Stage::Gate, "gates-none", "gates: none; the checker alone decides");
    }
    prove::on_gates_passed(round, gated)
}
