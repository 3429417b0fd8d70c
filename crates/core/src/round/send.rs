//! Send: deliveries end one by one. A delivery with an unknown result never counts as sent.

use super::approve::outward_items;
use super::event::{DeliveryEnded, DeliveryResult, Stage};
use super::{Action, Phase, Round, Step, UnexpectedEvent};
use crate::actor::Actor;
use crate::outcome::RoundOutcome;

pub(super) fn on_delivered(mut round: Round, delivered: DeliveryEnded) -> Result<Step, UnexpectedEvent> {
    if !matches!(round.phase, Phase::Sending(_)) {
        return Err(round.misfit("delivered", "nothing is being sent"));
    }
    let known = outward_items(&round.facts).any(|item| item.position == delivered.position);
    let twice = round.facts.deliveries.iter().any(|(position, _)| *position == delivered.position);
    if !known || twice {
        return Err(round.misfit("delivered", "no delivery of that position is open"));
    }
    round.facts.deliveries.push((delivered.position, delivered.result));
    let open = outward_items(&round.facts).count() - round.facts.deliveries.len();
    if open > 0 {
        let phase = round.phase.clone();
        return Ok(round.to(phase, Vec::new()));
    }
    let doubts: Vec<_> = round.facts.deliveries.iter().filter_map(doubt).collect();
    match round.phase.clone() {
        Phase::Sending(approved) if !doubts.is_empty() => {
            doubts.into_iter().for_each(|text| round.facts.add_reason(Stage::Send, "in-doubt", text));
            Ok(round.to(Phase::Doubting(approved), vec![Action::Record]))
        }
        _ => Ok(all_ended(round)),
    }
}

fn doubt((position, result): &(u32, DeliveryResult)) -> Option<String> {
    match result {
        DeliveryResult::InDoubt { text } => Some(format!("item {position}: {text}")),
        DeliveryResult::Sent { .. } | DeliveryResult::Refused { .. } | DeliveryResult::Quarantined { .. } => None,
    }
}

/// A person checked the receiver: a delivery in doubt is there, or it is not. It is never sent again.
pub(super) fn on_delivery_inspected(mut round: Round, actor: &Actor, found: &DeliveryResult) -> Step {
    for (_, result) in &mut round.facts.deliveries {
        if matches!(result, DeliveryResult::InDoubt { .. }) {
            *result = found.clone();
        }
    }
    let code = if matches!(found, DeliveryResult::Sent { .. }) { "confirmed" } else { "not-there" };
    round.facts.add_reason(Stage::Send, code, format!("{actor} looked at the receiver"));
    all_ended(round)
}

/// The worst delivery decides the outcome.
fn all_ended(mut round: Round) -> Step {
    let mut outcome = RoundOutcome::Shipped;
    for (position, result) in round.facts.deliveries.clone() {
        let (code, text, worse) = match result {
            DeliveryResult::Sent { .. } => continue,
            DeliveryResult::InDoubt { text } => ("in-doubt", text, RoundOutcome::Escalated),
            DeliveryResult::Refused { text } => ("delivery-refused", text, RoundOutcome::Refused),
            DeliveryResult::Quarantined { text } => ("delivery-failed", text, RoundOutcome::Failed),
        };
        round.facts.add_reason(Stage::Send, code, format!("item {position}: {text}"));
        if outcome == RoundOutcome::Shipped {
            outcome = worse;
        }
    }
    round.finish(outcome)
}
