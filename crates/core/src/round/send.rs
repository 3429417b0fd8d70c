//! Send: deliveries come to their ends one by one. What cannot be known is never called sent.

use super::approve::outward;
use super::event::{Delivered, DeliveryResult, Stage};
use super::{Misfit, Phase, Round, Step};
use crate::outcome::RoundOutcome;

pub(super) fn delivered(mut round: Round, delivered: Delivered) -> Result<Step, Misfit> {
    if !matches!(round.phase, Phase::Sending(_)) {
        return Err(round.misfit("delivered", "nothing is being sent"));
    }
    let known = outward(&round.facts).any(|item| item.position == delivered.position);
    let twice = round.facts.deliveries.iter().any(|(position, _)| *position == delivered.position);
    if !known || twice {
        return Err(round.misfit("delivered", "no delivery of that position is open"));
    }
    round.facts.deliveries.push((delivered.position, delivered.result));
    let open = outward(&round.facts).count() - round.facts.deliveries.len();
    if open > 0 {
        let phase = round.phase.clone();
        return Ok(round.to(phase, Vec::new()));
    }
    Ok(all_ended(round))
}

/// The worst delivery decides.
fn all_ended(mut round: Round) -> Step {
    let mut outcome = RoundOutcome::Shipped;
    for (position, result) in round.facts.deliveries.clone() {
        let (code, text, worse) = match result {
            DeliveryResult::Sent { .. } => continue,
            DeliveryResult::InDoubt { text } => ("in-doubt", text, RoundOutcome::Escalated),
            DeliveryResult::Refused { text } => ("delivery-refused", text, RoundOutcome::Refused),
            DeliveryResult::Quarantined { text } => ("delivery-failed", text, RoundOutcome::Failed),
        };
        round.facts.because(Stage::Send, code, format!("item {position}: {text}"));
        if outcome == RoundOutcome::Shipped || worse == RoundOutcome::Escalated {
            outcome = worse;
        }
    }
    round.finish(outcome)
}
