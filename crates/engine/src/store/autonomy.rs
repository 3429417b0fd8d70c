//! The rows of earned autonomy: the fate of work, changes of levels, readings, and calibrations. `core` decides what
//! they mean; this module writes and reads them.

use super::Store;
use super::conn::{SqlArg, SqlColumn, SqlConnection, SqlResult, SqlRow, args, word_column};
use super::error::{StoreError, StoreErrorKind};
use super::rows::{SqlTable, columns_of, table};
use loopwright_core::autonomy::{WorkDecision, WorkFate};
use loopwright_core::level::LoopLevel;
use loopwright_core::worded;

word_column!(WorkDecision, "decision about work");
word_column!(WorkFate, "fate of work");
word_column!(LevelLogKind, "kind of a level change");

worded! {
    /// The kind of an entry in the log of levels.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum LevelLogKind {
        /// A person confirmed a level; lifts earlier demotions.
        Promoted = "promoted",
        /// The evidence lowered the level.
        Demoted = "demoted",
        /// A person confirmed the intent.
        Intent = "intent",
        /// The work of a round was out of scope.
        OutOfScope = "out-of-scope",
    }
}

table! {
    /// One outward item of a loop, from the decision about it on.
    WorkRow in "works" by ["id"], since 8;
    /// The item's id in the outbox.
    id: String,
    /// The repository's id.
    repo: String,
    /// The loop's name.
    loop_name: String,
    /// The round that staged it.
    round: String,
    /// The kind of action.
    kind: String,
    /// The level of the round.
    level: String,
    /// The candidate it belongs to.
    candidate: String,
    /// The decision.
    decision: WorkDecision,
    /// The people who decided; `None` for the loop's allow list.
    actor: Option<String>,
    /// When it was decided.
    decided_ms: i64,
    /// Its fate so far.
    fate: WorkFate,
    /// When the fate was found.
    fate_ms: i64,
    /// How the fate is known.
    detail: Option<String>,
    /// The lines it changes; 0 for items that change no file.
    lines: i64,
}

table! {
    /// One change of a loop's level or confirmation of its intent.
    LevelLogRow in "level_log" by ["id"], since 8;
    /// Its id.
    id: String,
    /// The repository's id.
    repo: String,
    /// The loop's name.
    loop_name: String,
    /// The kind.
    kind: LevelLogKind,
    /// The level from then on.
    level: LoopLevel,
    /// The hash of the loop that a person confirmed.
    spec_hash: String,
    /// The person or, for an automatic entry, `loopwright`.
    actor: String,
    /// When.
    at_ms: i64,
    /// The reason.
    why: String,
    /// The evidence or the confirmed intent, as JSON text.
    evidence: String,
}

table! {
    /// A person has read a candidate's change.
    ReadingRow in "readings" by ["candidate", "actor"], since 8;
    /// The candidate.
    candidate: String,
    /// The person.
    actor: String,
    /// When.
    at_ms: i64,
}

table! {
    /// A checker's answer to a planted change.
    CalibrationRow in "calibrations" by ["round"], since 8;
    /// The calibration round.
    round: String,
    /// The repository's id.
    repo: String,
    /// The loop's name.
    loop_name: String,
    /// The checker's agent.
    agent: String,
    /// The model that was asked for.
    model: Option<String>,
    /// The kind and place of the planted change.
    planted: String,
    /// 1 if the checker did not pass it, else 0.
    caught: i64,
    /// When.
    at_ms: i64,
}

/// Moves the fate of one work forward. Work whose fate another process has moved is a conflict.
pub(super) async fn move_fate(
    conn: &mut SqlConnection,
    id: &str,
    (from, to): (WorkFate, WorkFate),
    detail: &str,
    at_ms: i64,
) -> SqlResult<()> {
    let sql = "UPDATE works SET fate = $1, fate_ms = $2, detail = $3 WHERE id = $4 AND fate = $5";
    match conn.exec(sql, args![to.word(), at_ms, detail, id, from.word()]).await? {
        0 => Err(StoreErrorKind::Conflict(format!("work `{id}` is not {from} any more"))),
        _ => Ok(()),
    }
}

/// The most rows of one loop that are read: its latest, so that the cost does not grow with its history.
const LATEST_MAX: i64 = 200;
/// The most entries of the log of levels.
const LOG_MAX: i64 = 10_000;

const FOLLOWED: &str = "fate IN ('sent', 'merged', 'edited', 'closed') AND fate_ms > $1 \
                        AND kind IN ('pull-request', 'commit')";

const UNREAD: &str = "w.lines > 0 AND w.fate NOT IN ('unsent', 'closed') \
                      AND NOT EXISTS (SELECT 1 FROM readings r WHERE r.candidate = w.candidate)";

/// Earned autonomy.
impl Store {
    /// The latest work of a loop that was decided or whose fate changed after a moment, oldest decision first.
    pub async fn works(&self, repo: &str, loop_name: &str, since_ms: i64) -> Result<Vec<WorkRow>, StoreError> {
        let rest = "WHERE repo = $1 AND loop_name = $2 AND (decided_ms > $3 OR fate_ms > $4) \
                    ORDER BY decided_ms DESC, id DESC LIMIT $5";
        let mut rows = self.all(rest, args![repo, loop_name, since_ms, since_ms, LATEST_MAX]).await?;
        rows.reverse();
        Ok(rows)
    }

    /// The changes of all loops whose fate may still change and was found after a moment, newest first, without the
    /// first `skipped` ones.
    pub async fn followed_works(&self, since_ms: i64, limit: u32, skipped: u64) -> Result<Vec<WorkRow>, StoreError> {
        let rest = format!("WHERE {FOLLOWED} ORDER BY fate_ms DESC, id DESC LIMIT $2 OFFSET $3");
        let skipped = i64::try_from(skipped).unwrap_or(i64::MAX);
        self.all(&rest, args![since_ms, i64::from(limit), skipped]).await
    }

    /// The number of changes that [`Store::followed_works`] has without a limit.
    pub async fn count_followed_works(&self, since_ms: i64) -> Result<u64, StoreError> {
        let sql = format!("SELECT CAST(COUNT(*) AS BIGINT), CAST(0 AS BIGINT) FROM works WHERE {FOLLOWED}");
        let (count, _) = self.pair(("works", WorkRow::SINCE), sql, args![since_ms]).await?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    /// Pull requests that were sent and of which no end is known, latest first.
    pub async fn sent_proposals(&self, limit: u32) -> Result<Vec<WorkRow>, StoreError> {
        let rest = "WHERE fate = 'sent' AND kind = 'pull-request' ORDER BY fate_ms DESC, id DESC LIMIT $1";
        self.all(rest, args![i64::from(limit)]).await
    }

    /// The rounds of a loop with a pull request in the outbox, latest first.
    pub async fn proposing_rounds(&self, repo: &str, loop_name: &str, limit: u32) -> Result<Vec<String>, StoreError> {
        let rest = "WHERE repo = $1 AND loop_name = $2 AND kind = 'pull-request' \
                    AND state IN ('staged', 'waiting', 'claimed', 'sent', 'in-doubt') ORDER BY updated_ms DESC, round LIMIT $3";
        let rows: Vec<super::rows::OutboxRow> = self.all(rest, args![repo, loop_name, i64::from(limit)]).await?;
        Ok(rows.into_iter().map(|row| row.round).collect())
    }

    /// The changes of a loop that were sent and that no person has read, oldest first.
    pub async fn unread_works(&self, repo: &str, loop_name: &str, limit: u32) -> Result<Vec<WorkRow>, StoreError> {
        let columns = columns_of::<WorkRow>("w");
        let sql = format!(
            "SELECT {columns} FROM works w WHERE w.repo = $1 AND w.loop_name = $2 AND {UNREAD} \
             ORDER BY w.decided_ms, w.id LIMIT $3"
        );
        self.fetch(("works", WorkRow::SINCE), sql, args![repo, loop_name, i64::from(limit)], WorkRow::read).await
    }

    /// The number of lines, and of changes, that no person has read.
    pub async fn unread_lines(&self, repo: &str, loop_name: &str) -> Result<(i64, i64), StoreError> {
        let sql = format!(
            "SELECT CAST(COALESCE(SUM(w.lines), 0) AS BIGINT), CAST(COUNT(*) AS BIGINT) FROM works w \
             WHERE w.repo = $1 AND w.loop_name = $2 AND {UNREAD}"
        );
        self.pair(("works", WorkRow::SINCE), sql, args![repo, loop_name]).await
    }

    /// The log of a loop's levels, oldest first.
    pub async fn level_log(&self, repo: &str, loop_name: &str) -> Result<Vec<LevelLogRow>, StoreError> {
        let rest = "WHERE repo = $1 AND loop_name = $2 ORDER BY at_ms, id LIMIT $3";
        self.all(rest, args![repo, loop_name, LOG_MAX]).await
    }

    /// The log of all loops' levels, oldest first, for lists.
    pub async fn level_logs(&self) -> Result<Vec<LevelLogRow>, StoreError> {
        self.all("ORDER BY at_ms, id LIMIT $1", args![LOG_MAX]).await
    }

    /// The number of lines, and of changes, that no person has read, by repository and loop.
    pub async fn unread_by_loop(&self) -> Result<Vec<(String, String, (i64, i64))>, StoreError> {
        let sql = format!(
            "SELECT w.repo, w.loop_name, CAST(COALESCE(SUM(w.lines), 0) AS BIGINT), CAST(COUNT(*) AS BIGINT) \
             FROM works w WHERE {UNREAD} GROUP BY w.repo, w.loop_name"
        );
        let read = |row: &SqlRow| Ok((row.get(0)?, row.get(1)?, (row.get(2)?, row.get(3)?)));
        self.fetch(("works", WorkRow::SINCE), sql, &[], read).await
    }

    /// The people who have read a candidate.
    pub async fn readings(&self, candidate: &str) -> Result<Vec<ReadingRow>, StoreError> {
        self.all("WHERE candidate = $1 ORDER BY at_ms, actor", args![candidate]).await
    }

    /// The latest calibrations of a loop after a moment, latest first.
    pub async fn calibrations(
        &self,
        repo: &str,
        loop_name: &str,
        since_ms: i64,
    ) -> Result<Vec<CalibrationRow>, StoreError> {
        let rest = "WHERE repo = $1 AND loop_name = $2 AND at_ms > $3 ORDER BY at_ms DESC, round DESC LIMIT $4";
        self.all(rest, args![repo, loop_name, since_ms, LATEST_MAX]).await
    }

    /// Of a loop's latest rounds after a moment: those that ended with a report, and the unattended ones whose agents went
    /// over the budget by measured spend: a kill that lost the usage of a start says nothing about the agents. Calibrations
    /// are not counted.
    pub async fn counted_rounds(&self, repo: &str, loop_name: &str, since_ms: i64) -> Result<(i64, i64), StoreError> {
        let sql = "SELECT CAST(COALESCE(SUM(CASE WHEN outcome = 'reported' THEN 1 ELSE 0 END), 0) AS BIGINT), \
             CAST(COALESCE(SUM(CASE WHEN outcome = 'over-budget' AND attempts > 0 AND level = 'L3' \
             AND NOT EXISTS (SELECT 1 FROM ledger WHERE ledger.round = latest.id AND ledger.known = 0) THEN 1 ELSE 0 END), 0) AS BIGINT) \
             FROM (SELECT id, outcome, attempts, level FROM rounds WHERE repo = $1 AND loop_name = $2 AND started_ms > $3 \
             AND \"trigger\" <> 'calibration' ORDER BY started_ms DESC, id DESC LIMIT $4) AS latest";
        self.pair(("rounds", 1), sql.to_owned(), args![repo, loop_name, since_ms, LATEST_MAX]).await
    }

    async fn pair(&self, what: (&str, i64), sql: String, args: &[SqlArg<'_>]) -> Result<(i64, i64), StoreError> {
        let read = |row: &SqlRow| Ok((row.get::<i64>(0)?, row.get::<i64>(1)?));
        Ok(self.fetch(what, sql, args, read).await?.pop().unwrap_or_default())
    }
}
