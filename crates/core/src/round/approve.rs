//! Approve: the human gate, by level. The only place that makes the [`ApprovedCandidate`] token.

use super::approval_policy::{self, Approval};
use super::check::VerifiedCandidate;
use super::event::{AnswerWindow, DeliveryResult, Expired, PersonDecision, QuestionHeld, Stage};
use super::facts::{Attempt, RoundFacts};
use super::provider_waits::format_moment;
use super::{Action, Phase, Round, Step, StepError, UnexpectedEvent, send};
use crate::human_gate::{GateDecision, ProposedAction, Risk};
use crate::level::LoopLevel;
use crate::outcome::RoundOutcome;
use crate::spec::ActionKind;
use std::collections::BTreeSet;

/// The code of a candidate whose gate passed with a doubt that a person must resolve.
pub const CANARY_UNCALIBRATED: &str = "canary-uncalibrated";

/// The longest time by which a question can be held at once.
pub const HOLD_MAX_MS: i64 = 30 * 86_400_000;

/// The code of a candidate that its receiver blocks.
const BLOCKED: &str = "delivery-blocked";

/// Proof that this candidate was verified and that a person, or at L3 the loop's human gate, approved it.
#[derive(Debug, Clone, PartialEq)]
pub struct ApprovedCandidate {
    verified: VerifiedCandidate,
}

impl ApprovedCandidate {
    /// The approved candidate.
    #[must_use]
    pub fn candidate(&self) -> &str {
        self.verified.candidate()
    }
}

/// Applies the loop's level to a verified candidate.
pub(super) fn on_verified(round: Round, verified: VerifiedCandidate) -> Step {
    let facts = &round.facts;
    let outward = outward_items(facts).next().is_some();
    if facts.started.spec.level == LoopLevel::L1Report || !outward {
        if let Some(why) = verified.asks_for_human().map(str::to_owned) {
            return wait(round, verified, "checker-escalates", why);
        }
        return round.end(RoundOutcome::Reported, Stage::Approve, "report-only", "only the report leaves");
    }
    if facts.started.dry_run && facts.started.workflow.is_some() {
        return round.end(
            RoundOutcome::Reported,
            Stage::Approve,
            "held",
            "the workflow sends it with its other results",
        );
    }
    if facts.started.dry_run {
        return round.end(RoundOutcome::Reported, Stage::Approve, "dry-run", "a dry run sends nothing");
    }
    if let Some((code, why)) = needs_a_human(facts, &verified) {
        return wait(round, verified, code, why);
    }
    let proposed = proposed(facts);
    round.to(Phase::Approving(verified), vec![Action::AskHumanGate(proposed)])
}

/// The reason why a human gate in code may not approve this candidate.
fn needs_a_human(facts: &RoundFacts, verified: &VerifiedCandidate) -> Option<(&'static str, String)> {
    let attempt = facts.attempt()?;
    let spec = &facts.started.spec;
    if !attempt.findings.sensitive.is_empty() {
        return Some(("sensitive-path", format!("sensitive paths: {}", attempt.findings.sensitive.join(", "))));
    }
    if !attempt.inputs_edited.is_empty() {
        let text = format!("gate inputs were edited (base's were run): {}", attempt.inputs_edited.join(", "));
        return Some(("gate-inputs", text));
    }
    if let Some((gate, doubt)) = attempt.gates.iter().find_map(|gate| Some((gate, gate.doubt.as_ref()?))) {
        return Some((CANARY_UNCALIBRATED, format!("gate `{}`: {}", gate.name, doubt.text)));
    }
    if let Some(why) = verified.asks_for_human() {
        return Some(("checker-escalates", why.to_owned()));
    }
    (spec.level != LoopLevel::L3Unattended)
        .then(|| ("level", "at L2 every outward action waits for a human".to_owned()))
}

fn wait(mut round: Round, verified: VerifiedCandidate, code: &str, why: String) -> Step {
    round.facts.add_reason(Stage::Approve, code, why);
    round.to(Phase::Waiting(verified), vec![Action::Record])
}

pub(super) fn on_decision(round: Round, decision: GateDecision) -> Result<Step, UnexpectedEvent> {
    let Phase::Approving(verified) = round.phase.clone() else {
        return Err(round.misfit("decided", "no human gate was asked"));
    };
    match decision {
        GateDecision::AutoProceed => Ok(let_out(round, &verified)),
        GateDecision::Escalate { reason } => Ok(wait(round, verified, "escalated", reason)),
    }
}

pub(super) fn on_approved(mut round: Round, said: PersonDecision) -> Result<Step, StepError> {
    if let Phase::Doubting(approved) = round.phase.clone() {
        approval_policy::may_confirm(&round.facts, &said, approved.candidate())?;
        let found = DeliveryResult::Sent { place: format!("confirmed by {}", said.actor), note: None };
        return Ok(send::on_delivery_inspected(round, approved, &said, &found)?);
    }
    let Phase::Waiting(verified) = round.phase.clone() else {
        return Err(round.misfit("approved", "it does not wait for a person").into());
    };
    if said.position.is_some() {
        return Err(round.misfit("approved", "it waits for an answer about all its items first").into());
    }
    if round.facts.is_blocked {
        approval_policy::may_send_again(&round.facts, &said, verified.candidate())?;
        // The person has a whole answer window for the repair, if it is blocked again.
        (round.facts.window, round.facts.blocked_times) = (None, 0);
        round.facts.add_reason(Stage::Approve, "sent-again", format!("{} had it sent again", said.actor.name()));
        return Ok(let_out(round, &verified));
    }
    approval_policy::may_approve(&round.facts, &said, verified.candidate())?;
    let quorum = round.facts.started.spec.approvals.quorum;
    let name = said.actor.name().to_owned();
    round.facts.approvals.push(Approval { actor: said.actor, at_ms: said.at_ms });
    let count = u32::try_from(round.facts.approvals.len()).unwrap_or(u32::MAX);
    let of = if quorum > 1 { format!(" ({count} of {quorum})") } else { String::new() };
    if count < quorum {
        round.facts.add_reason(Stage::Approve, "approved-in-part", format!("approved by {name}{of}"));
        return Ok(round.to(Phase::Waiting(verified), vec![Action::Record]));
    }
    round.facts.add_reason(Stage::Approve, "approved", format!("approved by {name}{of}"));
    // At L1 a person may accept the report; nothing else is sent, even if items were staged.
    if round.facts.started.spec.level == LoopLevel::L1Report || outward_items(&round.facts).next().is_none() {
        return Ok(round.finish(RoundOutcome::Reported));
    }
    Ok(let_out(round, &verified))
}

/// One denial is enough, regardless of the quorum.
pub(super) fn on_denied(round: Round, said: &PersonDecision) -> Result<Step, StepError> {
    let why = said.why.as_deref().unwrap_or("no reason given");
    if let Phase::Doubting(approved) = round.phase.clone() {
        approval_policy::may_dispute(&round.facts, said)?;
        let found = DeliveryResult::Refused { text: format!("not there, says {}: {why}", said.actor) };
        return Ok(send::on_delivery_inspected(round, approved, said, &found)?);
    }
    let Phase::Waiting(verified) = round.phase.clone() else {
        return Err(round.misfit("denied", "it does not wait for a person").into());
    };
    if said.position.is_some() {
        return Err(round.misfit("denied", "it waits for an answer about all its items first").into());
    }
    approval_policy::may_deny(&round.facts, said, verified.candidate())?;
    let text = format!("denied by {}: {why}", said.actor);
    Ok(end_waiting(round, verified, RoundOutcome::Rejected, "denied", text))
}

/// Ends a round that waits for a person. If an item may have been sent before its receiver blocked, or is in doubt, a person
/// has to look at the receiver first.
pub(super) fn end_waiting(
    mut round: Round,
    verified: VerifiedCandidate,
    outcome: RoundOutcome,
    code: &str,
    text: String,
) -> Step {
    if round.facts.maybe_sent.is_empty() && round.facts.doubts().next().is_none() {
        return round.end(outcome, Stage::Approve, code, text);
    }
    round.facts.add_reason(Stage::Approve, code, text.clone());
    send::give_up(round, ApprovedCandidate { verified }, &text)
}

/// A question that is held expires not before the hold ends. It never expires earlier than without the hold.
pub(super) fn on_held(mut round: Round, held: &QuestionHeld) -> Result<Step, StepError> {
    let Phase::Waiting(verified) = round.phase.clone() else {
        return Err(round.misfit("question-held", "it does not wait for a person").into());
    };
    approval_policy::may_hold(&round.facts, held, verified.candidate())?;
    let until_ms = held.until_ms.min(held.at_ms.saturating_add(HOLD_MAX_MS));
    let window = round.facts.window.unwrap_or(AnswerWindow { from_ms: held.at_ms, until_ms });
    round.facts.window = Some(AnswerWindow { until_ms: window.until_ms.max(until_ms), ..window });
    let why = held.why.as_deref().map_or(String::new(), |why| format!(": {why}"));
    let text = format!("held by {} until {}{why}", held.actor.name(), format_moment(until_ms));
    round.facts.add_reason(Stage::Approve, "question-held", text);
    Ok(round.to(Phase::Waiting(verified), vec![Action::Record]))
}

/// An unanswered question counts as a denial; the work of a suspended round that was not resumed is discarded.
pub(super) fn on_expired(round: Round, expired: Expired) -> Result<Step, UnexpectedEvent> {
    if let Phase::Suspended(outcome, due) = &round.phase {
        let (outcome, stage) = (*outcome, due.stage());
        return Ok(round.end(outcome, stage, "let-go", "it was not resumed in time; its work was discarded"));
    }
    let Phase::Waiting(verified) = round.phase.clone() else {
        return Err(round.misfit("expired", "it does not wait for a person"));
    };
    if expired.at_ms.is_some_and(|at_ms| approval_policy::is_open(&round.facts, at_ms)) {
        return Err(round.misfit("expired", "there is still time to answer"));
    }
    Ok(end_waiting(round, verified, RoundOutcome::Rejected, "expired", "no answer arrived in time".to_owned()))
}

/// An approved candidate whose receiver accepts nothing now waits until it is sent again. People have a whole answer
/// window for the repair; the engine's own attempts do not extend it.
pub(super) fn wait_for_receiver(mut round: Round, approved: ApprovedCandidate, why: String) -> Step {
    let facts = &mut round.facts;
    facts.is_blocked = true;
    if facts.blocked_times == 0 {
        facts.window = None;
    }
    facts.blocked_times = facts.blocked_times.saturating_add(1);
    let is_known = facts.reasons.last().is_some_and(|last| last.code == BLOCKED && last.text == why);
    if !is_known {
        facts.add_reason(Stage::Send, BLOCKED, why);
    }
    round.to(Phase::Waiting(approved.verified), vec![Action::Record])
}

/// The engine tries a blocked candidate again: the cause may be fixed. It was approved before.
pub(super) fn on_resent(round: Round) -> Result<Step, UnexpectedEvent> {
    match round.phase.clone() {
        Phase::Waiting(verified) if round.facts.is_blocked => Ok(let_out(round, &verified)),
        _ => Err(round.misfit("resent", "no receiver blocks it")),
    }
}

fn let_out(mut round: Round, verified: &VerifiedCandidate) -> Step {
    round.facts.is_blocked = false;
    let approved = ApprovedCandidate { verified: verified.clone() };
    let positions = send::unsent(&round.facts);
    round.to(Phase::Sending(approved), vec![Action::Send(positions)])
}

/// The items that are sent: everything except the report.
pub(super) fn outward_items(facts: &RoundFacts) -> impl Iterator<Item = &crate::outbox::StagedItem> {
    let items = facts.attempt().map(|attempt| attempt.items.as_slice()).unwrap_or_default();
    items.iter().filter(|item| item.kind != ActionKind::Report)
}

/// The input of a human gate in code, one entry for each kind: facts of the engine, not words of the maker.
fn proposed(facts: &RoundFacts) -> Vec<ProposedAction> {
    let kinds: BTreeSet<_> = outward_items(facts).map(|item| item.kind).collect();
    kinds.into_iter().map(|kind| proposed_kind(facts, kind)).collect()
}

fn proposed_kind(facts: &RoundFacts, kind: ActionKind) -> ProposedAction {
    let empty = Attempt::default();
    let attempt = facts.attempt().unwrap_or(&empty);
    let lines: u64 = attempt.changes.iter().map(|change| change.added.saturating_add(change.removed)).sum();
    ProposedAction {
        kind: kind.word().to_owned(),
        summary: facts.started.spec.intent.clone(),
        verified: true,
        paths: attempt.changes.iter().map(|change| change.path.clone()).collect(),
        files_changed: attempt.changes.len() as u64,
        lines_changed: lines,
        risk: if lines > 400 || attempt.changes.len() > 20 { Risk::Medium } else { Risk::Low },
        sensitive: attempt.findings.sensitive.clone(),
        candidate: attempt.candidate.clone().unwrap_or_default(),
    }
}
