//! Probe: is there work? Asked before any agent is started; no work costs no tokens.

use super::event::{ProbeAnswer, Stage};
use super::{Action, Phase, Round, Step, UnexpectedEvent};
use crate::outcome::RoundOutcome;

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
            Ok(round.to(Phase::Isolating, vec![Action::Isolate]))
        }
    }
}
