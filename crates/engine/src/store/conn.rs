//! One connection to either database: bind, execute, fetch, decode, and the SQL in which the two differ. It knows no
//! table.

use std::borrow::Cow;

use sqlx::postgres::PgRow;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{AssertSqlSafe, Connection, Row as _, SqlSafeStr, SqlStr};

use loopwright_core::dispatch::OccurrenceOutcome;
use loopwright_core::level::LoopLevel;
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::round::RoundPhase;
use loopwright_core::spec::ActionKind;

use super::error::StoreErrorKind;
use super::postgres::{PostgresConnection, PostgresLocation};

/// The result of a database call; the operation around it adds its context.
pub(super) type SqlResult<T> = Result<T, StoreErrorKind>;

/// A value to bind. A missing one keeps its type, which PostgreSQL requires.
#[derive(Debug, Clone, Copy)]
pub(super) enum SqlArg<'a> {
    Text(Option<&'a str>),
    Int(Option<i64>),
}

/// A type that a column can hold.
pub(super) trait SqlColumn: Sized {
    fn arg(&self) -> SqlArg<'_>;
    fn read(row: &SqlRow, at: usize) -> SqlResult<Self>;
}

/// A column for a type that both databases know.
macro_rules! plain_column {
    ($($type:ty: $this:ident => $arg:expr,)*) => {$(
        impl SqlColumn for $type {
            fn arg(&self) -> SqlArg<'_> {
                let $this = self;
                $arg
            }
            fn read(row: &SqlRow, at: usize) -> SqlResult<Self> {
                row.get(at)
            }
        }
    )*};
}

plain_column! {
    String: text => SqlArg::Text(Some(text)),
    Option<String>: text => SqlArg::Text(text.as_deref()),
    i64: number => SqlArg::Int(Some(*number)),
    Option<i64>: number => SqlArg::Int(*number),
}

/// A column for a type whose values are stored as words.
macro_rules! word_column {
    ($type:ty, $what:literal) => {
        impl SqlColumn for $type {
            fn arg(&self) -> SqlArg<'_> {
                SqlArg::Text(Some(self.word()))
            }
            fn read(row: &SqlRow, at: usize) -> SqlResult<Self> {
                let word: String = row.get(at)?;
                Self::parse(&word).ok_or_else(|| $crate::store::conn::unknown($what, &word))
            }
        }
    };
}
pub(super) use word_column;

/// A word that this version does not know, in a store of this version, means damage.
pub(super) fn unknown(what: &str, word: &str) -> StoreErrorKind {
    StoreErrorKind::Corrupt(format!("the store has the {what} `{word}`, which this version does not know"))
}

word_column!(RoundPhase, "phase");
word_column!(ActionKind, "kind of an item");
word_column!(OccurrenceOutcome, "receipt of an occurrence");

impl SqlColumn for LoopLevel {
    fn arg(&self) -> SqlArg<'_> {
        SqlArg::Text(Some(self.short()))
    }
    fn read(row: &SqlRow, at: usize) -> SqlResult<Self> {
        let word: String = row.get(at)?;
        Self::parse(&word).ok_or_else(|| unknown("level", &word))
    }
}

impl SqlColumn for Option<RoundOutcome> {
    fn arg(&self) -> SqlArg<'_> {
        SqlArg::Text(self.map(RoundOutcome::word))
    }
    fn read(row: &SqlRow, at: usize) -> SqlResult<Self> {
        let word: Option<String> = row.get(at)?;
        word.map(|word| RoundOutcome::parse(&word).ok_or_else(|| unknown("outcome", &word))).transpose()
    }
}

impl<'a> From<&'a str> for SqlArg<'a> {
    fn from(text: &'a str) -> Self {
        SqlArg::Text(Some(text))
    }
}

impl<'a> From<&'a String> for SqlArg<'a> {
    fn from(text: &'a String) -> Self {
        SqlArg::Text(Some(text))
    }
}

impl From<i64> for SqlArg<'_> {
    fn from(number: i64) -> Self {
        SqlArg::Int(Some(number))
    }
}

/// `args![a, b]`: the values of `$1`, `$2`.
macro_rules! args {
    ($($value:expr),* $(,)?) => { &[$($crate::store::conn::SqlArg::from($value)),*][..] };
}
pub(super) use args;

/// A row of either database.
pub(super) enum SqlRow {
    Sqlite(SqliteRow),
    Postgres(PgRow),
}

impl SqlRow {
    /// Decodes one column; a type that does not fit means damage and does not panic.
    pub(super) fn get<T>(&self, at: usize) -> SqlResult<T>
    where
        T: for<'r> sqlx::Decode<'r, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite>,
        T: for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
    {
        Ok(match self {
            SqlRow::Sqlite(row) => row.try_get(at)?,
            SqlRow::Postgres(row) => row.try_get(at)?,
        })
    }
}

/// The database, for the few words of SQL that differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SqlDialect {
    Sqlite,
    Postgres,
}

impl SqlDialect {
    /// Opens a transaction that will write.
    pub(super) fn begin(self) -> &'static str {
        match self {
            // Taking the write lock first means that "busy" is returned here and never in the middle of the
            // transaction.
            SqlDialect::Sqlite => "BEGIN IMMEDIATE",
            SqlDialect::Postgres => "BEGIN",
        }
    }

    /// Locks the rows of a select until the end of the transaction; SQLite has locked everything already.
    pub(super) fn lock(self) -> &'static str {
        match self {
            SqlDialect::Sqlite => "",
            SqlDialect::Postgres => " FOR UPDATE",
        }
    }

    /// The database's own clock in milliseconds since 1970.
    pub(super) fn now(self) -> &'static str {
        match self {
            SqlDialect::Sqlite => "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
            SqlDialect::Postgres => "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)",
        }
    }

    /// A 64-bit integer primary key; SQLite needs exactly this spelling to use it as the row id.
    pub(super) fn key(self) -> &'static str {
        match self {
            SqlDialect::Sqlite => "INTEGER PRIMARY KEY",
            SqlDialect::Postgres => "BIGINT PRIMARY KEY",
        }
    }
}

/// One open connection.
pub(super) enum SqlConnection {
    Sqlite(SqliteConnection),
    Postgres(PostgresConnection),
}

/// Builds a query with its values for the executor's database.
macro_rules! bound {
    ($sql:expr, $args:expr) => {{
        let mut query = sqlx::query(safe($sql));
        for arg in $args {
            query = match arg {
                SqlArg::Text(text) => query.bind(*text),
                SqlArg::Int(number) => query.bind(*number),
            };
        }
        query
    }};
}

impl SqlConnection {
    pub(super) fn dialect(&self) -> SqlDialect {
        match self {
            SqlConnection::Sqlite(_) => SqlDialect::Sqlite,
            SqlConnection::Postgres(_) => SqlDialect::Postgres,
        }
    }

    /// Runs one statement and returns the number of rows that it changed.
    pub(super) async fn exec(&mut self, sql: impl Into<Cow<'static, str>>, args: &[SqlArg<'_>]) -> SqlResult<u64> {
        storable(args)?;
        let sql = sql.into();
        Ok(match self {
            SqlConnection::Sqlite(conn) => bound!(sql, args).execute(conn).await?.rows_affected(),
            SqlConnection::Postgres(wire) => {
                wire.call(async |conn| bound!(sql, args).execute(conn).await).await?.rows_affected()
            }
        })
    }

    /// Runs one query and returns all its rows; callers bound them with `LIMIT`.
    pub(super) async fn rows(
        &mut self,
        sql: impl Into<Cow<'static, str>>,
        args: &[SqlArg<'_>],
    ) -> SqlResult<Vec<SqlRow>> {
        storable(args)?;
        let sql = sql.into();
        Ok(match self {
            SqlConnection::Sqlite(conn) => {
                let rows = bound!(sql, args).fetch_all(conn).await?;
                rows.into_iter().map(SqlRow::Sqlite).collect()
            }
            SqlConnection::Postgres(wire) => {
                let rows = wire.call(async |conn| bound!(sql, args).fetch_all(conn).await).await?;
                rows.into_iter().map(SqlRow::Postgres).collect()
            }
        })
    }

    /// The first row, if any.
    pub(super) async fn row(
        &mut self,
        sql: impl Into<Cow<'static, str>>,
        args: &[SqlArg<'_>],
    ) -> SqlResult<Option<SqlRow>> {
        Ok(self.rows(sql, args).await?.into_iter().next())
    }

    /// Runs several statements without values, as migrations need.
    pub(super) async fn script(&mut self, sql: String) -> SqlResult<()> {
        let script = sqlx::raw_sql(AssertSqlSafe(sql));
        match self {
            SqlConnection::Sqlite(conn) => script.execute(conn).await.map(|_| ())?,
            SqlConnection::Postgres(wire) => wire.call(async |conn| script.execute(conn).await.map(|_| ())).await?,
        }
        Ok(())
    }

    /// Waits for another process's migration, however long it takes; SQLite has a lock of its own for that.
    pub(super) async fn wait_for_migrations(&mut self) -> SqlResult<()> {
        match self {
            SqlConnection::Sqlite(_) => Ok(()),
            SqlConnection::Postgres(wire) => wire.wait_for_migrations().await,
        }
    }

    /// Ends [`Self::wait_for_migrations`].
    pub(super) async fn wait_as_usual(&mut self, place: &PostgresLocation) -> SqlResult<()> {
        match self {
            SqlConnection::Sqlite(_) => Ok(()),
            SqlConnection::Postgres(wire) => wire.wait_as_usual(place).await,
        }
    }

    /// Opens a transaction that will write.
    pub(super) async fn begin(&mut self) -> SqlResult<()> {
        let sql = self.dialect().begin();
        self.exec(sql, &[]).await.map(drop)
    }

    pub(super) async fn commit(&mut self) -> SqlResult<()> {
        self.exec("COMMIT", &[]).await.map(drop)
    }

    pub(super) async fn rollback(&mut self) -> SqlResult<()> {
        self.exec("ROLLBACK", &[]).await.map(drop)
    }

    /// Closes in order; an open transaction is rolled back.
    pub(super) async fn close(self) -> SqlResult<()> {
        match self {
            SqlConnection::Sqlite(conn) => conn.close().await?,
            SqlConnection::Postgres(wire) => wire.close().await?,
        }
        Ok(())
    }
}

/// Every dynamic text is built from this module's own constants; values are always bound.
fn safe(sql: Cow<'static, str>) -> SqlStr {
    match sql {
        Cow::Borrowed(sql) => sql.into_sql_str(),
        Cow::Owned(sql) => AssertSqlSafe(sql).into_sql_str(),
    }
}

/// The largest text of any kind; batches have tighter limits.
const TEXT_MAX: usize = 4 << 20;

/// PostgreSQL cannot store a zero byte in text, so SQLite must not either.
fn storable(args: &[SqlArg<'_>]) -> SqlResult<()> {
    for arg in args {
        match arg {
            SqlArg::Text(Some(text)) if text.len() > TEXT_MAX => {
                return Err(StoreErrorKind::Invalid(format!("a text of more than {TEXT_MAX} bytes")));
            }
            SqlArg::Text(Some(text)) if text.contains('\0') => {
                return Err(StoreErrorKind::Invalid("a text holds a zero byte".into()));
            }
            _ => {}
        }
    }
    Ok(())
}
