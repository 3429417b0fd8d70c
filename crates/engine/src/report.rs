//! The report of a round: joins the round's facts with the outbox rows. The texts are in core.

use crate::store::OutboxRow;
use loopwright_core::report::{OutboxLine, RoundReport};
use loopwright_core::round::Round;

/// A round's report.
#[must_use]
pub fn build_report(round: &Round, outbox: &[OutboxRow]) -> RoundReport {
    let lines = outbox.iter().map(|row| OutboxLine {
        id: row.id.clone(),
        kind: row.kind.word().to_owned(),
        state: row.state.word().to_owned(),
        target: row.target.clone(),
        receipt: row.receipt.clone(),
    });
    RoundReport::from_round(round, lines.collect())
}
