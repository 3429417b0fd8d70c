//! Due: what the birth of a scheduled round is recorded with. The round, the receipt of its occurrence, the loop's new mark and
//! the signals it takes are one transaction, so that no crash leaves an occurrence twice or not at all.
//! Who is due, and when, is decided elsewhere.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::store::{ReceiptRow, RowChange, ScheduleRow, SignalRow, StoreBatch, StoreError, StoreErrorKind};
use loopwright_core::round::ProbeItem;

/// What made a round due, as rows. Their repository and loop are the round's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueRecord {
    /// The occurrence's receipt; the round's id is filled in at its birth.
    pub receipt: ReceiptRow,
    /// Where the loop stands with it. Only its mark is written, unless the loop stood nowhere: a pause that was kept between
    /// the decision to start and the birth is newer than what the decision knew.
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

/// An item by its key, with what the signal that brought it says of it.
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

/// Whether a signal was heard of before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalNovelty {
    /// It is new, and durable.
    First,
    /// The same signal is there already, waiting or taken.
    Repeated,
}

impl Engine {
    /// Keeps a signal, once.
    ///
    /// # Errors
    /// When it cannot be kept.
    pub async fn store_signal(&self, signal: SignalRow) -> Result<SignalNovelty, EngineError> {
        match self.append(StoreBatch::of_rows(self.now_ms(), vec![RowChange::NewSignal(signal)])).await {
            Ok(_) => Ok(SignalNovelty::First),
            Err(StoreError { kind: StoreErrorKind::Conflict(_), .. }) => Ok(SignalNovelty::Repeated),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes rows that belong to no round, in one transaction.
    ///
    /// # Errors
    /// When they cannot be kept, or one of them is a conflict.
    pub async fn write_rows(&self, changes: Vec<RowChange>) -> Result<(), EngineError> {
        self.append(StoreBatch::of_rows(self.now_ms(), changes)).await?;
        Ok(())
    }
}
