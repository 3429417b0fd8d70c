//! Who owns the store: the process's identity, the fencing number, the lease.
//! The operating system's lock is `sqlite`'s; this file only writes and reads the `owner` row.

use std::fmt;
use std::time::Duration;

use super::conn::{Conn, Dialect, Outcome, Row, args};
use super::error::StoreErrorKind;

/// The process that wants to own the store. A pid alone is never trusted: the boot and the start time
/// within it tell a reused pid from the one that was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerInfo {
    /// The process.
    pub pid: u32,
    /// The machine's name.
    pub host: String,
    /// The kernel's id of this boot.
    pub boot_id: String,
    /// The process's start, in clock ticks since the boot.
    pub start_ticks: i64,
    /// Now, in milliseconds since 1970.
    pub since_ms: i64,
    /// How long the lease lasts without renewal (PostgreSQL only).
    pub lease: Duration,
}

/// Three renewals may be missed at one a minute before another machine may take over.
const LEASE: Duration = Duration::from_secs(180);

impl OwnerInfo {
    /// This process, owning from `since_ms` on.
    #[must_use]
    pub fn current(since_ms: i64) -> Self {
        let pid = std::process::id();
        let read = |path| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        Self {
            pid,
            host: read("/proc/sys/kernel/hostname"),
            boot_id: read("/proc/sys/kernel/random/boot_id"),
            start_ticks: start_ticks(pid).unwrap_or(0),
            since_ms,
            lease: LEASE,
        }
    }
}

/// The start of a live process in clock ticks since the boot: field 22 of its stat line, counted after
/// the command's closing parenthesis because the command may hold anything.
fn start_ticks(pid: u32) -> Option<i64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(19)?.parse().ok()
}

/// The owner as recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerRow {
    /// The process.
    pub pid: i64,
    /// The machine's name.
    pub host: String,
    /// The kernel's id of that boot.
    pub boot_id: String,
    /// The process's start, in clock ticks since the boot.
    pub start_ticks: i64,
    /// Since when, in milliseconds since 1970.
    pub since_ms: i64,
    /// Its fencing number.
    pub fence: i64,
    /// Until when its lease lasts by the database's clock; 0 where a lock of the system decides.
    pub lease_until_ms: i64,
}

impl OwnerRow {
    /// The record of a process that has no fencing number yet.
    pub(super) fn of(info: &OwnerInfo) -> Self {
        Self {
            pid: i64::from(info.pid),
            host: info.host.clone(),
            boot_id: info.boot_id.clone(),
            start_ticks: info.start_ticks,
            since_ms: info.since_ms,
            fence: 0,
            lease_until_ms: 0,
        }
    }

    pub(super) fn read(row: &Row) -> Outcome<Self> {
        Ok(Self {
            pid: row.get(0)?,
            host: row.get(1)?,
            boot_id: row.get(2)?,
            start_ticks: row.get(3)?,
            since_ms: row.get(4)?,
            fence: row.get(5)?,
            lease_until_ms: row.get(6)?,
        })
    }

    /// Whether the recorded process runs on this machine: same boot, same pid, same start.
    #[must_use]
    pub fn lives_here(&self) -> bool {
        let here = OwnerInfo::current(0);
        let pid = u32::try_from(self.pid).unwrap_or(0);
        self.boot_id == here.boot_id && start_ticks(pid) == Some(self.start_ticks)
    }
}

impl fmt::Display for OwnerRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = jiff::Timestamp::from_millisecond(self.since_ms).unwrap_or_default();
        write!(f, "process {} on {} since {since}", self.pid, self.host)
    }
}

/// Reads the one owner row.
pub(super) const READ: &str = "SELECT pid, host, boot_id, start_ticks, since_ms, fence, lease_until_ms \
                               FROM owner WHERE id = 1";

async fn locked(conn: &mut Conn, lock: &str) -> Outcome<OwnerRow> {
    let row = conn.row(format!("{READ}{lock}"), &[]).await?;
    OwnerRow::read(&row.ok_or_else(|| StoreErrorKind::Corrupt("the owner row is missing".into()))?)
}

/// Takes the store over: the next fencing number, unless another's lease still runs.
pub(super) async fn take(conn: &mut Conn, info: &OwnerInfo) -> Outcome<i64> {
    conn.begin().await?;
    match take_locked(conn, info).await {
        Ok(fence) => conn.commit().await.map(|()| fence),
        Err(error) => {
            // The connection is dropped with the failed open, so a failed rollback changes nothing.
            let _ = conn.rollback().await;
            Err(error)
        }
    }
}

async fn take_locked(conn: &mut Conn, info: &OwnerInfo) -> Outcome<i64> {
    let dialect = conn.dialect();
    let holder = locked(conn, dialect.lock()).await?;
    let now = now_ms(conn).await?;
    if dialect == Dialect::Postgres && holder.lease_until_ms > now {
        return Err(StoreErrorKind::Held(Box::new(holder)));
    }
    let fence = holder.fence + 1;
    let lease_until = match dialect {
        Dialect::Sqlite => 0,
        Dialect::Postgres => now.saturating_add(lease_ms(info.lease)),
    };
    conn.exec(
        "UPDATE owner SET fence = $1, pid = $2, host = $3, boot_id = $4, start_ticks = $5, \
         since_ms = $6, lease_until_ms = $7 WHERE id = 1",
        args![fence, i64::from(info.pid), &info.host, &info.boot_id, info.start_ticks, info.since_ms, lease_until],
    )
    .await?;
    Ok(fence)
}

/// The database's clock.
async fn now_ms(conn: &mut Conn) -> Outcome<i64> {
    let row = conn.row(format!("SELECT {}", conn.dialect().now()), &[]).await?;
    row.ok_or_else(|| StoreErrorKind::Corrupt("the database has no clock".into()))?.get(0)
}

/// Sets the end of our lease from now on, or refuses because the store is no longer ours.
pub(super) async fn extend(conn: &mut Conn, fence: i64, lease: Duration) -> Outcome<()> {
    let sql = format!("UPDATE owner SET lease_until_ms = {} + $1 WHERE id = 1 AND fence = $2", conn.dialect().now());
    if conn.exec(sql, args![lease_ms(lease), fence]).await? == 1 {
        return Ok(());
    }
    let found = locked(conn, "").await?.fence;
    Err(StoreErrorKind::Fenced { ours: fence, found })
}

fn lease_ms(lease: Duration) -> i64 {
    i64::try_from(lease.as_millis()).unwrap_or(i64::MAX / 4)
}
