//! Due: the rows that are recorded with the start of a scheduled round. The round, the receipt of its occurrence, the
//! loop's new mark and the signals it takes are one transaction, so that no crash runs an occurrence twice or loses it.
//! The dispatcher decides which loops are due, and when.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::store::{ReceiptRow, RowChange, ScheduleRow};
use loopwright_core::round::ProbeItem;

/// The rows of the due time or the signals that started a round. Their repository and loop are the round's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueRecord {
    /// The occurrence's receipt; the round's id is filled in when the round starts.
    pub receipt: ReceiptRow,
    /// The loop's new schedule. Only its mark is written, unless the loop had no schedule: a pause that was recorded
    /// between the decision to start and the start is newer than the decision.
    pub schedule: ScheduleRow,
    /// The keys of the signals that the round takes.
    pub signals: Vec<String>,
}

impl DueRecord {
    /// The rows that are written with the first event of a round.
    pub(super) fn changes(self, round: &str) -> Vec<RowChange> {
        let Self { receipt, schedule, signals } = self;
        let (repo, loop_name) = (receipt.repo.clone(), receipt.loop_name.clone());
        let taken = signals.into_iter().map(|key| RowChange::SignalTaken {
            repo: repo.clone(),
            loop_name: loop_name.clone(),
            key,
        });
        let receipt = ReceiptRow { round: Some(round.to_owned()), ..receipt };
        [RowChange::Receipt(receipt), RowChange::Mark(schedule)].into_iter().chain(taken).collect()
    }
}

/// An item by its key, with the title and data of its signal.
pub(super) async fn item(engine: &Engine, key: String, due: Option<&DueRecord>) -> Result<ProbeItem, EngineError> {
    for signal in due.iter().flat_map(|due| &due.signals) {
        let of = due.map(|due| (due.receipt.repo.as_str(), due.receipt.loop_name.as_str())).unwrap_or_default();
        let row = engine.store.signal(of.0, of.1, signal).await?;
        if let Some(row) = row.filter(|row| row.item.as_ref() == Some(&key)) {
            return Ok(ProbeItem { key, title: row.title, data: row.data });
        }
    }
    Ok(ProbeItem { key, title: None, data: None })
}

/// Whether a signal is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalNovelty {
    /// It is new, and durable.
    First,
    /// The same signal exists already, waiting or taken.
    Repeated,
}
