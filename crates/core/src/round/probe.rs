//! Probe: is there work? Asked before any agent is started; no work costs no tokens.

use super::event::{Probed, Stage};
use super::{Action, Misfit, Phase, Round, Step};
use crate::outcome::RoundOutcome;

pub(super) fn probed(mut round: Round, probed: Probed) -> Result<Step, Misfit> {
    if round.phase != Phase::Probing {
        return Err(round.misfit("probed", "no probe was asked"));
    }
    match probed {
        Probed::Nothing => Ok(round.end(RoundOutcome::NothingToDo, Stage::Probe, "no-work", "the probe found no work")),
        Probed::Failed { text } => Ok(round.end(RoundOutcome::Failed, Stage::Probe, "probe-failed", text)),
        Probed::Work { items } => {
            round.facts.items = items;
            Ok(round.to(Phase::Isolating, vec![Action::Isolate]))
        }
    }
}
