//! Opening a store: for reading, or for writing beside any number of others. The order of the checks matters: nothing is
//! written before the version is known and the file is sound. One process creates or migrates, the others wait for it.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use tokio::sync::Mutex;

use super::conn::{Conn, Dialect, Outcome};
use super::error::{During as _, StoreError, StoreErrorKind};
use super::migrate::{self, Migration};
use super::postgres::PostgresPlace;
use super::process::{self, ProcessInfo};
use super::sqlite::{Access, ProcessLock, SqlitePlace};
use super::verify;

/// What the store is opened for.
#[derive(Debug, Clone)]
pub enum Mode {
    /// To write, beside others.
    Write(ProcessInfo),
    /// To look. Never creates, never migrates.
    Read,
}

/// The store in SQLite or PostgreSQL.
pub struct SqlStore {
    pub(super) place: Place,
    /// The name of this opening; none in a store that is open for reading.
    pub(super) instance: Option<String>,
    /// How long leases last without renewal.
    pub(super) lease: Duration,
    pub(super) writer: Mutex<Writer>,
    pub(super) reader: Mutex<Option<Conn>>,
}

/// The one connection that writes. It is taken out while it is used: a future that is dropped in the
/// middle takes its open transaction with it.
#[derive(Default)]
pub(super) struct Writer {
    pub(super) conn: Option<Conn>,
    /// Says that this opening is alive, for as long as the store lives.
    pub(super) lock: Option<ProcessLock>,
    pub(super) closed: bool,
    /// The leases this opening took, with their fencing numbers.
    pub(super) held: HashMap<String, i64>,
    /// How often it wrote without events.
    pub(super) writes: i64,
}

/// Where the database is.
pub(super) enum Place {
    Sqlite(SqlitePlace),
    Postgres(PostgresPlace),
}

impl Place {
    pub(super) fn name(&self) -> String {
        match self {
            Place::Sqlite(place) => place.name(),
            Place::Postgres(place) => place.name(),
        }
    }

    pub(super) async fn connect(&self, access: Access) -> Outcome<Conn> {
        match self {
            Place::Sqlite(place) => place.connect(access).await,
            Place::Postgres(place) => place.connect().await,
        }
    }

    /// Copies the database into a new file.
    pub(super) async fn copy_into(&self, path: &Path) -> Outcome<()> {
        match self {
            Place::Sqlite(place) => place.copy_into(path).await,
            Place::Postgres(_) => {
                Err(StoreErrorKind::Unsuitable("it is in PostgreSQL, whose own `pg_dump` copies it".into()))
            }
        }
    }

    /// Refuses when the file is no longer the one that was opened.
    pub(super) fn unchanged(&self) -> Outcome<()> {
        match self {
            Place::Sqlite(place) => place.unchanged(),
            Place::Postgres(_) => Ok(()),
        }
    }
}

impl SqlStore {
    /// Opens the store at `location`: a `postgres://` address or the path of an SQLite file.
    pub async fn open(location: &str, mode: Mode) -> Result<Self, StoreError> {
        if location.starts_with("postgres://") || location.starts_with("postgresql://") {
            return Self::open_postgres(location, mode).await;
        }
        Self::open_sqlite(Path::new(location), mode).await
    }

    /// Opens an SQLite store; to write also creates it, with its folder, if it is missing.
    pub async fn open_sqlite(path: &Path, mode: Mode) -> Result<Self, StoreError> {
        let doing = || format!("open store `{}`", path.display());
        let place = SqlitePlace::new(path).during(doing)?;
        match mode {
            Mode::Read => read_sqlite(place).await,
            Mode::Write(info) => write_sqlite(place, &info, migrate::ALL).await,
        }
        .during(doing)
    }

    /// Opens a PostgreSQL store; to write also creates its tables in an empty database.
    pub async fn open_postgres(url: &str, mode: Mode) -> Result<Self, StoreError> {
        let place = PostgresPlace::new(url).during(|| "open the PostgreSQL store".into())?;
        let doing = || format!("open store `{}`", place.name());
        match mode {
            Mode::Read => read_postgres(&place).await,
            Mode::Write(info) => write_postgres(&place, &info, migrate::ALL).await,
        }
        .during(doing)
    }

    /// Whether leases have to be renewed.
    #[must_use]
    pub fn is_leased(&self) -> bool {
        matches!(self.place, Place::Postgres(_)) && self.instance.is_some()
    }

    pub(super) fn instance(&self) -> Outcome<&str> {
        self.instance.as_deref().ok_or(StoreErrorKind::ReadOnly)
    }

    fn reading(place: Place, reader: Conn) -> Self {
        let (writer, reader) = (Mutex::default(), Mutex::new(Some(reader)));
        Self { place, instance: None, lease: Duration::ZERO, writer, reader }
    }

    /// Records this process and goes to work.
    async fn writing_as(
        place: Place,
        reader: Conn,
        mut conn: Conn,
        instance: String,
        lock: Option<ProcessLock>,
        info: &ProcessInfo,
    ) -> Outcome<Self> {
        process::register(&mut conn, &place, &instance, info).await?;
        let writer = Mutex::new(Writer { conn: Some(conn), lock, ..Writer::default() });
        Ok(Self { place, instance: Some(instance), lease: info.lease, writer, reader: Mutex::new(Some(reader)) })
    }
}

/// A file that is a database but not one of ours is refused, never filled with our tables.
fn ours(version: i64) -> Outcome<i64> {
    match version {
        0 => Err(StoreErrorKind::Corrupt("the file is a database, but not a Loopwright store".into())),
        version => Ok(version),
    }
}

async fn read_sqlite(mut place: SqlitePlace) -> Outcome<SqlStore> {
    if !place.present()? {
        return Err(StoreErrorKind::Missing);
    }
    let mut reader = place.connect(Access::Read).await?;
    ours(migrate::version(&mut reader, migrate::ALL).await?)?;
    place.identify()?;
    Ok(SqlStore::reading(Place::Sqlite(place), reader))
}

async fn write_sqlite(mut place: SqlitePlace, info: &ProcessInfo, all: &[Migration]) -> Outcome<SqlStore> {
    place.prepare_folder()?;
    if !place.present()? {
        let _one = place.lock().await?;
        if !place.present()? {
            place.create().await?;
        }
    }
    place.close_to_others()?;
    place.identify()?;
    let mut reader = place.connect(Access::Read).await?;
    let mut version = ours(migrate::version(&mut reader, all).await?)?;
    let one = match version < migrate::known(all) {
        true => Some(place.lock().await?),
        false => None,
    };
    if one.is_some() {
        version = ours(migrate::version(&mut reader, all).await?)?;
    }
    if place.is_small() {
        verify::quick(&mut reader).await?;
    }
    verify::recent(&mut reader).await?;
    let mut conn = place.connect(Access::Write).await?;
    if version < migrate::known(all) {
        place.backup(&mut conn, version).await?;
        migrate::run(&mut conn, all).await?;
    }
    drop(one);
    place.clear_processes();
    let (instance, lock) = place.announce()?;
    SqlStore::writing_as(Place::Sqlite(place), reader, conn, instance, Some(lock), info).await
}

async fn read_postgres(place: &PostgresPlace) -> Outcome<SqlStore> {
    let mut reader = place.connect().await?;
    if migrate::version(&mut reader, migrate::ALL).await? == 0 {
        return Err(StoreErrorKind::Missing);
    }
    Ok(SqlStore::reading(Place::Postgres(place.clone()), reader))
}

async fn write_postgres(place: &PostgresPlace, info: &ProcessInfo, all: &[Migration]) -> Outcome<SqlStore> {
    let mut conn = place.connect().await?;
    debug_assert_eq!(conn.dialect(), Dialect::Postgres);
    // One migrates, under a lock of the database; the others wait for it.
    if migrate::version(&mut conn, all).await? > 0 {
        verify::recent(&mut conn).await?;
    }
    migrate::run(&mut conn, all).await?;
    let reader = place.connect().await?;
    let instance = crate::random::nonce().map_err(|error| StoreErrorKind::Io(error.to_string()))?;
    SqlStore::writing_as(Place::Postgres(place.clone()), reader, conn, instance, None, info).await
}

#[cfg(test)]
mod tests {
    use super::super::rows::{
        InboxRow, ItemRow, LoopRow, OutboxRow, RoundRow, RoundsQuery, RoundsWhich, StoredEvent, select,
    };
    use super::super::time::{FlagRow, LoopFileRow, MemoryRow, ReceiptRow, ReceiptsQuery, ScheduleRow, SignalRow};
    use super::super::{Store as _, read, time};
    use super::*;

    const NEXT: Migration = migrate::tests::next("CREATE TABLE extra (id BIGINT); INSERT INTO extra VALUES (7);");
    /// Its second statement fails, as a crash between the two would.
    const BROKEN: Migration = migrate::tests::next("CREATE TABLE extra (id BIGINT); INSERT INTO nowhere VALUES (7);");

    /// The versions there are and one more.
    fn and(next: Migration) -> Vec<Migration> {
        migrate::ALL.iter().copied().chain([next]).collect()
    }

    async fn own(path: &Path, all: &[Migration]) -> Outcome<SqlStore> {
        write_sqlite(SqlitePlace::new(path)?, &ProcessInfo::current(1), all).await
    }

    #[tokio::test]
    async fn failed_migration_changes_nothing_and_the_next_start_goes_on() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("store.db");
        own(&path, migrate::ALL).await.expect("this version").close().await.expect("close");
        own(&path, &and(BROKEN)).await.err().expect("the step fails");
        own(&path, migrate::ALL).await.expect("it is as it was").close().await.expect("close");
        let store = own(&path, &and(NEXT)).await.expect("the next version");
        assert!(store.verify().await.expect("verify").is_ok());
        store.close().await.expect("close");
        let known = migrate::known(migrate::ALL);
        let newer = own(&path, migrate::ALL).await.err();
        assert_eq!(newer, Some(StoreErrorKind::Newer { found: known + 1, known }));
    }

    #[tokio::test]
    async fn migration_leaves_a_backup_that_the_older_binary_opens() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("store.db");
        own(&path, migrate::ALL).await.expect("this version").close().await.expect("close");
        own(&path, &and(NEXT)).await.expect("the next version").close().await.expect("close");
        let backup = dir.path().join(format!("store.db.bak-v{}", migrate::ALL.len()));
        let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&backup).expect("a backup"));
        assert_eq!(mode & 0o777, 0o600);
        own(&backup, migrate::ALL).await.expect("the backup is of this version");
    }

    /// The steps of SQLite's plan for a query, one line each.
    async fn plan(conn: &mut Conn, sql: &str) -> String {
        let rows = conn.rows(format!("EXPLAIN QUERY PLAN {sql}"), &[]).await.expect("a plan");
        let lines: Vec<String> = rows.iter().map(|row| row.get(3).expect("a step")).collect();
        lines.join("; ")
    }

    #[tokio::test]
    async fn no_listing_scans_a_table_or_sorts() {
        let dir = tempfile::tempdir().expect("a folder");
        let store = own(&dir.path().join("store.db"), migrate::ALL).await.expect("own");
        let mut queries = vec![
            select::<RoundRow>(read::OPEN_ROUNDS),
            select::<OutboxRow>(read::OUTBOX_PENDING),
            select::<OutboxRow>(read::OUTBOX),
            select::<InboxRow>(read::INBOX_OPEN),
            select::<InboxRow>(read::INBOX_ALL),
            select::<ItemRow>(read::ITEMS),
            select::<LoopRow>(read::LOOPS),
            select::<StoredEvent>(&read::first_events(3)),
            select::<ScheduleRow>(time::SCHEDULES),
            select::<SignalRow>(time::SIGNALS_PENDING),
            select::<MemoryRow>(time::MEMORY),
            select::<FlagRow>(time::FLAGS),
            select::<LoopFileRow>(time::LOOP_FILES),
        ];
        for before in [None, Some((1, String::from("due:x")))] {
            let query = ReceiptsQuery { before, ..ReceiptsQuery::default() };
            queries.push(select::<ReceiptRow>(&time::receipts_page(&query, 9).0));
        }
        for which in [RoundsWhich::All, RoundsWhich::Open] {
            for (repo, loop_name) in [(None, None), (Some("r"), None), (None, Some("l")), (Some("r"), Some("l"))] {
                for before in [None, Some((1, String::from("r1")))] {
                    let (repo, loop_name) = (repo.map(Into::into), loop_name.map(Into::into));
                    let query = RoundsQuery { repo, loop_name, which, before, limit: 9 };
                    queries.push(select::<RoundRow>(&read::rounds_page(&query).0));
                }
            }
        }
        let mut conn = store.place.connect(Access::Read).await.expect("a connection");
        for sql in queries {
            let plan = plan(&mut conn, &sql).await;
            let scans = plan.contains("SCAN") && !plan.contains("USING INDEX");
            assert!(!scans && !plan.contains("TEMP B-TREE"), "{sql}\n{plan}");
            assert_eq!(sql.contains("ended_ms IS NULL"), plan.contains("rounds_open"), "{sql}\n{plan}");
        }
    }
}
