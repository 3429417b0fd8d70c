//! The rows of scheduling: each loop's schedule, receipts of due times, signals, flags, and memories between rounds.
//! Other modules decide what is due and what is kept; this one writes and reads it.

use std::collections::BTreeMap;

use super::conn::{SqlArg, SqlColumn, SqlConnection, SqlDialect, SqlResult, SqlRow, args};
use super::error::StoreErrorKind;
use super::rows::{RowChange, SqlTable, quoted, replaces, table};
use loopwright_core::dispatch::OccurrenceOutcome;

table! {
    /// The schedule of one loop.
    ScheduleRow in "schedules" by ["repo", "loop_name"], since 3;
    /// The repository's id.
    repo: String,
    /// The loop's name.
    loop_name: String,
    /// The cadence that the mark belongs to; an edited cadence has another fingerprint.
    fingerprint: String,
    /// Every due time at or before it has its receipt.
    mark_ms: i64,
    /// When the loop was paused.
    paused_ms: Option<i64>,
    /// The actor that paused it.
    paused_by: Option<String>,
    /// The reason.
    paused_why: Option<String>,
    /// The number of consecutive rounds with the same failure.
    streak: i64,
    /// The signature of that failure.
    signature: Option<String>,
    /// When its backoff ends.
    wait_until_ms: Option<i64>,
    /// The reason.
    wait_why: Option<String>,
}

table! {
    /// The receipt of one occurrence, or of a run of occurrences with the same outcome.
    ReceiptRow in "receipts" by ["repo", "loop_name", "occurrence"], since 3;
    /// The repository's id.
    repo: String,
    /// The loop's name.
    loop_name: String,
    /// The occurrence's key: `due:…`, `webhook:…`, `push:…`.
    occurrence: String,
    /// When it was due.
    due_ms: i64,
    /// The trigger that made the loop due.
    trigger: String,
    /// The outcome of the occurrence.
    receipt: OccurrenceOutcome,
    /// The reason, for people.
    reason: String,
    /// The round that was started.
    round: Option<String>,
    /// The number of occurrences that it covers.
    count: i64,
    /// The due time of the last one, if it covers several.
    through_ms: Option<i64>,
    /// When it was written.
    at_ms: i64,
}

table! {
    /// An event other than the clock that requests a round.
    SignalRow in "signals" by ["repo", "loop_name", "key"], since 3;
    /// The repository's id.
    repo: String,
    /// The loop's name.
    loop_name: String,
    /// The event's key; the same event twice is one signal.
    key: String,
    /// The kind of trigger.
    trigger: String,
    /// When it arrived.
    at_ms: i64,
    /// The key of its work item.
    item: Option<String>,
    /// The title of that item.
    title: Option<String>,
    /// The data of the event, as JSON text.
    data: Option<String>,
    /// When a round took it; `None` while it waits.
    taken_ms: Option<i64>,
}

table! {
    /// A flag that applies to all loops, such as the global stop.
    FlagRow in "flags" by ["name"], since 3;
    /// The flag's name.
    name: String,
    /// When it was set.
    at_ms: i64,
    /// The actor that set it.
    actor: String,
    /// The reason.
    why: String,
}

table! {
    /// One memory of a loop between rounds. Data, never instructions.
    MemoryRow in "memory" by ["repo", "loop_name", "key"], since 3;
    /// The repository's id.
    repo: String,
    /// The loop's name.
    loop_name: String,
    /// The subject; a memory with the same key replaces it.
    key: String,
    /// `fact`, `decision`, `failure` or `note`.
    kind: String,
    /// The text.
    text: String,
    /// The round that wrote it.
    round: String,
    /// The role that wrote it, or `engine`.
    role: String,
    /// When it was written.
    at_ms: i64,
    /// When it expires.
    expires_ms: Option<i64>,
}

table! {
    /// The last valid text of a loop file.
    LoopFileRow in "loop_files" by ["repo", "file"], since 6;
    /// The repository's id.
    repo: String,
    /// The name of the file in the folder of loops.
    file: String,
    /// Its text; a row without one is removed.
    text: Option<String>,
}

/// A query for receipts of a loop, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReceiptsQuery {
    /// The repository's id.
    pub repo: String,
    /// The loop's name.
    pub loop_name: String,
    /// Only receipts before this (`due_ms`, `occurrence`): the last row of the previous page.
    pub before: Option<(i64, String)>,
    /// The most rows.
    pub limit: u32,
}

/// The times before which rows are no longer needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionCutoff {
    /// Receipts that were written before this.
    pub receipts_ms: i64,
    /// Signals that were taken before this.
    pub signals_ms: i64,
}

/// The number of rows that are older than that.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AgedRows {
    /// Receipts, except those of open rounds.
    pub receipts: i64,
    /// Signals that were taken.
    pub signals: i64,
    /// Memories that have expired.
    pub memories: i64,
}

impl AgedRows {
    /// Whether there are no such rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

pub(super) const SCHEDULES: &str = "WHERE (repo, loop_name) > ($1, $2) ORDER BY repo, loop_name LIMIT $3";
pub(super) const SIGNALS_PENDING: &str = "WHERE taken_ms IS NULL ORDER BY at_ms, repo, loop_name, \"key\" LIMIT $1";
pub(super) const MEMORY: &str = "WHERE repo = $1 AND loop_name = $2 ORDER BY at_ms DESC, \"key\" DESC LIMIT $3";
pub(super) const LOOP_FILES: &str = "WHERE repo = $1 ORDER BY file";
pub(super) const FLAGS: &str = "ORDER BY name";
/// The flag that records when a person confirmed the clock, although a later time is on record.
pub const CLOCK_TAKEN: &str = "clock-taken";
/// The flag that records the latest time that was on record then.
pub const CLOCK_AHEAD: &str = "clock-ahead";

/// The latest recorded time; each part is one step into an index. Receipts do not record the order in which they were
/// written, so those between the confirmed clock and the latest time on record then do not count.
pub(super) const LAST_MS: &str = "SELECT MAX(at_ms) FROM (\
     SELECT at_ms FROM events WHERE seq = (SELECT MAX(seq) FROM events) \
     UNION ALL SELECT MAX(at_ms) FROM receipts WHERE at_ms <= \
         COALESCE((SELECT at_ms FROM flags WHERE name = 'clock-taken'), 9223372036854775807) \
     UNION ALL SELECT MAX(at_ms) FROM receipts WHERE at_ms > \
         COALESCE((SELECT at_ms FROM flags WHERE name = 'clock-ahead'), 9223372036854775807)) recorded";

/// The `WHERE … LIMIT` of a page of receipts with its values.
pub(super) fn receipts_page(query: &ReceiptsQuery, limit: i64) -> (String, Vec<SqlArg<'_>>) {
    let mut args = vec![query.repo.arg(), query.loop_name.arg()];
    let before = match &query.before {
        Some((due_ms, occurrence)) => {
            args.extend([due_ms.arg(), occurrence.arg()]);
            "AND (due_ms, occurrence) < ($3, $4) "
        }
        None => "",
    };
    args.push(SqlArg::from(limit));
    let at = args.len();
    let rest = format!("WHERE repo = $1 AND loop_name = $2 {before}ORDER BY due_ms DESC, occurrence DESC LIMIT ${at}");
    (rest, args)
}

/// The rows that are old enough to be removed, by table: its key, and a condition. Receipts of open rounds stay.
const OLD: [(&str, &[&str], &str); 3] = [
    (
        "receipts",
        ReceiptRow::KEY,
        "at_ms < $1 AND (round IS NULL OR round NOT IN (SELECT id FROM rounds WHERE ended_ms IS NULL))",
    ),
    ("signals", SignalRow::KEY, "taken_ms IS NOT NULL AND taken_ms < $2"),
    ("memory", MemoryRow::KEY, "expires_ms IS NOT NULL AND expires_ms <= $3"),
];

/// The number of rows that are old enough to be removed.
pub(super) async fn count_aged(conn: &mut SqlConnection, before: RetentionCutoff, now_ms: i64) -> SqlResult<AgedRows> {
    let counts = OLD.map(|(table, _, which)| format!("(SELECT COUNT(*) FROM {table} WHERE {which})")).join(", ");
    let moments = args![before.receipts_ms, before.signals_ms, now_ms];
    let row = conn.row(format!("SELECT {counts}"), moments).await?;
    let read = |row: SqlRow| Ok(AgedRows { receipts: row.get(0)?, signals: row.get(1)?, memories: row.get(2)? });
    row.map_or(Ok(AgedRows::default()), read)
}

/// Removes old rows, at most `limit` from each table, so that no transaction takes long.
pub(super) async fn prune(conn: &mut SqlConnection, before: RetentionCutoff, now_ms: i64, limit: i64) -> SqlResult<()> {
    let moments = [before.receipts_ms, before.signals_ms, now_ms];
    for (at, ((table, key, which), moment)) in OLD.into_iter().zip(moments).enumerate() {
        // Each statement binds only the one time that it needs.
        let (key, which) = (quoted(key), which.replace(&format!("${}", at + 1), "$1"));
        let sql = format!("DELETE FROM {table} WHERE ({key}) IN (SELECT {key} FROM {table} WHERE {which} LIMIT $2)");
        conn.exec(sql, args![moment, limit]).await?;
    }
    Ok(())
}

/// Removes all memories of a loop except the latest ones.
pub(super) async fn cap_memory(conn: &mut SqlConnection, repo: &str, loop_name: &str, most: i64) -> SqlResult<()> {
    let sql = "DELETE FROM memory WHERE repo = $1 AND loop_name = $2 AND \"key\" NOT IN (\
               SELECT \"key\" FROM memory WHERE repo = $1 AND loop_name = $2 ORDER BY at_ms DESC, \"key\" DESC LIMIT $3)";
    conn.exec(sql, args![repo, loop_name, most]).await.map(drop)
}

/// The most rows of one statement: with thousands of loops, one statement per row would delay a start.
const ROWS_MAX: usize = 64;

/// Inserts rows, many with one statement, and returns how many were written.
async fn put_many<T: SqlTable>(conn: &mut SqlConnection, rows: &[&T], on_conflict: &str) -> SqlResult<u64> {
    let mut count = 0;
    for run in rows.chunks(ROWS_MAX) {
        let args: Vec<_> = run.iter().flat_map(|row| row.args()).collect();
        count += conn.exec(many_sql::<T>(run.len(), conn.dialect(), on_conflict), &args).await?;
    }
    Ok(count)
}

fn many_sql<T: SqlTable>(count: usize, dialect: SqlDialect, on_conflict: &str) -> String {
    let width = T::COLUMNS.len();
    let hole = |at: usize| match dialect {
        // SQLite searches for a named placeholder from the first one on; with hundreds of them that costs more than the
        // rows.
        SqlDialect::Sqlite => "?".to_owned(),
        SqlDialect::Postgres => format!("${at}"),
    };
    let row = |n: usize| {
        let holes: Vec<_> = (1..=width).map(|column| hole(n * width + column)).collect();
        format!("({})", holes.join(", "))
    };
    let rows: Vec<_> = (0..count).map(row).collect();
    format!("INSERT INTO {} ({}) VALUES {} {on_conflict}", T::NAME, quoted(T::COLUMNS), rows.join(", "))
}

/// The update of an existing schedule. Under one cadence a mark never decreases: the start of a round may have raised
/// it, and a writer of another change may not know that yet.
fn replaces_schedule() -> String {
    let fresh = ScheduleRow::COLUMNS.iter().filter(|column| !ScheduleRow::KEY.contains(column));
    let sets: Vec<_> = fresh
        .map(|column| match *column {
            // Both databases support this; their functions for the greater of two values differ.
            "mark_ms" => "mark_ms = CASE WHEN schedules.fingerprint = excluded.fingerprint \
                          AND schedules.mark_ms > excluded.mark_ms \
                          THEN schedules.mark_ms ELSE excluded.mark_ms END"
                .to_owned(),
            column => format!("{column} = excluded.{column}"),
        })
        .collect();
    format!("ON CONFLICT (repo, loop_name) DO UPDATE SET {}", sets.join(", "))
}

/// If there are several rows for one loop, the last one counts, with the highest mark of its cadence: PostgreSQL
/// refuses a statement that updates one row twice.
fn last_of_each<'a>(rows: impl Iterator<Item = &'a ScheduleRow>) -> Vec<ScheduleRow> {
    let mut last: BTreeMap<_, ScheduleRow> = BTreeMap::new();
    for row in rows {
        let key = (&row.repo, &row.loop_name);
        let before = last.get(&key).filter(|before| before.fingerprint == row.fingerprint);
        let mark_ms = before.map_or(row.mark_ms, |before| before.mark_ms.max(row.mark_ms));
        last.insert(key, ScheduleRow { mark_ms, ..row.clone() });
    }
    last.into_values().collect()
}

/// Inserts or replaces schedules.
pub(super) async fn put_schedules(conn: &mut SqlConnection, run: &[RowChange]) -> SqlResult<()> {
    let rows = last_of_each(run.iter().filter_map(RowChange::schedule));
    put_many(conn, &rows.iter().collect::<Vec<_>>(), &replaces_schedule()).await.map(drop)
}

/// Inserts or replaces the texts of loop files, and removes those without one.
pub(super) async fn put_loop_files(conn: &mut SqlConnection, run: &[RowChange]) -> SqlResult<()> {
    let rows = run.iter().filter_map(RowChange::loop_file);
    let (kept, gone): (Vec<_>, Vec<_>) = rows.partition(|row| row.text.is_some());
    put_many(conn, &kept, &replaces::<LoopFileRow>()).await?;
    for row in gone {
        conn.exec("DELETE FROM loop_files WHERE repo = $1 AND file = $2", args![&row.repo, &row.file]).await?;
    }
    Ok(())
}

/// Raises a loop's mark and leaves the rest of its schedule unchanged; inserts the row if the loop has no schedule yet.
/// A mark of another cadence is not changed.
pub(super) async fn raise_mark(conn: &mut SqlConnection, row: &ScheduleRow) -> SqlResult<()> {
    let raises = "ON CONFLICT (repo, loop_name) DO UPDATE SET mark_ms = excluded.mark_ms \
                  WHERE schedules.fingerprint = excluded.fingerprint AND schedules.mark_ms < excluded.mark_ms";
    put_many(conn, &[row], raises).await.map(drop)
}

/// Inserts receipts; an occurrence that has one already is a conflict: each due time gets one receipt.
pub(super) async fn put_receipts(conn: &mut SqlConnection, run: &[RowChange]) -> SqlResult<()> {
    let rows: Vec<_> = run.iter().filter_map(RowChange::receipt).collect();
    if put_many(conn, &rows, "ON CONFLICT DO NOTHING").await? == rows.len() as u64 {
        return Ok(());
    }
    Err(StoreErrorKind::Conflict(match rows.as_slice() {
        [row] => format!("occurrence `{}` of loop `{}` already has its receipt", row.occurrence, row.loop_name),
        _ => "one of the occurrences already has its receipt".to_owned(),
    }))
}

/// Inserts a signal; returns false if its key exists already.
pub(super) async fn put_signal(conn: &mut SqlConnection, row: &SignalRow) -> SqlResult<bool> {
    Ok(put_many(conn, &[row], "ON CONFLICT DO NOTHING").await? > 0)
}

/// Marks a signal as taken by a round; only one round can take it.
pub(super) async fn take_signal(conn: &mut SqlConnection, of: [&str; 3], at_ms: i64) -> SqlResult<()> {
    let sql = "UPDATE signals SET taken_ms = $1 \
               WHERE repo = $2 AND loop_name = $3 AND \"key\" = $4 AND taken_ms IS NULL";
    let [repo, loop_name, key] = of;
    match conn.exec(sql, args![at_ms, repo, loop_name, key]).await? {
        0 => Err(StoreErrorKind::Conflict(format!("signal `{key}` does not wait"))),
        _ => Ok(()),
    }
}

pub(super) async fn drop_flag(conn: &mut SqlConnection, name: &str) -> SqlResult<()> {
    conn.exec("DELETE FROM flags WHERE name = $1", args![name]).await.map(drop)
}

/// Removes one row of a loop, or all of them.
pub(super) async fn drop_of_loop<T: SqlTable>(
    conn: &mut SqlConnection,
    repo: &str,
    loop_name: &str,
    key: Option<&str>,
) -> SqlResult<()> {
    let all = format!("DELETE FROM {} WHERE repo = $1 AND loop_name = $2", T::NAME);
    match key {
        Some(key) => conn.exec(format!("{all} AND \"key\" = $3"), args![repo, loop_name, key]).await,
        None => conn.exec(all, args![repo, loop_name]).await,
    }
    .map(drop)
}
