//! Attempts: the consequence of a rejection. Either feedback for another attempt, or an end if another would not help.

use super::attack::JudgedFinding;
use super::event::Stage;
use super::facts::{Attempt, RoundReason};
use super::gate::gate_reason;
use super::goal_event::ProofVerdict;
use super::phase::AgentRun;
use super::{Action, Phase, Round, Step};
use crate::gate::GateStatus;
use crate::outcome::RoundOutcome;
use crate::verdict::{Judgement, ScoredVerdict};

/// The feedback on the last attempt for the next maker, as data.
#[derive(Debug, Clone, PartialEq)]
pub struct AttemptFeedback {
    /// The number of the rejected attempt.
    pub attempt: u32,
    /// The stage and the reason.
    pub reason: RoundReason,
    /// Gates that rejected it: name, reason and capped output.
    pub gates: Vec<(String, String, String)>,
    /// The broken proof: its text and the end of its output.
    pub proof: Option<(String, String)>,
    /// The open findings.
    pub findings: Vec<FindingFeedback>,
    /// The checker's remarks on dimensions, the lowest dimension first.
    pub scores: Vec<String>,
}

/// An open finding, for the maker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FindingFeedback {
    /// Its severity, place and title in one line.
    pub title: String,
    /// The trigger.
    pub trigger: String,
    /// The script that exits with 0 once the finding is fixed.
    pub script: String,
}

/// Rejects the attempt. `signature` names the failure in a form that compares across attempts.
pub(super) fn reject(mut round: Round, stage: Stage, code: &str, text: String, signature: String) -> Step {
    let again = round.facts.attempts.iter().rev().nth(1).and_then(|last| last.signature.clone());
    round.facts.attempt_mut().signature = Some(signature.clone());
    // A rebased proposal has no maker that could try again.
    let is_rebase = round.facts.started.rebase.is_some();
    let last = is_rebase || round.facts.attempt_number() >= round.facts.started.spec.attempts;
    if last {
        return round.end(RoundOutcome::Rejected, stage, code, text);
    }
    if again.as_ref() == Some(&signature) {
        round.facts.add_reason(stage, code, text);
        return round.end(RoundOutcome::Plateaued, stage, "same-failure", "the same failure twice running");
    }
    round.facts.add_reason(stage, code, text);
    if let Some(why) = round.facts.plateau() {
        return round.end(RoundOutcome::Plateaued, stage, "plateau", why);
    }
    round.facts.feedback = feedback(&round);
    let feedback = round.facts.feedback.clone();
    round.to(Phase::Making(AgentRun::Due), vec![Action::Make(feedback)])
}

/// Why another attempt would be wasted: the same candidate again, or an earlier one. The last attempt is still judged.
/// The gates' results of that attempt are about the same files, so they are the results of this one.
pub(super) fn no_progress(round: &mut Round) -> Option<String> {
    if round.facts.attempt_number() >= round.facts.started.spec.attempts {
        return None;
    }
    let (now, before) = round.facts.attempts.split_last_mut()?;
    // Different words around the same files are no progress; a round without changed files has only words to compare.
    let what = |attempt: &Attempt| if attempt.has_change() { attempt.tree.clone() } else { attempt.candidate.clone() };
    let same = |earlier: &Attempt| what(earlier).is_some() && what(earlier) == what(now);
    let at = before.iter().rposition(same)?;
    now.gates.clone_from(&before[at].gates);
    Some(match at + 1 == before.len() {
        true => "the same candidate as the attempt before".to_owned(),
        false => format!("the candidate of attempt {} came back", at + 1),
    })
}

/// The feedback for the maker after a rejection.
pub(super) fn feedback(round: &Round) -> Option<AttemptFeedback> {
    let attempt = round.facts.attempt()?;
    let gates = attempt.gates.iter().filter(|gate| gate.status != GateStatus::Passed);
    let scores = match &attempt.judgement {
        Some(Judgement::Fail { reasons, scored }) => {
            lowest(scored).into_iter().chain(reasons.iter().cloned()).collect()
        }
        Some(_) | None => Vec::new(),
    };
    let broken = attempt.proof.as_ref().filter(|proof| proof.verdict != ProofVerdict::Works);
    let open = attempt.judged.iter().filter(|finding| finding.is_open());
    Some(AttemptFeedback {
        attempt: round.facts.attempt_number(),
        reason: round.facts.reasons.last()?.clone(),
        gates: gates
            .map(|gate| match round.facts.is_heldout(&gate.name) {
                // The number of a wrong case, over several attempts, would reveal the answers.
                true => (gate.name.clone(), "failed".to_owned(), String::new()),
                false => (gate.name.clone(), gate_reason(gate), gate.excerpt.clone()),
            })
            .collect(),
        proof: broken.map(|proof| (proof.text.clone(), proof.excerpt.clone())),
        findings: open.map(finding_feedback).collect(),
        scores,
    })
}

fn finding_feedback(judged: &JudgedFinding) -> FindingFeedback {
    let finding = &judged.finding;
    FindingFeedback {
        title: format!("{} at {}: {}", judged.severity, finding.place(), finding.title),
        trigger: finding.trigger.clone(),
        script: finding.reproduction.clone().unwrap_or_default(),
    }
}

/// The dimension to fix first, with its evidence.
fn lowest(scored: &ScoredVerdict) -> Option<String> {
    let lowest = scored.scores.iter().min_by_key(|score| score.score)?;
    let evidence: Vec<_> = lowest.evidence.iter().map(|cited| cited.evidence.to_string()).collect();
    let place = if evidence.is_empty() { String::new() } else { format!(" ({})", evidence.join(", ")) };
    Some(format!("fix first: {} scored {}{place}: {}", lowest.dimension, lowest.score, lowest.why))
}
