//! Probe: is there work? Asked before any agent is started; no work costs no tokens.

use super::event::{ProbeAnswer, ProbeItem, Stage};
use super::recall::MANUAL;
use super::{Action, Phase, Round, Step, UnexpectedEvent};
use crate::outcome::RoundOutcome;

/// The reason code of a round that ends because loops answer each other.
pub const CHAIN_TOO_LONG: &str = "chain-too-long";

pub(super) fn on_probed(mut round: Round, probed: ProbeAnswer) -> Result<Step, UnexpectedEvent> {
    if round.phase != Phase::Probing {
        return Err(round.misfit("probed", "no probe was asked"));
    }
    match probed {
        ProbeAnswer::Nothing => {
            Ok(round.end(RoundOutcome::NothingToDo, Stage::Probe, "no-work", "the probe found no work"))
        }
        ProbeAnswer::Failed { text } => Ok(round.end(RoundOutcome::Failed, Stage::Probe, "probe-failed", text)),
        ProbeAnswer::Work { items } => {
            round.facts.items = items;
            if let Some(text) = leave_chained(&mut round) {
                return Ok(round.end(RoundOutcome::Escalated, Stage::Probe, CHAIN_TOO_LONG, text));
            }
            Ok(round.to(Phase::Isolating, vec![Action::Isolate]))
        }
    }
}

/// Removes the items that loops have caused by answering each other too often. If none is left, the items stay, and the
/// text says why a person is asked. A person who starts a round decides about its items.
pub(super) fn leave_chained(round: &mut Round) -> Option<String> {
    let facts = &mut round.facts;
    let (name, most) = (&facts.started.spec.name, facts.started.spec.chain_max);
    let is_short = |item: &ProbeItem| item.chain <= most;
    if facts.started.trigger == MANUAL || facts.items.iter().all(is_short) {
        return None;
    }
    if facts.items.iter().any(is_short) {
        facts.items.retain(is_short);
        return None;
    }
    let keys: Vec<_> = facts.items.iter().map(|item| format!("`{}`", item.key)).collect();
    let longest = facts.items.iter().map(|item| item.chain).max().unwrap_or_default();
    Some(format!(
        "loops answer each other: {longest} effects of loops led to {} within an hour (`chain_max` is {most}); only a \
         person starts another round of `{name}` for it",
        keys.join(", ")
    ))
}
