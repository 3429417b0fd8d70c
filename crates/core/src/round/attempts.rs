//! Attempts: the consequence of a rejection. Either feedback for another attempt, or an end if another would not help.

use super::event::Stage;
use super::facts::{Attempt, RoundReason};
use super::gate::gate_reason;
use super::phase::AgentRun;
use super::{Action, Phase, Round, Step};
use crate::gate::GateStatus;
use crate::outcome::RoundOutcome;
use crate::verdict::Judgement;

/// The feedback on the last attempt for the next maker, as data.
#[derive(Debug, Clone, PartialEq)]
pub struct AttemptFeedback {
    /// The number of the rejected attempt.
    pub attempt: u32,
    /// The stage and the reason.
    pub reason: RoundReason,
    /// Gates that rejected it: name, reason and capped output.
    pub gates: Vec<(String, String, String)>,
    /// The checker's remarks on dimensions.
    pub scores: Vec<String>,
}

/// Rejects the attempt. `signature` names the failure in a form that compares across attempts.
pub(super) fn reject(mut round: Round, stage: Stage, code: &str, text: String, signature: String) -> Step {
    let again = round.facts.attempts.iter().rev().nth(1).and_then(|last| last.signature.clone());
    round.facts.attempt_mut().signature = Some(signature.clone());
    let last = round.facts.attempt_number() >= round.facts.started.spec.attempts;
    if last {
        return round.end(RoundOutcome::Rejected, stage, code, text);
    }
    if again.as_ref() == Some(&signature) {
        round.facts.add_reason(stage, code, text);
        return round.end(RoundOutcome::Plateaued, stage, "same-failure", "the same failure twice running");
    }
    round.facts.add_reason(stage, code, text);
    round.facts.feedback = feedback(&round);
    let feedback = round.facts.feedback.clone();
    round.to(Phase::Making(AgentRun::Due), vec![Action::Make(feedback)])
}

/// Why another attempt would be wasted: the same candidate again, or an earlier one. The last attempt is still judged.
pub(super) fn no_progress(round: &Round) -> Option<String> {
    let (now, before) = round.facts.attempts.split_last()?;
    if round.facts.attempt_number() >= round.facts.started.spec.attempts {
        return None;
    }
    // Different words around the same files are no progress; a round without changed files has only words to compare.
    let what = |attempt: &Attempt| if attempt.has_change() { attempt.tree.clone() } else { attempt.candidate.clone() };
    let same = |earlier: &Attempt| what(earlier).is_some() && what(earlier) == what(now);
    if before.last().is_some_and(same) {
        return Some("the same candidate as the attempt before".to_owned());
    }
    before.iter().position(same).map(|at| format!("the candidate of attempt {} came back", at + 1))
}

/// The feedback for the maker after a rejection.
pub(super) fn feedback(round: &Round) -> Option<AttemptFeedback> {
    let attempt = round.facts.attempt()?;
    let gates = attempt.gates.iter().filter(|gate| gate.status != GateStatus::Passed);
    let scores = match &attempt.judgement {
        Some(Judgement::Fail { reasons, .. }) => reasons.clone(),
        Some(_) | None => Vec::new(),
    };
    Some(AttemptFeedback {
        attempt: round.facts.attempt_number(),
        reason: round.facts.reasons.last()?.clone(),
        gates: gates.map(|gate| (gate.name.clone(), gate_reason(gate), gate.excerpt.clone())).collect(),
        scores,
    })
}
