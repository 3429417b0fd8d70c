//! The store: the journal of events and the rows derived from it, in one small type.
//!
//! The store knows rows, not policy: an event is opaque JSON text to it. It guarantees how they are written: one
//! transaction for the events and the rows of a step, durable when [`Store::append`] returns. Any number of processes
//! may write; each round is under a lease with a fencing number, and its events are chained by hashes. The store does
//! not decide what happens next (`core`) nor perform it (the round driver).
//!
//! A [`Store`] uses SQLite (the embedded default) or PostgreSQL; both share the SQL text, with a word or two per dialect.

mod append;
mod autonomy;
mod chain;
mod conn;
mod error;
mod hints;
mod lease;
mod migrate;
mod money;
mod offers;
mod open;
mod patience;
mod postgres;
mod process;
mod questions;
mod read;
mod rename;
mod requests;
mod reserve;
mod rows;
mod sqlite;
mod tasks;
mod time;
mod verify;
mod words;
mod workers;
mod workflows;

pub(crate) use append::BODY_MAX;
pub use autonomy::{CalibrationRow, LevelLogKind, LevelLogRow, ReadingRow, WorkRow};
pub use error::{StoreError, StoreErrorKind};
pub use lease::{DISPATCHER, LeaseHolder, LeaseNeeds, LeaseRequest, RoundLease};
pub use money::{
    CostRow, CostsBy, CostsQuery, ItemSpend, LedgerRow, LoopSpend, RaiseRow, ReservationChange, SpendCeiling,
    SpendChange, SpendRow, SpendScope,
};
pub use offers::{ClaimedRound, OfferPlace, OfferRow};
pub use open::{Store, StoreMode};
pub(crate) use patience::{StorePatience, patiently};
pub use process::{ProcessInfo, ProcessRow};
pub use questions::{AnswerRow, AnswerState, QuestionRow, QuestionState};
pub use requests::{RoundRequestKind, RoundRequestRow, RoundRequestState};
pub use rows::{
    Checkpoint, InboxRow, ItemRow, LoopRow, NewEvent, OutboxRow, RoundRow, RoundsFilter, RoundsQuery, RowChange,
    StatsChange, StoreBatch, StoredEvent,
};
pub use tasks::TaskRow;
pub use time::{
    AgedRows, CLOCK_AHEAD, CLOCK_TAKEN, FlagRow, LoopFileRow, MemoryRow, ReceiptRow, ReceiptsQuery, RetentionCutoff,
    ScheduleRow, SignalRow,
};
pub use verify::{StoreFlaw, VerifyReport};
pub use words::{InboxKind, InboxRisk, OutboxState, WorkItemState};
pub use workers::{KnownWorker, WorkerRow, WorkerState, words};
pub use workflows::{WorkflowChange, WorkflowPartRow, WorkflowRow, WorkflowState};
