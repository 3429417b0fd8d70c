//! The reads of the store, each answered from an index, and the implementation of the trait. Nothing here writes.

use super::conn::{SqlArg, SqlColumn as _, SqlResult, SqlRow, args};
use super::error::{ErrorContext as _, StoreError, StoreErrorKind};
use super::lease::RoundLease;
use super::money::{CostRow, CostsQuery, LedgerRow, RaiseRow, SpendChange, SpendRow, SpendScope};
use super::open::SqlStore;
use super::process::ProcessRow;
use super::reserve;
use super::rows::{
    InboxQuery, InboxRow, ItemRow, LoopRow, OutboxRow, RoundRow, RoundsFilter, RoundsQuery, SqlTable, StoreBatch,
    StoredEvent, select,
};
use super::sqlite::SqliteAccess;
use super::time::{
    self, AgedRows, FlagRow, LoopFileRow, MemoryRow, ReceiptRow, ReceiptsQuery, RetentionCutoff, ScheduleRow, SignalRow,
};
use super::verify::{LEDGER_VERSION, SHARED_VERSION, TIME_VERSION, VerifyReport};
use super::{Store, StoreFuture};
use std::path::Path;

/// The most rows one page may have.
const PAGE_MAX: u32 = 10_000;
/// The number of schedules per read: a row of the database is many times as large as ours.
const SCHEDULES_PAGE: i64 = 1_000;

impl SqlStore {
    /// Runs one query on the connection for reading. The connection is taken out while it is in use, and kept only if
    /// it did not fail.
    async fn fetch<T>(
        &self,
        what: &str,
        sql: String,
        args: &[SqlArg<'_>],
        read: fn(&SqlRow) -> SqlResult<T>,
    ) -> Result<Vec<T>, StoreError> {
        let doing = || format!("read {what} from store `{}`", self.location.name());
        let mut slot = self.reader.lock().await;
        let mut conn = match slot.take() {
            Some(conn) => conn,
            None => self.location.connect(SqliteAccess::Read).await.during(doing)?,
        };
        let answer = conn.rows(sql, args).await;
        if !matches!(answer, Err(StoreErrorKind::Io(_))) {
            *slot = Some(conn);
        }
        answer.and_then(|rows| rows.iter().map(read).collect()).during(doing)
    }

    /// Whether the store has reached a version: a reader may open a store that was not migrated yet.
    async fn is_at(&self, version: i64) -> Result<bool, StoreError> {
        if self.instance.is_some() {
            return Ok(true);
        }
        let sql = "SELECT schema_version FROM meta WHERE id = 1".to_owned();
        let found = self.fetch("the version", sql, &[], |row| row.get::<i64>(0)).await?;
        Ok(found.first().is_some_and(|found| *found >= version))
    }

    /// Like `fetch`, for tables of money, which a store of an earlier version does not have.
    async fn fetch_money<T>(
        &self,
        what: &str,
        sql: String,
        args: &[SqlArg<'_>],
        read: fn(&SqlRow) -> SqlResult<T>,
    ) -> Result<Vec<T>, StoreError> {
        match self.is_at(LEDGER_VERSION).await? {
            true => self.fetch(what, sql, args, read).await,
            false => Ok(Vec::new()),
        }
    }

    /// All rows of a table that came with schema version 3.
    async fn timed<T: SqlTable>(&self, rest: &str, args: &[SqlArg<'_>]) -> Result<Vec<T>, StoreError> {
        match self.is_at(TIME_VERSION).await? {
            true => self.all(rest, args).await,
            false => Ok(Vec::new()),
        }
    }

    async fn all_schedules(&self) -> Result<Vec<ScheduleRow>, StoreError> {
        let mut all: Vec<ScheduleRow> = Vec::new();
        loop {
            let (repo, loop_name) = all.last().map_or(("", ""), |row| (row.repo.as_str(), row.loop_name.as_str()));
            let page = self.timed(time::SCHEDULES, args![repo, loop_name, SCHEDULES_PAGE]).await?;
            let is_last = (page.len() as i64) < SCHEDULES_PAGE;
            all.extend(page);
            if is_last {
                return Ok(all);
            }
        }
    }

    async fn all<T: SqlTable>(&self, rest: &str, args: &[SqlArg<'_>]) -> Result<Vec<T>, StoreError> {
        self.fetch(T::NAME, select::<T>(rest), args, T::read).await
    }

    async fn one<T: SqlTable>(&self, rest: &str, args: &[SqlArg<'_>]) -> Result<Option<T>, StoreError> {
        Ok(self.all::<T>(rest, args).await?.pop())
    }
}

fn page(limit: u32) -> i64 {
    i64::from(limit.min(PAGE_MAX))
}

/// The `WHERE … LIMIT` of a page of rounds with its values.
pub(super) fn rounds_page(query: &RoundsQuery) -> (String, Vec<SqlArg<'_>>) {
    let mut args = Vec::new();
    let mut wheres = Vec::new();
    for (column, value) in [("repo", &query.repo), ("loop_name", &query.loop_name)] {
        if let Some(value) = value {
            args.push(value.arg());
            // Open rounds are few and have an index of their own; without the empty text SQLite would walk the whole
            // history of the repository or the loop.
            let plain = if query.which == RoundsFilter::Open { " || ''" } else { "" };
            wheres.push(format!("{column}{plain} = ${}", args.len()));
        }
    }
    if query.which == RoundsFilter::Open {
        wheres.push("ended_ms IS NULL".into());
    }
    if let Some((started_ms, id)) = &query.before {
        args.extend([started_ms.arg(), id.arg()]);
        wheres.push(format!("(started_ms, id) < (${}, ${})", args.len() - 1, args.len()));
    }
    let wheres = match wheres.is_empty() {
        true => String::new(),
        false => format!("WHERE {} ", wheres.join(" AND ")),
    };
    args.push(SqlArg::from(page(query.limit)));
    (format!("{wheres}ORDER BY started_ms DESC, id DESC LIMIT ${}", args.len()), args)
}

/// The `WHERE` for the first events of this many rounds.
pub(super) fn first_events(rounds: usize) -> String {
    let holes: Vec<_> = (1..=rounds).map(|n| format!("${n}")).collect();
    format!("WHERE round IN ({}) AND \"index\" = 0", holes.join(", "))
}

pub(super) const OPEN_ROUNDS: &str = "WHERE ended_ms IS NULL ORDER BY started_ms, id";
pub(super) const OUTBOX_PENDING: &str =
    "WHERE state IN ('staged', 'claimed', 'in-doubt') ORDER BY updated_ms, id LIMIT $1";
pub(super) const INBOX_OPEN: &str = "WHERE closed_ms IS NULL ORDER BY created_ms, id LIMIT $1";
pub(super) const INBOX_ALL: &str = "ORDER BY created_ms, id LIMIT $1";
pub(super) const OUTBOX: &str = "WHERE round = $1 ORDER BY position";
pub(super) const ITEMS: &str = "WHERE repo = $1 AND loop_name = $2 ORDER BY updated_ms DESC LIMIT $3";
pub(super) const LOOPS: &str = "ORDER BY repo, loop_name";

impl Store for SqlStore {
    fn append(&self, batch: StoreBatch) -> StoreFuture<'_, i64> {
        Box::pin(self.write(batch))
    }

    fn renew(&self) -> StoreFuture<'_, ()> {
        Box::pin(self.extend_lease())
    }

    fn release<'a>(&'a self, name: &'a str) -> StoreFuture<'a, ()> {
        Box::pin(self.give_back_lease(name))
    }

    fn leases(&self) -> StoreFuture<'_, Vec<RoundLease>> {
        Box::pin(async move {
            match self.is_at(SHARED_VERSION).await? {
                true => self.held_leases().await,
                false => Ok(Vec::new()),
            }
        })
    }

    fn others(&self) -> StoreFuture<'_, Vec<ProcessRow>> {
        Box::pin(async move {
            match self.is_at(SHARED_VERSION).await? {
                true => self.living_others().await,
                false => Ok(Vec::new()),
            }
        })
    }

    fn close(&self) -> StoreFuture<'_, ()> {
        Box::pin(self.release())
    }

    fn events<'a>(&'a self, round: &'a str) -> StoreFuture<'a, Vec<StoredEvent>> {
        Box::pin(async move { self.all("WHERE round = $1 ORDER BY \"index\"", args![round]).await })
    }

    fn first_events<'a>(&'a self, rounds: &'a [String]) -> StoreFuture<'a, Vec<StoredEvent>> {
        Box::pin(async move {
            let rounds = &rounds[..rounds.len().min(PAGE_MAX as usize)];
            if rounds.is_empty() {
                return Ok(Vec::new());
            }
            let args: Vec<_> = rounds.iter().map(|round| round.arg()).collect();
            self.all(&first_events(rounds.len()), &args).await
        })
    }

    fn round<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<RoundRow>> {
        Box::pin(async move { self.one("WHERE id = $1", args![id]).await })
    }

    fn rounds_like<'a>(&'a self, prefix: &'a str) -> StoreFuture<'a, Vec<String>> {
        Box::pin(async move {
            let end = format!("{prefix}\u{10ffff}");
            let sql = "SELECT id FROM rounds WHERE id >= $1 AND id < $2 ORDER BY id LIMIT 10";
            self.fetch("round ids", sql.into(), args![prefix, &end], |row| row.get(0)).await
        })
    }

    fn rounds(&self, query: RoundsQuery) -> StoreFuture<'_, Vec<RoundRow>> {
        Box::pin(async move {
            let (rest, args) = rounds_page(&query);
            self.all(&rest, &args).await
        })
    }

    fn open_rounds(&self) -> StoreFuture<'_, Vec<RoundRow>> {
        Box::pin(self.all(OPEN_ROUNDS, &[]))
    }

    fn outbox<'a>(&'a self, round: &'a str) -> StoreFuture<'a, Vec<OutboxRow>> {
        Box::pin(async move { self.all(OUTBOX, args![round]).await })
    }

    fn outbox_pending(&self, limit: u32) -> StoreFuture<'_, Vec<OutboxRow>> {
        Box::pin(async move { self.all(OUTBOX_PENDING, args![page(limit)]).await })
    }

    fn inbox(&self, query: InboxQuery) -> StoreFuture<'_, Vec<InboxRow>> {
        Box::pin(async move {
            match query {
                InboxQuery::Open(limit) => self.all(INBOX_OPEN, args![page(limit)]).await,
                InboxQuery::All(limit) => self.all(INBOX_ALL, args![page(limit)]).await,
            }
        })
    }

    fn inbox_item<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<InboxRow>> {
        Box::pin(async move { self.one("WHERE id = $1", args![id]).await })
    }

    fn item<'a>(&'a self, repo: &'a str, loop_name: &'a str, key: &'a str) -> StoreFuture<'a, Option<ItemRow>> {
        let rest = "WHERE repo = $1 AND loop_name = $2 AND \"key\" = $3";
        Box::pin(async move { self.one(rest, args![repo, loop_name, key]).await })
    }

    fn items<'a>(&'a self, repo: &'a str, loop_name: &'a str, limit: u32) -> StoreFuture<'a, Vec<ItemRow>> {
        Box::pin(async move { self.all(ITEMS, args![repo, loop_name, page(limit)]).await })
    }

    fn loops(&self) -> StoreFuture<'_, Vec<LoopRow>> {
        Box::pin(self.all(LOOPS, &[]))
    }

    fn loop_row<'a>(&'a self, repo: &'a str, loop_name: &'a str) -> StoreFuture<'a, Option<LoopRow>> {
        let rest = "WHERE repo = $1 AND loop_name = $2";
        Box::pin(async move { self.one(rest, args![repo, loop_name]).await })
    }

    fn spend<'a>(
        &'a self,
        scope: SpendScope,
        repo: &'a str,
        loop_name: &'a str,
        day: &'a str,
    ) -> StoreFuture<'a, SpendRow> {
        Box::pin(async move {
            let span = reserve::span(scope, day);
            let (sql, values) = reserve::spend_sql(scope);
            let args = &args![&span.0, &span.1, repo, loop_name][..values];
            let mut rows = self.fetch("spend", sql, args, reserve::read_spend).await?;
            Ok(rows.pop().unwrap_or_default())
        })
    }

    fn item_spend<'a>(&'a self, repo: &'a str, loop_name: &'a str, item: &'a str) -> StoreFuture<'a, SpendRow> {
        Box::pin(async move {
            let sql = reserve::ITEM_SPEND.to_owned();
            let mut rows =
                self.fetch_money("item spend", sql, args![repo, loop_name, item], reserve::read_spend).await?;
            Ok(rows.pop().unwrap_or_default())
        })
    }

    fn raises<'a>(&'a self, day: &'a str) -> StoreFuture<'a, Vec<RaiseRow>> {
        Box::pin(async move {
            let sql = select::<RaiseRow>("WHERE day = $1 ORDER BY at_ms, id");
            self.fetch_money("raises", sql, args![day], RaiseRow::read).await
        })
    }

    fn raised<'a>(
        &'a self,
        repo: &'a str,
        loop_name: &'a str,
        day: &'a str,
        round: &'a str,
    ) -> StoreFuture<'a, (i64, i64)> {
        Box::pin(async move {
            let args = args![repo, loop_name, day, round];
            let mut rows = self.fetch_money("raises", reserve::RAISED.to_owned(), args, reserve::read_raised).await?;
            Ok(rows.pop().unwrap_or_default())
        })
    }

    fn costs(&self, query: CostsQuery) -> StoreFuture<'_, Vec<CostRow>> {
        Box::pin(async move {
            let (sql, args) = super::money::costs_sql(&query);
            self.fetch_money("costs", sql, &args, CostRow::read).await
        })
    }

    fn ledger<'a>(&'a self, round: &'a str) -> StoreFuture<'a, Vec<LedgerRow>> {
        Box::pin(async move {
            let sql = select::<LedgerRow>("WHERE round = $1 ORDER BY start, model");
            self.fetch_money("ledger", sql, args![round], LedgerRow::read).await
        })
    }

    fn spends<'a>(&'a self, day: &'a str) -> StoreFuture<'a, Vec<SpendChange>> {
        Box::pin(async move { self.all("WHERE day = $1 ORDER BY repo, loop_name", args![day]).await })
    }

    fn schedules(&self) -> StoreFuture<'_, Vec<ScheduleRow>> {
        Box::pin(self.all_schedules())
    }

    fn schedule<'a>(&'a self, repo: &'a str, loop_name: &'a str) -> StoreFuture<'a, Option<ScheduleRow>> {
        let rest = "WHERE repo = $1 AND loop_name = $2";
        Box::pin(async move { Ok(self.timed(rest, args![repo, loop_name]).await?.pop()) })
    }

    fn receipts(&self, query: ReceiptsQuery) -> StoreFuture<'_, Vec<ReceiptRow>> {
        Box::pin(async move {
            let (rest, args) = time::receipts_page(&query, page(query.limit));
            self.timed(&rest, &args).await
        })
    }

    fn receipt<'a>(
        &'a self,
        repo: &'a str,
        loop_name: &'a str,
        occurrence: &'a str,
    ) -> StoreFuture<'a, Option<ReceiptRow>> {
        let rest = "WHERE repo = $1 AND loop_name = $2 AND occurrence = $3";
        Box::pin(async move { Ok(self.timed(rest, args![repo, loop_name, occurrence]).await?.pop()) })
    }

    fn pending_signals(&self, limit: u32) -> StoreFuture<'_, Vec<SignalRow>> {
        Box::pin(async move { self.timed(time::SIGNALS_PENDING, args![page(limit)]).await })
    }

    fn signal<'a>(&'a self, repo: &'a str, loop_name: &'a str, key: &'a str) -> StoreFuture<'a, Option<SignalRow>> {
        let rest = "WHERE repo = $1 AND loop_name = $2 AND \"key\" = $3";
        Box::pin(async move { Ok(self.timed(rest, args![repo, loop_name, key]).await?.pop()) })
    }

    fn has_signal<'a>(&'a self, repo: &'a str, loop_name: &'a str, prefix: &'a str) -> StoreFuture<'a, bool> {
        // Compared by characters and not by order, which depends on a database's collation.
        let rest = "WHERE repo = $1 AND loop_name = $2 AND substr(\"key\", 1, length($3)) = $4 LIMIT 1";
        Box::pin(
            async move { Ok(!self.timed::<SignalRow>(rest, args![repo, loop_name, prefix, prefix]).await?.is_empty()) },
        )
    }

    fn loop_files<'a>(&'a self, repo: &'a str, file: Option<&'a str>) -> StoreFuture<'a, Vec<LoopFileRow>> {
        Box::pin(async move {
            match file {
                Some(file) => self.all("WHERE repo = $1 AND file = $2", args![repo, file]).await,
                None => self.all(time::LOOP_FILES, args![repo]).await,
            }
        })
    }

    fn flags(&self) -> StoreFuture<'_, Vec<FlagRow>> {
        Box::pin(self.timed(time::FLAGS, &[]))
    }

    fn memory<'a>(&'a self, repo: &'a str, loop_name: &'a str) -> StoreFuture<'a, Vec<MemoryRow>> {
        Box::pin(async move { self.timed(time::MEMORY, args![repo, loop_name, page(PAGE_MAX)]).await })
    }

    fn aged(&self, before: RetentionCutoff, now_ms: i64) -> StoreFuture<'_, AgedRows> {
        Box::pin(async move {
            if !self.is_at(TIME_VERSION).await? {
                return Ok(AgedRows::default());
            }
            let args = args![before.receipts_ms, before.signals_ms, now_ms];
            Ok(self.fetch("what is old", time::aged_sql(), args, time::read_aged).await?.pop().unwrap_or_default())
        })
    }

    fn last_ms(&self) -> StoreFuture<'_, Option<i64>> {
        Box::pin(async move {
            if !self.is_at(TIME_VERSION).await? {
                return Ok(None);
            }
            let rows = self.fetch("the latest moment", time::LAST_MS.to_owned(), &[], |row| row.get(0)).await?;
            Ok(rows.into_iter().next().flatten())
        })
    }

    fn tail(&self, after_seq: i64, limit: u32) -> StoreFuture<'_, Vec<StoredEvent>> {
        Box::pin(async move { self.all("WHERE seq > $1 ORDER BY seq LIMIT $2", args![after_seq, page(limit)]).await })
    }

    fn verify(&self) -> StoreFuture<'_, VerifyReport> {
        Box::pin(self.check_all())
    }

    fn copy_into<'a>(&'a self, path: &'a Path) -> StoreFuture<'a, ()> {
        let doing = move || format!("copy store `{}` into `{}`", self.location.name(), path.display());
        Box::pin(async move { self.location.copy_into(path).await.during(doing) })
    }
}
