//! Leases: which process runs a round, and which one schedules. A lease is taken in the transaction of a batch, and
//! every later batch about the round is refused unless the lease still has the fencing number from then.

use std::collections::HashSet;
use std::fmt;

use loopwright_core::dispatch::{ResourceHolder, RoundClaims, RoundLock, lock_taken_text};
use loopwright_core::round::RoundPhase;

use super::conn::{SqlColumn as _, SqlConnection, SqlResult, SqlRow, args, unknown};
use super::error::StoreErrorKind;
use super::offers::OFFERED;
use super::process::ProcessRow;
use super::rows::{SqlTable as _, columns_of};

/// The name of the lease of the one process that schedules loops.
pub const DISPATCHER: &str = "dispatcher";

/// A process's request for a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRequest {
    /// The round, or [`DISPATCHER`].
    pub name: String,
    /// The loop's repository.
    pub repo: String,
    /// The loop.
    pub loop_name: String,
    /// The locks it needs while it runs.
    pub needs: LeaseNeeds,
}

/// The locks that a round holds against others while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseNeeds {
    /// Nothing: an answer only ends a round, and the dispatcher has a lease of its own kind.
    Nothing,
    /// Its loop's slot and its locks, against rounds of other processes. This process has already admitted it.
    AmongProcesses(RoundClaims),
    /// The same, and its locks also against rounds of this process.
    Everywhere(RoundClaims),
}

impl LeaseNeeds {
    /// The loop's slot without locks: an open round that only ends keeps the next round of its loop waiting.
    pub(crate) fn loop_slot() -> Self {
        Self::AmongProcesses(RoundClaims::default())
    }

    fn claims(&self) -> Option<&RoundClaims> {
        match self {
            Self::Nothing => None,
            Self::AmongProcesses(claims) | Self::Everywhere(claims) => Some(claims),
        }
    }
}

/// Whether a round starts or resumes with a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeaseKind {
    Start,
    Resume,
}

/// A lease that a process holds.
#[derive(Debug, Clone, PartialEq)]
pub struct RoundLease {
    /// The round, or [`DISPATCHER`].
    pub name: String,
    /// Its fencing number.
    pub fence: i64,
    /// The time at which it was taken.
    pub since_ms: i64,
    /// The loop's repository.
    pub repo: String,
    /// The loop.
    pub loop_name: String,
    /// Its locks and its longest duration; `None` when it blocks no other round.
    pub claims: Option<RoundClaims>,
    /// The process, unless it is gone and its row was removed.
    pub process: Option<ProcessRow>,
    /// The relation of that process to the one that asks.
    pub holder: LeaseHolder,
}

/// The holder of a lease, from the point of view of the process that asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseHolder {
    /// The same opening of the store.
    Ours,
    /// Another one, which is alive or cannot be distinguished from a live one.
    Other,
    /// One that is gone: the lease is free.
    Gone,
    /// None yet: the round is offered to the workers, and only a claim or a withdrawal takes it.
    Offered,
}

impl RoundLease {
    /// A description of the process.
    #[must_use]
    pub fn process_text(&self) -> String {
        let unknown = if self.holder == LeaseHolder::Offered { "the queue of the workers" } else { "a process" };
        self.process.as_ref().map_or(unknown.to_owned(), ToString::to_string)
    }

    /// Why a round with these claims may not start, if this lease conflicts with it.
    fn hinders(&self, request: &LeaseRequest, claims: &RoundClaims, kind: LeaseKind) -> Option<String> {
        self.claims.as_ref()?;
        let is_same_loop = (&self.repo, &self.loop_name) == (&request.repo, &request.loop_name);
        match self.holder {
            LeaseHolder::Other | LeaseHolder::Offered if is_same_loop => {
                Some(format!("round {} of it is under way in {}", self.name, self.process_text()))
            }
            // That round is finished first, which releases this lease. Several left rounds of a loop do not wait for each
            // other.
            LeaseHolder::Gone if is_same_loop && kind == LeaseKind::Start => {
                Some(format!("round {} of it was left by {}, which is gone", self.name, self.process_text()))
            }
            LeaseHolder::Ours if !matches!(request.needs, LeaseNeeds::Everywhere(_)) => None,
            // The round of a gone process keeps its locks until it is recovered, which fences a process that was only late.
            LeaseHolder::Ours | LeaseHolder::Other | LeaseHolder::Gone | LeaseHolder::Offered => {
                self.keeps_from(claims)
            }
        }
    }

    /// Why a round with these locks may not start beside this one, if they conflict.
    #[must_use]
    pub fn keeps_from(&self, claims: &RoundClaims) -> Option<String> {
        let own = self.claims.as_ref()?;
        let (lock, held) = claims.conflict_with(own)?;
        let holder = ResourceHolder {
            r#loop: self.loop_name.clone(),
            repo: self.repo.clone(),
            round: Some(self.name.clone()),
            since_ms: self.since_ms,
            expires_ms: own.wall_ms.map(|wall_ms| self.since_ms.saturating_add(wall_ms)),
        };
        let text = lock_taken_text(&lock.to_string(), &held.to_string(), &holder);
        Some(match self.holder {
            LeaseHolder::Ours => text,
            LeaseHolder::Other | LeaseHolder::Gone | LeaseHolder::Offered => {
                format!("{text} in {}", self.process_text())
            }
        })
    }
}

impl fmt::Display for RoundLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let process = self.process_text();
        match self.name.as_str() {
            DISPATCHER => write!(f, "loops are scheduled by {process}"),
            round => write!(f, "round {round} of `{}` is under way in {process}", self.loop_name),
        }
    }
}

/// A lease as it is on record, its holder's instance, and whether its round is at rest: its holder only had a report to
/// write, or had not begun to resume it.
fn read(row: &SqlRow, ours: &str) -> SqlResult<(RoundLease, String, bool)> {
    const AT: usize = ProcessRow::COLUMNS.len();
    let (locks, instance): (String, String) = (row.get(AT + 5)?, row.get(AT + 6)?);
    let phase: Option<String> = row.get(AT + 7)?;
    let phase = phase.map(|word| RoundPhase::parse(&word).ok_or_else(|| unknown("phase", &word))).transpose()?;
    let is_at_rest = phase.is_some_and(RoundPhase::is_at_rest);
    let process: Option<String> = row.get(0)?;
    let process = process.map(|_| ProcessRow::read(row)).transpose()?;
    let holder = match &process {
        _ if instance == ours => LeaseHolder::Ours,
        Some(_) => LeaseHolder::Other,
        None if instance == OFFERED => LeaseHolder::Offered,
        None => LeaseHolder::Gone,
    };
    let lease = RoundLease {
        name: row.get(AT)?,
        fence: row.get(AT + 1)?,
        since_ms: row.get(AT + 2)?,
        repo: row.get(AT + 3)?,
        loop_name: row.get(AT + 4)?,
        claims: read_locks(&locks)?,
        process,
        holder,
    };
    Ok((lease, instance, is_at_rest))
}

/// All leases that a process has, also one that is gone. A gone process's lease of a round at rest counts as released: nothing
/// is left to recover, and the lease must not keep the loop from its next round.
pub(super) async fn held(conn: &mut SqlConnection, ours: &str, gone: &HashSet<String>) -> SqlResult<Vec<RoundLease>> {
    // The columns of the process come first, so that they are read as its row.
    let sql = format!(
        "SELECT {}, l.name, l.fence, l.since_ms, l.repo, l.loop_name, l.locks, l.instance, r.phase FROM leases l \
         LEFT JOIN processes p ON p.instance = l.instance LEFT JOIN rounds r ON r.id = l.name \
         WHERE l.instance <> '' ORDER BY l.since_ms, l.name",
        columns_of::<ProcessRow>("p")
    );
    let mut leases = Vec::new();
    for row in conn.rows(sql, &[]).await? {
        let (mut lease, instance, is_at_rest) = read(&row, ours)?;
        if gone.contains(&instance) {
            lease.holder = LeaseHolder::Gone;
        }
        if lease.holder != LeaseHolder::Gone || !is_at_rest {
            leases.push(lease);
        }
    }
    Ok(leases)
}

/// Takes a lease in the open transaction and returns its fencing number. `gone` names processes that were found gone
/// before the transaction began; every other one counts as alive.
pub(super) async fn take(
    conn: &mut SqlConnection,
    ours: &str,
    gone: &HashSet<String>,
    request: &LeaseRequest,
    now_ms: i64,
) -> SqlResult<i64> {
    let held = held(conn, ours, gone).await?;
    let own = held.iter().find(|lease| lease.name == request.name);
    if let Some(lease) = own.filter(|lease| matches!(lease.holder, LeaseHolder::Other | LeaseHolder::Offered)) {
        return Err(StoreErrorKind::Held(Box::new(lease.clone())));
    }
    if let Some(claims) = request.needs.claims() {
        let others = held.iter().filter(|lease| lease.name != request.name);
        let kind = if is_recorded(conn, &request.name).await? { LeaseKind::Resume } else { LeaseKind::Start };
        if let Some(why) = others.filter_map(|lease| lease.hinders(request, claims, kind)).next() {
            return Err(StoreErrorKind::Occupied(why));
        }
        if let Some(left) = left_open(conn, request).await? {
            return Err(StoreErrorKind::Occupied(format!("round {left} of it has not ended, and no process runs it")));
        }
    }
    let row = conn.row("SELECT fence FROM leases WHERE name = $1", args![&request.name]).await?;
    let fence = row.map_or(Ok(0), |row| row.get::<i64>(0))? + 1;
    let LeaseRequest { name, repo, loop_name, needs } = request;
    let locks = write_locks(needs.claims());
    let sql = "INSERT INTO leases (name, fence, instance, since_ms, repo, loop_name, locks) \
               VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (name) DO UPDATE SET fence = excluded.fence, \
               instance = excluded.instance, since_ms = excluded.since_ms, repo = excluded.repo, \
               loop_name = excluded.loop_name, locks = excluded.locks";
    conn.exec(sql, args![name, fence, ours, now_ms, repo, loop_name, &locks]).await?;
    Ok(fence)
}

/// For a round that starts, another round of its loop that is neither at rest nor leased: a start whose commit succeeded
/// although its answer was lost leaves one. It is recovered first, so that rounds of a loop never overlap.
async fn left_open(conn: &mut SqlConnection, request: &LeaseRequest) -> SqlResult<Option<String>> {
    let LeaseRequest { name, repo, loop_name, .. } = request;
    if is_recorded(conn, name).await? {
        return Ok(None);
    }
    let sql = "SELECT r.id, r.phase FROM rounds r LEFT JOIN leases l ON l.name = r.id WHERE r.ended_ms IS NULL \
               AND r.repo = $1 AND r.loop_name = $2 AND (l.instance IS NULL OR l.instance = '') ORDER BY r.started_ms, r.id";
    for row in conn.rows(sql, args![repo, loop_name]).await? {
        if !RoundPhase::read(&row, 1)?.is_at_rest() {
            return row.get(0).map(Some);
        }
    }
    Ok(None)
}

/// Whether a round is on record, so that it does not start but continues.
async fn is_recorded(conn: &mut SqlConnection, round: &str) -> SqlResult<bool> {
    Ok(conn.row("SELECT id FROM rounds WHERE id = $1", args![round]).await?.is_some())
}

/// The fencing number of a lease, and its holder's instance; 0 for a lease that was never taken.
pub(super) async fn fence(conn: &mut SqlConnection, name: &str) -> SqlResult<(i64, String)> {
    let row = conn.row("SELECT fence, instance FROM leases WHERE name = $1", args![name]).await?;
    row.map_or(Ok((0, String::new())), |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Releases a lease, if it still has this fencing number.
pub(super) async fn release(conn: &mut SqlConnection, name: &str, fence: i64) -> SqlResult<()> {
    let sql = "UPDATE leases SET instance = '', locks = '' WHERE name = $1 AND fence = $2";
    conn.exec(sql, args![name, fence]).await.map(drop)
}

/// Releases all leases of a process, and removes the process.
pub(super) async fn release_all(conn: &mut SqlConnection, ours: &str) -> SqlResult<()> {
    conn.exec("UPDATE leases SET instance = '', locks = '' WHERE instance = $1", args![ours]).await?;
    conn.exec("DELETE FROM processes WHERE instance = $1", args![ours]).await.map(drop)
}

/// The column format of locks: each with its repository, then the longest duration.
type Written = (Vec<(Option<String>, String)>, Option<i64>);

fn write_locks(claims: Option<&RoundClaims>) -> String {
    let Some(claims) = claims else { return String::new() };
    let locks = claims.locks.iter().map(|lock| (lock.repo().map(str::to_owned), lock.to_string())).collect();
    let written: Written = (locks, claims.wall_ms);
    serde_json::to_string(&written).expect("text and numbers can be written as JSON")
}

fn read_locks(text: &str) -> SqlResult<Option<RoundClaims>> {
    if text.is_empty() {
        return Ok(None);
    }
    let (locks, wall_ms): Written =
        serde_json::from_str(text).map_err(|why| StoreErrorKind::Corrupt(format!("the locks of a lease: {why}")))?;
    let lock = |(repo, text): (Option<String>, String)| match repo {
        Some(repo) => RoundLock::from_text(&repo, &text),
        None => RoundLock::from(text.as_str()),
    };
    Ok(Some(RoundClaims { locks: locks.into_iter().map(lock).collect(), wall_ms, ..RoundClaims::default() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_read_back_as_they_were_written() {
        let locks = vec![
            RoundLock::from_text("repo", "path:src/"),
            RoundLock::from_text("repo", "global:gpu"),
            RoundLock::from_text("repo", "issue:7"),
        ];
        let claims = RoundClaims { locks, wall_ms: Some(5), ..RoundClaims::default() };
        let text = write_locks(Some(&claims));
        assert_eq!(read_locks(&text), Ok(Some(claims)));
        assert_eq!(read_locks(""), Ok(None));
        assert!(matches!(read_locks("[1"), Err(StoreErrorKind::Corrupt(_))));
    }
}
