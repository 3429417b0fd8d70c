//! Checks for damage: the quick checks at a start, and the full check of `loopwright verify`. It repairs nothing.

use super::chain;
use super::conn::{SqlConnection, SqlDialect, SqlResult, args};
use super::error::{ErrorContext as _, StoreError, StoreErrorKind};
use super::money::{LedgerRow, LoopSpend};
use super::open::{Store, StoreLocation};
use super::rows::{Checkpoint, SqlTable as _, StoredEvent, columns_of};
use super::sqlite::SqliteAccess;
use super::time::ReceiptRow;

/// The number of events that a start checks, however long the history is.
const RECENT: i64 = 64;
/// The number of events in memory at a time; together with the limit on a body it bounds the memory.
const PAGE: i64 = 128;

/// The result of a full check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyReport {
    /// The number of events that were found in order.
    pub events: i64,
    /// The first flaw, if any.
    pub broken: Option<StoreFlaw>,
}

impl VerifyReport {
    /// Whether no flaw was found.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.broken.is_none()
    }
}

/// A flaw in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreFlaw {
    /// The event's global number, if it is an event's flaw.
    pub seq: Option<i64>,
    /// The round it belongs to, if known.
    pub round: Option<String>,
    /// A description of the flaw.
    pub why: String,
}

/// The journal's end as the store recorded it.
struct Head {
    seq: i64,
    /// The end of the one chain that holds the events of versions before 5: number and hash.
    old: (i64, String),
    /// The last checkpoint: number and hash; `None` in a store of an earlier version.
    checkpoint: Option<(i64, String)>,
}

/// Reads the recorded end and compares it with the last event, in one statement, because another process may be
/// writing.
async fn head(conn: &mut SqlConnection) -> SqlResult<Head> {
    let missing = || StoreErrorKind::Corrupt("the journal's head is missing".into());
    let is_shared = version(conn).await? >= SHARED_VERSION;
    let sql = match is_shared {
        true => {
            "SELECT head.seq, head.hash, (SELECT COALESCE(MAX(seq), 0) FROM events), journal.seq, journal.checkpoint, \
             journal.hash FROM head JOIN journal ON journal.id = head.id WHERE head.id = 1"
        }
        false => "SELECT seq, hash, (SELECT COALESCE(MAX(seq), 0) FROM events), seq FROM head WHERE id = 1",
    };
    let row = conn.row(sql, &[]).await?.ok_or_else(missing)?;
    let (last, seq): (i64, i64) = (row.get(2)?, row.get(3)?);
    if seq != last {
        let why = format!("the journal ends at event {last}, its head says {seq}");
        return Err(StoreErrorKind::Corrupt(why));
    }
    let checkpoint = if is_shared { Some((row.get(4)?, row.get(5)?)) } else { None };
    Ok(Head { seq, old: (row.get(0)?, row.get(1)?), checkpoint })
}

/// SQLite's own check of its pages: `quick_check` does not compare every index with its table.
pub(super) async fn pages(conn: &mut SqlConnection, pragma: &'static str) -> SqlResult<()> {
    if conn.dialect() == SqlDialect::Postgres {
        return Ok(());
    }
    let row = conn.row(pragma, &[]).await?;
    let answer: String = match row {
        Some(row) => row.get(0)?,
        None => "no answer".into(),
    };
    if answer == "ok" { Ok(()) } else { Err(StoreErrorKind::Corrupt(answer)) }
}

/// Checks that the journal ends at its recorded head, and the links of its last events.
pub(super) async fn recent(conn: &mut SqlConnection) -> SqlResult<()> {
    let head = head(conn).await?;
    let from = (head.seq - RECENT).max(0);
    let mut walk = EventWalk { seq: from, hash: hash_at(conn, "events WHERE seq", from).await?, round: None };
    let flaw = match check_events(conn, &head, &mut walk).await? {
        None => {
            let last = head.checkpoint.as_ref().map_or(0, |(number, _)| *number);
            check_checkpoints(conn, &head, (last - RECENT).max(0)).await?
        }
        flaw => flaw,
    };
    match flaw {
        None => Ok(()),
        Some(StoreFlaw { round: Some(round), why, .. }) => {
            Err(StoreErrorKind::Corrupt(format!("{why} (round `{round}`)")))
        }
        Some(StoreFlaw { why, .. }) => Err(StoreErrorKind::Corrupt(why)),
    }
}

/// The hash of an event or a checkpoint by its number; the genesis hash if there is none.
async fn hash_at(conn: &mut SqlConnection, which: &str, number: i64) -> SqlResult<String> {
    let row = conn.row(format!("SELECT hash FROM {which} = $1"), args![number]).await?;
    row.map_or(Ok(chain::GENESIS.to_owned()), |row| row.get(0))
}

/// The events that a check has found in order: the last one's number, hash and round.
struct EventWalk {
    seq: i64,
    hash: String,
    round: Option<String>,
}

/// Checks the events after the walk's position up to the head, a page at a time.
async fn check_events(conn: &mut SqlConnection, head: &Head, walk: &mut EventWalk) -> SqlResult<Option<StoreFlaw>> {
    // Each event with the hash of the event before it in its round.
    let sql = format!(
        "SELECT {}, (SELECT b.hash FROM events b WHERE b.round = e.round AND b.\"index\" = e.\"index\" - 1) \
         FROM events e WHERE e.seq > $1 AND e.seq <= $2 ORDER BY e.seq LIMIT $3",
        columns_of::<StoredEvent>("e")
    );
    while walk.seq < head.seq {
        let (next, rows) = (walk.seq + 1, conn.rows(sql.clone(), args![walk.seq, head.seq, PAGE]).await?);
        if rows.is_empty() {
            let why = format!("event {next} is missing");
            return Ok(Some(StoreFlaw { seq: Some(next), round: walk.round.clone(), why }));
        }
        for row in &rows {
            let (event, prev) = (StoredEvent::read(row)?, row.get(StoredEvent::COLUMNS.len())?);
            let next = walk.seq + 1;
            if let Some(why) = walk.step(head, &event, prev) {
                return Ok(Some(StoreFlaw { seq: Some(next), round: Some(event.round), why }));
            }
            walk.round = Some(event.round);
        }
    }
    Ok(None)
}

impl EventWalk {
    /// Why `event` cannot be the next one, if it cannot. `prev` is the hash of the event before it in its round.
    fn step(&mut self, head: &Head, event: &StoredEvent, prev: Option<String>) -> Option<String> {
        if event.seq != self.seq + 1 {
            return Some(format!("event {} is missing", self.seq + 1));
        }
        let is_old = event.seq <= head.old.0;
        let prev = match (is_old, event.index, prev) {
            (true, ..) => std::mem::take(&mut self.hash),
            (false, 0, _) => chain::GENESIS.to_owned(),
            (false, _, Some(prev)) => prev,
            (false, index, None) => return Some(format!("event {} of the round is missing", index - 1)),
        };
        if chain::link(&prev, event) != event.hash {
            return Some(format!("event {} does not match its hash", event.seq));
        }
        (self.seq, self.hash) = (event.seq, event.hash.clone());
        let is_old_end = event.seq == head.old.0 && event.hash != head.old.1;
        is_old_end.then(|| format!("event {} is not the end of the old chain that was recorded", event.seq))
    }
}

/// Checks the checkpoints after a number up to the head, a page at a time.
async fn check_checkpoints(conn: &mut SqlConnection, head: &Head, from: i64) -> SqlResult<Option<StoreFlaw>> {
    let Some((last, last_hash)) = &head.checkpoint else { return Ok(None) };
    // Each checkpoint with the hash of the event that it names.
    let sql = format!(
        "SELECT {}, (SELECT e.hash FROM events e WHERE e.round = c.round AND e.\"index\" = c.events - 1) \
         FROM checkpoints c WHERE c.number > $1 AND c.number <= $2 ORDER BY c.number LIMIT $3",
        columns_of::<Checkpoint>("c")
    );
    let (mut number, mut hash) = (from, hash_at(conn, "checkpoints WHERE number", from).await?);
    while number < *last {
        let rows = conn.rows(sql.clone(), args![number, *last, PAGE]).await?;
        if rows.is_empty() {
            break;
        }
        for row in &rows {
            let (checkpoint, found) = (Checkpoint::read(row)?, row.get(Checkpoint::COLUMNS.len())?);
            if let Some(why) = checkpoint_flaw(number, &hash, &checkpoint, found) {
                return Ok(Some(StoreFlaw { seq: None, round: Some(checkpoint.round), why }));
            }
            (number, hash) = (checkpoint.number, checkpoint.hash);
        }
    }
    if (number, &hash) == (*last, last_hash) {
        return Ok(None);
    }
    let why = format!("the checkpoints end at {number}, but the journal's head says {last}");
    Err(StoreErrorKind::Corrupt(why))
}

/// Why a checkpoint cannot follow the one with this number and hash, if it cannot. `found` is the hash of the event that
/// it names.
fn checkpoint_flaw(before: i64, hash: &str, checkpoint: &Checkpoint, found: Option<String>) -> Option<String> {
    let Checkpoint { number, events, .. } = checkpoint;
    if *number != before + 1 {
        return Some(format!("checkpoint {} is missing", before + 1));
    }
    if chain::link_checkpoint(hash, checkpoint) != checkpoint.hash {
        return Some(format!("checkpoint {number} does not match its hash"));
    }
    match found {
        Some(hash) if hash == checkpoint.last_hash => None,
        Some(_) => Some(format!("event {} of the round is not the one of checkpoint {number}", events - 1)),
        None => Some(format!("the round had {events} events at checkpoint {number}, and has fewer")),
    }
}

impl Store {
    /// Checks the whole database and all chains, a page at a time, on a connection of its own, so that reads and writes
    /// continue in the meantime.
    pub async fn verify(&self) -> Result<VerifyReport, StoreError> {
        let doing = || format!("verify store `{}`", self.location.name());
        let mut conn = self.location.connect(SqliteAccess::Read).await.during(doing)?;
        let mut walk = EventWalk { seq: 0, hash: chain::GENESIS.to_owned(), round: None };
        let broken = match check_all(&mut conn, &mut walk).await {
            Ok(flaw) => flaw,
            // A page that cannot be read is a finding, not a failure of the check.
            Err(StoreErrorKind::Corrupt(why)) => Some(StoreFlaw { seq: None, round: walk.round, why }),
            Err(kind) => return Err(kind.during(doing())),
        };
        Ok(VerifyReport { events: walk.seq, broken })
    }

    /// The bytes of the database, without its log of recent writes.
    pub async fn size_bytes(&self) -> Result<u64, StoreError> {
        let sql = match &self.location {
            StoreLocation::Sqlite(_) => "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
            StoreLocation::Postgres(_) => "SELECT pg_database_size(current_database())",
        };
        let bytes: Vec<i64> = self.fetch(("the size", 1), sql.to_owned(), &[], |row| row.get(0)).await?;
        Ok(bytes.first().and_then(|bytes| u64::try_from(*bytes).ok()).unwrap_or_default())
    }
}

/// Walks the chains up to the head as it was at the beginning, then runs the database's own check of its pages.
async fn check_all(conn: &mut SqlConnection, walk: &mut EventWalk) -> SqlResult<Option<StoreFlaw>> {
    let head = head(conn).await?;
    if let Some(flaw) = check_events(conn, &head, walk).await? {
        return Ok(Some(flaw));
    }
    if let Some(flaw) = check_checkpoints(conn, &head, 0).await? {
        return Ok(Some(flaw));
    }
    pages(conn, "PRAGMA integrity_check(1)").await?;
    match unbalanced(conn).await? {
        None => unmatched(conn).await,
        flaw => Ok(flaw),
    }
}

/// The version of the store's schema.
pub(super) async fn version(conn: &mut SqlConnection) -> SqlResult<i64> {
    let version = conn.row("SELECT schema_version FROM meta WHERE id = 1", &[]).await?;
    version.map_or(Ok(0), |row| row.get(0))
}

/// A receipt `started` that names no existing round, or a round of another occurrence.
async fn unmatched(conn: &mut SqlConnection) -> SqlResult<Option<StoreFlaw>> {
    if version(conn).await? < ReceiptRow::SINCE {
        return Ok(None);
    }
    let sql = "SELECT receipts.occurrence, receipts.loop_name, receipts.round \
               FROM receipts LEFT JOIN rounds ON rounds.id = receipts.round \
               AND rounds.occurrence = receipts.occurrence AND rounds.loop_name = receipts.loop_name \
               WHERE receipts.receipt = 'started' AND rounds.id IS NULL LIMIT 1";
    let Some(row) = conn.row(sql, &[]).await? else { return Ok(None) };
    let (occurrence, loop_name): (String, String) = (row.get(0)?, row.get(1)?);
    let why = format!("occurrence `{occurrence}` of loop `{loop_name}` has the receipt `started`, but no round");
    Ok(Some(StoreFlaw { seq: None, round: row.get(2)?, why }))
}

/// The first version in which any number of processes write, and each round has its own chain.
const SHARED_VERSION: i64 = 5;

const TOKENS: &str = "input + output + cache_read + cache_write";

/// An amount that differs between the ledger, the rounds, the days and the items. Each query is one statement, because
/// another process may be writing.
async fn unbalanced(conn: &mut SqlConnection) -> SqlResult<Option<StoreFlaw>> {
    let version = version(conn).await?;
    if version < LedgerRow::SINCE {
        return Ok(None);
    }
    let rounds = format!(
        "SELECT rounds.id, rounds.spend_micros, COALESCE(lines.micros, 0), rounds.spend_tokens, COALESCE(lines.tokens, 0) \
         FROM rounds LEFT JOIN (SELECT round, CAST(SUM(micros) AS BIGINT) AS micros, CAST(SUM({TOKENS}) AS BIGINT) AS tokens \
                                FROM ledger GROUP BY round) lines ON lines.round = rounds.id \
         WHERE rounds.spend_micros <> COALESCE(lines.micros, 0) OR rounds.spend_tokens <> COALESCE(lines.tokens, 0) LIMIT 1"
    );
    if let Some(row) = conn.row(rounds, &[]).await? {
        let (round, sums): (String, [i64; 4]) = (row.get(0)?, [row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?]);
        let [micros, lines, tokens, line_tokens] = sums;
        let why = format!(
            "the round has spent {micros} millionths and {tokens} tokens, its lines in the ledger come to {lines} and {line_tokens}"
        );
        return Ok(Some(StoreFlaw { seq: None, round: Some(round), why }));
    }
    let places = [
        ("days", "", "spend", LedgerRow::SINCE),
        ("days of loops", "", "loop_spend", LoopSpend::SINCE),
        ("items", "WHERE item IS NOT NULL", "item_spend", LedgerRow::SINCE),
    ];
    for (place, only, table, _) in places.into_iter().filter(|(.., since)| version >= *since) {
        let sum = |what: &str, from: &str| format!("(SELECT CAST(COALESCE(SUM({what}), 0) AS BIGINT) FROM {from})");
        let lines = [sum("micros", &format!("ledger {only}")), sum(TOKENS, &format!("ledger {only}"))].join(", ");
        let start = |what: &str| if table != "item_spend" { sum(what, "ledger_start") } else { "0".to_owned() };
        let sums = [("settled_micros", "micros"), ("settled_tokens", "tokens")];
        let sums = sums.map(|(what, before)| format!("{} + {}", sum(what, table), start(before))).join(", ");
        let row = conn.row(format!("SELECT {lines}, {sums}"), &[]).await?;
        let Some(row) = row else { continue };
        let [micros, tokens, all_micros, all_tokens]: [i64; 4] = [row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?];
        if (micros, tokens) != (all_micros, all_tokens) {
            let why = format!(
                "the ledger comes to {micros} millionths and {tokens} tokens, the {place} to {all_micros} and {all_tokens}"
            );
            return Ok(Some(StoreFlaw { seq: None, round: None, why }));
        }
    }
    Ok(None)
}
