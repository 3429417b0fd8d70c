//! The only path for writes: a batch of events and rows in one transaction, guarded by the fencing numbers of its
//! leases. The round driver decides which rows belong to an event.

use std::collections::{HashMap, HashSet};
use std::future::poll_fn;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::MutexGuard;

use crate::clock;

use super::autonomy;
use super::chain;
use super::conn::{SqlConnection, SqlResult, args};
use super::error::{ErrorContext as _, StoreError, StoreErrorKind};
use super::hints;
use super::lease::{self, DISPATCHER, LeaseHolder};
use super::offers;
use super::open::{Store, StoreLocation, StoreWriter};
use super::patience::OutageWait;
use super::process;
use super::questions;
use super::rename;
use super::requests;
use super::reserve;
use super::rows::{
    Checkpoint, ItemRow, RoundRow, RowChange, SqlTable, StatsChange, StoreBatch, StoredEvent, insert_sql, replaces,
};
use super::sqlite::{SqliteAccess, soon};
use super::tasks;
use super::time::{self, MemoryRow};
use super::workers;
use super::workflows;

/// The largest body of an event or an item.
pub(crate) const BODY_MAX: usize = 1 << 20;
/// The most events and changes in one batch.
const BATCH_MAX: usize = 10_000;
/// The most events a round may have; reading a round's history is bounded by it.
const ROUND_EVENTS_MAX: i64 = 100_000;
/// The largest amount in one change: a billion dollars in millionths. Sums then always fit into 64 bits.
const AMOUNT_MAX: i64 = 1_000_000_000_000_000;

/// The longest time for a renewal; the next one tries again.
const RENEWAL: Duration = Duration::from_secs(10);

/// The traces of a committed transaction, to find out after a lost answer whether it was committed.
struct Trace {
    /// The number of events the round then has.
    count: i64,
    /// Its last event, by number and hash; `None` when there are only rows.
    event: Option<(i64, String)>,
    /// The number of this process's writes without events after it.
    writes: i64,
    journal: Journal,
    /// Leases that were taken, with their fencing numbers, and leases that were released.
    taken: Vec<(String, i64)>,
    released: Vec<String>,
}

impl Store {
    /// Writes the events and the changes of one step in one transaction and returns the number of events that the round
    /// then has. Durable when it returns. On an error nothing of the batch was written, or (only after a lost
    /// connection, [`StoreErrorKind::Io`]) all of it. It is the only way to write rows.
    pub async fn append(&self, batch: StoreBatch) -> Result<i64, StoreError> {
        let doing = || match batch.round.as_str() {
            "" => "write rows".to_owned(),
            round => format!("append to round `{round}`"),
        };
        let instance = self.instance().during(doing)?;
        within_limits(&batch).during(doing)?;
        let mut outage = OutageWait::of(&self.location);
        loop {
            // Boxed, as the future of a read is: they are the deepest calls of a round, whose stack is limited.
            let written = match self.lock_writer().await {
                Ok(mut writer) => {
                    let written = Box::pin(self.write_locked(&mut writer, instance, &batch, &mut outage)).await;
                    self.contact.note(&written);
                    written
                }
                Err(late) => Err(late),
            };
            match written {
                Ok(count) => {
                    outage.end();
                    return Ok(count);
                }
                Err(kind) if outage.goes_on(&kind).await => {}
                Err(kind) => return Err(kind.on_disk_of(&self.location.name())).during(doing),
            }
        }
    }

    async fn write_locked(
        &self,
        writer: &mut StoreWriter,
        instance: &str,
        batch: &StoreBatch,
        outage: &mut OutageWait,
    ) -> SqlResult<i64> {
        let mut conn = self.writing(writer).await?;
        let looks = batch
            .changes
            .iter()
            .any(|change| change.lease().is_some() || change.is_scheduling() || change.renamed().is_some());
        let mut gone = if looks { self.gone(&mut conn, instance).await? } else { HashSet::new() };
        let mut filled = fill(&mut conn, writer, instance, &gone, batch).await;
        if let Err(StoreErrorKind::Held(_) | StoreErrorKind::Occupied(_)) = &filled
            && self.go_soon(&mut conn, instance, &mut gone).await?
        {
            filled = fill(&mut conn, writer, instance, &gone, batch).await;
        }
        match filled {
            Ok(trace) => {
                // No other write has this number, whatever becomes of this one.
                writer.writes = trace.writes;
                let Err(error) = commit_head(&mut conn, &trace).await else {
                    writer.conn = Some(conn);
                    return Ok(writer.kept(trace));
                };
                // Closing rolls an open transaction back. That may fail, so the transaction is read back.
                let _ = conn.close().await;
                if !error.costs_connection() {
                    return Err(error);
                }
                self.verify_lost_commit(writer, instance, trace, (error, outage)).await
            }
            Err(error) => {
                // A connection that failed to roll back is not used again; closing it rolls back too.
                if conn.rollback().await.is_ok() && !error.costs_connection() {
                    writer.conn = Some(conn);
                }
                Err(error)
            }
        }
    }

    /// The processes with leases that are gone.
    async fn gone(&self, conn: &mut SqlConnection, instance: &str) -> SqlResult<HashSet<String>> {
        let expiry = process::expiry(conn, &self.contact, self.lease).await?;
        let held = lease::held(conn, instance, &HashSet::new()).await?;
        let mut gone = HashSet::new();
        for process in held.into_iter().filter_map(|lease| lease.process) {
            if process.instance != instance && process::is_gone(&self.location, &process, &expiry)? {
                gone.insert(process.instance);
            }
        }
        Ok(gone)
    }

    /// Waits briefly for processes that seemed alive to be gone: a process that was killed may just be dying. Rolls the
    /// refused transaction back, and returns whether any process is gone.
    async fn go_soon(&self, conn: &mut SqlConnection, instance: &str, gone: &mut HashSet<String>) -> SqlResult<bool> {
        conn.rollback().await?;
        let StoreLocation::Sqlite(place) = &self.location else { return Ok(false) };
        let held = lease::held(conn, instance, gone).await?;
        let others = held.into_iter().filter(|lease| lease.holder == LeaseHolder::Other);
        let others: HashSet<_> = others.filter_map(|lease| lease.process).map(|process| process.instance).collect();
        let any_free = || others.iter().map(|other| place.is_free(other)).find(|free| !matches!(free, Ok(false)));
        if !soon(|| any_free().unwrap_or(Ok(false))).await? {
            return Ok(false);
        }
        *gone = self.gone(conn, instance).await?;
        Ok(true)
    }

    /// The right to write, which one caller at a time has. A round whose commit's answer was lost may keep it for
    /// minutes; the others wait no longer than for an answer of the server, and then treat it as one that is away.
    pub(super) async fn lock_writer(&self) -> SqlResult<MutexGuard<'_, StoreWriter>> {
        let StoreLocation::Postgres(place) = &self.location else { return Ok(self.writer.lock().await) };
        let locked = tokio::time::timeout(place.answer(), self.writer.lock()).await;
        locked.map_err(|_| StoreErrorKind::Away("another write of this process still waits for the server".to_owned()))
    }

    /// The connection for writing; a new one if the last one failed.
    async fn writing(&self, writer: &mut StoreWriter) -> SqlResult<SqlConnection> {
        if writer.closed {
            return Err(StoreErrorKind::Closed);
        }
        self.location.ensure_unchanged()?;
        match writer.conn.take() {
            Some(conn) => Ok(conn),
            None => self.connect(SqliteAccess::Write).await,
        }
    }

    /// A commit whose answer was lost is read back before it is reported as failed. Beginning the new transaction waits
    /// for the old one's locks, so the old one has ended either way. Nothing else is written meanwhile.
    async fn verify_lost_commit(
        &self,
        writer: &mut StoreWriter,
        instance: &str,
        trace: Trace,
        (error, outage): (StoreErrorKind, &mut OutageWait),
    ) -> SqlResult<i64> {
        loop {
            let kept = self.was_kept(instance, &trace).await;
            self.contact.note(&kept);
            match kept {
                Ok(true) => return Ok(writer.kept(trace)),
                Ok(false) => return Err(error),
                Err(away) if outage.goes_on(&away).await => {}
                Err(_) => return Err(StoreErrorKind::Io(format!("{error}; whether it was committed is unknown"))),
            }
        }
    }

    async fn was_kept(&self, instance: &str, trace: &Trace) -> SqlResult<bool> {
        let mut conn = self.connect(SqliteAccess::Write).await?;
        begin(&mut conn, i64::MAX).await?;
        let kept = match &trace.event {
            Some((seq, hash)) => {
                let row = conn.row("SELECT hash FROM events WHERE seq = $1", args![*seq]).await?;
                row.map(|row| row.get::<String>(0)).transpose()?.as_ref() == Some(hash)
            }
            // A batch without events leaves only the count of this process's writes.
            None => {
                let row = conn.row("SELECT writes FROM processes WHERE instance = $1", args![instance]).await?;
                row.map(|row| row.get::<i64>(0)).transpose()? == Some(trace.writes)
            }
        };
        conn.rollback().await?;
        Ok(kept)
    }

    /// Extends the leases of this process, if they expire, and returns the names of those that another process took
    /// meanwhile. An error does not mean that they are lost: a process continues until a write is fenced, or until it is
    /// named here.
    pub async fn renew(&self) -> Result<Vec<String>, StoreError> {
        let doing = || format!("renew the leases in `{}`", self.location.name());
        let instance = self.instance().during(doing)?;
        let mut slot = self.renewer.lock().await;
        let begun_ms = clock::boot_ms();
        let renewed = tokio::time::timeout(RENEWAL, self.renew_on(&mut slot, instance)).await;
        let renewed = renewed.unwrap_or_else(|_| Err(StoreErrorKind::Away("the server does not answer".to_owned())));
        self.contact.note(&renewed);
        if renewed.is_ok() {
            self.leased_until.store(process::lease_end(begun_ms, self.lease), Ordering::SeqCst);
        }
        renewed.during(doing)
    }

    /// Does `work` as long as the leases of this process have not ended, and returns nothing if they end before it is
    /// done. A process that was frozen for longer does not continue it when it wakes up. Leases on SQLite do not end.
    pub(crate) async fn while_leased<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let has_ended = || self.is_leased() && clock::boot_ms() >= self.leased_until.load(Ordering::SeqCst);
        tokio::select! {
            biased;
            // Checked whenever the work could continue.
            () = poll_fn(|_| if has_ended() { Poll::Ready(()) } else { Poll::Pending }) => None,
            done = work => Some(done),
        }
    }

    /// The connection is taken out while it is in use, and kept only if it did not fail.
    async fn renew_on(&self, slot: &mut Option<SqlConnection>, instance: &str) -> SqlResult<Vec<String>> {
        let mut conn = match slot.take() {
            Some(conn) => conn,
            None => self.connect(SqliteAccess::Write).await?,
        };
        let renewed = match process::extend(&mut conn, instance, self.lease).await {
            Ok(()) => self.lost_leases(&mut conn, instance).await,
            Err(error) => Err(error),
        };
        if !renewed.as_ref().is_err_and(StoreErrorKind::costs_connection) {
            *slot = Some(conn);
        }
        renewed
    }

    /// The leases of this opening that are not its own any more. While a write is under way this is unknown; that
    /// write is fenced itself.
    async fn lost_leases(&self, conn: &mut SqlConnection, instance: &str) -> SqlResult<Vec<String>> {
        let Ok(writer) = self.writer.try_lock() else { return Ok(Vec::new()) };
        let mut own = HashMap::new();
        for row in conn.rows("SELECT name, fence FROM leases WHERE instance = $1", args![instance]).await? {
            own.insert(row.get::<String>(0)?, row.get::<i64>(1)?);
        }
        let lost = writer.held.iter().filter(|(name, fence)| own.get(*name) != Some(*fence));
        Ok(lost.map(|(name, _)| name.clone()).collect())
    }

    /// Releases one lease that this opening took and still holds: a start that fails releases its lease.
    pub async fn release(&self, name: &str) -> Result<(), StoreError> {
        let doing = || format!("give `{name}` back");
        let Some(fence) = self.lock_writer().await.during(doing)?.held.remove(name) else { return Ok(()) };
        self.with_writer(doing, async |conn| lease::release(conn, name, fence).await).await
    }

    /// Runs a small transaction about leases, beside the journal, and remembers those that `held` names as this
    /// process's own. Nothing is written into a newer schema.
    pub(super) async fn leasing<T>(
        &self,
        run: impl AsyncFnOnce(&mut SqlConnection) -> SqlResult<Option<T>>,
        held: impl FnOnce(&Option<T>) -> Vec<(String, i64)>,
    ) -> SqlResult<Option<T>> {
        let mut writer = self.lock_writer().await?;
        let mut conn = self.writing(&mut writer).await?;
        let schema = writer.schema;
        let transaction = async {
            conn.begin().await?;
            ensure_known_schema(&mut conn, schema).await?;
            let answer = run(&mut conn).await?;
            conn.commit().await.map(|()| answer)
        };
        let answer = Box::pin(transaction).await;
        self.contact.note(&answer);
        match answer {
            Ok(answer) => {
                writer.conn = Some(conn);
                writer.held.extend(held(&answer));
                Ok(answer)
            }
            Err(error) => {
                // Whether it was committed is unknown only if the connection was lost; a worker looks for such claims.
                if !error.costs_connection() && conn.rollback().await.is_ok() {
                    writer.conn = Some(conn);
                }
                Err(error)
            }
        }
    }

    /// Runs single statements on the connection that writes.
    pub(super) async fn with_writer(
        &self,
        doing: impl Fn() -> String,
        run: impl AsyncFnOnce(&mut SqlConnection) -> SqlResult<()>,
    ) -> Result<(), StoreError> {
        let mut writer = self.lock_writer().await.during(&doing)?;
        let mut conn = self.writing(&mut writer).await.during(&doing)?;
        let answer = run(&mut conn).await;
        if !answer.as_ref().is_err_and(StoreErrorKind::costs_connection) {
            writer.conn = Some(conn);
        }
        answer.during(doing)
    }

    /// Releases all leases and closes the connections. Later writes return [`StoreErrorKind::Closed`]. It does all of
    /// this even if a step fails, and returns the first failure.
    pub async fn close(&self) -> Result<(), StoreError> {
        let mut writer = self.lock_writer().await.during(|| format!("close store `{}`", self.location.name()))?;
        writer.closed = true;
        // The reader first: SQLite folds its log into the database when the last connection closes, and only a
        // connection that may write can do that.
        let closed = match self.reader.lock().await.take() {
            Some(conn) => conn.close().await,
            None => Ok(()),
        };
        let renewed = match self.renewer.lock().await.take() {
            Some(conn) => conn.close().await,
            None => Ok(()),
        };
        let released = match (writer.conn.take(), self.instance.as_deref()) {
            (Some(mut conn), Some(instance)) => {
                let released = lease::release_all(&mut conn, instance).await;
                released.and(conn.close().await)
            }
            _ => Ok(()),
        };
        writer.lock = None;
        released.and(closed).and(renewed).during(|| format!("close store `{}`", self.location.name()))
    }
}

impl StoreWriter {
    /// Applies the changes of a transaction to this state, and returns the number of events that the round then has.
    fn kept(&mut self, trace: Trace) -> i64 {
        self.held.extend(trace.taken);
        self.held.retain(|name, _| !trace.released.contains(name));
        trace.count
    }
}

fn within_limits(batch: &StoreBatch) -> SqlResult<()> {
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
        RowChange::Outbox(row) => Some(&row.body),
        RowChange::Signal(row) | RowChange::NewSignal(row) => row.data.as_ref(),
        RowChange::Memory(row) => Some(&row.text),
        RowChange::LoopFile(row) => row.text.as_ref(),
        _ => None,
    });
    if batch.events.iter().map(|event| &event.body).chain(items).any(|body| body.len() > BODY_MAX) {
        return invalid(format!("a body of more than {BODY_MAX} bytes"));
    }
    let amounts = batch.changes.iter().flat_map(|change| match change {
        RowChange::Spend(s) => vec![s.reserved_micros, s.settled_micros, s.reserved_tokens, s.settled_tokens],
        RowChange::LoopSpend(s) => vec![s.reserved_micros, s.settled_micros, s.reserved_tokens, s.settled_tokens],
        RowChange::Reserve(r) => vec![r.micros, r.tokens],
        RowChange::ItemSpend(s) => vec![s.reserved_micros, s.settled_micros, s.reserved_tokens, s.settled_tokens],
        RowChange::Ledger(l) => vec![l.input, l.output, l.cache_read, l.cache_write, l.micros],
        RowChange::Raise(r) => vec![r.micros, r.tokens],
        _ => vec![],
    });
    match amounts.into_iter().find(|amount| amount.unsigned_abs() > AMOUNT_MAX as u64) {
        Some(amount) => invalid(format!("an amount of {amount}")),
        None => Ok(()),
    }
}

/// Opens the transaction and writes everything except the journal's end.
async fn fill(
    conn: &mut SqlConnection,
    writer: &StoreWriter,
    instance: &str,
    gone: &HashSet<String>,
    batch: &StoreBatch,
) -> SqlResult<Trace> {
    let mut journal = begin(conn, writer.schema).await?;
    check_fences(conn, writer, instance, gone, batch).await?;
    rename::ensure_quiet(conn, instance, gone, batch).await?;
    let last = last_event(conn, batch).await?;
    let mut taken = Vec::new();
    for request in batch.changes.iter().filter_map(RowChange::lease) {
        taken.push((request.name.clone(), lease::take(conn, instance, gone, request, batch.at_ms).await?));
    }
    let event = write_events(conn, &mut journal, last, batch).await?;
    apply_all(conn, batch).await?;
    let count = batch.expect_index + batch.events.len() as i64;
    let ends = batch.changes.contains(&RowChange::LeaseEnd);
    if let Some((_, hash)) = event.as_ref().filter(|_| batch.expect_index == 0 || ends) {
        write_checkpoint(conn, &mut journal, batch, count, hash).await?;
    }
    let mut released = Vec::new();
    let fence = taken.iter().find(|(name, _)| *name == batch.round).map(|(_, fence)| *fence);
    if let Some(fence) = fence.or_else(|| writer.held.get(&batch.round).copied()).filter(|_| ends) {
        lease::release(conn, &batch.round, fence).await?;
        released.push(batch.round.clone());
    }
    // An offered round belongs to no process until a worker takes it.
    released.extend(batch.changes.iter().filter_map(RowChange::offered).map(str::to_owned));
    let writes = writer.writes + i64::from(event.is_none());
    if event.is_none() {
        conn.exec("UPDATE processes SET writes = $1 WHERE instance = $2", args![writes, instance]).await?;
    }
    Ok(Trace { count, event, writes, journal, taken, released })
}

/// The end of the journal as locked for this transaction.
struct Journal {
    seq: i64,
    checkpoint: i64,
    hash: String,
}

/// Opens the transaction. Until it ends no other process writes: SQLite locks the whole database, PostgreSQL locks this
/// row.
///
/// A newer process may have changed the tables meanwhile. The version is read behind the lock, which a migration takes
/// too.
async fn begin(conn: &mut SqlConnection, schema: i64) -> SqlResult<Journal> {
    let sql = format!("SELECT seq, checkpoint, hash FROM journal WHERE id = 1{}", conn.dialect().lock());
    conn.begin().await?;
    let row =
        conn.row(sql, &[]).await?.ok_or_else(|| StoreErrorKind::Corrupt("the journal's end is missing".into()))?;
    let journal = Journal { seq: row.get(0)?, checkpoint: row.get(1)?, hash: row.get(2)? };
    ensure_known_schema(conn, schema).await.map(|()| journal)
}

async fn ensure_known_schema(conn: &mut SqlConnection, schema: i64) -> SqlResult<()> {
    let row = conn.row("SELECT schema_version FROM meta WHERE id = 1", &[]).await?;
    match row.ok_or_else(|| StoreErrorKind::Corrupt("the schema version is missing".into()))?.get(0)? {
        found if found > schema => Err(StoreErrorKind::Newer { found, known: schema }),
        _ => Ok(()),
    }
}

/// Writes the journal's new end and commits.
async fn commit_head(conn: &mut SqlConnection, trace: &Trace) -> SqlResult<()> {
    let Journal { seq, checkpoint, hash } = &trace.journal;
    let sql = "UPDATE journal SET seq = $1, checkpoint = $2, hash = $3 WHERE id = 1";
    conn.exec(sql, args![*seq, *checkpoint, hash]).await?;
    conn.commit().await
}

/// Refuses a batch about a round, or of the dispatcher, unless its lease still has the fencing number under which it
/// was taken.
async fn check_fences(
    conn: &mut SqlConnection,
    writer: &StoreWriter,
    instance: &str,
    gone: &HashSet<String>,
    batch: &StoreBatch,
) -> SqlResult<()> {
    let takes = |name: &str| batch.changes.iter().filter_map(RowChange::lease).any(|request| request.name == name);
    if !batch.round.is_empty() && !takes(&batch.round) {
        let (found, _) = lease::fence(conn, &batch.round).await?;
        still_ours(&batch.round, writer.held.get(&batch.round).copied().unwrap_or(0), found)?;
    }
    if !batch.changes.iter().any(RowChange::is_scheduling) || takes(DISPATCHER) {
        return Ok(());
    }
    let (found, holder) = lease::fence(conn, DISPATCHER).await?;
    match writer.held.get(DISPATCHER) {
        Some(ours) => still_ours(DISPATCHER, *ours, found),
        None if holder.is_empty() => Ok(()),
        // While another process schedules, only that process may perform a command that changes a schedule.
        None => match lease::held(conn, instance, gone).await?.into_iter().find(|lease| lease.name == DISPATCHER) {
            Some(lease) if lease.holder == LeaseHolder::Other => Err(StoreErrorKind::Held(Box::new(lease))),
            _ => Ok(()),
        },
    }
}

fn still_ours(name: &str, ours: i64, found: i64) -> SqlResult<()> {
    match ours == found {
        true => Ok(()),
        false => Err(StoreErrorKind::Fenced { name: name.to_owned(), ours, found }),
    }
}

/// The hash of the round's last event. The number of events must be the one that the writer has seen.
async fn last_event(conn: &mut SqlConnection, batch: &StoreBatch) -> SqlResult<String> {
    if batch.round.is_empty() {
        return Ok(chain::GENESIS.to_owned());
    }
    let sql = "SELECT \"index\" + 1, hash FROM events WHERE round = $1 ORDER BY \"index\" DESC LIMIT 1";
    let row = conn.row(sql, args![&batch.round]).await?;
    let (found, hash): (i64, String) = match row {
        Some(row) => (row.get(0)?, row.get(1)?),
        None => (0, chain::GENESIS.to_owned()),
    };
    if found == batch.expect_index {
        return Ok(hash);
    }
    let seen = batch.expect_index;
    Err(StoreErrorKind::Conflict(format!("the round has {found} events, the writer has seen {seen}")))
}

/// Appends the events to their round's chain, and returns the last one's number and hash.
async fn write_events(
    conn: &mut SqlConnection,
    journal: &mut Journal,
    mut hash: String,
    batch: &StoreBatch,
) -> SqlResult<Option<(i64, String)>> {
    for (index, new) in (batch.expect_index..).zip(&batch.events) {
        let mut event = StoredEvent {
            seq: journal.seq + 1,
            round: batch.round.clone(),
            index,
            at_ms: batch.at_ms,
            kind: new.kind.clone(),
            body: new.body.clone(),
            hash: String::new(),
        };
        event.hash = chain::link(&hash, &event);
        insert(conn, &event).await.map_err(|error| match error {
            // The numbers come from the journal's end, so an event with this number means that the recorded end is
            // wrong.
            StoreErrorKind::Invalid(why) if why.to_lowercase().contains("unique") => {
                StoreErrorKind::Corrupt(format!("the journal is longer than its head says: {why}"))
            }
            error => error,
        })?;
        (journal.seq, hash) = (event.seq, event.hash);
    }
    Ok((!batch.events.is_empty()).then_some((journal.seq, hash)))
}

async fn write_checkpoint(
    conn: &mut SqlConnection,
    journal: &mut Journal,
    batch: &StoreBatch,
    events: i64,
    last_hash: &str,
) -> SqlResult<()> {
    let (round, last_hash, at_ms) = (batch.round.clone(), last_hash.to_owned(), batch.at_ms);
    let number = journal.checkpoint + 1;
    let mut checkpoint = Checkpoint { number, round, events, last_hash, at_ms, hash: String::new() };
    checkpoint.hash = chain::link_checkpoint(&journal.hash, &checkpoint);
    insert(conn, &checkpoint).await?;
    (journal.checkpoint, journal.hash) = (checkpoint.number, checkpoint.hash);
    Ok(())
}

/// Applies the changes in order; neighbours of kinds that occur by the thousand share a statement.
async fn apply_all(conn: &mut SqlConnection, batch: &StoreBatch) -> SqlResult<()> {
    for run in batch.changes.chunk_by(|one, other| std::mem::discriminant(one) == std::mem::discriminant(other)) {
        match run {
            [RowChange::Schedule(_), ..] => time::put_schedules(conn, run).await?,
            [RowChange::LoopFile(_), ..] => time::put_loop_files(conn, run).await?,
            [RowChange::Receipt(_), ..] => time::put_receipts(conn, run).await?,
            run => {
                for change in run {
                    apply(conn, batch, change).await?;
                }
            }
        }
    }
    Ok(())
}

/// Writes one change. Long because it is the table of all kinds of rows.
async fn apply(conn: &mut SqlConnection, batch: &StoreBatch, change: &RowChange) -> SqlResult<()> {
    match change {
        // Leases are taken before everything else is written, and released after it.
        RowChange::Lease(_) | RowChange::LeaseEnd => Ok(()),
        // These are written with their neighbours.
        RowChange::Schedule(_) | RowChange::LoopFile(_) | RowChange::Receipt(_) => Ok(()),
        RowChange::Round(row) => put_round(conn, row).await,
        RowChange::Outbox(row) => put(conn, row).await,
        RowChange::Inbox(row) => put(conn, row).await,
        RowChange::InboxClosed { id } => close_question(conn, id, batch.at_ms).await,
        RowChange::Item(row) => put(conn, row).await,
        RowChange::Spend(row) => reserve::add_sums(conn, row).await,
        RowChange::LoopSpend(row) => reserve::add_sums(conn, row).await,
        RowChange::Reserve(wanted) => reserve::reserve(conn, wanted).await,
        RowChange::ItemSpend(row) => reserve::add_sums(conn, row).await,
        RowChange::Ledger(row) => insert(conn, row).await,
        RowChange::Raise(row) => insert(conn, row).await,
        RowChange::Stats(row) => add_stats(conn, row).await,
        RowChange::ItemGone { repo, loop_name, key } => {
            time::drop_of_loop::<ItemRow>(conn, repo, loop_name, key.as_deref()).await
        }
        RowChange::Mark(row) => time::raise_mark(conn, row).await,
        RowChange::Signal(row) => time::put_signal(conn, row).await.map(drop),
        RowChange::NewSignal(row) => match time::put_signal(conn, row).await? {
            true => Ok(()),
            false => Err(StoreErrorKind::Conflict(format!("signal `{}` is known", row.key))),
        },
        RowChange::SignalTaken { repo, loop_name, key } => {
            time::take_signal(conn, [repo, loop_name, key], batch.at_ms).await
        }
        RowChange::Flag(row) => put(conn, row).await,
        RowChange::FlagGone { name } => {
            time::drop_flag(conn, name).await?;
            hints::notify(conn).await
        }
        RowChange::Memory(row) => put(conn, row).await,
        RowChange::MemoryGone { repo, loop_name, key } => {
            time::drop_of_loop::<MemoryRow>(conn, repo, loop_name, key.as_deref()).await
        }
        RowChange::MemoryKept { repo, loop_name, most } => {
            time::cap_memory(conn, repo, loop_name, i64::from(*most)).await
        }
        RowChange::Prune { before, limit } => {
            questions::prune(conn, before.signals_ms).await?;
            time::prune(conn, *before, batch.at_ms, i64::from(*limit)).await
        }
        RowChange::NewQuestion(row) => questions::put_question(conn, row).await,
        RowChange::Question(row) => put(conn, row).await,
        RowChange::NewAnswer(row) => questions::put_answer(conn, row).await,
        RowChange::Answer(row) => put(conn, row).await,
        RowChange::Work(row) => put(conn, row).await,
        RowChange::WorkFate { id, moves, detail } => autonomy::move_fate(conn, id, *moves, detail, batch.at_ms).await,
        RowChange::LevelLog(row) => put(conn, row).await,
        RowChange::Reading(row) => put(conn, row).await,
        RowChange::Calibration(row) => put(conn, row).await,
        RowChange::NewRequest(row) => insert(conn, row).await,
        RowChange::Offer(row) => offers::put_offer(conn, row).await,
        RowChange::Worker(row) => workers::put_worker(conn, row).await,
        RowChange::WorkerState { name, state } => workers::set_state(conn, name, *state).await,
        RowChange::WorkerGone { name, instance } => workers::remove(conn, name, instance).await,
        RowChange::RequestSettled { id, state } => requests::settle(conn, id, *state).await,
        RowChange::NewTask(row) => tasks::put_task(conn, row).await,
        RowChange::Task(row) => tasks::change_task(conn, row).await,
        RowChange::Workflows(change) => workflows::apply(conn, change).await,
        RowChange::LoopRenamed { repo, from, to } => rename::rename_loop(conn, [repo, from, to]).await,
        RowChange::TaskGraph { repo, version } => tasks::change_graph(conn, repo, *version).await,
    }
}

/// Inserts a row; returns false if its key exists already.
pub(super) async fn put_new<T: SqlTable>(conn: &mut SqlConnection, row: &T) -> SqlResult<bool> {
    Ok(conn.exec(format!("{} ON CONFLICT DO NOTHING", insert_sql::<T>()), &row.args()).await? > 0)
}

/// Inserts a row that must not exist yet: each spend is written once.
async fn insert<T: SqlTable>(conn: &mut SqlConnection, row: &T) -> SqlResult<()> {
    conn.exec(insert_sql::<T>(), &row.args()).await.map(drop)
}

async fn put<T: SqlTable>(conn: &mut SqlConnection, row: &T) -> SqlResult<()> {
    conn.exec(format!("{} {}", insert_sql::<T>(), replaces::<T>()), &row.args()).await.map(drop)
}

/// A round whose occurrence belongs to another round is refused with that round's id: one round per occurrence. The
/// query comes first, because PostgreSQL answers nothing more after a failed statement.
async fn put_round(conn: &mut SqlConnection, row: &RoundRow) -> SqlResult<()> {
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

async fn close_question(conn: &mut SqlConnection, id: &str, at_ms: i64) -> SqlResult<()> {
    let sql = "UPDATE inbox SET closed_ms = $1 WHERE id = $2 AND closed_ms IS NULL";
    match conn.exec(sql, args![at_ms, id]).await? {
        0 => Err(StoreErrorKind::Conflict(format!("inbox item `{id}` is not open"))),
        _ => Ok(()),
    }
}

async fn add_stats(conn: &mut SqlConnection, row: &StatsChange) -> SqlResult<()> {
    let sets = StatsChange::COLUMNS[2..].iter().map(|c| match c.starts_with("last_") {
        true => format!("{c} = COALESCE(excluded.{c}, loops.{c})"),
        false => format!("{c} = loops.{c} + excluded.{c}"),
    });
    let (insert, sets) = (insert_sql::<StatsChange>(), sets.collect::<Vec<_>>().join(", "));
    let sql = format!("{insert} ON CONFLICT (repo, loop_name) DO UPDATE SET {sets}");
    conn.exec(sql, &row.args()).await.map(drop)
}
