//! The report of a round: joins what the round knows with what the outbox says. The words are core's.

use crate::store::OutboxRow;
use loopwright_core::network::Traffic;
use loopwright_core::report::{OutboxLine, RoundReport};
use loopwright_core::round::Round;

/// A round's report.
#[must_use]
pub fn of(round: &Round, outbox: &[OutboxRow]) -> RoundReport {
    let lines = outbox.iter().map(|row| OutboxLine {
        id: row.id.clone(),
        kind: row.kind.clone(),
        state: row.state.word().to_owned(),
        target: row.target.clone(),
        receipt: row.receipt.clone(),
    });
    RoundReport::of(round, lines.collect())
}

/// The same, with traffic that is about to be recorded.
#[must_use]
pub fn with_traffic(round: &Round, outbox: &[OutboxRow], traffic: &Traffic) -> RoundReport {
    let mut report = of(round, outbox);
    report.network.add(traffic.clone());
    report
}
