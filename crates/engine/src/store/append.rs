//! The one door for writes: a batch of events and rows in one transaction, guarded by the fence.
//! Which rows belong to an event is the round driver's business.

use std::sync::LazyLock;
use std::time::Duration;

use super::chain;
use super::conn::{Conn, Dialect, Outcome, Row, args};
use super::error::{During as _, StoreError, StoreErrorKind};
use super::open::{Ownership, SqlStore, Writer};
use super::owner;
use super::reserve;
use super::rows::{Batch, Change, ItemRow, RoundRow, StatsChange, StoredEvent, Table, insert_sql};
use super::sqlite::Access;
use super::time::{self, MemoryRow, Twice};

/// The largest body of an event or an item.
pub(crate) const BODY_MAX: usize = 1 << 20;
/// The most events and changes in one batch.
const BATCH_MAX: usize = 10_000;
/// The most events a round may have; reading a round's history is bounded by it.
const ROUND_EVENTS_MAX: i64 = 100_000;
/// The largest amount in one change: a billion dollars in millionths. Sums then never leave 64 bits.
const AMOUNT_MAX: i64 = 1_000_000_000_000_000;

/// What a transaction leaves behind if it was kept, to find out after a lost answer.
struct Trace {
    /// The number of events the round then has, and how many of them are new.
    count: i64,
    fresh: usize,
    /// The head after it.
    seq: i64,
    hash: String,
    writes: i64,
}

impl SqlStore {
    pub(super) async fn write(&self, batch: Batch) -> Result<i64, StoreError> {
        let doing = || match batch.round.as_str() {
            "" => "write rows".to_owned(),
            round => format!("append to round `{round}`"),
        };
        let ours = self.ownership.ok_or(StoreErrorKind::ReadOnly).during(doing)?;
        within_limits(&batch).during(doing)?;
        let mut writer = self.writer.lock().await;
        self.write_locked(&mut writer, ours, &batch).await.during(doing)
    }

    async fn write_locked(&self, writer: &mut Writer, ours: Ownership, batch: &Batch) -> Outcome<i64> {
        let mut conn = self.writing(writer).await?;
        match fill(&mut conn, ours, batch).await {
            Ok(trace) => match keep(&mut conn, &trace).await {
                Ok(()) => {
                    writer.conn = Some(conn);
                    Ok(trace.count)
                }
                Err(error) => self.settle(conn, ours, &trace, error).await,
            },
            Err(error) => {
                // A connection that failed to roll back is not used again; closing it rolls back too.
                if conn.rollback().await.is_ok() && !matches!(error, StoreErrorKind::Io(_)) {
                    writer.conn = Some(conn);
                }
                Err(error)
            }
        }
    }

    /// The connection to write with; a new one if the last one failed.
    async fn writing(&self, writer: &mut Writer) -> Outcome<Conn> {
        if writer.closed {
            return Err(StoreErrorKind::Closed);
        }
        self.place.unchanged()?;
        match writer.conn.take() {
            Some(conn) => Ok(conn),
            None => self.place.connect(Access::Write).await,
        }
    }

    /// A commit whose answer was lost is read back before it is called lost. Beginning the new
    /// transaction waits for the old one's locks, so the old one has ended either way.
    async fn settle(&self, lost: Conn, ours: Ownership, trace: &Trace, error: StoreErrorKind) -> Outcome<i64> {
        // Closing rolls an open transaction back; that it may fail is why we look.
        let _ = lost.close().await;
        if !matches!(error, StoreErrorKind::Io(_)) {
            return Err(error);
        }
        match self.kept(ours, trace).await {
            Ok(true) => Ok(trace.count),
            Ok(false) => Err(error),
            Err(_) => Err(StoreErrorKind::Io(format!("{error}; whether it was kept could not be read back"))),
        }
    }

    async fn kept(&self, ours: Ownership, trace: &Trace) -> Outcome<bool> {
        let mut conn = self.place.connect(Access::Write).await?;
        let guard = begin(&mut conn).await?;
        let event = conn.row("SELECT hash FROM events WHERE seq = $1", args![trace.seq]).await?;
        let hash: Option<String> = event.map(|row| row.get(0)).transpose()?;
        conn.rollback().await?;
        // The last event's hash is proof. A batch without events left nothing but the count of writes,
        // which means ours only as long as nobody else may write.
        Ok(match trace.fresh {
            0 => guard.fence == ours.fence && guard.writes >= trace.writes,
            _ => hash.as_deref() == Some(&trace.hash),
        })
    }

    pub(super) async fn extend_lease(&self) -> Result<(), StoreError> {
        let doing = || format!("renew the lease of `{}`", self.place.name());
        let ours = self.ownership.ok_or(StoreErrorKind::ReadOnly).during(doing)?;
        let mut writer = self.writer.lock().await;
        let mut conn = self.writing(&mut writer).await.during(doing)?;
        let answer = match &conn {
            Conn::Sqlite(_) => holds(&mut conn, ours).await,
            Conn::Postgres(_) => owner::extend(&mut conn, ours.fence, ours.lease).await,
        };
        if !matches!(answer, Err(StoreErrorKind::Io(_))) {
            writer.conn = Some(conn);
        }
        answer.during(doing)
    }

    /// Gives everything back whatever fails on the way, and tells the first failure.
    pub(super) async fn give_back(&self) -> Result<(), StoreError> {
        let mut writer = self.writer.lock().await;
        writer.closed = true;
        // The reader first: SQLite folds its log into the database when the last connection closes, and
        // only one that may write can do that.
        let closed = match self.reader.lock().await.take() {
            Some(conn) => conn.close().await,
            None => Ok(()),
        };
        let released = match (writer.conn.take(), self.ownership) {
            (Some(conn), Some(ours)) => release(conn, ours).await,
            _ => Ok(()),
        };
        writer.lock = None;
        released.and(closed).during(|| format!("close store `{}`", self.place.name()))
    }
}

/// Ends our lease and closes the connection. A store that was taken over has nothing to give back.
async fn release(mut conn: Conn, ours: Ownership) -> Outcome<()> {
    let ended = match conn.dialect() {
        Dialect::Sqlite => Ok(()),
        Dialect::Postgres => owner::extend(&mut conn, ours.fence, Duration::ZERO).await,
    };
    let closed = conn.close().await;
    match ended {
        Err(StoreErrorKind::Fenced { .. }) => closed,
        ended => ended.and(closed),
    }
}

fn within_limits(batch: &Batch) -> Outcome<()> {
    let invalid = |why: String| Err(StoreErrorKind::Invalid(why));
    if batch.events.len() + batch.changes.len() > BATCH_MAX {
        return invalid(format!("more than {BATCH_MAX} events and changes at once"));
    }
    if batch.expect_index + batch.events.len() as i64 > ROUND_EVENTS_MAX {
        return invalid(format!("the round would have more than {ROUND_EVENTS_MAX} events"));
    }
    if batch.round.is_empty() && !batch.events.is_empty() {
        return invalid("an event belongs to a round".to_owned());
    }
    let items = batch.changes.iter().filter_map(|change| match change {
        Change::Outbox(row) => Some(&row.body),
        Change::Signal(row) | Change::NewSignal(row) => row.data.as_ref(),
        Change::Memory(row) => Some(&row.text),
        Change::LoopFile(row) => row.text.as_ref(),
        _ => None,
    });
    if batch.events.iter().map(|event| &event.body).chain(items).any(|body| body.len() > BODY_MAX) {
        return invalid(format!("a body of more than {BODY_MAX} bytes"));
    }
    let amounts = batch.changes.iter().flat_map(|change| match change {
        Change::Spend(s) => vec![s.reserved_micros, s.settled_micros, s.reserved_tokens, s.settled_tokens],
        Change::Reserve(r) => vec![r.micros, r.tokens],
        Change::ItemSpend(s) => vec![s.reserved_micros, s.settled_micros, s.reserved_tokens, s.settled_tokens],
        Change::Ledger(l) => vec![l.input, l.output, l.cache_read, l.cache_write, l.micros],
        Change::Raise(r) => vec![r.micros, r.tokens],
        _ => vec![],
    });
    match amounts.into_iter().find(|amount| amount.unsigned_abs() > AMOUNT_MAX as u64) {
        Some(amount) => invalid(format!("an amount of {amount}")),
        None => Ok(()),
    }
}

/// The owner and the head as locked for this transaction.
struct Guard {
    fence: i64,
    seq: i64,
    hash: String,
    writes: i64,
}

const GUARD: &str = "SELECT owner.fence, head.seq, head.hash, head.writes \
                     FROM owner JOIN head ON head.id = owner.id WHERE owner.id = 1";

/// Opens the transaction; what it found is locked.
async fn begin(conn: &mut Conn) -> Outcome<Guard> {
    let rows = conn.begin_asking(&format!("{GUARD}{}", conn.dialect().lock())).await?;
    read_guard(rows.into_iter().next())
}

fn read_guard(row: Option<Row>) -> Outcome<Guard> {
    let row = row.ok_or_else(|| StoreErrorKind::Corrupt("the owner or the head is missing".into()))?;
    Ok(Guard { fence: row.get(0)?, seq: row.get(1)?, hash: row.get(2)?, writes: row.get(3)? })
}

fn still_ours(guard: &Guard, ours: Ownership) -> Outcome<()> {
    match guard.fence == ours.fence {
        true => Ok(()),
        false => Err(StoreErrorKind::Fenced { ours: ours.fence, found: guard.fence }),
    }
}

/// Where a lock of the system decides there is no lease to extend; the store must still be ours.
async fn holds(conn: &mut Conn, ours: Ownership) -> Outcome<()> {
    still_ours(&read_guard(conn.row(GUARD, &[]).await?)?, ours)
}

/// Opens the transaction and writes everything but the head.
async fn fill(conn: &mut Conn, ours: Ownership, batch: &Batch) -> Outcome<Trace> {
    let guard = begin(conn).await?;
    still_ours(&guard, ours)?;
    expect_index(conn, batch).await?;
    let (seq, hash) = write_events(conn, &guard, batch).await?;
    apply_all(conn, batch).await?;
    let fresh = batch.events.len();
    Ok(Trace { count: batch.expect_index + fresh as i64, fresh, seq, hash, writes: guard.writes + 1 })
}

/// Writes the new head and commits.
async fn keep(conn: &mut Conn, trace: &Trace) -> Outcome<()> {
    let sql = "UPDATE head SET seq = $1, hash = $2, writes = $3 WHERE id = 1";
    conn.commit_after(sql, args![trace.seq, &trace.hash, trace.writes]).await
}

async fn expect_index(conn: &mut Conn, batch: &Batch) -> Outcome<()> {
    if batch.round.is_empty() {
        return Ok(());
    }
    let sql = "SELECT COALESCE(MAX(\"index\") + 1, 0) FROM events WHERE round = $1";
    let row = conn.row(sql, args![&batch.round]).await?;
    let found: i64 = row.map_or(Ok(0), |row| row.get(0))?;
    if found == batch.expect_index {
        return Ok(());
    }
    let seen = batch.expect_index;
    Err(StoreErrorKind::Conflict(format!("the round has {found} events, the writer has seen {seen}")))
}

/// Appends the events to the chain and returns its new end.
async fn write_events(conn: &mut Conn, guard: &Guard, batch: &Batch) -> Outcome<(i64, String)> {
    static INSERT: LazyLock<String> = LazyLock::new(insert_sql::<StoredEvent>);
    let (mut seq, mut hash) = (guard.seq, guard.hash.clone());
    for (index, new) in (batch.expect_index..).zip(&batch.events) {
        let mut event = StoredEvent {
            seq: seq + 1,
            round: batch.round.clone(),
            index,
            at_ms: batch.at_ms,
            kind: new.kind.clone(),
            body: new.body.clone(),
            hash: String::new(),
        };
        event.hash = chain::link(&hash, &event);
        conn.exec(INSERT.as_str(), &event.args()).await.map_err(|error| match error {
            // The numbers come from the head, so an event that is there already means the head is wrong.
            StoreErrorKind::Invalid(why) if why.to_lowercase().contains("unique") => {
                StoreErrorKind::Corrupt(format!("the journal is longer than its head says: {why}"))
            }
            error => error,
        })?;
        (seq, hash) = (event.seq, event.hash);
    }
    Ok((seq, hash))
}

/// The changes in their order; neighbours of the kinds that come by the thousand go together.
async fn apply_all(conn: &mut Conn, batch: &Batch) -> Outcome<()> {
    for run in batch.changes.chunk_by(|one, other| std::mem::discriminant(one) == std::mem::discriminant(other)) {
        match run {
            [Change::Schedule(_), ..] => {
                let rows: Vec<_> = run.iter().filter_map(Change::schedule).collect();
                time::put_schedules(conn, &rows).await?;
            }
            [Change::LoopFile(_), ..] => {
                let rows: Vec<_> = run.iter().filter_map(Change::loop_file).collect();
                time::put_loop_files(conn, &rows).await?;
            }
            [Change::Receipt(_), ..] => {
                let rows: Vec<_> = run.iter().filter_map(Change::receipt).collect();
                time::put_receipts(conn, &rows).await?;
            }
            run => {
                for change in run {
                    apply(conn, batch, change).await?;
                }
            }
        }
    }
    Ok(())
}

async fn apply(conn: &mut Conn, batch: &Batch, change: &Change) -> Outcome<()> {
    match change {
        Change::Round(row) => put_round(conn, row).await,
        Change::Outbox(row) => put(conn, row).await,
        Change::Inbox(row) => put(conn, row).await,
        Change::InboxClosed { id } => close_question(conn, id, batch.at_ms).await,
        Change::Item(row) => put(conn, row).await,
        Change::Spend(row) => reserve::add_spend(conn, row).await,
        Change::Reserve(wanted) => reserve::reserve(conn, wanted).await,
        Change::ItemSpend(row) => reserve::add_item_spend(conn, row).await,
        Change::Ledger(row) => insert(conn, row).await,
        Change::Raise(row) => insert(conn, row).await,
        Change::Stats(row) => add_stats(conn, row).await,
        Change::ItemGone { repo, loop_name, key } => {
            time::drop_of_loop::<ItemRow>(conn, repo, loop_name, key.as_deref()).await
        }
        Change::Schedule(row) => time::put_schedules(conn, &[row]).await,
        Change::Mark(row) => time::raise_mark(conn, row).await,
        Change::LoopFile(row) => time::put_loop_files(conn, &[row]).await,
        Change::Receipt(row) => time::put_receipts(conn, &[row]).await,
        Change::Signal(row) => time::put_signal(conn, row, Twice::Same).await,
        Change::NewSignal(row) => time::put_signal(conn, row, Twice::Conflict).await,
        Change::SignalTaken { repo, loop_name, key } => {
            time::take_signal(conn, [repo, loop_name, key], batch.at_ms).await
        }
        Change::Flag(row) => put(conn, row).await,
        Change::FlagGone { name } => time::drop_flag(conn, name).await,
        Change::Memory(row) => put(conn, row).await,
        Change::MemoryGone { repo, loop_name, key } => {
            time::drop_of_loop::<MemoryRow>(conn, repo, loop_name, key.as_deref()).await
        }
        Change::MemoryKept { repo, loop_name, most } => time::cap_memory(conn, repo, loop_name, i64::from(*most)).await,
        Change::Prune { before, limit } => time::prune(conn, *before, batch.at_ms, i64::from(*limit)).await,
    }
}

/// A row that must not be there yet: what was spent once is written once.
async fn insert<T: Table>(conn: &mut Conn, row: &T) -> Outcome<()> {
    conn.exec(insert_sql::<T>(), &row.args()).await.map(drop)
}

async fn put<T: Table>(conn: &mut Conn, row: &T) -> Outcome<()> {
    conn.exec(T::upsert(), &row.args()).await.map(drop)
}

/// A round whose occurrence belongs to another round is refused by name: once per occurrence.
/// It is asked before, because PostgreSQL answers nothing more after a failed statement.
async fn put_round(conn: &mut Conn, row: &RoundRow) -> Outcome<()> {
    let other = conn
        .row(
            "SELECT id FROM rounds WHERE repo = $1 AND loop_name = $2 AND occurrence = $3 AND id <> $4",
            args![&row.repo, &row.loop_name, &row.occurrence, &row.id],
        )
        .await?;
    match other {
        Some(other) => Err(StoreErrorKind::Occurrence { round: other.get(0)? }),
        None => put(conn, row).await,
    }
}

async fn close_question(conn: &mut Conn, id: &str, at_ms: i64) -> Outcome<()> {
    let sql = "UPDATE inbox SET closed_ms = $1 WHERE id = $2 AND closed_ms IS NULL";
    match conn.exec(sql, args![at_ms, id]).await? {
        0 => Err(StoreErrorKind::Conflict(format!("inbox item `{id}` is not open"))),
        _ => Ok(()),
    }
}

async fn add_stats(conn: &mut Conn, row: &StatsChange) -> Outcome<()> {
    static ADD: LazyLock<String> = LazyLock::new(|| {
        let sets = StatsChange::COLUMNS[2..].iter().map(|c| match c.starts_with("last_") {
            true => format!("{c} = COALESCE(excluded.{c}, loops.{c})"),
            false => format!("{c} = loops.{c} + excluded.{c}"),
        });
        let sets: Vec<_> = sets.collect();
        let insert = insert_sql::<StatsChange>();
        format!("{insert} ON CONFLICT (repo, loop_name) DO UPDATE SET {}", sets.join(", "))
    });
    conn.exec(ADD.as_str(), &row.args()).await.map(drop)
}
