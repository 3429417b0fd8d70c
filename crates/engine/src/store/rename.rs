//! A loop gets another name: all its rows move. The journal is not changed; it says under which name a round ran.

use super::conn::{SqlConnection, SqlResult, args};
use super::error::StoreErrorKind;
use super::lease::{self, DISPATCHER, LeaseHolder};
use super::rows::StoreBatch;
use std::collections::HashSet;

/// The tables with rows of loops.
const TABLES: [&str; 19] = [
    "rounds",
    "outbox",
    "inbox",
    "items",
    "spend",
    "loop_spend",
    "loops",
    "ledger",
    "item_spend",
    "raises",
    "schedules",
    "receipts",
    "signals",
    "memory",
    "questions",
    "works",
    "level_log",
    "calibrations",
    "workflows",
];

/// Tables in which a loop has rows as soon as the scheduler knows its file. Those of the new name are replaced.
const KNOWN_EARLY: [&str; 3] = ["schedules", "receipts", "signals"];

/// Refuses a renaming while something may write about one of the two names: a daemon, which knows loops by their names;
/// a lease of a round; a round that is not over. Runs in the transaction of the renaming. `gone` names processes that
/// were found gone before it began.
pub(super) async fn ensure_quiet(
    conn: &mut SqlConnection,
    ours: &str,
    gone: &HashSet<String>,
    batch: &StoreBatch,
) -> SqlResult<()> {
    for change in &batch.changes {
        let Some((repo, names)) = change.renamed() else { continue };
        let of_loop = |own: &str, name: &str| own == repo && names.contains(&name);
        for lease in lease::held(conn, ours, gone).await? {
            let is_dispatcher = lease.name == DISPATCHER && lease.holder != LeaseHolder::Gone;
            if is_dispatcher || of_loop(&lease.repo, &lease.loop_name) {
                return Err(StoreErrorKind::Occupied(lease.to_string()));
            }
        }
        for name in names {
            let open = "SELECT id FROM rounds WHERE repo = $1 AND loop_name = $2 AND ended_ms IS NULL LIMIT 1";
            if let Some(row) = conn.row(open, args![repo, name]).await? {
                let id: String = row.get(0)?;
                return Err(StoreErrorKind::Occupied(format!("round {id} of `{name}` is not over")));
            }
        }
    }
    Ok(())
}

/// Gives the rows of a loop another name.
pub(super) async fn rename_loop(conn: &mut SqlConnection, [repo, from, to]: [&str; 3]) -> SqlResult<()> {
    let used = "SELECT id FROM rounds WHERE repo = $1 AND loop_name = $2 LIMIT 1";
    if conn.row(used, args![repo, to]).await?.is_some() {
        return Err(StoreErrorKind::Conflict(format!("loop `{to}` has rounds of its own")));
    }
    for table in KNOWN_EARLY {
        let sql = format!("DELETE FROM {table} WHERE repo = $1 AND loop_name = $2");
        conn.exec(sql, args![repo, to]).await?;
    }
    for table in TABLES {
        let sql = format!("UPDATE {table} SET loop_name = $1 WHERE repo = $2 AND loop_name = $3");
        conn.exec(sql, args![to, repo, from]).await?;
    }
    Ok(())
}
