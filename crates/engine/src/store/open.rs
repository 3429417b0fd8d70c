//! Opening a store: for reading, or as its one owner. The order of the checks matters: nothing is written
//! before the version is known and the file is sound, and nothing is migrated before it is ours.

use std::path::Path;
use std::time::Duration;

use tokio::sync::Mutex;

use super::conn::{Conn, Dialect, Outcome};
use super::error::{During as _, StoreError, StoreErrorKind};
use super::migrate::{self, Migration};
use super::owner::{self, OwnerInfo};
use super::postgres::PostgresPlace;
use super::sqlite::{Access, Lock, SqlitePlace};
use super::verify;

/// What the store is opened for.
#[derive(Debug, Clone)]
pub enum Mode {
    /// To write: one owner at a time.
    Own(OwnerInfo),
    /// To look, also while an owner writes. Never creates, never migrates.
    Read,
}

/// The store in SQLite or PostgreSQL.
pub struct SqlStore {
    pub(super) place: Place,
    /// None in a store that is open for reading.
    pub(super) ownership: Option<Ownership>,
    pub(super) writer: Mutex<Writer>,
    pub(super) reader: Mutex<Option<Conn>>,
}

/// What makes us the owner.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ownership {
    pub(super) fence: i64,
    pub(super) lease: Duration,
}

/// The one connection that writes. It is taken out while it is used: a future that is dropped in the
/// middle takes its open transaction with it.
#[derive(Default)]
pub(super) struct Writer {
    pub(super) conn: Option<Conn>,
    /// The system's lock, held for the life of the store.
    pub(super) lock: Option<Lock>,
    pub(super) closed: bool,
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

    /// Opens an SQLite store; as owner also creates it, with its folder, if it is missing.
    pub async fn open_sqlite(path: &Path, mode: Mode) -> Result<Self, StoreError> {
        let doing = || format!("open store `{}`", path.display());
        let place = SqlitePlace::new(path).during(doing)?;
        match mode {
            Mode::Read => read_sqlite(place).await,
            Mode::Own(info) => own_sqlite(place, &info, migrate::ALL).await,
        }
        .during(doing)
    }

    /// Opens a PostgreSQL store; as owner also creates its tables in an empty database.
    pub async fn open_postgres(url: &str, mode: Mode) -> Result<Self, StoreError> {
        let place = PostgresPlace::new(url).during(|| "open the PostgreSQL store".into())?;
        let doing = || format!("open store `{}`", place.name());
        match mode {
            Mode::Read => read_postgres(&place).await,
            Mode::Own(info) => own_postgres(&place, &info, migrate::ALL).await,
        }
        .during(doing)
    }

    fn reading(place: Place, reader: Conn) -> Self {
        Self { place, ownership: None, writer: Mutex::default(), reader: Mutex::new(Some(reader)) }
    }

    fn owning(place: Place, reader: Conn, writer: Writer, ownership: Ownership) -> Self {
        Self { place, ownership: Some(ownership), writer: Mutex::new(writer), reader: Mutex::new(Some(reader)) }
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

async fn own_sqlite(mut place: SqlitePlace, info: &OwnerInfo, all: &[Migration]) -> Outcome<SqlStore> {
    place.prepare_folder()?;
    let lock = Some(place.lock(info).await?);
    if !place.present()? {
        place.create().await?;
    }
    place.close_to_others()?;
    place.identify()?;
    let mut reader = place.connect(Access::Read).await?;
    let version = ours(migrate::version(&mut reader, all).await?)?;
    if place.is_small() {
        verify::quick(&mut reader).await?;
    }
    verify::recent(&mut reader).await?;
    let mut conn = place.connect(Access::Write).await?;
    if version < migrate::known(all) {
        place.backup(&mut conn, version).await?;
    }
    let fence = owner::take(&mut conn, info).await?;
    migrate::run(&mut conn, all).await?;
    let writer = Writer { conn: Some(conn), lock, closed: false };
    Ok(SqlStore::owning(Place::Sqlite(place), reader, writer, Ownership { fence, lease: info.lease }))
}

async fn read_postgres(place: &PostgresPlace) -> Outcome<SqlStore> {
    let mut reader = place.connect().await?;
    if migrate::version(&mut reader, migrate::ALL).await? == 0 {
        return Err(StoreErrorKind::Missing);
    }
    Ok(SqlStore::reading(Place::Postgres(place.clone()), reader))
}

async fn own_postgres(place: &PostgresPlace, info: &OwnerInfo, all: &[Migration]) -> Outcome<SqlStore> {
    let mut conn = place.connect().await?;
    debug_assert_eq!(conn.dialect(), Dialect::Postgres);
    if migrate::version(&mut conn, all).await? == 0 {
        migrate::run(&mut conn, all).await?;
    }
    let mut reader = place.connect().await?;
    verify::recent(&mut reader).await?;
    let fence = owner::take(&mut conn, info).await?;
    migrate::run(&mut conn, all).await?;
    let writer = Writer { conn: Some(conn), lock: None, closed: false };
    let ownership = Ownership { fence, lease: info.lease };
    Ok(SqlStore::owning(Place::Postgres(place.clone()), reader, writer, ownership))
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
        own_sqlite(SqlitePlace::new(path)?, &OwnerInfo::current(1), all).await
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
