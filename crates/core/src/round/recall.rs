//! Recall: the loop's memory, the remaining budgets, and whether this host may run the loop at all.

use super::event::{MemoryRecalled, Stage};
use super::{Action, Phase, Round, Step, UnexpectedEvent, probe};
use crate::autonomy::LevelCeiling;
use crate::budget::{BudgetAccount, Reservation};
use crate::level::LoopLevel;
use crate::outcome::RoundOutcome;

/// The trigger of a round that a person starts.
pub(super) const MANUAL: &str = "manual";

pub(super) fn on_recalled(mut round: Round, recalled: MemoryRecalled) -> Result<Step, UnexpectedEvent> {
    if round.phase != Phase::Recalling {
        return Err(round.misfit("recalled", "nothing is being recalled"));
    }
    round.facts.day_micros = recalled.day_micros;
    round.facts.history = recalled.history;
    round.facts.memory = recalled.memory;
    if let Some(end) = leave_settled(&mut round, &recalled.settled_items) {
        return Ok(round.end(RoundOutcome::NothingToDo, Stage::Recall, "item-settled", end));
    }
    if let Some(text) = probe::leave_chained(&mut round) {
        return Ok(round.end(RoundOutcome::Escalated, Stage::Recall, probe::CHAIN_TOO_LONG, text));
    }
    let day = round.facts.started.spec.budget.day.usd;
    // Only records from before budget accounts existed use this.
    let day = day.filter(|_| recalled.accounts.is_empty());
    if let Some(ceiling) = day.filter(|ceiling| recalled.day_micros >= ceiling.micros()) {
        let text = format!("this loop has spent its day's {ceiling}");
        return Ok(round.end(RoundOutcome::OverBudget, Stage::Recall, "day-budget", text));
    }
    if let Some(full) = recalled.accounts.iter().find(|account| account.is_full()) {
        let started = &round.facts.started;
        let text = format!(
            "{}; {}",
            full.describe(),
            full.scope.remedy(&started.spec.name, &started.round, full.raise_option(Reservation::default()))
        );
        let code = format!("{}-budget", full.scope.word());
        return Ok(round.end(RoundOutcome::OverBudget, Stage::Recall, &code, text));
    }
    if let Some(ceiling) = recalled.ceiling.filter(|_| !round.facts.started.calibration) {
        lower(&mut round, &ceiling);
    }
    if let Some(low) = recalled.accounts.iter().find(|account| account.is_low()) {
        spare(&mut round, low);
    }
    if let Some(why) = round.facts.started.refusal.clone() {
        return Ok(round.end(RoundOutcome::Refused, Stage::Isolate, "boundary", why));
    }
    Ok(after_recall(round))
}

/// Removes the items that no person named and that are done or given up. If none is left, returns why there is nothing
/// to do; the round then takes no item, so its end names none.
fn leave_settled(round: &mut Round, settled: &[String]) -> Option<String> {
    let facts = &mut round.facts;
    let (before, named) = (facts.items.len(), facts.item());
    if facts.started.trigger != MANUAL {
        facts.items.retain(|item| !settled.contains(&item.key));
    }
    let what = named.filter(|_| facts.items.is_empty() && before > 0)?;
    Some(match before {
        1 => format!("item `{what}` is done, or waits for a person; only a person starts another round for it"),
        _ => format!("items `{what}` are done, or wait for a person; only a person starts another round for them"),
    })
}

/// Runs the round at the level that the loop has earned.
fn lower(round: &mut Round, ceiling: &LevelCeiling) {
    let declared = round.facts.started.spec.level;
    if ceiling.level >= declared {
        return;
    }
    round.facts.lowered_from = Some(declared);
    round.facts.started.spec.level = ceiling.level;
    round.facts.add_reason(Stage::Recall, &ceiling.code, ceiling.text.clone());
}

/// Saves the rest of a day's or month's budget for reports: the round runs as if its loop were at L1.
fn spare(round: &mut Round, low: &BudgetAccount) {
    let declared = round.facts.started.spec.level;
    if declared == LoopLevel::L1Report {
        return;
    }
    round.facts.lowered_from.get_or_insert(declared);
    round.facts.saves_budget = true;
    round.facts.started.spec.level = LoopLevel::L1Report;
    let started = &round.facts.started;
    let text = format!(
        "REPORT ONLY: four fifths of a budget are spent, so this round runs at L1 instead of {}: {}; {}",
        declared.short(),
        low.describe(),
        low.scope.remedy(&started.spec.name, &started.round, low.raise_option(Reservation::default())),
    );
    round.facts.add_reason(Stage::Recall, "soft-limit", text);
}

/// A probe filters every occurrence except one for an item that a person named.
fn after_recall(round: Round) -> Step {
    let started = &round.facts.started;
    let asks =
        !started.calibration && started.rebase.is_none() && started.spec.on.probe.is_some() && started.item.is_none();
    if asks { round.to(Phase::Probing, vec![Action::Probe]) } else { round.to(Phase::Isolating, vec![Action::Isolate]) }
}
