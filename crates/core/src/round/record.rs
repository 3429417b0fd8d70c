//! Record: the report is written. A waiting round stays open; any other is over.

use super::event::RoundRecorded;
use super::{Phase, Round, Step, UnexpectedEvent};

pub(super) fn on_recorded(mut round: Round, recorded: RoundRecorded) -> Result<Step, UnexpectedEvent> {
    round.facts.report = recorded.report.or(round.facts.report);
    round.facts.debts = recorded.debts.or(round.facts.debts);
    round.facts.network.add(recorded.network);
    let phase = match round.phase.clone() {
        Phase::Waiting(verified) => {
            round.facts.window = round.facts.window.or(recorded.window);
            Phase::Waiting(verified)
        }
        phase @ (Phase::Doubting(_) | Phase::Suspended(..)) => phase,
        Phase::Recording(outcome) => Phase::Ended(outcome),
        _ => return Err(round.misfit("recorded", "there is no end to record")),
    };
    Ok(round.to(phase, Vec::new()))
}
