//! The location of one test's store, on either database, with a way to tamper with it directly.

use std::path::PathBuf;
use std::time::Duration;

use loopwright::store::{ProcessInfo, Store, StoreError, StoreMode};
use sqlx::Connection as _;
use tempfile::TempDir;

pub(crate) enum Place {
    Sqlite(TempDir),
    Postgres(String),
}

impl Place {
    pub(crate) fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().expect("a folder"))
    }

    pub(crate) fn postgres() -> Self {
        Self::Postgres(loopwright_testkit::postgres::server().database())
    }

    /// The file of an SQLite store.
    pub(crate) fn file(&self) -> PathBuf {
        match self {
            Self::Sqlite(dir) => dir.path().join("state/store.db"),
            Self::Postgres(_) => panic!("PostgreSQL has no file"),
        }
    }

    pub(crate) async fn open(&self, mode: StoreMode) -> Result<Store, StoreError> {
        match self {
            Self::Sqlite(_) => Store::open_sqlite(&self.file(), mode).await,
            Self::Postgres(url) => Store::open_postgres(url, mode).await,
        }
    }

    pub(crate) async fn own(&self) -> Store {
        self.try_own(Duration::from_secs(60)).await.expect("own the store")
    }

    pub(crate) async fn try_own(&self, lease: Duration) -> Result<Store, StoreError> {
        self.open(StoreMode::Write(ProcessInfo { lease, ..ProcessInfo::current(1_700_000_000_000) })).await
    }

    pub(crate) async fn read(&self) -> Store {
        self.open(StoreMode::Read).await.expect("read the store")
    }

    /// Runs SQL that bypasses the store.
    pub(crate) async fn tamper(&self, sql: &'static str) -> Result<(), sqlx::Error> {
        match self {
            Self::Sqlite(_) => {
                let options = sqlx::sqlite::SqliteConnectOptions::new().filename(self.file());
                let mut conn = sqlx::SqliteConnection::connect_with(&options).await?;
                sqlx::raw_sql(sql).execute(&mut conn).await?;
                conn.close().await
            }
            Self::Postgres(url) => {
                let mut conn = sqlx::PgConnection::connect(url).await?;
                sqlx::raw_sql(sql).execute(&mut conn).await?;
                conn.close().await
            }
        }
    }

    /// Runs SQL that bypasses the store, with the checkpoints' triggers off.
    pub(crate) async fn tamper_with_checkpoints(&self, sql: &'static str) {
        let off = match self {
            Self::Sqlite(_) => {
                "DROP TRIGGER IF EXISTS checkpoints_keep_update; DROP TRIGGER IF EXISTS checkpoints_keep_delete"
            }
            Self::Postgres(_) => "ALTER TABLE checkpoints DISABLE TRIGGER ALL",
        };
        self.tamper(off).await.expect("switch the triggers off");
        self.tamper(sql).await.expect("edit the checkpoints");
    }

    /// Runs SQL that bypasses the store, with the journal's triggers off.
    pub(crate) async fn tamper_with_events(&self, sql: &'static str) {
        let off = match self {
            Self::Sqlite(_) => "DROP TRIGGER IF EXISTS events_keep_update; DROP TRIGGER IF EXISTS events_keep_delete",
            Self::Postgres(_) => "ALTER TABLE events DISABLE TRIGGER ALL",
        };
        self.tamper(off).await.expect("switch the triggers off");
        self.tamper(sql).await.expect("edit the journal");
    }
}
