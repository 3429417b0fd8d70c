//! The rows of the store, what a batch is made of, and how each row is spelled in SQL.
//! Words with a meaning are types here; a word that no type knows is damage.

use std::sync::LazyLock;

use loopwright_core::outcome::RoundOutcome;
use loopwright_core::round::RoundPhase;

use super::conn::{SqlArg, SqlColumn, SqlResult, SqlRow};
use super::lease::LeaseRequest;
use super::money::{ItemSpend, LedgerRow, RaiseRow, ReservationChange, SpendChange};
use super::time::{FlagRow, LoopFileRow, MemoryRow, ReceiptRow, RetentionCutoff, ScheduleRow, SignalRow};
use super::words::{InboxKind, InboxRisk, ItemState, OutboxState};

/// A row type with its table: columns have the names of the fields.
pub(super) trait SqlTable: Sized {
    const NAME: &'static str;
    const COLUMNS: &'static [&'static str];
    const KEY: &'static [&'static str];
    fn args(&self) -> Vec<SqlArg<'_>>;
    fn read(row: &SqlRow) -> SqlResult<Self>;
    /// `INSERT … ON CONFLICT (key) DO UPDATE` of the whole row.
    fn upsert() -> &'static str;
}

/// `"a", "b"`: quoted, because `trigger`, `index` and `key` are words of SQL.
pub(super) fn quoted(names: &[&str]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
    names.join(", ")
}

/// `SELECT` of all columns of a row type, with the rest of the statement.
pub(super) fn select<T: SqlTable>(rest: &str) -> String {
    format!("SELECT {} FROM {} {rest}", quoted(T::COLUMNS), T::NAME)
}

/// `INSERT` of a whole row.
pub(super) fn insert_sql<T: SqlTable>() -> String {
    let holes: Vec<_> = (1..=T::COLUMNS.len()).map(|n| format!("${n}")).collect();
    format!("INSERT INTO {} ({}) VALUES ({})", T::NAME, quoted(T::COLUMNS), holes.join(", "))
}

pub(super) fn upsert_sql<T: SqlTable>() -> String {
    let fresh = T::COLUMNS.iter().filter(|column| !T::KEY.contains(column));
    let sets: Vec<_> = fresh.map(|column| format!("\"{column}\" = excluded.\"{column}\"")).collect();
    let key = quoted(T::KEY);
    format!("{} ON CONFLICT ({key}) DO UPDATE SET {}", insert_sql::<T>(), sets.join(", "))
}

/// Declares a row type and its table in one place, so that they cannot drift apart.
macro_rules! table {
    (
        $(#[$about:meta])*
        $name:ident in $table:literal by $key:expr;
        $($(#[$field_about:meta])* $field:ident: $type:ty,)*
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name { $($(#[$field_about])* pub $field: $type,)* }

        impl SqlTable for $name {
            const NAME: &'static str = $table;
            const COLUMNS: &'static [&'static str] = &[$(stringify!($field)),*];
            const KEY: &'static [&'static str] = &$key;
            fn args(&self) -> Vec<SqlArg<'_>> {
                vec![$(self.$field.arg()),*]
            }
            fn read(row: &SqlRow) -> SqlResult<Self> {
                let mut at = 0..;
                Ok(Self { $($field: SqlColumn::read(row, at.next().unwrap_or(usize::MAX))?,)* })
            }
            fn upsert() -> &'static str {
                static SQL: LazyLock<String> = LazyLock::new(upsert_sql::<$name>);
                &SQL
            }
        }
    };
}

pub(super) use table;

/// An event to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEvent {
    /// The event's kind, as the journal shows it.
    pub kind: String,
    /// The event as JSON text.
    pub body: String,
}

table! {
    /// An event of the journal as it was written.
    StoredEvent in "events" by ["seq"];
    /// Its number over the whole store, from 1.
    seq: i64,
    /// The round it belongs to.
    round: String,
    /// Its number within the round, from 0.
    index: i64,
    /// When, in milliseconds since 1970, by the writer's clock.
    at_ms: i64,
    /// Its kind.
    kind: String,
    /// Its JSON text.
    body: String,
    /// SHA-256 over the event before it and all fields above.
    hash: String,
}

table! {
    /// How far a round went, in a chain of all of them.
    Checkpoint in "checkpoints" by ["number"];
    /// Its number, from 1.
    number: i64,
    /// The round.
    round: String,
    /// How many events the round had.
    events: i64,
    /// The hash of the last of them.
    last_hash: String,
    /// When, in milliseconds since 1970, by the writer's clock.
    at_ms: i64,
    /// SHA-256 over the checkpoint before it and all fields above.
    hash: String,
}

/// One step of one round: what is written together or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreBatch {
    /// The round the events belong to; empty when there are only rows.
    pub round: String,
    /// How many events of this round the writer has seen.
    pub expect_index: i64,
    /// The time of the events.
    pub at_ms: i64,
    /// The events in their order.
    pub events: Vec<NewEvent>,
    /// The rows that change with them, in their order.
    pub changes: Vec<RowChange>,
}

impl StoreBatch {
    /// Rows that belong to no round and no event.
    #[must_use]
    pub fn of_rows(at_ms: i64, changes: Vec<RowChange>) -> Self {
        Self { round: String::new(), expect_index: 0, at_ms, events: Vec::new(), changes }
    }
}

/// A row that changes with a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowChange {
    /// Takes a lease, with the next fencing number.
    Lease(LeaseRequest),
    /// The batch's round comes to rest: its lease is given back, and a checkpoint says how far it went.
    LeaseEnd,
    /// Inserts the round or replaces it.
    Round(RoundRow),
    /// Inserts the outbox item or replaces it.
    Outbox(OutboxRow),
    /// Inserts the question or replaces it.
    Inbox(InboxRow),
    /// Closes an open question; one that is not open is a conflict, so that two answers cannot both count.
    InboxClosed {
        /// The question's id.
        id: String,
    },
    /// Inserts the work item or replaces it.
    Item(ItemRow),
    /// Adds to a day's spend.
    Spend(SpendChange),
    /// Adds to a day's reservations if every ceiling holds.
    Reserve(ReservationChange),
    /// Adds to what an item cost over all its rounds.
    ItemSpend(ItemSpend),
    /// Writes a line of what a start of an agent cost.
    Ledger(LedgerRow),
    /// Adds room to a budget.
    Raise(RaiseRow),
    /// Adds to a loop's counters.
    Stats(StatsChange),
    /// Forgets one work item of a loop, or all of them.
    ItemGone {
        /// The repository's id.
        repo: String,
        /// The loop's name.
        loop_name: String,
        /// Which one; without, all of them.
        key: Option<String>,
    },
    /// Inserts where a loop stands in time, or replaces it. Under one cadence (fingerprint) its mark never goes back.
    Schedule(ScheduleRow),
    /// Raises the mark of a loop under the same cadence and leaves the rest of where it stands; inserts it if it stands
    /// nowhere.
    Mark(ScheduleRow),
    /// Keeps the last good text of a loop file, or removes it. A batch names each file once.
    LoopFile(LoopFileRow),
    /// Writes what became of an occurrence; one that has its receipt already is a conflict.
    Receipt(ReceiptRow),
    /// Writes a signal; one whose key is there already is the same signal, and nothing changes.
    Signal(SignalRow),
    /// Writes a signal; one whose key is there already is a conflict, so that the writer learns whether it was new.
    NewSignal(SignalRow),
    /// A round takes a signal; one that does not wait is a conflict, so that no two rounds take it.
    SignalTaken {
        /// The repository's id.
        repo: String,
        /// The loop's name.
        loop_name: String,
        /// The signal's key.
        key: String,
    },
    /// Sets a flag or replaces it.
    Flag(FlagRow),
    /// Takes a flag away, if it is there.
    FlagGone {
        /// Which one.
        name: String,
    },
    /// Inserts a memory or replaces it.
    Memory(MemoryRow),
    /// Forgets one memory of a loop, or all of them.
    MemoryGone {
        /// The repository's id.
        repo: String,
        /// The loop's name.
        loop_name: String,
        /// Which one; without, all of them.
        key: Option<String>,
    },
    /// Forgets what a loop remembers beyond its latest memories.
    MemoryKept {
        /// The repository's id.
        repo: String,
        /// The loop's name.
        loop_name: String,
        /// How many stay.
        most: u32,
    },
    /// Removes receipts and taken signals from before a moment, and memories that have expired by the batch's.
    Prune {
        /// What goes.
        before: RetentionCutoff,
        /// At most so many of each.
        limit: u32,
    },
}

impl RowChange {
    pub(super) fn loop_file(&self) -> Option<&LoopFileRow> {
        if let RowChange::LoopFile(row) = self { Some(row) } else { None }
    }

    pub(super) fn lease(&self) -> Option<&LeaseRequest> {
        if let RowChange::Lease(request) = self { Some(request) } else { None }
    }

    /// Whether only the process that schedules may write it.
    pub(super) fn is_scheduling(&self) -> bool {
        matches!(self, RowChange::Schedule(_) | RowChange::Mark(_) | RowChange::Receipt(_))
    }

    pub(super) fn schedule(&self) -> Option<&ScheduleRow> {
        if let RowChange::Schedule(row) = self { Some(row) } else { None }
    }

    pub(super) fn receipt(&self) -> Option<&ReceiptRow> {
        if let RowChange::Receipt(row) = self { Some(row) } else { None }
    }
}

table! {
    /// One round.
    RoundRow in "rounds" by ["id"];
    /// The round's id.
    id: String,
    /// The loop's name.
    loop_name: String,
    /// The repository's id.
    repo: String,
    /// Where the repository is.
    repo_path: String,
    /// The occurrence that started it; unique within repository and loop.
    occurrence: String,
    /// What kind of trigger that was.
    trigger: String,
    /// The work item, if the loop has items.
    item: Option<String>,
    /// The level it runs at.
    level: String,
    /// Where it stands.
    phase: RoundPhase,
    /// How it ended.
    outcome: Option<RoundOutcome>,
    /// When it started.
    started_ms: i64,
    /// When it ended; none while it is open.
    ended_ms: Option<i64>,
    /// Attempts so far.
    attempts: i64,
    /// The commit it started from.
    base: Option<String>,
    /// The sealed tree.
    tree: Option<String>,
    /// The candidate.
    candidate: Option<String>,
    /// The hash of the loop's specification.
    spec_hash: String,
    /// One line for people.
    summary: String,
    /// The path of its report.
    report: Option<String>,
    /// Tokens spent.
    spend_tokens: i64,
    /// Money spent, in millionths of a US dollar.
    spend_micros: i64,
    /// What identifies its running processes after a crash.
    cookie: Option<String>,
}

impl RoundRow {
    /// How it ended, or where it stands, in a word.
    #[must_use]
    pub fn standing(&self) -> &'static str {
        self.outcome.map_or(self.phase.word(), RoundOutcome::word)
    }
}

table! {
    /// One item that is to leave the machine, or did.
    OutboxRow in "outbox" by ["id"];
    /// The item's id.
    id: String,
    /// The round that staged it.
    round: String,
    /// The loop's name.
    loop_name: String,
    /// The repository's id.
    repo: String,
    /// Its place among the round's items.
    position: i64,
    /// What it is: a pull request, a comment, …
    kind: String,
    /// What it is about.
    target: Option<String>,
    /// Where it stands.
    state: OutboxState,
    /// The candidate it belongs to.
    candidate: String,
    /// The item as JSON text.
    body: String,
    /// The mark by which it is found again at the receiver.
    marker: String,
    /// Who is delivering it.
    claim: Option<String>,
    /// The owner's fencing number at the claim.
    fence: i64,
    /// Deliveries tried.
    tries: i64,
    /// What the receiver answered.
    receipt: Option<String>,
    /// When it last changed.
    updated_ms: i64,
}

table! {
    /// One question to people.
    InboxRow in "inbox" by ["id"];
    /// The question's id.
    id: String,
    /// The round that asks.
    round: String,
    /// The loop's name.
    loop_name: String,
    /// The repository's id.
    repo: String,
    /// What is asked.
    kind: InboxKind,
    /// How much is at stake.
    risk: InboxRisk,
    /// The candidate an approval binds.
    candidate: Option<String>,
    /// One line for people.
    summary: String,
    /// When it was asked.
    created_ms: i64,
    /// When it is void.
    expires_ms: Option<i64>,
    /// When it was answered.
    closed_ms: Option<i64>,
}

table! {
    /// What is remembered of one work item of a loop.
    ItemRow in "items" by ["repo", "loop_name", "key"];
    /// The repository's id.
    repo: String,
    /// The loop's name.
    loop_name: String,
    /// The item's key.
    key: String,
    /// What became of it.
    state: ItemState,
    /// Failures in a row.
    failures: i64,
    /// The last round that worked on it.
    round: String,
    /// When it last changed.
    updated_ms: i64,
}

table! {
    /// A loop's counters: what `status` shows without reading history.
    LoopRow in "loops" by ["repo", "loop_name"];
    /// The repository's id.
    repo: String,
    /// The loop's name.
    loop_name: String,
    /// Rounds ended.
    runs: i64,
    /// Of them successful.
    successes: i64,
    /// Of them failed.
    failures: i64,
    /// Work items done.
    items: i64,
    /// Their time together.
    duration_ms: i64,
    /// When the last one ran.
    last_run_ms: Option<i64>,
    /// How it ended.
    last_outcome: Option<RoundOutcome>,
    /// Which one it was.
    last_round: Option<String>,
}

/// What is added to a loop's counters; a missing `last_…` keeps what is there.
pub type StatsChange = LoopRow;

/// Which rounds, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoundsQuery {
    /// Only of this repository.
    pub repo: Option<String>,
    /// Only of this loop.
    pub loop_name: Option<String>,
    /// Open, ended, or both.
    pub which: RoundsFilter,
    /// Only those before this (`started_ms`, `id`): the last row of the page before.
    pub before: Option<(i64, String)>,
    /// At most so many.
    pub limit: u32,
}

/// Which rounds a query means.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RoundsFilter {
    /// All of them.
    #[default]
    All,
    /// Those that have not ended.
    Open,
}

/// Which questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InboxQuery {
    /// Those without an answer, at most so many.
    Open(u32),
    /// All of them, at most so many.
    All(u32),
}
