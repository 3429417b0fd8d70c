//! The reads of the store, each answered from an index. Nothing here writes.

use super::Store;
use super::conn::{SqlArg, SqlColumn as _, SqlConnection, SqlResult, SqlRow, args};
use super::error::{ErrorContext as _, StoreError, StoreErrorKind};
use super::lease::{self, LeaseHolder, RoundLease};
use super::money::{self, CostRow, CostsQuery, ItemSpend, LedgerRow, LoopSpend, RaiseRow, SpendRow, SpendScope};
use super::patience::OutageWait;
use super::process::{self, LeaseExpiry, ProcessRow};
use super::questions::{self, AnswerRow, QuestionRow};
use super::reserve;
use super::rows::{
    InboxRow, ItemRow, LoopRow, OutboxRow, RoundRow, RoundsFilter, RoundsQuery, SqlTable, StoredEvent, select,
};
use super::sqlite::SqliteAccess;
use super::time::{
    self, AgedRows, FlagRow, LoopFileRow, MemoryRow, ReceiptRow, ReceiptsQuery, RetentionCutoff, ScheduleRow, SignalRow,
};
use super::verify;
use std::collections::HashSet;
use std::path::Path;

/// The most rows one page may have.
const PAGE_MAX: u32 = 10_000;
/// The number of schedules per read: a row of the database is many times as large as ours.
const SCHEDULES_PAGE: i64 = 1_000;

/// The rest of a query for the one row of a loop.
const OF_LOOP: &str = "WHERE repo = $1 AND loop_name = $2";
/// The rest of a query for the one row of a loop with a key.
const OF_KEY: &str = "WHERE repo = $1 AND loop_name = $2 AND \"key\" = $3";

/// How the reads work.
impl Store {
    /// Runs queries on the connection for reading, again if the server is away and the caller waits for it.
    pub(super) async fn with_reader<T: Default>(
        &self,
        what: &str,
        since: i64,
        run: impl AsyncFnOnce(&mut SqlConnection) -> SqlResult<T> + Clone,
    ) -> Result<T, StoreError> {
        let mut outage = OutageWait::of(&self.location);
        loop {
            let answer = Box::pin(self.read_once(since, run.clone())).await;
            self.contact.note(&answer);
            match answer {
                Err(kind) if outage.goes_on(&kind).await => {}
                answer => {
                    if answer.is_ok() {
                        outage.end();
                    }
                    return answer.during(|| format!("read {what} from store `{}`", self.location.name()));
                }
            }
        }
    }

    /// The connection is taken out while it is in use, and kept only if it did not fail. A reader may open a store that
    /// was not migrated yet: tables that came with a later version are empty then.
    async fn read_once<T: Default>(
        &self,
        since: i64,
        run: impl AsyncFnOnce(&mut SqlConnection) -> SqlResult<T>,
    ) -> SqlResult<T> {
        let mut slot = self.reader.lock().await;
        let mut conn = match slot.take() {
            Some(conn) => conn,
            None => self.connect(SqliteAccess::Read).await?,
        };
        let is_older = self.instance.is_none() && since > 1 && verify::version(&mut conn).await? < since;
        let answer = if is_older { Ok(T::default()) } else { run(&mut conn).await };
        if !answer.as_ref().is_err_and(StoreErrorKind::costs_connection) {
            *slot = Some(conn);
        }
        answer
    }

    pub(super) async fn fetch<T>(
        &self,
        (what, since): (&str, i64),
        sql: String,
        args: &[SqlArg<'_>],
        read: fn(&SqlRow) -> SqlResult<T>,
    ) -> Result<Vec<T>, StoreError> {
        let rows = async |conn: &mut SqlConnection| conn.rows(sql, args).await?.iter().map(read).collect();
        self.with_reader(what, since, rows).await
    }

    pub(super) async fn all<T: SqlTable>(&self, rest: &str, args: &[SqlArg<'_>]) -> Result<Vec<T>, StoreError> {
        self.fetch((T::NAME, T::SINCE), select::<T>(rest), args, T::read).await
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
    let (wheres, mut args) = rounds_filter(query);
    args.push(SqlArg::from(page(query.limit)));
    let mut rest = format!("{wheres}ORDER BY started_ms DESC, id DESC LIMIT ${}", args.len());
    if query.offset > 0 {
        args.push(SqlArg::from(i64::from(query.offset)));
        rest.push_str(&format!(" OFFSET ${}", args.len()));
    }
    (rest, args)
}

/// The `WHERE` of a query for rounds with its values.
fn rounds_filter(query: &RoundsQuery) -> (String, Vec<SqlArg<'_>>) {
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
    (wheres, args)
}

/// The `WHERE` for the first events of this many rounds.
pub(super) fn first_events(rounds: usize) -> String {
    let holes: Vec<_> = (1..=rounds).map(|n| format!("${n}")).collect();
    format!("WHERE round IN ({}) AND \"index\" = 0", holes.join(", "))
}

pub(super) const OPEN_ROUNDS: &str = "WHERE ended_ms IS NULL ORDER BY started_ms, id";
pub(super) const OUTBOX_PENDING: &str =
    "WHERE state IN ('staged', 'claimed', 'in-doubt') ORDER BY updated_ms, id LIMIT $1";
// The list of states is that of the index of pending items, so that the database uses it.
pub(super) const OUTBOX_CLAIMED: &str = "WHERE state IN ('staged', 'claimed', 'in-doubt') AND state = 'claimed' \
     AND repo = $1 AND loop_name = $2 ORDER BY updated_ms, id LIMIT $3";
pub(super) const OUTBOX_OF_TREE: &str = "WHERE repo = $1 AND loop_name = $2 AND round IN \
     (SELECT id FROM rounds WHERE repo = $1 AND loop_name = $2 AND tree = $3) \
     AND state NOT IN ('refused', 'quarantined') ORDER BY updated_ms DESC, id LIMIT $4";
pub(super) const INBOX_OPEN: &str = "WHERE closed_ms IS NULL ORDER BY created_ms, id LIMIT $1";
pub(super) const OUTBOX: &str = "WHERE round = $1 ORDER BY position";
pub(super) const ITEMS: &str = "WHERE repo = $1 AND loop_name = $2 ORDER BY updated_ms DESC LIMIT $3";
pub(super) const LOOPS: &str = "ORDER BY repo, loop_name";

/// Rounds, their events, and the processes that run them.
impl Store {
    /// All leases that are held, each with the state of its process; oldest first.
    pub async fn leases(&self) -> Result<Vec<RoundLease>, StoreError> {
        let own = self.instance.as_deref().unwrap_or("-");
        let leases = async |conn: &mut SqlConnection| {
            let mut leases = lease::held(conn, own, &HashSet::new()).await?;
            let expiry = self.expiry(conn).await?;
            for lease in leases.iter_mut().filter(|lease| lease.holder == LeaseHolder::Other) {
                let is_gone = lease.process.as_ref().map(|process| process::is_gone(&self.location, process, &expiry));
                if is_gone.transpose()?.unwrap_or(true) {
                    lease.holder = LeaseHolder::Gone;
                }
            }
            Ok(leases)
        };
        self.with_reader("leases", ProcessRow::SINCE, leases).await
    }

    /// A reader may see a store that was not migrated yet; it only shows what it finds.
    async fn expiry(&self, conn: &mut SqlConnection) -> SqlResult<LeaseExpiry> {
        match self.instance {
            Some(_) => process::expiry(conn, &self.contact, self.lease).await,
            None => Ok(LeaseExpiry::at(process::now_ms(conn).await?)),
        }
    }

    /// The other processes that have the store open for writing and are not gone; oldest first.
    pub async fn others(&self) -> Result<Vec<ProcessRow>, StoreError> {
        let others = async |conn: &mut SqlConnection| {
            let rows = conn.rows(select::<ProcessRow>("ORDER BY since_ms"), &[]).await?;
            let (expiry, mut others) = (self.expiry(conn).await?, Vec::new());
            for row in &rows {
                let process = ProcessRow::read(row)?;
                let is_other = self.instance.as_ref() != Some(&process.instance);
                if is_other && !process::is_gone(&self.location, &process, &expiry)? {
                    others.push(process);
                }
            }
            Ok(others)
        };
        self.with_reader("processes", ProcessRow::SINCE, others).await
    }

    /// The events of one round, oldest first.
    pub async fn events(&self, round: &str) -> Result<Vec<StoredEvent>, StoreError> {
        self.all("WHERE round = $1 ORDER BY \"index\"", args![round]).await
    }

    /// The first event of each of these rounds, in no order: one query for everything that a list shows of its rounds.
    /// Rounds beyond the largest page are left out.
    pub async fn first_events(&self, rounds: &[String]) -> Result<Vec<StoredEvent>, StoreError> {
        let rounds = &rounds[..rounds.len().min(PAGE_MAX as usize)];
        if rounds.is_empty() {
            return Ok(Vec::new());
        }
        let args: Vec<_> = rounds.iter().map(|round| round.arg()).collect();
        self.all(&first_events(rounds.len()), &args).await
    }

    /// The events after a global number, oldest first, for the polls of `logs -f`.
    pub async fn tail(&self, after_seq: i64, limit: u32) -> Result<Vec<StoredEvent>, StoreError> {
        self.all("WHERE seq > $1 ORDER BY seq LIMIT $2", args![after_seq, page(limit)]).await
    }

    /// The global number of the newest event; 0 without any.
    pub async fn last_seq(&self) -> Result<i64, StoreError> {
        let newest: Vec<StoredEvent> = self.all("ORDER BY seq DESC LIMIT 1", args![]).await?;
        Ok(newest.first().map_or(0, |event| event.seq))
    }

    /// One round by its whole id.
    pub async fn round(&self, id: &str) -> Result<Option<RoundRow>, StoreError> {
        self.one("WHERE id = $1", args![id]).await
    }

    /// The ids that start with `prefix`, at most ten, in order.
    pub async fn rounds_like(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let end = format!("{prefix}\u{10ffff}");
        let sql = "SELECT id FROM rounds WHERE id >= $1 AND id < $2 ORDER BY id LIMIT 10";
        self.fetch(("round ids", 1), sql.into(), args![prefix, &end], |row| row.get(0)).await
    }

    /// Rounds, newest first, a page at a time.
    pub async fn rounds(&self, query: RoundsQuery) -> Result<Vec<RoundRow>, StoreError> {
        let (rest, args) = rounds_page(&query);
        self.all(&rest, &args).await
    }

    /// The number of all rounds that a query would list, on all its pages.
    pub async fn count_rounds(&self, query: &RoundsQuery) -> Result<i64, StoreError> {
        let (wheres, args) = rounds_filter(query);
        let sql = format!("SELECT count(*) FROM rounds {wheres}");
        let count = self.fetch(("count of rounds", RoundRow::SINCE), sql, &args, |row| row.get(0)).await?;
        Ok(count.first().copied().unwrap_or_default())
    }

    /// All rounds that have not ended, oldest first.
    pub async fn open_rounds(&self) -> Result<Vec<RoundRow>, StoreError> {
        self.all(OPEN_ROUNDS, &[]).await
    }

    /// The staged items of one round in their order.
    pub async fn outbox(&self, round: &str) -> Result<Vec<OutboxRow>, StoreError> {
        self.all(OUTBOX, args![round]).await
    }

    /// The items of a loop that are being sent, in all its rounds.
    pub async fn outbox_claimed(&self, repo: &str, loop_name: &str) -> Result<Vec<OutboxRow>, StoreError> {
        self.all(OUTBOX_CLAIMED, args![repo, loop_name, page(PAGE_MAX)]).await
    }

    /// The items of a loop whose rounds sealed this tree, newest first, except for refused and quarantined ones.
    pub async fn outbox_of_tree(&self, repo: &str, loop_name: &str, tree: &str) -> Result<Vec<OutboxRow>, StoreError> {
        self.all(OUTBOX_OF_TREE, args![repo, loop_name, tree, page(PAGE_MAX)]).await
    }

    /// Items that still need an action without a person (`staged`, `claimed`, `in-doubt`), oldest first.
    pub async fn outbox_pending(&self, limit: u32) -> Result<Vec<OutboxRow>, StoreError> {
        self.all(OUTBOX_PENDING, args![page(limit)]).await
    }

    /// Open questions to people, oldest first.
    pub async fn inbox(&self, limit: u32) -> Result<Vec<InboxRow>, StoreError> {
        self.all(INBOX_OPEN, args![page(limit)]).await
    }

    /// The questions in places outside that do not show a decision yet, oldest first.
    pub async fn open_questions(&self, limit: u32) -> Result<Vec<QuestionRow>, StoreError> {
        self.all(questions::OPEN, args![page(limit)]).await
    }

    /// The latest questions on one issue or pull request, also the closed ones, oldest first.
    pub async fn questions_on(&self, repo: &str, target: &str, limit: u32) -> Result<Vec<QuestionRow>, StoreError> {
        let rest = "WHERE repo = $1 AND target = $2 AND place = 'forge' ORDER BY asked_ms DESC, id DESC LIMIT $3";
        let mut rows = self.all(rest, args![repo, target, page(limit)]).await?;
        rows.reverse();
        Ok(rows)
    }

    /// A question in a place outside.
    pub async fn question(&self, id: &str) -> Result<Option<QuestionRow>, StoreError> {
        self.one("WHERE id = $1", args![id]).await
    }

    /// The answers from outside that need a decision or a reply, oldest first.
    pub async fn pending_answers(&self, limit: u32) -> Result<Vec<AnswerRow>, StoreError> {
        self.all(questions::PENDING, args![page(limit)]).await
    }

    /// An answer from outside.
    pub async fn answer(&self, id: &str) -> Result<Option<AnswerRow>, StoreError> {
        self.one("WHERE id = $1", args![id]).await
    }

    /// One question by its id.
    pub async fn inbox_item(&self, id: &str) -> Result<Option<InboxRow>, StoreError> {
        self.one("WHERE id = $1", args![id]).await
    }

    /// The stored state of one work item.
    pub async fn item(&self, repo: &str, loop_name: &str, key: &str) -> Result<Option<ItemRow>, StoreError> {
        self.one(OF_KEY, args![repo, loop_name, key]).await
    }

    /// The work items of one loop, latest first.
    pub async fn items(&self, repo: &str, loop_name: &str, limit: u32) -> Result<Vec<ItemRow>, StoreError> {
        self.all(ITEMS, args![repo, loop_name, page(limit)]).await
    }

    /// The counters of all loops that ever ran.
    pub async fn loops(&self) -> Result<Vec<LoopRow>, StoreError> {
        self.all(LOOPS, &[]).await
    }

    /// The counters of one loop.
    pub async fn loop_row(&self, repo: &str, loop_name: &str) -> Result<Option<LoopRow>, StoreError> {
        self.one(OF_LOOP, args![repo, loop_name]).await
    }

    /// Copies the database, as it is at one moment, into a new file; also while another process writes. Not for
    /// PostgreSQL, which has its own tools: [`StoreErrorKind::Unsuitable`].
    pub async fn copy_into(&self, path: &Path) -> Result<(), StoreError> {
        let doing = || format!("copy store `{}` into `{}`", self.location.name(), path.display());
        self.location.copy_into(path).await.during(doing)
    }
}

/// Money.
impl Store {
    /// The spend of one day (`YYYY-MM-DD`) in a scope.
    pub async fn spend(
        &self,
        scope: SpendScope,
        repo: &str,
        loop_name: &str,
        day: &str,
    ) -> Result<SpendRow, StoreError> {
        let spend = async |conn: &mut SqlConnection| reserve::spend_in(conn, scope, repo, loop_name, day).await;
        let since = if scope == SpendScope::Loop { LoopSpend::SINCE } else { SpendRow::SINCE };
        self.with_reader("spend", since, spend).await
    }

    /// The spend of loops on the days of their zones from one day on, for `status`.
    pub async fn loop_spends(&self, from_day: &str) -> Result<Vec<LoopSpend>, StoreError> {
        self.all("WHERE day >= $1 ORDER BY day, repo, loop_name", args![from_day]).await
    }

    /// The spend of one item over all its rounds.
    pub async fn item_spend(&self, repo: &str, loop_name: &str, item: &str) -> Result<SpendRow, StoreError> {
        let spend = async |conn: &mut SqlConnection| reserve::item_spend(conn, repo, loop_name, item).await;
        self.with_reader("item spend", ItemSpend::SINCE, spend).await
    }

    /// The raises that people added to the budgets of one day, for the day or for a round; oldest first.
    pub async fn raises(&self, day: &str) -> Result<Vec<RaiseRow>, StoreError> {
        self.all("WHERE day = $1 ORDER BY at_ms, id", args![day]).await
    }

    /// The sum that people added to the budget of a loop's day and to one round: millionths of a dollar and tokens.
    pub async fn raised(&self, repo: &str, loop_name: &str, day: &str, round: &str) -> Result<(i64, i64), StoreError> {
        let raised = async |conn: &mut SqlConnection| reserve::raised(conn, repo, loop_name, day, round).await;
        self.with_reader("raises", RaiseRow::SINCE, raised).await
    }

    /// The spend in groups, highest first: one query over the ledger.
    pub async fn costs(&self, query: CostsQuery) -> Result<Vec<CostRow>, StoreError> {
        let (sql, args) = money::costs_sql(&query);
        self.fetch(("costs", CostRow::SINCE), sql, &args, CostRow::read).await
    }

    /// The ledger rows of one round's agent starts.
    pub async fn ledger(&self, round: &str) -> Result<Vec<LedgerRow>, StoreError> {
        self.all("WHERE round = $1 ORDER BY start, model", args![round]).await
    }
}

/// Scheduling.
impl Store {
    /// The schedule of every loop, by repository and name.
    pub async fn schedules(&self) -> Result<Vec<ScheduleRow>, StoreError> {
        let mut all: Vec<ScheduleRow> = Vec::new();
        loop {
            let (repo, loop_name) = all.last().map_or(("", ""), |row| (row.repo.as_str(), row.loop_name.as_str()));
            let page = self.all(time::SCHEDULES, args![repo, loop_name, SCHEDULES_PAGE]).await?;
            let is_last = (page.len() as i64) < SCHEDULES_PAGE;
            all.extend(page);
            if is_last {
                return Ok(all);
            }
        }
    }

    /// The schedule of one loop.
    pub async fn schedule(&self, repo: &str, loop_name: &str) -> Result<Option<ScheduleRow>, StoreError> {
        self.one(OF_LOOP, args![repo, loop_name]).await
    }

    /// The receipts of a loop, latest first, a page at a time.
    pub async fn receipts(&self, query: ReceiptsQuery) -> Result<Vec<ReceiptRow>, StoreError> {
        let (rest, args) = time::receipts_page(&query, page(query.limit));
        self.all(&rest, &args).await
    }

    /// The receipt of one occurrence.
    pub async fn receipt(
        &self,
        repo: &str,
        loop_name: &str,
        occurrence: &str,
    ) -> Result<Option<ReceiptRow>, StoreError> {
        let rest = "WHERE repo = $1 AND loop_name = $2 AND occurrence = $3";
        self.one(rest, args![repo, loop_name, occurrence]).await
    }

    /// Signals that no round has taken, oldest first.
    pub async fn pending_signals(&self, limit: u32) -> Result<Vec<SignalRow>, StoreError> {
        self.all(time::SIGNALS_PENDING, args![page(limit)]).await
    }

    /// One signal, taken or not.
    pub async fn signal(&self, repo: &str, loop_name: &str, key: &str) -> Result<Option<SignalRow>, StoreError> {
        self.one(OF_KEY, args![repo, loop_name, key]).await
    }

    /// Whether a loop ever had a signal, taken or not, whose key starts with `prefix`, as far back as signals are kept.
    pub async fn has_signal(&self, repo: &str, loop_name: &str, prefix: &str) -> Result<bool, StoreError> {
        // Compared by characters and not by order, which depends on a database's collation.
        let rest = "WHERE repo = $1 AND loop_name = $2 AND substr(\"key\", 1, length($3)) = $4 LIMIT 1";
        Ok(self.one::<SignalRow>(rest, args![repo, loop_name, prefix, prefix]).await?.is_some())
    }

    /// The last valid texts of a repository's loop files, or of one of them.
    pub async fn loop_files(&self, repo: &str, file: Option<&str>) -> Result<Vec<LoopFileRow>, StoreError> {
        match file {
            Some(file) => self.all("WHERE repo = $1 AND file = $2", args![repo, file]).await,
            None => self.all(time::LOOP_FILES, args![repo]).await,
        }
    }

    /// The flags that apply to all loops.
    pub async fn flags(&self) -> Result<Vec<FlagRow>, StoreError> {
        self.all(time::FLAGS, &[]).await
    }

    /// A loop's memories, latest first, including expired ones that were not removed yet.
    pub async fn memory(&self, repo: &str, loop_name: &str) -> Result<Vec<MemoryRow>, StoreError> {
        self.all(time::MEMORY, args![repo, loop_name, page(PAGE_MAX)]).await
    }

    /// The number of rows that [`super::RowChange::Prune`] would remove at `now_ms` without a limit.
    pub async fn aged(&self, before: RetentionCutoff, now_ms: i64) -> Result<AgedRows, StoreError> {
        let aged = async |conn: &mut SqlConnection| time::count_aged(conn, before, now_ms).await;
        self.with_reader("aged rows", ReceiptRow::SINCE, aged).await
    }

    /// The latest time of any event or receipt: a clock that is far behind it is wrong.
    pub async fn last_ms(&self) -> Result<Option<i64>, StoreError> {
        let rows = self.fetch(("the latest time", ReceiptRow::SINCE), time::LAST_MS.to_owned(), &[], |row| row.get(0));
        Ok(rows.await?.pop().flatten())
    }
}
