//! Looking for damage: the cheap looks at a start, and the whole check of `loopwright verify`.
//! It repairs nothing.

use super::chain;
use super::conn::{Conn, Dialect, Outcome, args};
use super::error::{During as _, StoreError, StoreErrorKind};
use super::open::SqlStore;
use super::rows::{StoredEvent, Table as _, select};
use super::sqlite::Access;

/// How many events a start checks, whatever the history.
const RECENT: i64 = 64;
/// How many events are in memory at a time; with the limit on a body this is the whole memory needed.
const PAGE: i64 = 128;

/// What a whole check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyReport {
    /// How many events were found in order.
    pub events: i64,
    /// The first flaw, if any.
    pub broken: Option<Broken>,
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
pub struct Broken {
    /// The event's global number, if it is an event's flaw.
    pub seq: Option<i64>,
    /// The round it belongs to, if it can be told.
    pub round: Option<String>,
    /// What is wrong.
    pub why: String,
}

/// The journal's end as the store recorded it.
struct Head {
    seq: i64,
    hash: String,
}

/// Reads the head and compares it with the last event there is, in one statement: a writer may be at work.
async fn head(conn: &mut Conn) -> Outcome<Head> {
    let sql = "SELECT seq, hash, (SELECT COALESCE(MAX(seq), 0) FROM events) FROM head WHERE id = 1";
    let row = conn.row(sql, &[]).await?;
    let row = row.ok_or_else(|| StoreErrorKind::Corrupt("the journal's head is missing".into()))?;
    let (seq, last): (i64, i64) = (row.get(0)?, row.get(2)?);
    if seq != last {
        let why = format!("the journal ends at event {last}, its head says {seq}");
        return Err(StoreErrorKind::Corrupt(why));
    }
    Ok(Head { seq, hash: row.get(1)? })
}

/// SQLite's own check of its pages, without comparing every index with its table.
pub(super) async fn quick(conn: &mut Conn) -> Outcome<()> {
    pages(conn, "PRAGMA quick_check(1)").await
}

async fn pages(conn: &mut Conn, pragma: &'static str) -> Outcome<()> {
    if conn.dialect() == Dialect::Postgres {
        return Ok(());
    }
    let row = conn.row(pragma, &[]).await?;
    let answer: String = match row {
        Some(row) => row.get(0)?,
        None => "no answer".into(),
    };
    if answer == "ok" { Ok(()) } else { Err(StoreErrorKind::Corrupt(answer)) }
}

/// Checks that the journal ends where its head says, and the links of its last events.
pub(super) async fn recent(conn: &mut Conn) -> Outcome<()> {
    let head = head(conn).await?;
    let from = (head.seq - RECENT).max(0);
    // The hash of the event before the first link; the journal's beginning has a known one.
    let mut hash = match conn.row("SELECT hash FROM events WHERE seq = $1", args![from]).await? {
        Some(row) => row.get(0)?,
        None => chain::GENESIS.to_owned(),
    };
    let page = select::<StoredEvent>("WHERE seq > $1 AND seq <= $2 ORDER BY seq");
    let mut seq = from;
    for row in conn.rows(page, args![from, head.seq]).await? {
        let event = StoredEvent::read(&row)?;
        if let Some(why) = chain::flaw(seq, &hash, &event) {
            return Err(StoreErrorKind::Corrupt(format!("{why} (round `{}`)", event.round)));
        }
        (seq, hash) = (event.seq, event.hash);
    }
    ends_at(&head, seq, &hash)
}

fn ends_at(head: &Head, seq: i64, hash: &str) -> Outcome<()> {
    if (head.seq, head.hash.as_str()) == (seq, hash) {
        return Ok(());
    }
    Err(StoreErrorKind::Corrupt(format!("the journal's last hash, at event {seq}, is not its head's")))
}

impl SqlStore {
    /// The whole check on a connection of its own, so that reading and writing go on meanwhile.
    pub(super) async fn check_all(&self) -> Result<VerifyReport, StoreError> {
        let doing = || format!("verify store `{}`", self.place.name());
        let mut conn = self.place.connect(Access::Read).await.during(doing)?;
        let mut report = VerifyReport { events: 0, broken: None };
        let mut last = None;
        match walk(&mut conn, &mut report, &mut last).await {
            Ok(()) => Ok(report),
            // A page that cannot be read is a finding, not a failure to look.
            Err(StoreErrorKind::Corrupt(why)) => {
                report.broken = Some(Broken { seq: None, round: last, why });
                Ok(report)
            }
            Err(kind) => Err(kind.during(doing())),
        }
    }
}

/// Walks the chain up to the head as it was at the beginning, then lets the database check its pages.
async fn walk(conn: &mut Conn, report: &mut VerifyReport, last: &mut Option<String>) -> Outcome<()> {
    let head = head(conn).await?;
    let mut hash = chain::GENESIS.to_owned();
    let page = select::<StoredEvent>("WHERE seq > $1 AND seq <= $2 ORDER BY seq LIMIT $3");
    while report.events < head.seq {
        let rows = conn.rows(page.clone(), args![report.events, head.seq, PAGE]).await?;
        if rows.is_empty() {
            report.broken = Some(missing(report.events + 1, last.clone()));
            return Ok(());
        }
        for row in &rows {
            let event = StoredEvent::read(row)?;
            if let Some(why) = chain::flaw(report.events, &hash, &event) {
                report.broken = Some(Broken { seq: Some(report.events + 1), round: Some(event.round), why });
                return Ok(());
            }
            (report.events, hash, *last) = (event.seq, event.hash, Some(event.round));
        }
    }
    ends_at(&head, report.events, &hash)?;
    pages(conn, "PRAGMA integrity_check(1)").await?;
    report.broken = match unbalanced(conn).await? {
        None => unmatched(conn).await?,
        flaw => flaw,
    };
    Ok(())
}

async fn version(conn: &mut Conn) -> Outcome<i64> {
    let version = conn.row("SELECT schema_version FROM meta WHERE id = 1", &[]).await?;
    version.map_or(Ok(0), |row| row.get(0))
}

/// A receipt that says `started` and names no round that is there, or one that is another occurrence's.
async fn unmatched(conn: &mut Conn) -> Outcome<Option<Broken>> {
    if version(conn).await? < TIME_VERSION {
        return Ok(None);
    }
    let sql = "SELECT receipts.occurrence, receipts.loop_name, receipts.round \
               FROM receipts LEFT JOIN rounds ON rounds.id = receipts.round \
               AND rounds.occurrence = receipts.occurrence AND rounds.loop_name = receipts.loop_name \
               WHERE receipts.receipt = 'started' AND rounds.id IS NULL LIMIT 1";
    let Some(row) = conn.row(sql, &[]).await? else { return Ok(None) };
    let (occurrence, loop_name): (String, String) = (row.get(0)?, row.get(1)?);
    let why = format!("occurrence `{occurrence}` of loop `{loop_name}` is said to have started, and has no round");
    Ok(Some(Broken { seq: None, round: row.get(2)?, why }))
}

/// From this version on a store has a ledger.
pub(super) const LEDGER_VERSION: i64 = 2;
/// From this version on a store knows time.
pub(super) const TIME_VERSION: i64 = 3;

const TOKENS: &str = "input + output + cache_read + cache_write";

/// A sum of money that is not the same in all its places: the ledger, the rounds, the days, the items. Each question is one
/// statement, because a writer may be at work.
async fn unbalanced(conn: &mut Conn) -> Outcome<Option<Broken>> {
    if version(conn).await? < LEDGER_VERSION {
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
        return Ok(Some(Broken { seq: None, round: Some(round), why }));
    }
    for (place, only, table) in [("days", "", "spend"), ("items", "WHERE item IS NOT NULL", "item_spend")] {
        let sum = |what: &str, from: &str| format!("(SELECT CAST(COALESCE(SUM({what}), 0) AS BIGINT) FROM {from})");
        let lines = [sum("micros", &format!("ledger {only}")), sum(TOKENS, &format!("ledger {only}"))].join(", ");
        let start = |what: &str| if table == "spend" { sum(what, "ledger_start") } else { "0".to_owned() };
        let sums = [("settled_micros", "micros"), ("settled_tokens", "tokens")];
        let sums = sums.map(|(what, before)| format!("{} + {}", sum(what, table), start(before))).join(", ");
        let row = conn.row(format!("SELECT {lines}, {sums}"), &[]).await?;
        let Some(row) = row else { continue };
        let [micros, tokens, all_micros, all_tokens]: [i64; 4] = [row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?];
        if (micros, tokens) != (all_micros, all_tokens) {
            let why = format!(
                "the ledger comes to {micros} millionths and {tokens} tokens, the {place} to {all_micros} and {all_tokens}"
            );
            return Ok(Some(Broken { seq: None, round: None, why }));
        }
    }
    Ok(None)
}

fn missing(seq: i64, round: Option<String>) -> Broken {
    Broken { seq: Some(seq), round, why: format!("event {seq} is missing") }
}
