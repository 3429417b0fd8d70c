//! The rows of the store, the parts of a batch, and the SQL of each row. Closed sets of words are types here; an
//! unknown word means damage.

use loopwright_core::autonomy::WorkFate;
use loopwright_core::level::LoopLevel;
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::round::RoundPhase;
use loopwright_core::spec::ActionKind;

use super::autonomy::{CalibrationRow, LevelLogRow, ReadingRow, WorkRow};
use super::conn::{SqlArg, SqlColumn, SqlResult, SqlRow};
use super::lease::LeaseRequest;
use super::money::{ItemSpend, LedgerRow, LoopSpend, RaiseRow, ReservationChange, SpendChange};
use super::offers::OfferRow;
use super::questions::{AnswerRow, QuestionRow};
use super::requests::{RoundRequestRow, RoundRequestState};
use super::tasks::TaskRow;
use super::time::{FlagRow, LoopFileRow, MemoryRow, ReceiptRow, RetentionCutoff, ScheduleRow, SignalRow};
use super::words::{InboxKind, InboxRisk, OutboxState, WorkItemState};
use super::workers::{WorkerRow, WorkerState};
use super::workflows::WorkflowChange;

/// A row type with its table: columns have the names of the fields.
pub(super) trait SqlTable: Sized {
    const NAME: &'static str;
    const COLUMNS: &'static [&'static str];
    const KEY: &'static [&'static str];
    /// The first version of the store that has the table.
    const SINCE: i64;
    fn args(&self) -> Vec<SqlArg<'_>>;
    fn read(row: &SqlRow) -> SqlResult<Self>;
}

/// `"a", "b"`: quoted, because `trigger`, `index` and `key` are SQL keywords.
pub(super) fn quoted(names: &[&str]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
    names.join(", ")
}

/// `t."a", t."b"`: all columns of a row type, in a query that names its table `t`.
pub(super) fn columns_of<T: SqlTable>(t: &str) -> String {
    let columns: Vec<_> = T::COLUMNS.iter().map(|column| format!("{t}.\"{column}\"")).collect();
    columns.join(", ")
}

/// `SELECT` of all columns of a row type, with the given rest of the statement.
pub(super) fn select<T: SqlTable>(rest: &str) -> String {
    format!("SELECT {} FROM {} {rest}", quoted(T::COLUMNS), T::NAME)
}

/// `INSERT` of a whole row.
pub(super) fn insert_sql<T: SqlTable>() -> String {
    let holes: Vec<_> = (1..=T::COLUMNS.len()).map(|n| format!("${n}")).collect();
    format!("INSERT INTO {} ({}) VALUES ({})", T::NAME, quoted(T::COLUMNS), holes.join(", "))
}

/// `ON CONFLICT (key) DO UPDATE` of the whole row.
pub(super) fn replaces<T: SqlTable>() -> String {
    let fresh = T::COLUMNS.iter().filter(|column| !T::KEY.contains(column));
    let sets: Vec<_> = fresh.map(|column| format!("\"{column}\" = excluded.\"{column}\"")).collect();
    format!("ON CONFLICT ({}) DO UPDATE SET {}", quoted(T::KEY), sets.join(", "))
}

/// Declares a row type and its table in one place, so that they cannot differ.
macro_rules! table {
    (
        $(#[$about:meta])*
        $name:ident in $table:literal by $key:expr, since $since:literal;
        $($(#[$field_about:meta])* $field:ident: $type:ty,)*
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name { $($(#[$field_about])* pub $field: $type,)* }

        impl SqlTable for $name {
            const NAME: &'static str = $table;
            const COLUMNS: &'static [&'static str] = &[$(stringify!($field)),*];
            const KEY: &'static [&'static str] = &$key;
            const SINCE: i64 = $since;
            fn args(&self) -> Vec<SqlArg<'_>> {
                vec![$(self.$field.arg()),*]
            }
            fn read(row: &SqlRow) -> SqlResult<Self> {
                let mut at = 0..;
                Ok(Self { $($field: SqlColumn::read(row, at.next().unwrap_or(usize::MAX))?,)* })
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
    StoredEvent in "events" by ["seq"], since 1;
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
    /// SHA-256 over the previous event's hash and all fields above.
    hash: String,
}

table! {
    /// The state of a round's chain, in a chain of all checkpoints.
    Checkpoint in "checkpoints" by ["number"], since 5;
    /// Its number, from 1.
    number: i64,
    /// The round.
    round: String,
    /// The number of the round's events.
    events: i64,
    /// The hash of the last of them.
    last_hash: String,
    /// When, in milliseconds since 1970, by the writer's clock.
    at_ms: i64,
    /// SHA-256 over the previous checkpoint's hash and all fields above.
    hash: String,
}

/// One step of one round: all of it is written, or nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreBatch {
    /// The round the events belong to; empty when there are only rows.
    pub round: String,
    /// The number of this round's events that the writer has seen.
    pub expect_index: i64,
    /// The time of the events.
    pub at_ms: i64,
    /// The events in their order.
    pub events: Vec<NewEvent>,
    /// The rows that change with them, in their order.
    pub changes: Vec<RowChange>,
}

impl StoreBatch {
    /// A batch of rows that belong to no round and no event.
    #[must_use]
    pub fn of_rows(at_ms: i64, changes: Vec<RowChange>) -> Self {
        Self { round: String::new(), expect_index: 0, at_ms, events: Vec::new(), changes }
    }
}

/// A row that changes with a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowChange {
    /// Inserts a request to a round.
    NewRequest(RoundRequestRow),
    /// Offers the batch's round, whose lease it takes, to the workers.
    Offer(OfferRow),
    /// Records a worker under its name.
    Worker(WorkerRow),
    /// Changes whether a worker takes rounds.
    WorkerState {
        /// The worker.
        name: String,
        /// Its new state.
        state: WorkerState,
    },
    /// Removes a worker that this opening of the store served, unless it is drained.
    WorkerGone {
        /// The worker.
        name: String,
        /// The opening.
        instance: String,
    },
    /// Ends a pending request to a round.
    RequestSettled {
        /// The request.
        id: String,
        /// Its end.
        state: RoundRequestState,
    },
    /// Inserts a task. A task that exists is a conflict.
    NewTask(TaskRow),
    /// Replaces a task that still has the version before this one.
    Task(TaskRow),
    /// Counts a change of the dependencies between tasks, decided on this version of them.
    TaskGraph {
        /// The repository.
        repo: String,
        /// The version that the change was decided on.
        version: i64,
    },
    /// Changes a workflow or one of its parts.
    Workflows(WorkflowChange),
    /// Takes a lease, with the next fencing number.
    Lease(LeaseRequest),
    /// The batch's round comes to rest: its lease is released, and a checkpoint records the end of its chain.
    LeaseEnd,
    /// Inserts the round or replaces it.
    Round(RoundRow),
    /// Inserts the outbox item or replaces it.
    Outbox(OutboxRow),
    /// Inserts the question or replaces it.
    Inbox(InboxRow),
    /// Closes an open question. A question that is not open is a conflict, so that two answers cannot both count.
    InboxClosed {
        /// The question's id.
        id: String,
    },
    /// Inserts the work item or replaces it.
    Item(ItemRow),
    /// Adds to a day's spend.
    Spend(SpendChange),
    /// Adds to the spend of a loop on a day of its zone.
    LoopSpend(LoopSpend),
    /// Adds to a day's reservations if no ceiling is passed.
    Reserve(ReservationChange),
    /// Adds to an item's spend over all its rounds.
    ItemSpend(ItemSpend),
    /// Writes a ledger row for a start of an agent.
    Ledger(LedgerRow),
    /// Adds a raise to a budget.
    Raise(RaiseRow),
    /// Adds to a loop's counters.
    Stats(StatsChange),
    /// Removes one work item of a loop, or all of them.
    ItemGone {
        /// The repository's id.
        repo: String,
        /// The loop's name.
        loop_name: String,
        /// The item's key; `None` for all of them.
        key: Option<String>,
    },
    /// Inserts or replaces a loop's schedule. Under one cadence (fingerprint) its mark never decreases.
    Schedule(ScheduleRow),
    /// Raises the mark of a loop under the same cadence and leaves the rest of its schedule unchanged; inserts the
    /// schedule if there is none.
    Mark(ScheduleRow),
    /// Stores the last valid text of a loop file, or removes it. A batch names each file once.
    LoopFile(LoopFileRow),
    /// Writes the receipt of an occurrence; a second receipt is a conflict.
    Receipt(ReceiptRow),
    /// Writes a signal; one with an existing key is the same signal, and nothing changes.
    Signal(SignalRow),
    /// Writes a signal; one with an existing key is a conflict, so that the writer learns whether it was new.
    NewSignal(SignalRow),
    /// A round takes a signal; one that was taken already is a conflict, so that no two rounds take it.
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
    /// Removes a flag, if it is set.
    FlagGone {
        /// The flag's name.
        name: String,
    },
    /// Inserts a memory or replaces it.
    Memory(MemoryRow),
    /// Removes one memory of a loop, or all of them.
    MemoryGone {
        /// The repository's id.
        repo: String,
        /// The loop's name.
        loop_name: String,
        /// The memory's key; `None` for all of them.
        key: Option<String>,
    },
    /// Removes all memories of a loop except the latest ones.
    MemoryKept {
        /// The repository's id.
        repo: String,
        /// The loop's name.
        loop_name: String,
        /// The number of memories that stay.
        most: u32,
    },
    /// Inserts a question in a place outside; one that exists is a conflict.
    NewQuestion(QuestionRow),
    /// Replaces a question in a place outside.
    Question(QuestionRow),
    /// Inserts an answer from outside; one that is known is a conflict.
    NewAnswer(AnswerRow),
    /// Replaces an answer from outside.
    Answer(AnswerRow),
    /// Inserts a piece of work or replaces it.
    Work(WorkRow),
    /// Moves the fate of work forward; if another process moved it, this is a conflict.
    WorkFate {
        /// The work's id.
        id: String,
        /// Its fate before and after.
        moves: (WorkFate, WorkFate),
        /// How the fate is known.
        detail: String,
    },
    /// Inserts an entry of the log of levels, or replaces the same entry.
    LevelLog(LevelLogRow),
    /// Records that a person has read a change.
    Reading(ReadingRow),
    /// Inserts the result of a calibration, or replaces it.
    Calibration(CalibrationRow),
    /// Gives all rows of a loop another name. The new name has no rounds; its schedule is replaced.
    LoopRenamed {
        /// The repository's id.
        repo: String,
        /// The name before.
        from: String,
        /// The name from now on.
        to: String,
    },
    /// Removes receipts and taken signals from before a time, and memories that have expired by the batch's time.
    Prune {
        /// The times before which rows are removed.
        before: RetentionCutoff,
        /// The most rows to remove from each table.
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

    /// The round that is offered to the workers.
    pub(super) fn offered(&self) -> Option<&str> {
        if let RowChange::Offer(row) = self { Some(&row.round) } else { None }
    }

    /// Whether only the process that schedules may write it.
    pub(super) fn is_scheduling(&self) -> bool {
        matches!(self, RowChange::Schedule(_) | RowChange::Mark(_) | RowChange::Receipt(_))
    }

    /// The repository and both names of a loop that gets another name.
    pub(super) fn renamed(&self) -> Option<(&str, [&str; 2])> {
        if let RowChange::LoopRenamed { repo, from, to } = self { Some((repo, [from, to])) } else { None }
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
    RoundRow in "rounds" by ["id"], since 1;
    /// The round's id.
    id: String,
    /// The loop's name.
    loop_name: String,
    /// The repository's id.
    repo: String,
    /// The path of the repository.
    repo_path: String,
    /// The occurrence that started it; unique within repository and loop.
    occurrence: String,
    /// The kind of trigger.
    trigger: String,
    /// The work item, if the loop has items.
    item: Option<String>,
    /// The level it runs at.
    level: LoopLevel,
    /// Its phase.
    phase: RoundPhase,
    /// How it ended.
    outcome: Option<RoundOutcome>,
    /// When it started.
    started_ms: i64,
    /// When it ended; `None` while it is open.
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
    /// The cookie that identifies its running processes after a crash.
    cookie: Option<String>,
}

impl RoundRow {
    /// The word for its outcome, or for its phase while it is open.
    #[must_use]
    pub fn standing(&self) -> &'static str {
        self.outcome.map_or(self.phase.word(), RoundOutcome::word)
    }
}

table! {
    /// One item that is to leave this machine, or has left it.
    OutboxRow in "outbox" by ["id"], since 1;
    /// The item's id.
    id: String,
    /// The round that staged it.
    round: String,
    /// The loop's name.
    loop_name: String,
    /// The repository's id.
    repo: String,
    /// Its position among the round's items.
    position: i64,
    /// The kind of item: a pull request, a comment, …
    kind: ActionKind,
    /// The number of the issue or pull request, or the name of the webhook.
    target: Option<String>,
    /// Its delivery state.
    state: OutboxState,
    /// The candidate it belongs to.
    candidate: String,
    /// The item as JSON text.
    body: String,
    /// The marker that identifies the item at the receiver.
    marker: String,
    /// The process that is delivering it. A claim in any other state than `claimed` means that an attempt has no known
    /// result: the item may have been sent.
    claim: Option<String>,
    /// The fencing number of the round's lease at the claim.
    fence: i64,
    /// The number of delivery attempts.
    tries: i64,
    /// The receiver's answer.
    receipt: Option<String>,
    /// When it last changed.
    updated_ms: i64,
}

table! {
    /// One question to people.
    InboxRow in "inbox" by ["id"], since 1;
    /// The question's id.
    id: String,
    /// The round that asks.
    round: String,
    /// The loop's name.
    loop_name: String,
    /// The repository's id.
    repo: String,
    /// The kind of question.
    kind: InboxKind,
    /// The risk of the answer.
    risk: InboxRisk,
    /// The candidate that an approval is bound to.
    candidate: Option<String>,
    /// One line for people.
    summary: String,
    /// When it was asked.
    created_ms: i64,
    /// When it expires.
    expires_ms: Option<i64>,
    /// When it was answered.
    closed_ms: Option<i64>,
}

table! {
    /// The stored state of one work item of a loop.
    ItemRow in "items" by ["repo", "loop_name", "key"], since 1;
    /// The repository's id.
    repo: String,
    /// The loop's name.
    loop_name: String,
    /// The item's key.
    key: String,
    /// Its state.
    state: WorkItemState,
    /// Consecutive failures.
    failures: i64,
    /// The last round that worked on it.
    round: String,
    /// When it last changed.
    updated_ms: i64,
}

table! {
    /// A loop's counters, so that `status` need not read history.
    LoopRow in "loops" by ["repo", "loop_name"], since 1;
    /// The repository's id.
    repo: String,
    /// The loop's name.
    loop_name: String,
    /// Rounds ended.
    runs: i64,
    /// Successful rounds.
    successes: i64,
    /// Failed rounds.
    failures: i64,
    /// Work items done.
    items: i64,
    /// The total duration of its rounds.
    duration_ms: i64,
    /// When the last round ran.
    last_run_ms: Option<i64>,
    /// The outcome of the last round.
    last_outcome: Option<RoundOutcome>,
    /// The id of the last round.
    last_round: Option<String>,
}

/// An addition to a loop's counters; a missing `last_…` keeps the existing value.
pub type StatsChange = LoopRow;

/// A query for rounds, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoundsQuery {
    /// Only of this repository.
    pub repo: Option<String>,
    /// Only of this loop.
    pub loop_name: Option<String>,
    /// Open, ended, or both.
    pub which: RoundsFilter,
    /// Only rounds before this (`started_ms`, `id`): the last row of the previous page.
    pub before: Option<(i64, String)>,
    /// The rows to leave out: those of the pages before.
    pub offset: u32,
    /// The most rows.
    pub limit: u32,
}

/// The rounds that a query includes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RoundsFilter {
    /// All of them.
    #[default]
    All,
    /// Those that have not ended.
    Open,
}
