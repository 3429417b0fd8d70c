//! Prove: the engine exercised the application of the sealed candidate. A broken proof is a veto. The only place that
//! makes the [`ProvenCandidate`] token.

use super::attack;
use super::attempts;
use super::event::Stage;
use super::gate::GatedCandidate;
use super::goal_event::{ProofFinished, ProofVerdict};
use super::{Action, Phase, Round, Step, UnexpectedEvent};
use crate::gate::{GateResult, GateStatus};
use crate::outcome::RoundOutcome;

/// The name of the gate that a kept exercise becomes.
const GATE: &str = "proof";

/// Proof that every gate passed and that the application works, if the loop declares a prover.
#[derive(Debug, Clone, PartialEq)]
pub struct ProvenCandidate {
    gated: GatedCandidate,
}

impl ProvenCandidate {
    /// The candidate.
    #[must_use]
    pub fn candidate(&self) -> &str {
        self.gated.candidate()
    }

    /// The token, only if the loop declares no prover or the proof of this attempt works and has an artefact.
    fn new(round: &Round, gated: GatedCandidate) -> Option<Self> {
        let proof = round.facts.attempt().and_then(|attempt| attempt.proof.as_ref());
        let works = |proof: &ProofFinished| proof.verdict == ProofVerdict::Works && !proof.artefacts.is_empty();
        let is_proven = round.facts.started.spec.prover.is_none() || proof.is_some_and(works);
        is_proven.then_some(Self { gated })
    }
}

/// The gates passed: exercises the application, if the loop says how.
pub(super) fn on_gates_passed(round: Round, gated: GatedCandidate) -> Step {
    match ProvenCandidate::new(&round, gated.clone()) {
        Some(proven) => attack::on_proven(round, proven),
        None => round.to(Phase::Proving(gated), vec![Action::Prove]),
    }
}

pub(super) fn on_proved(mut round: Round, proof: ProofFinished) -> Result<Step, UnexpectedEvent> {
    let Phase::Proving(gated) = round.phase.clone() else {
        return Err(round.misfit("proved", "no proof runs"));
    };
    if proof.attempt != round.facts.attempt_number() {
        return Err(round.misfit("proved", "it belongs to another attempt"));
    }
    let (verdict, text) = (proof.verdict, proof.text.clone());
    let keep = round.facts.started.spec.prover.as_ref().is_some_and(|prover| prover.keep);
    round.facts.attempt_mut().proof = Some(proof);
    if verdict == ProofVerdict::Broken {
        let signature = format!("proof:{text}");
        return Ok(attempts::reject(round, Stage::Prove, "proof-broken", text, signature));
    }
    match ProvenCandidate::new(&round, gated) {
        Some(proven) => {
            if keep {
                let mut gate = GateResult::new(GATE, GateStatus::Passed);
                gate.evidence.push(text);
                round.facts.attempt_mut().gates.push(gate);
            }
            Ok(attack::on_proven(round, proven))
        }
        // Missing evidence is never a pass.
        None => Ok(round.end(RoundOutcome::Failed, Stage::Prove, "proof-unverifiable", text)),
    }
}
