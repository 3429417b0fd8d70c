//! Opens a store: for reading, or for writing beside any number of other processes. The order of the checks matters:
//! nothing is written before the version is known and the file is sound. One process creates or migrates; the others
//! wait for it.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use tokio::sync::Mutex;

use crate::clock;

use super::conn::{SqlConnection, SqlResult};
use super::error::{ErrorContext as _, StoreError, StoreErrorKind};
use super::migrate::{self, SchemaMigration};
use super::patience::ServerContact;
use super::postgres::PostgresLocation;
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
    /// The connection that renews leases on PostgreSQL, so that a renewal never waits for a write.
    pub(super) renewer: Mutex<Option<SqlConnection>>,
    pub(super) contact: ServerContact,
    /// When the leases end without another renewal, by [`clock::boot_ms`].
    pub(super) leased_until: AtomicI64,
}

/// The one connection for writing. It is taken out while it is in use: a future that is dropped in the middle drops its
/// open transaction too.
#[derive(Default)]
pub(super) struct StoreWriter {
    pub(super) conn: Option<SqlConnection>,
    /// The schema that this opening knows. Nothing is written into a newer one.
    pub(super) schema: i64,
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
        if location.contains("://") {
            // The address may have a password, so it is not shown.
            let why = "a store is a path, or an address that begins with `postgres://`".to_owned();
            return Err(StoreErrorKind::Unsuitable(why).during("open the store"));
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
            StoreMode::Write(info) => {
                write_postgres(&place.clone().answering_within(info.answer), &info, migrate::ALL).await
            }
        }
        .during(doing)
    }

    /// Whether leases have to be renewed.
    #[must_use]
    pub fn is_leased(&self) -> bool {
        matches!(self.location, StoreLocation::Postgres(_)) && self.instance.is_some()
    }

    /// A new connection. It counts as contact with the server.
    pub(super) async fn connect(&self, access: SqliteAccess) -> SqlResult<SqlConnection> {
        let connected = self.location.connect(access).await;
        match &connected {
            Ok(_) => self.contact.connected(self.lease),
            Err(_) => self.contact.note(&connected),
        }
        connected
    }

    pub(super) fn instance(&self) -> SqlResult<&str> {
        self.instance.as_deref().ok_or(StoreErrorKind::ReadOnly)
    }

    fn reading(location: StoreLocation, reader: SqlConnection) -> Self {
        let (writer, reader) = (Mutex::default(), Mutex::new(Some(reader)));
        let (renewer, contact, leased_until) = (Mutex::default(), ServerContact::default(), AtomicI64::new(0));
        Self { location, instance: None, lease: Duration::ZERO, writer, reader, renewer, contact, leased_until }
    }

    /// Records this process, and returns the store for writing.
    async fn writing_as(
        place: StoreLocation,
        reader: SqlConnection,
        mut conn: SqlConnection,
        instance: String,
        lock: Option<ProcessLock>,
        (info, all): (&ProcessInfo, &[SchemaMigration]),
    ) -> SqlResult<Self> {
        let leased_until = AtomicI64::new(process::lease_end(clock::boot_ms(), info.lease));
        process::register(&mut conn, &place, &instance, info).await?;
        let schema = migrate::newest_version(all);
        let writer = Mutex::new(StoreWriter { conn: Some(conn), schema, lock, ..StoreWriter::default() });
        Ok(Self {
            location: place,
            instance: Some(instance),
            lease: info.lease,
            writer,
            reader: Mutex::new(Some(reader)),
            renewer: Mutex::default(),
            contact: ServerContact::default(),
            leased_until,
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
    Store::writing_as(StoreLocation::Sqlite(place), reader, conn, instance, Some(lock), (info, all)).await
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
    // One process migrates, under a lock of the database; the others wait for it.
    conn.wait_for_migrations().await?;
    if migrate::version(&mut conn, all).await? > 0 {
        verify::recent(&mut conn).await?;
    }
    migrate::run(&mut conn, all).await?;
    conn.wait_as_usual(place).await?;
    let reader = place.connect().await?;
    let instance = crate::random::nonce().map_err(|error| StoreErrorKind::Io(error.to_string()))?;
    Store::writing_as(StoreLocation::Postgres(place.clone()), reader, conn, instance, None, (info, all)).await
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

    /// A write about no round.
    async fn write(store: &Store) -> SqlResult<i64> {
        use super::super::rows::{RowChange, StoreBatch};
        let flag = FlagRow { name: "look".into(), at_ms: 1, actor: "ada".into(), why: String::new() };
        let batch = StoreBatch::of_rows(1, vec![RowChange::Flag(flag)]);
        store.append(batch).await.map_err(|error| error.kind)
    }

    #[tokio::test]
    async fn process_that_is_open_writes_nothing_into_a_newer_schema() {
        let known = migrate::newest_version(migrate::ALL);
        let newer = Err(StoreErrorKind::Newer { found: known + 1, known });
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("store.db");
        let url = loopwright_testkit::postgres::server().database();
        let place = PostgresLocation::new(&url).expect("an address");
        let info = ProcessInfo::current(1);
        let older = [own(&path, migrate::ALL).await, write_postgres(&place, &info, migrate::ALL).await];
        let newest = [own(&path, &and(NEXT)).await, write_postgres(&place, &info, &and(NEXT)).await];
        for (older, newest) in older.into_iter().zip(newest) {
            let (older, newest) = (older.expect("the older one"), newest.expect("the newer one"));
            assert_eq!(write(&older).await, newer);
            assert_eq!(newest.flags().await.expect("flags"), []);
            write(&newest).await.expect("its own schema");
            older.close().await.expect("it still releases what it has");
        }
    }

    #[tokio::test]
    async fn work_under_a_lease_does_not_continue_when_the_lease_has_ended() {
        let url = loopwright_testkit::postgres::server().database();
        let lasting = async |lease: u64| {
            let info = ProcessInfo { lease: Duration::from_secs(lease), ..ProcessInfo::current(1) };
            Store::open_postgres(&url, StoreMode::Write(info)).await.expect("own")
        };
        let (short, long) = (lasting(0).await, lasting(60).await);
        assert_eq!(short.while_leased(async { 1 }).await, None, "it has ended");
        assert_eq!(long.while_leased(async { 1 }).await, Some(1));
        long.leased_until.store(0, std::sync::atomic::Ordering::SeqCst);
        assert_eq!(long.while_leased(async { 1 }).await, None, "as after a freeze");
        long.renew().await.expect("it is still its own");
        assert_eq!(long.while_leased(async { 1 }).await, Some(1));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn write_behind_one_whose_answer_was_lost_waits_no_longer_than_for_an_answer() {
        use super::super::patience::{StorePatience, patiently};
        let server = loopwright_testkit::postgres::server();
        let proxy = loopwright_testkit::WireProxy::to(server.port());
        let info = ProcessInfo { answer: Duration::from_millis(500), ..ProcessInfo::current(1) };
        let store = Store::open_postgres(&proxy.through(&server.database()), StoreMode::Write(info)).await;
        let store = std::sync::Arc::new(store.expect("own"));
        let (told, mut tells) = tokio::sync::mpsc::unbounded_channel();
        let tell = std::sync::Arc::new(move |text| drop(told.send(text)));
        let most = Duration::from_secs(900);
        let patience = StorePatience { most, cancel: crate::proc::CancelToken::new(), tell };
        proxy.swallow_from_next_commit();
        let waits = tokio::spawn({
            let store = std::sync::Arc::clone(&store);
            async move { patiently(patience, async { write(&store).await }).await }
        });
        tells.recv().await.expect("the first write waits for the server");
        // It keeps the right to write: whether it was committed decides what it does next.
        let others = async {
            let late = Err(StoreErrorKind::Away("another write of this process still waits for the server".into()));
            assert_eq!(write(&store).await, late);
            let released = store.release("r1").await.map_err(|error| error.kind);
            assert_eq!(released, late.clone().map(drop));
            assert_eq!(store.close().await.map_err(|error| error.kind), late.map(drop));
        };
        tokio::time::timeout(Duration::from_secs(30), others).await.expect("none of them waits for the whole outage");
        assert!(!waits.is_finished(), "it still waits");
        proxy.heal();
        waits.await.expect("no panic").expect("the server is back, and the write was kept");
        write(&store).await.expect("the store is still open");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn openers_wait_for_the_migration_of_another_process_longer_than_for_other_locks() {
        let server = loopwright_testkit::postgres::server();
        let url = server.database();
        let place = PostgresLocation::new(&url).expect("an address").with_lock_timeout("100ms");
        let info = ProcessInfo::current(1);
        write_postgres(&place, &info, migrate::ALL).await.expect("this version").close().await.expect("close");
        // The migration of another process: it has the lock of migrations, and a table for itself.
        let mut other = place.connect().await.expect("a connection");
        other.begin().await.expect("begin");
        other.exec("SELECT pg_advisory_xact_lock(7203114655)", &[]).await.expect("the lock");
        other.script("LOCK TABLE processes IN ACCESS EXCLUSIVE MODE".to_owned()).await.expect("the table");
        let openers: Vec<_> = (0..6)
            .map(|_| {
                let (place, info) = (place.clone(), info.clone());
                tokio::spawn(async move { write_postgres(&place, &info, &and(NEXT)).await })
            })
            .collect();
        let late = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
                    AND now() - query_start > interval '300 ms' AND datname = current_database()";
        let is_late = || server.sql(&url, late) == "6" || openers.iter().any(tokio::task::JoinHandle::is_finished);
        loopwright_testkit::wait::until("six openers that wait", Duration::from_secs(20), is_late);
        other.commit().await.expect("the migration is over");
        for opener in openers {
            let store = opener.await.expect("no panic").expect("it only had to wait");
            store.close().await.expect("close");
        }
        assert_eq!(server.sql(&url, "SELECT count(*) FROM extra"), "1", "one of them migrated");
        let mut conn = place.connect().await.expect("a connection");
        let row = conn.row("SHOW lock_timeout", &[]).await.expect("a query").expect("a row");
        assert_eq!(row.get::<String>(0).expect("text"), "100ms");
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

    #[tokio::test]
    async fn migration_to_version_thirteen_fences_what_runs_in_an_earlier_version() {
        let url = loopwright_testkit::postgres::server().database();
        let mut old = PostgresLocation::new(&url).expect("an address").connect().await.expect("a connection");
        migrate::run(&mut old, &migrate::ALL[..12]).await.expect("version twelve");
        let sql = "INSERT INTO leases (name, fence, instance, since_ms, repo, loop_name, locks) \
                   VALUES ('r1', 3, 'old', 1, 'repo', 'fix', '')";
        old.exec(sql, &[]).await.expect("a lease");
        let new = Store::open_postgres(&url, StoreMode::Write(ProcessInfo::current(1))).await.expect("migrated");
        let lease = super::super::lease::fence(&mut old, "r1").await.expect("a query");
        assert_eq!(lease, (4, String::new()), "the older process would settle only one of two tables");
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
                    let query = RoundsQuery { repo, loop_name, which, before, offset: 3, limit: 9 };
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
