//! Opens a store: for reading, or for writing beside any number of other processes. The order of the checks matters:
//! nothing is written before the version is known and the file is sound. One process creates or migrates; the others
//! wait for it.

use std::collections::HashMap;
use std::path::Path;
use std::str::FromStr as _;
use std::time::Duration;

use sqlx::ConnectOptions as _;
use sqlx::postgres::PgConnectOptions;
use tokio::sync::Mutex;

use super::conn::{SqlConnection, SqlDialect, SqlResult};
use super::error::{ErrorContext as _, StoreError, StoreErrorKind};
use super::migrate::{self, SchemaMigration};
use super::process::{self, ProcessInfo};
use super::sqlite::{ProcessLock, SqliteAccess, SqliteLocation};
use super::verify;

/// The access for which the store is opened.
#[derive(Debug, Clone)]
pub enum StoreMode {
    /// For writing, beside other processes.
    Write(ProcessInfo),
    /// For reading. Never creates, never migrates.
    Read,
}

/// The store in SQLite or PostgreSQL.
pub struct Store {
    pub(super) location: StoreLocation,
    /// The name of this opening; `None` in a store that is open for reading.
    pub(super) instance: Option<String>,
    /// How long leases last without renewal.
    pub(super) lease: Duration,
    pub(super) writer: Mutex<StoreWriter>,
    pub(super) reader: Mutex<Option<SqlConnection>>,
}

/// The one connection for writing. It is taken out while it is in use: a future that is dropped in the middle drops its
/// open transaction too.
#[derive(Default)]
pub(super) struct StoreWriter {
    pub(super) conn: Option<SqlConnection>,
    /// Proves that this opening is alive, for as long as the store lives.
    pub(super) lock: Option<ProcessLock>,
    pub(super) closed: bool,
    /// The leases this opening took, with their fencing numbers.
    pub(super) held: HashMap<String, i64>,
    /// The number of its writes without events.
    pub(super) writes: i64,
}

/// The location of the database.
pub(super) enum StoreLocation {
    Sqlite(SqliteLocation),
    Postgres(PostgresLocation),
}

impl StoreLocation {
    pub(super) fn name(&self) -> String {
        match self {
            StoreLocation::Sqlite(place) => place.name(),
            StoreLocation::Postgres(place) => place.name(),
        }
    }

    pub(super) async fn connect(&self, access: SqliteAccess) -> SqlResult<SqlConnection> {
        match self {
            StoreLocation::Sqlite(place) => place.connect(access).await,
            StoreLocation::Postgres(place) => place.connect().await,
        }
    }

    /// Copies the database into a new file.
    pub(super) async fn copy_into(&self, path: &Path) -> SqlResult<()> {
        match self {
            StoreLocation::Sqlite(place) => place.copy_into(path).await,
            StoreLocation::Postgres(_) => {
                Err(StoreErrorKind::Unsuitable("it is in PostgreSQL, whose own `pg_dump` copies it".into()))
            }
        }
    }

    /// Refuses when the file is no longer the one that was opened.
    pub(super) fn ensure_unchanged(&self) -> SqlResult<()> {
        match self {
            StoreLocation::Sqlite(place) => place.ensure_unchanged(),
            StoreLocation::Postgres(_) => Ok(()),
        }
    }
}

impl Store {
    /// Opens the store at `location`: a `postgres://` address or the path of an SQLite file.
    pub async fn open(location: &str, mode: StoreMode) -> Result<Self, StoreError> {
        if location.starts_with("postgres://") || location.starts_with("postgresql://") {
            return Self::open_postgres(location, mode).await;
        }
        Self::open_sqlite(Path::new(location), mode).await
    }

    /// Opens an SQLite store. For writing, creates it with its folder if it is missing.
    pub async fn open_sqlite(path: &Path, mode: StoreMode) -> Result<Self, StoreError> {
        let doing = || format!("open store `{}`", path.display());
        let place = SqliteLocation::new(path).during(doing)?;
        match mode {
            StoreMode::Read => read_sqlite(place).await,
            StoreMode::Write(info) => write_sqlite(place, &info, migrate::ALL).await,
        }
        .during(doing)
    }

    /// Opens a PostgreSQL store. For writing, creates its tables in an empty database.
    pub async fn open_postgres(url: &str, mode: StoreMode) -> Result<Self, StoreError> {
        let place = PostgresLocation::new(url).during(|| "open the PostgreSQL store".into())?;
        let doing = || format!("open store `{}`", place.name());
        match mode {
            StoreMode::Read => read_postgres(&place).await,
            StoreMode::Write(info) => write_postgres(&place, &info, migrate::ALL).await,
        }
        .during(doing)
    }

    /// Whether leases have to be renewed.
    #[must_use]
    pub fn is_leased(&self) -> bool {
        matches!(self.location, StoreLocation::Postgres(_)) && self.instance.is_some()
    }

    pub(super) fn instance(&self) -> SqlResult<&str> {
        self.instance.as_deref().ok_or(StoreErrorKind::ReadOnly)
    }

    fn reading(location: StoreLocation, reader: SqlConnection) -> Self {
        let (writer, reader) = (Mutex::default(), Mutex::new(Some(reader)));
        Self { location, instance: None, lease: Duration::ZERO, writer, reader }
    }

    /// Records this process, and returns the store for writing.
    async fn writing_as(
        place: StoreLocation,
        reader: SqlConnection,
        mut conn: SqlConnection,
        instance: String,
        lock: Option<ProcessLock>,
        info: &ProcessInfo,
    ) -> SqlResult<Self> {
        process::register(&mut conn, &place, &instance, info).await?;
        let writer = Mutex::new(StoreWriter { conn: Some(conn), lock, ..StoreWriter::default() });
        Ok(Self {
            location: place,
            instance: Some(instance),
            lease: info.lease,
            writer,
            reader: Mutex::new(Some(reader)),
        })
    }
}

/// A file that is a database but not a Loopwright store is refused; Loopwright never adds its tables to it.
fn ours(version: i64) -> SqlResult<i64> {
    match version {
        0 => Err(StoreErrorKind::Corrupt("the file is a database, but not a Loopwright store".into())),
        version => Ok(version),
    }
}

async fn read_sqlite(mut place: SqliteLocation) -> SqlResult<Store> {
    if !place.exists()? {
        return Err(StoreErrorKind::Missing);
    }
    let mut reader = place.connect(SqliteAccess::Read).await?;
    ours(migrate::version(&mut reader, migrate::ALL).await?)?;
    place.identify()?;
    Ok(Store::reading(StoreLocation::Sqlite(place), reader))
}

async fn write_sqlite(mut place: SqliteLocation, info: &ProcessInfo, all: &[SchemaMigration]) -> SqlResult<Store> {
    place.prepare_folder()?;
    if !place.exists()? {
        let _one = place.lock().await?;
        if !place.exists()? {
            place.create().await?;
        }
    }
    place.restrict_permissions()?;
    place.identify()?;
    let mut reader = place.connect(SqliteAccess::Read).await?;
    let mut version = ours(migrate::version(&mut reader, all).await?)?;
    let one = match version < migrate::newest_version(all) {
        true => Some(place.lock().await?),
        false => None,
    };
    if one.is_some() {
        version = ours(migrate::version(&mut reader, all).await?)?;
    }
    if place.is_small() {
        verify::pages(&mut reader, "PRAGMA quick_check(1)").await?;
    }
    verify::recent(&mut reader).await?;
    let mut conn = place.connect(SqliteAccess::Write).await?;
    if version < migrate::newest_version(all) {
        place.backup(&mut conn, version).await?;
        migrate::run(&mut conn, all).await?;
    }
    drop(one);
    place.clear_processes();
    let (instance, lock) = place.announce()?;
    Store::writing_as(StoreLocation::Sqlite(place), reader, conn, instance, Some(lock), info).await
}

async fn read_postgres(place: &PostgresLocation) -> SqlResult<Store> {
    let mut reader = place.connect().await?;
    if migrate::version(&mut reader, migrate::ALL).await? == 0 {
        return Err(StoreErrorKind::Missing);
    }
    Ok(Store::reading(StoreLocation::Postgres(place.clone()), reader))
}

async fn write_postgres(place: &PostgresLocation, info: &ProcessInfo, all: &[SchemaMigration]) -> SqlResult<Store> {
    let mut conn = place.connect().await?;
    debug_assert_eq!(conn.dialect(), SqlDialect::Postgres);
    // One process migrates, under a lock of the database; the others wait for it.
    if migrate::version(&mut conn, all).await? > 0 {
        verify::recent(&mut conn).await?;
    }
    migrate::run(&mut conn, all).await?;
    let reader = place.connect().await?;
    let instance = crate::random::nonce().map_err(|error| StoreErrorKind::Io(error.to_string()))?;
    Store::writing_as(StoreLocation::Postgres(place.clone()), reader, conn, instance, None, info).await
}

/// A server that does not answer at all must not block a start forever.
const CONNECT: Duration = Duration::from_secs(10);

/// A PostgreSQL database. Its address may hold a password and is never shown.
#[derive(Clone)]
pub(super) struct PostgresLocation {
    options: Box<PgConnectOptions>,
}

impl PostgresLocation {
    /// Parses the address (`postgres://…`).
    fn new(url: &str) -> SqlResult<Self> {
        let options = PgConnectOptions::from_str(url)
            .map_err(|_| StoreErrorKind::Unsuitable("the address is not a `postgres://` address".into()))?;
        let options = options
            .application_name("loopwright")
            .options([
                ("synchronous_commit", "on"),
                ("lock_timeout", "5s"),
                ("statement_timeout", "60s"),
                // A frozen process must not keep others waiting with an open transaction.
                ("idle_in_transaction_session_timeout", "10s"),
                ("client_min_messages", "warning"),
            ])
            .disable_statement_logging();
        Ok(Self { options: Box::new(options) })
    }

    /// The database without its password, for messages.
    fn name(&self) -> String {
        let (host, port) = (self.options.get_host(), self.options.get_port());
        format!("postgres://{host}:{port}/{}", self.options.get_database().unwrap_or_default())
    }

    async fn connect(&self) -> SqlResult<SqlConnection> {
        let answer = tokio::time::timeout(CONNECT, self.options.connect()).await;
        let answer = answer.map_err(|_| StoreErrorKind::Io("the server does not answer".into()))?;
        Ok(SqlConnection::Postgres(answer?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::questions::{self, AnswerRow, QuestionRow};
    use super::super::rows::{
        InboxRow, ItemRow, LoopRow, OutboxRow, RoundRow, RoundsFilter, RoundsQuery, StoredEvent, select,
    };
    use super::super::time::{FlagRow, LoopFileRow, MemoryRow, ReceiptRow, ReceiptsQuery, ScheduleRow, SignalRow};
    use super::super::{Store, read, time};
    use super::*;

    const NEXT: SchemaMigration = migrate::tests::next("CREATE TABLE extra (id BIGINT); INSERT INTO extra VALUES (7);");
    /// Its second statement fails, as a crash between the two would.
    const BROKEN: SchemaMigration =
        migrate::tests::next("CREATE TABLE extra (id BIGINT); INSERT INTO nowhere VALUES (7);");

    /// The existing versions and one more.
    fn and(next: SchemaMigration) -> Vec<SchemaMigration> {
        migrate::ALL.iter().copied().chain([next]).collect()
    }

    async fn own(path: &Path, all: &[SchemaMigration]) -> SqlResult<Store> {
        write_sqlite(SqliteLocation::new(path)?, &ProcessInfo::current(1), all).await
    }

    #[test]
    fn password_is_not_in_the_name() {
        let place = PostgresLocation::new("postgres://me:hush@db.example:5433/loops").expect("an address");
        assert_eq!(place.name(), "postgres://db.example:5433/loops");
    }

    #[tokio::test]
    async fn failed_migration_changes_nothing_and_the_next_start_retries() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("store.db");
        own(&path, migrate::ALL).await.expect("this version").close().await.expect("close");
        own(&path, &and(BROKEN)).await.err().expect("the step fails");
        own(&path, migrate::ALL).await.expect("it is as it was").close().await.expect("close");
        let store = own(&path, &and(NEXT)).await.expect("the next version");
        assert!(store.verify().await.expect("verify").is_ok());
        store.close().await.expect("close");
        let known = migrate::newest_version(migrate::ALL);
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

    #[tokio::test]
    async fn migration_to_version_five_fences_a_process_of_an_earlier_version() {
        let url = loopwright_testkit::postgres::server().database();
        let mut old = PostgresLocation::new(&url).expect("an address").connect().await.expect("a connection");
        migrate::run(&mut old, &migrate::ALL[..4]).await.expect("version four");
        // A process of version 4 takes the store, and compares this number before each of its writes.
        let fence = async |conn: &mut SqlConnection| {
            let row = conn.row("SELECT fence FROM owner WHERE id = 1 FOR UPDATE", &[]).await.expect("a query");
            row.expect("the owner").get::<i64>(0).expect("a number")
        };
        old.exec("UPDATE owner SET fence = fence + 1 WHERE id = 1", &[]).await.expect("it owns the store");
        let ours = fence(&mut old).await;
        let new = Store::open_postgres(&url, StoreMode::Write(ProcessInfo::current(1))).await.expect("migrated");
        assert_ne!(fence(&mut old).await, ours, "the older process would write beside the new one");
        new.close().await.expect("close");
    }

    /// The steps of SQLite's plan for a query, one line each.
    async fn plan(conn: &mut SqlConnection, sql: &str) -> String {
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
            select::<ItemRow>(read::ITEMS),
            select::<LoopRow>(read::LOOPS),
            select::<StoredEvent>(&read::first_events(3)),
            select::<ScheduleRow>(time::SCHEDULES),
            select::<SignalRow>(time::SIGNALS_PENDING),
            select::<MemoryRow>(time::MEMORY),
            select::<FlagRow>(time::FLAGS),
            select::<LoopFileRow>(time::LOOP_FILES),
            select::<QuestionRow>(questions::OPEN),
            select::<AnswerRow>(questions::PENDING),
        ];
        for before in [None, Some((1, String::from("due:x")))] {
            let query = ReceiptsQuery { before, ..ReceiptsQuery::default() };
            queries.push(select::<ReceiptRow>(&time::receipts_page(&query, 9).0));
        }
        for which in [RoundsFilter::All, RoundsFilter::Open] {
            for (repo, loop_name) in [(None, None), (Some("r"), None), (None, Some("l")), (Some("r"), Some("l"))] {
                for before in [None, Some((1, String::from("r1")))] {
                    let (repo, loop_name) = (repo.map(Into::into), loop_name.map(Into::into));
                    let query = RoundsQuery { repo, loop_name, which, before, limit: 9 };
                    queries.push(select::<RoundRow>(&read::rounds_page(&query).0));
                }
            }
        }
        let mut conn = store.location.connect(SqliteAccess::Read).await.expect("a connection");
        for sql in queries {
            let plan = plan(&mut conn, &sql).await;
            let scans = plan.contains("SCAN") && !plan.contains("USING INDEX");
            assert!(!scans && !plan.contains("TEMP B-TREE"), "{sql}\n{plan}");
            assert_eq!(sql.contains("ended_ms IS NULL"), plan.contains("rounds_open"), "{sql}\n{plan}");
        }
    }
}
