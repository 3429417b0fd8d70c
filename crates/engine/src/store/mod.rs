//! The store: the journal of events and the rows derived from it, behind one small trait.
//!
//! The store knows rows, not policy: an event is opaque JSON text to it. It guarantees how they are written: one
//! transaction for the events and the rows of a step, durable when [`Store::append`] returns. Any number of processes
//! may write; each round is under a lease with a fencing number, and its events are chained by hashes. The store does
//! not decide what happens next (`core`) nor perform it (the round driver).
//!
//! One implementation, [`SqlStore`], uses SQLite (the embedded default) or PostgreSQL; both share the SQL text, with a
//! word or two per dialect.

mod append;
mod chain;
mod conn;
mod error;
mod lease;
mod migrate;
mod money;
mod open;
mod postgres;
mod process;
mod read;
mod reserve;
mod rows;
mod sqlite;
mod time;
mod verify;
mod words;

use std::path::Path;
use std::pin::Pin;

pub(crate) use append::BODY_MAX;
pub use error::{StoreError, StoreErrorKind};
pub use lease::{DISPATCHER, LeaseHolder, LeaseNeeds, LeaseRequest, RoundLease};
pub use money::{
    CostRow, CostsBy, CostsQuery, ItemSpend, LedgerRow, RaiseRow, ReservationChange, SpendCeiling, SpendChange,
    SpendRow, SpendScope,
};
pub use open::{SqlStore, StoreMode};
pub use process::{ProcessInfo, ProcessRow};
pub use rows::{
    Checkpoint, InboxQuery, InboxRow, ItemRow, LoopRow, NewEvent, OutboxRow, RoundRow, RoundsFilter, RoundsQuery,
    RowChange, StatsChange, StoreBatch, StoredEvent,
};
pub use time::{
    AgedRows, CLOCK_AHEAD, CLOCK_TAKEN, FlagRow, LoopFileRow, MemoryRow, ReceiptRow, ReceiptsQuery, RetentionCutoff,
    ScheduleRow, SignalRow,
};
pub use verify::{StoreFlaw, VerifyReport};
pub use words::{InboxKind, InboxRisk, ItemState, OutboxState};

/// The result of every method of the store: a boxed future, so that the trait can be an object.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// The storage of rounds. [`Store::append`] is the only way to write rows.
pub trait Store: Send + Sync {
    /// Writes the events and the changes of one step in one transaction and returns the number of events that the round
    /// then has. Durable when it returns. On an error nothing of the batch was written, or (only after a lost
    /// connection, [`StoreErrorKind::Io`]) all of it.
    fn append(&self, batch: StoreBatch) -> StoreFuture<'_, i64>;

    /// Extends the leases of this process, if they expire. An error does not mean that they are lost: a process
    /// continues until a write is fenced.
    fn renew(&self) -> StoreFuture<'_, ()>;

    /// Releases one lease that this opening took and still holds: a start that fails releases its lease.
    fn release<'a>(&'a self, name: &'a str) -> StoreFuture<'a, ()>;

    /// All leases that are held, each with the state of its process; oldest first.
    fn leases(&self) -> StoreFuture<'_, Vec<RoundLease>>;

    /// The other processes that have the store open for writing and are not gone; oldest first.
    fn others(&self) -> StoreFuture<'_, Vec<ProcessRow>>;

    /// Releases all leases and closes the connections. Later writes return [`StoreErrorKind::Closed`].
    fn close(&self) -> StoreFuture<'_, ()>;

    /// The events of one round, oldest first.
    fn events<'a>(&'a self, round: &'a str) -> StoreFuture<'a, Vec<StoredEvent>>;

    /// The first event of each of these rounds, in no order: one query for everything that a list shows of its rounds.
    /// Rounds beyond the largest page are left out.
    fn first_events<'a>(&'a self, rounds: &'a [String]) -> StoreFuture<'a, Vec<StoredEvent>>;

    /// One round by its whole id.
    fn round<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<RoundRow>>;

    /// The ids that start with `prefix`, at most ten, in order.
    fn rounds_like<'a>(&'a self, prefix: &'a str) -> StoreFuture<'a, Vec<String>>;

    /// Rounds, newest first, a page at a time.
    fn rounds(&self, query: RoundsQuery) -> StoreFuture<'_, Vec<RoundRow>>;

    /// All rounds that have not ended, oldest first.
    fn open_rounds(&self) -> StoreFuture<'_, Vec<RoundRow>>;

    /// The staged items of one round in their order.
    fn outbox<'a>(&'a self, round: &'a str) -> StoreFuture<'a, Vec<OutboxRow>>;

    /// Items that still need an action without a person (`staged`, `claimed`, `in-doubt`), oldest first.
    fn outbox_pending(&self, limit: u32) -> StoreFuture<'_, Vec<OutboxRow>>;

    /// Questions to people, oldest first.
    fn inbox(&self, query: InboxQuery) -> StoreFuture<'_, Vec<InboxRow>>;

    /// One question by its id.
    fn inbox_item<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<InboxRow>>;

    /// The stored state of one work item.
    fn item<'a>(&'a self, repo: &'a str, loop_name: &'a str, key: &'a str) -> StoreFuture<'a, Option<ItemRow>>;

    /// The work items of one loop, latest first.
    fn items<'a>(&'a self, repo: &'a str, loop_name: &'a str, limit: u32) -> StoreFuture<'a, Vec<ItemRow>>;

    /// The counters of all loops that ever ran.
    fn loops(&self) -> StoreFuture<'_, Vec<LoopRow>>;

    /// The counters of one loop.
    fn loop_row<'a>(&'a self, repo: &'a str, loop_name: &'a str) -> StoreFuture<'a, Option<LoopRow>>;

    /// The spend of one day (`YYYY-MM-DD`) in a scope.
    fn spend<'a>(
        &'a self,
        scope: SpendScope,
        repo: &'a str,
        loop_name: &'a str,
        day: &'a str,
    ) -> StoreFuture<'a, SpendRow>;

    /// The spend of one day by repository and loop, for `status`.
    fn spends<'a>(&'a self, day: &'a str) -> StoreFuture<'a, Vec<SpendChange>>;

    /// The spend of one item over all its rounds.
    fn item_spend<'a>(&'a self, repo: &'a str, loop_name: &'a str, item: &'a str) -> StoreFuture<'a, SpendRow>;

    /// The raises that people added to the budgets of one day, for the day or for a round; oldest first.
    fn raises<'a>(&'a self, day: &'a str) -> StoreFuture<'a, Vec<RaiseRow>>;

    /// The sum that people added to the budget of a loop's day and to one round: millionths of a dollar and tokens.
    fn raised<'a>(
        &'a self,
        repo: &'a str,
        loop_name: &'a str,
        day: &'a str,
        round: &'a str,
    ) -> StoreFuture<'a, (i64, i64)>;

    /// The spend in groups, highest first: one query over the ledger.
    fn costs(&self, query: CostsQuery) -> StoreFuture<'_, Vec<CostRow>>;

    /// The ledger rows of one round's agent starts.
    fn ledger<'a>(&'a self, round: &'a str) -> StoreFuture<'a, Vec<LedgerRow>>;

    /// The schedule of every loop, by repository and name.
    fn schedules(&self) -> StoreFuture<'_, Vec<ScheduleRow>>;

    /// The schedule of one loop.
    fn schedule<'a>(&'a self, repo: &'a str, loop_name: &'a str) -> StoreFuture<'a, Option<ScheduleRow>>;

    /// The receipts of a loop, latest first, a page at a time.
    fn receipts(&self, query: ReceiptsQuery) -> StoreFuture<'_, Vec<ReceiptRow>>;

    /// The receipt of one occurrence.
    fn receipt<'a>(
        &'a self,
        repo: &'a str,
        loop_name: &'a str,
        occurrence: &'a str,
    ) -> StoreFuture<'a, Option<ReceiptRow>>;

    /// Signals that no round has taken, oldest first.
    fn pending_signals(&self, limit: u32) -> StoreFuture<'_, Vec<SignalRow>>;

    /// One signal, taken or not.
    fn signal<'a>(&'a self, repo: &'a str, loop_name: &'a str, key: &'a str) -> StoreFuture<'a, Option<SignalRow>>;

    /// Whether a loop ever had a signal, taken or not, whose key starts with `prefix`, as far back as signals are kept.
    fn has_signal<'a>(&'a self, repo: &'a str, loop_name: &'a str, prefix: &'a str) -> StoreFuture<'a, bool>;

    /// The last valid texts of a repository's loop files, or of one of them.
    fn loop_files<'a>(&'a self, repo: &'a str, file: Option<&'a str>) -> StoreFuture<'a, Vec<LoopFileRow>>;

    /// The flags that apply to all loops.
    fn flags(&self) -> StoreFuture<'_, Vec<FlagRow>>;

    /// A loop's memories, latest first, including expired ones that were not removed yet.
    fn memory<'a>(&'a self, repo: &'a str, loop_name: &'a str) -> StoreFuture<'a, Vec<MemoryRow>>;

    /// The number of rows that [`RowChange::Prune`] would remove at `now_ms` without a limit.
    fn aged(&self, before: RetentionCutoff, now_ms: i64) -> StoreFuture<'_, AgedRows>;

    /// The latest time of any event or receipt: a clock that is far behind it is wrong.
    fn last_ms(&self) -> StoreFuture<'_, Option<i64>>;

    /// The events after a global number, oldest first, for the polls of `logs -f`.
    fn tail(&self, after_seq: i64, limit: u32) -> StoreFuture<'_, Vec<StoredEvent>>;

    /// Checks the whole database and all chains, a page at a time.
    fn verify(&self) -> StoreFuture<'_, VerifyReport>;

    /// Copies the database, as it is at one moment, into a new file; also while another process writes. Not for
    /// PostgreSQL, which has its own tools: [`StoreErrorKind::Unsuitable`].
    fn copy_into<'a>(&'a self, path: &'a Path) -> StoreFuture<'a, ()>;
}
