//! Record: the report is written. A waiting round stays open; any other is over.

use super::event::RoundRecorded;
use super::{Phase, Round, Step, UnexpectedEvent};

pub(super) fn on_recorded(mut round: Round, recorded: RoundRecorded) -> Result<Step, UnexpectedEvent> {
    round.facts.report = recorded.report.or(round.facts.report);
    round.facts.network.add(recorded.network);
    match round.phase.clone() {
        Phase::Waiting(verified) => {
            round.facts.window = round.facts.window.or(recorded.window);
            Ok(round.to(Phase::Waiting(verified), Vec::new()))
        }
        Phase::Doubting(approved) => Ok(round.to(Phase::Doubting(approved), Vec::new())),
        Phase::Suspended(outcome, due) => Ok(round.to(Phase::Suspended(outcome, due), Vec::new())),
        Phase::Recording(outcome) => Ok(round.to(Phase::Ended(outcome), Vec::new())),
        Phase::Recalling
        | Phase::Probing
        | Phase::Isolating
        | Phase::Baselining
        | Phase::Making(_)
        | Phase::Held(..)
        | Phase::Sealing
        | Phase::Gating
        | Phase::Checking(..)
        | Phase::Approving(_)
        | Phase::Sending(_)
        | Phase::Ended(_) => Err(round.misfit("recorded", "there is no end to record")),
    }
}
