//! Recall: what the loop remembers, whether its day still has money, and whether this host may run it at all.

use super::event::{Recalled, Stage};
use super::{Action, Misfit, Phase, Round, Step};
use crate::outcome::RoundOutcome;

pub(super) fn recalled(mut round: Round, recalled: Recalled) -> Result<Step, Misfit> {
    if round.phase != Phase::Recalling {
        return Err(round.misfit("recalled", "nothing is being recalled"));
    }
    round.facts.day_micros = recalled.day_micros;
    round.facts.history = recalled.history;
    let day = round.facts.started.spec.budget.day.usd;
    if let Some(ceiling) = day.filter(|ceiling| recalled.day_micros >= ceiling.micros()) {
        let text = format!("this loop has spent its day's {ceiling}");
        return Ok(round.end(RoundOutcome::OverBudget, Stage::Recall, "day-budget", text));
    }
    if let Some(why) = round.facts.started.refusal.clone() {
        return Ok(round.end(RoundOutcome::Refused, Stage::Isolate, "boundary", why));
    }
    Ok(after_recall(round))
}

/// A probe filters every occurrence but one for an item that a person named.
fn after_recall(round: Round) -> Step {
    let asks = round.facts.started.spec.on.probe.is_some() && round.facts.started.item.is_none();
    if asks { round.to(Phase::Probing, vec![Action::Probe]) } else { round.to(Phase::Isolating, vec![Action::Isolate]) }
}
