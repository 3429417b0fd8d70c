//! Send: deliveries end one by one. A delivery with an unknown result never counts as sent, and an item that refers to
//! the round's change is not sent without it.

use super::approve::{self, ApprovedCandidate, outward_items};
use super::event::{DeliveryEnded, DeliveryResult, PersonDecision, Stage};
use super::facts::RoundFacts;
use super::{Action, Phase, Round, Step, UnexpectedEvent};
use crate::outbox::StagedItem;
use crate::outcome::RoundOutcome;
use crate::spec::ActionKind;

/// The code of a delivery whose result only a person can find out.
const IN_DOUBT: &str = "in-doubt";

/// The code of a delivery that arrived without a part that the receiver did not accept, such as a label.
const PARTLY_ACCEPTED: &str = "partly-accepted";

pub(super) fn on_delivered(mut round: Round, delivered: DeliveryEnded) -> Result<Step, UnexpectedEvent> {
    let approved = match round.phase.clone() {
        Phase::Sending(approved) => approved,
        // Records of earlier builds: those did not wait for the answer about a change in doubt. They kept no such item.
        Phase::Doubting(approved) if !matches!(delivered.result, DeliveryResult::Blocked { .. }) => approved,
        _ => return Err(round.misfit("delivered", "nothing is being sent")),
    };
    if !unsent(&round.facts).contains(&delivered.position) {
        return Err(round.misfit("delivered", "no delivery of that position is open"));
    }
    round.facts.maybe_sent.remove(&delivered.position);
    if let DeliveryResult::Blocked { text, maybe_sent } = delivered.result {
        if maybe_sent {
            round.facts.maybe_sent.insert(delivered.position);
        }
        let text = format!("item {}: {text}", delivered.position);
        return Ok(approve::wait_for_receiver(round, approved, text));
    }
    if let DeliveryResult::Sent { note: Some(note), .. } = &delivered.result {
        round.facts.add_reason(Stage::Send, PARTLY_ACCEPTED, format!("item {}: {note}", delivered.position));
    }
    round.facts.deliveries.push((delivered.position, delivered.result));
    if unsent(&round.facts).is_empty() || round.facts.is_change_in_doubt() {
        return Ok(end_or_doubt(round, approved));
    }
    Ok(round.to(Phase::Sending(approved), Vec::new()))
}

/// All deliveries have a result, or the others depend on one in doubt: the round ends, unless a person has to look at a
/// receiver first.
fn end_or_doubt(mut round: Round, approved: ApprovedCandidate) -> Step {
    let doubts: Vec<_> = round.facts.deliveries.iter().filter_map(doubt).collect();
    if doubts.is_empty() {
        return all_ended(round);
    }
    for text in doubts {
        let is_known = round.facts.reasons.iter().any(|reason| reason.code == IN_DOUBT && reason.text == text);
        if !is_known {
            round.facts.add_reason(Stage::Send, IN_DOUBT, text);
        }
    }
    round.to(Phase::Doubting(approved), vec![Action::Record])
}

/// Nothing more is sent, and some items may have been sent before their receiver blocked: those are in doubt.
pub(super) fn give_up(mut round: Round, approved: ApprovedCandidate, why: &str) -> Step {
    for position in unsent(&round.facts) {
        let result = if round.facts.maybe_sent.remove(&position) {
            DeliveryResult::InDoubt { text: format!("an attempt has no known result, and then: {why}") }
        } else {
            DeliveryResult::Refused { text: why.to_owned() }
        };
        round.facts.deliveries.push((position, result));
    }
    end_or_doubt(round, approved)
}

/// The positions that are still to be sent, in order: the change first, because the other items refer to it.
pub(super) fn unsent(facts: &RoundFacts) -> Vec<u32> {
    let is_open = |item: &&StagedItem| !facts.deliveries.iter().any(|(done, _)| *done == item.position);
    let mut open: Vec<_> = outward_items(facts).filter(is_open).collect();
    open.sort_by_key(|item| (!is_change(item), item.position));
    open.into_iter().map(|item| item.position).collect()
}

fn is_change(item: &StagedItem) -> bool {
    matches!(item.kind, ActionKind::PullRequest | ActionKind::Commit)
}

impl RoundFacts {
    /// The positions of the deliveries in doubt.
    pub fn doubts(&self) -> impl Iterator<Item = u32> {
        let is_doubt = |result: &DeliveryResult| matches!(result, DeliveryResult::InDoubt { .. });
        self.deliveries.iter().filter(move |(_, result)| is_doubt(result)).map(|(position, _)| *position)
    }

    /// Whether the round's change may have been sent. Only a person's answer decides whether the other items follow it.
    fn is_change_in_doubt(&self) -> bool {
        let doubts: Vec<u32> = self.doubts().collect();
        outward_items(self).any(|item| is_change(item) && doubts.contains(&item.position))
    }

    /// The reason why no further item of the round may be sent: its change was not. Without the change, "fixed in my
    /// pull request" would be false.
    #[must_use]
    pub fn missing_change(&self) -> Option<String> {
        let failed = |item: &&StagedItem| {
            let is_sent = |result: &DeliveryResult| matches!(result, DeliveryResult::Sent { .. });
            is_change(item) && self.deliveries.iter().any(|(at, result)| *at == item.position && !is_sent(result))
        };
        let item = outward_items(self).find(failed)?;
        Some(format!("the {} of this round was not sent, and this item may refer to it", item.kind))
    }
}

fn doubt((position, result): &(u32, DeliveryResult)) -> Option<String> {
    match result {
        DeliveryResult::InDoubt { text } => Some(format!("item {position}: {text}")),
        DeliveryResult::Sent { .. }
        | DeliveryResult::Refused { .. }
        | DeliveryResult::Quarantined { .. }
        | DeliveryResult::Blocked { .. } => None,
    }
}

/// A person checked the receiver: a delivery in doubt is there, or it is not. It is never sent again. The answer is
/// about one item, or about all that are in doubt. Items that waited for the change follow it.
pub(super) fn on_delivery_inspected(
    mut round: Round,
    approved: ApprovedCandidate,
    said: &PersonDecision,
    found: &DeliveryResult,
) -> Result<Step, UnexpectedEvent> {
    let is_meant = |position: u32| said.position.is_none_or(|meant| meant == position);
    let meant: Vec<u32> = round.facts.doubts().filter(|position| is_meant(*position)).collect();
    if meant.is_empty() {
        return Err(round.misfit("answered", "no delivery of that position is in doubt"));
    }
    for (position, result) in &mut round.facts.deliveries {
        if meant.contains(position) {
            *result = found.clone();
        }
    }
    let code = if matches!(found, DeliveryResult::Sent { .. }) { "confirmed" } else { "not-there" };
    let items: Vec<_> = meant.iter().map(u32::to_string).collect();
    let text = format!("{} looked at the receiver of item {}", said.actor, items.join(", "));
    round.facts.add_reason(Stage::Send, code, text);
    if round.facts.doubts().next().is_some() {
        return Ok(round.to(Phase::Doubting(approved), vec![Action::Record]));
    }
    Ok(after_doubts(round, approved))
}

/// No delivery is in doubt any more: the items that waited for the change are sent, or refused without it.
fn after_doubts(mut round: Round, approved: ApprovedCandidate) -> Step {
    let open = unsent(&round.facts);
    match round.facts.missing_change() {
        None if open.is_empty() => all_ended(round),
        None => {
            // If their receiver blocks these items, people have a whole answer window for the repair.
            (round.facts.window, round.facts.blocked_times) = (None, 0);
            round.to(Phase::Sending(approved), vec![Action::Send(open)])
        }
        Some(text) => give_up(round, approved, &text),
    }
}

/// The worst delivery decides the outcome.
fn all_ended(mut round: Round) -> Step {
    let mut outcome = RoundOutcome::Shipped;
    for (position, result) in round.facts.deliveries.clone() {
        let (code, text, worse) = match result {
            DeliveryResult::Sent { .. } => continue,
            DeliveryResult::InDoubt { text } => (IN_DOUBT, text, RoundOutcome::Escalated),
            DeliveryResult::Refused { text } => ("delivery-refused", text, RoundOutcome::Refused),
            DeliveryResult::Quarantined { text } | DeliveryResult::Blocked { text, .. } => {
                ("delivery-failed", text, RoundOutcome::Failed)
            }
        };
        round.facts.add_reason(Stage::Send, code, format!("item {position}: {text}"));
        if outcome == RoundOutcome::Shipped {
            outcome = worse;
        }
    }
    round.finish(outcome)
}
