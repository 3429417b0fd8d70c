//! The processes that have the store open for writing: their identity, and whether one of them is gone.
//!
//! On SQLite each process holds an operating system lock on a file of its own beside the database. The lock is free the
//! moment the process is dead, wherever it ran on this machine; a frozen process keeps it. On PostgreSQL a process of
//! this machine is identified by its pid, start time and boot, and any process is gone when its lease has expired by
//! the database's clock.

use std::fmt;
use std::time::Duration;

use super::conn::{SqlArg, SqlColumn, SqlConnection, SqlDialect, SqlResult, SqlRow, args};
use super::error::StoreErrorKind;
use super::open::StoreLocation;
use super::patience::ServerContact;
use super::postgres;
use super::rows::{SqlTable, insert_sql, select, table};

/// The process that opens the store for writing. A pid alone is never trusted: the boot and the start time within it
/// distinguish a reused pid from the recorded one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessInfo {
    /// The process id.
    pub pid: u32,
    /// The machine's name.
    pub host: String,
    /// The kernel's id of this boot, and the namespace of the pid.
    pub boot_id: String,
    /// The process's start, in clock ticks since the boot.
    pub start_ticks: i64,
    /// The current time, in milliseconds since 1970.
    pub since_ms: i64,
    /// How long its leases last without renewal (PostgreSQL only).
    pub lease: Duration,
    /// How long the database may take for one answer (PostgreSQL only); then the connection counts as lost.
    pub answer: Duration,
}

/// Another machine may take over only after three missed renewals, at one a minute.
const LEASE: Duration = Duration::from_secs(180);
/// A process that has not renewed its lease for this long is removed.
const FORGOTTEN_MS: i64 = 7 * 86_400_000;

impl ProcessInfo {
    /// This process, from `since_ms` on.
    #[must_use]
    pub fn current(since_ms: i64) -> Self {
        let pid = std::process::id();
        let read = |path| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        Self {
            pid,
            host: read("/proc/sys/kernel/hostname"),
            boot_id: format!("{} {}", read("/proc/sys/kernel/random/boot_id"), namespace.display()),
            start_ticks: stat(pid).map_or(0, |(_, start)| start),
            since_ms,
            lease: LEASE,
            answer: postgres::ANSWER,
        }
    }
}

/// The state and the start of a live process in clock ticks since the boot: fields 3 and 22 of its stat line. They are
/// counted after the command's closing parenthesis, because the command may contain any character.
fn stat(pid: u32) -> Option<(char, i64)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    Some((fields.next()?.chars().next()?, fields.nth(18)?.parse().ok()?))
}

table! {
    /// A process as recorded.
    ProcessRow in "processes" by ["instance"], since 5;
    /// The name of this opening of the store.
    instance: String,
    /// The process id.
    pid: i64,
    /// The machine's name.
    host: String,
    /// The kernel's id of that boot, and the namespace of the pid.
    boot_id: String,
    /// The process's start, in clock ticks since the boot.
    start_ticks: i64,
    /// When it opened the store, in milliseconds since 1970.
    since_ms: i64,
    /// When its leases expire by the database's clock; 0 where an operating system lock decides.
    lease_until_ms: i64,
    /// The number of its writes without events.
    writes: i64,
}

impl ProcessRow {
    /// When it last renewed its lease, by the database's clock.
    #[must_use]
    pub fn seen_ms(&self) -> i64 {
        self.lease_until_ms.saturating_sub(lease_ms(LEASE))
    }

    fn stat(&self) -> Option<char> {
        let pid = u32::try_from(self.pid).unwrap_or(0);
        // A process that ended and that its parent has not collected yet is gone: it does nothing any more.
        let is_it = |(state, start): &(char, i64)| *start == self.start_ticks && !matches!(state, 'Z' | 'X' | 'x');
        stat(pid).filter(is_it).map(|(state, _)| state)
    }

    /// Whether it runs on this machine, in the same boot and namespace.
    #[must_use]
    pub fn is_of_this_machine(&self) -> bool {
        let here = ProcessInfo::current(0);
        (&self.host, &self.boot_id) == (&here.host, &here.boot_id)
    }

    /// Whether a signal stopped it until it is continued, as far as this machine can determine.
    fn is_frozen(&self) -> bool {
        self.is_of_this_machine() && matches!(self.stat(), Some('T' | 't'))
    }
}

impl fmt::Display for ProcessRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = jiff::Timestamp::from_millisecond(self.since_ms).unwrap_or_default();
        let frozen = if self.is_frozen() { " (frozen: `kill -CONT` lets it continue)" } else { "" };
        write!(f, "process {} on {} since {since}{frozen}", self.pid, self.host)
    }
}

/// The moments that decide whether a lease that has expired is free.
#[derive(Debug, Clone, Copy)]
pub(super) struct LeaseExpiry {
    /// The database's clock.
    now_ms: i64,
    /// Leases that were last renewed before this moment may only have missed an outage, until `settled_ms`.
    since_ms: i64,
    settled_ms: i64,
    lease_ms: i64,
}

impl LeaseExpiry {
    /// Every lease that has expired is free.
    pub(super) fn at(now_ms: i64) -> Self {
        Self { now_ms, since_ms: i64::MIN, settled_ms: i64::MIN, lease_ms: 0 }
    }

    fn has_expired(&self, lease_until_ms: i64) -> bool {
        let is_renewed = lease_until_ms.saturating_sub(self.lease_ms) >= self.since_ms;
        lease_until_ms <= self.now_ms && (is_renewed || self.settled_ms <= self.now_ms)
    }
}

/// Reads when a lease has expired. After a restart or a failover of the server, and after an outage that this process
/// noticed, the others get the length of a lease to renew theirs.
pub(super) async fn expiry(
    conn: &mut SqlConnection,
    contact: &ServerContact,
    lease: Duration,
) -> SqlResult<LeaseExpiry> {
    if conn.dialect() == SqlDialect::Sqlite {
        return Ok(LeaseExpiry::at(now_ms(conn).await?));
    }
    let sql = format!("SELECT {}, {STARTED}, started_ms, seen_ms FROM server WHERE id = 1", conn.dialect().now());
    let row =
        conn.row(sql, &[]).await?.ok_or_else(|| StoreErrorKind::Corrupt("the server's start is missing".into()))?;
    let (now_ms, started_ms, known_ms, seen_ms): (i64, i64, i64, i64) =
        (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
    let since_ms = if started_ms == known_ms && !contact.doubts() { seen_ms } else { now_ms };
    let lease_ms = lease_ms(lease);
    Ok(LeaseExpiry { now_ms, since_ms, settled_ms: since_ms.saturating_add(lease_ms), lease_ms })
}

/// The start of this server process. A server that was promoted has another one too.
const STARTED: &str = "CAST(EXTRACT(EPOCH FROM pg_postmaster_start_time()) * 1000 AS BIGINT)";

/// Records that the server is another one than before, once.
async fn note_server(conn: &mut SqlConnection) -> SqlResult<()> {
    let now = conn.dialect().now();
    let sql =
        format!("UPDATE server SET started_ms = {STARTED}, seen_ms = {now} WHERE id = 1 AND started_ms <> {STARTED}");
    conn.exec(sql, &[]).await.map(drop)
}

/// Whether a recorded process is gone.
pub(super) fn is_gone(place: &StoreLocation, row: &ProcessRow, expiry: &LeaseExpiry) -> SqlResult<bool> {
    match place {
        StoreLocation::Sqlite(place) => place.is_free(&row.instance),
        StoreLocation::Postgres(_) => {
            let is_dead = row.is_of_this_machine() && row.stat().is_none();
            Ok(is_dead || expiry.has_expired(row.lease_until_ms))
        }
    }
}

/// The database's clock.
pub(super) async fn now_ms(conn: &mut SqlConnection) -> SqlResult<i64> {
    let row = conn.row(format!("SELECT {}", conn.dialect().now()), &[]).await?;
    row.ok_or_else(|| StoreErrorKind::Corrupt("the database has no clock".into()))?.get(0)
}

/// Records this process, and removes processes that are gone and hold no lease.
pub(super) async fn register(
    conn: &mut SqlConnection,
    place: &StoreLocation,
    instance: &str,
    info: &ProcessInfo,
) -> SqlResult<()> {
    for row in unused(conn, place).await? {
        let sql = "DELETE FROM processes WHERE instance = $1 \
                   AND NOT EXISTS (SELECT 1 FROM leases WHERE leases.instance = processes.instance)";
        conn.exec(sql, args![&row]).await?;
    }
    let lease_until_ms = match conn.dialect() {
        SqlDialect::Sqlite => 0,
        SqlDialect::Postgres => {
            note_server(conn).await?;
            now_ms(conn).await?.saturating_add(lease_ms(info.lease))
        }
    };
    let ProcessInfo { pid, host, boot_id, start_ticks, since_ms, .. } = info.clone();
    let (instance, pid) = (instance.to_owned(), i64::from(pid));
    let row = ProcessRow { instance, pid, host, boot_id, start_ticks, since_ms, lease_until_ms, writes: 0 };
    conn.exec(insert_sql::<ProcessRow>(), &row.args()).await.map(drop)
}

/// Processes that are gone and hold no lease.
async fn unused(conn: &mut SqlConnection, place: &StoreLocation) -> SqlResult<Vec<String>> {
    let sql =
        select::<ProcessRow>("WHERE NOT EXISTS (SELECT 1 FROM leases WHERE leases.instance = processes.instance)");
    let now_ms = now_ms(conn).await?;
    let mut gone = Vec::new();
    for row in conn.rows(sql, &[]).await? {
        let row = ProcessRow::read(&row)?;
        let is_forgotten = match place {
            StoreLocation::Sqlite(_) => true,
            // A process that is only late still renews its lease: on this machine its pid decides, elsewhere a long time.
            StoreLocation::Postgres(_) => match row.is_of_this_machine() {
                true => row.stat().is_none(),
                false => row.lease_until_ms < now_ms - FORGOTTEN_MS,
            },
        };
        if is_forgotten && is_gone(place, &row, &LeaseExpiry::at(now_ms))? {
            gone.push(row.instance);
        }
    }
    Ok(gone)
}

/// Extends our leases from now on.
pub(super) async fn extend(conn: &mut SqlConnection, instance: &str, lease: Duration) -> SqlResult<()> {
    if conn.dialect() == SqlDialect::Postgres {
        note_server(conn).await?;
    }
    let now = conn.dialect().now();
    let sql = format!("UPDATE processes SET lease_until_ms = {now} + $1 WHERE instance = $2");
    match conn.exec(sql, args![lease_ms(lease), instance]).await? {
        0 => Err(StoreErrorKind::Closed),
        _ => Ok(()),
    }
}

/// The end of a lease that is renewed at this moment, in milliseconds.
pub(super) fn lease_end(now_ms: i64, lease: Duration) -> i64 {
    now_ms.saturating_add(lease_ms(lease))
}

fn lease_ms(lease: Duration) -> i64 {
    i64::try_from(lease.as_millis()).unwrap_or(i64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_that_expired_while_the_server_was_away_is_not_free_before_it_could_be_renewed() {
        let expiry = LeaseExpiry { now_ms: 1_000, since_ms: 900, settled_ms: 1_080, lease_ms: 180 };
        assert!(!expiry.has_expired(800), "it was renewed at 620, and could not be since");
        assert!(!expiry.has_expired(1_001), "it has not expired");
        let later = LeaseExpiry { now_ms: 1_080, ..expiry };
        assert!(later.has_expired(800), "a lease has passed");
        let much_later = LeaseExpiry { now_ms: 1_079, since_ms: 900, settled_ms: 2_000, lease_ms: 10 };
        assert!(much_later.has_expired(1_000), "it was renewed since, at 990");
        assert!(LeaseExpiry::at(1_000).has_expired(1_000));
    }
}
