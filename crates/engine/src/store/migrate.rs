//! Schema versions: the ones that this binary knows, and the steps from one to the next. Each step is one transaction
//! that also writes the new version, so a crash leaves the store at one version or the other.

use super::conn::{SqlConnection, SqlDialect, SqlResult, args};
use super::error::StoreErrorKind;

/// The SQL of one version: the common text, then the additions of each dialect.
#[derive(Debug, Clone, Copy)]
pub(super) struct SchemaMigration {
    common: &'static str,
    sqlite: &'static str,
    postgres: &'static str,
}

/// The three files of a version.
macro_rules! version {
    ($number:literal) => {
        SchemaMigration {
            common: include_str!(concat!("../../migrations/", $number, ".sql")),
            sqlite: include_str!(concat!("../../migrations/", $number, ".sqlite.sql")),
            postgres: include_str!(concat!("../../migrations/", $number, ".postgres.sql")),
        }
    };
}

/// All versions in order; the n-th leads to version n + 1.
pub(super) const ALL: &[SchemaMigration] = &[
    version!("0001"),
    version!("0002"),
    version!("0003"),
    version!("0004"),
    version!("0005"),
    version!("0006"),
    version!("0007"),
    version!("0008"),
    version!("0009"),
    version!("0010"),
    version!("0011"),
    version!("0012"),
    version!("0013"),
    version!("0014"),
    version!("0015"),
];

/// The first version with the journal's end in a row of its own.
const JOURNAL: i64 = 5;

/// The newest version in a list.
pub(super) fn newest_version(all: &[SchemaMigration]) -> i64 {
    i64::try_from(all.len()).unwrap_or(i64::MAX)
}

/// The version of the database; 0 if it has no Loopwright schema. A version newer than `all` knows is refused.
pub(super) async fn version(conn: &mut SqlConnection, all: &[SchemaMigration]) -> SqlResult<i64> {
    let present = match conn.dialect() {
        SqlDialect::Sqlite => "SELECT name FROM sqlite_master WHERE type = 'table' AND name = 'meta'",
        SqlDialect::Postgres => "SELECT CAST(to_regclass('meta') AS TEXT) WHERE to_regclass('meta') IS NOT NULL",
    };
    if conn.row(present, &[]).await?.is_none() {
        return Ok(0);
    }
    let row = conn.row("SELECT schema_version FROM meta WHERE id = 1", &[]).await?;
    let row = row.ok_or_else(|| StoreErrorKind::Corrupt("the schema version is missing".into()))?;
    let (found, known) = (row.get(0)?, newest_version(all));
    match found {
        found if found > known => Err(StoreErrorKind::Newer { found, known }),
        found if found < 1 => Err(StoreErrorKind::Corrupt(format!("schema version {found}"))),
        found => Ok(found),
    }
}

/// Brings the database to the newest version, one transaction a step.
pub(super) async fn run(conn: &mut SqlConnection, all: &[SchemaMigration]) -> SqlResult<()> {
    while step(conn, all).await? {}
    Ok(())
}

/// Runs one step in one transaction; returns false when there is none left.
async fn step(conn: &mut SqlConnection, all: &[SchemaMigration]) -> SqlResult<bool> {
    conn.begin().await?;
    match step_locked(conn, all).await {
        Ok(more) => conn.commit().await.map(|()| more),
        Err(error) => {
            // The connection is dropped with the failed open, so a failed rollback changes nothing.
            let _ = conn.rollback().await;
            Err(error)
        }
    }
}

async fn step_locked(conn: &mut SqlConnection, all: &[SchemaMigration]) -> SqlResult<bool> {
    if conn.dialect() == SqlDialect::Postgres {
        // Two first starts on an empty database would both create the tables; the number is arbitrary.
        conn.exec("SELECT pg_advisory_xact_lock(7203114655)", &[]).await?;
    }
    let found = version(conn, all).await?;
    let Some(migration) = usize::try_from(found).ok().and_then(|n| all.get(n)) else {
        return Ok(false);
    };
    if found >= JOURNAL {
        // Every write begins with this lock, and reads the version behind it: an older process that still has the store
        // open writes either before this step or not at all.
        conn.exec(format!("SELECT seq FROM journal WHERE id = 1{}", conn.dialect().lock()), &[]).await?;
    }
    let dialect = conn.dialect();
    conn.script(migration.common.replace("{key}", dialect.key())).await?;
    let own = match dialect {
        SqlDialect::Sqlite => migration.sqlite,
        SqlDialect::Postgres => migration.postgres,
    };
    conn.script(own.to_owned()).await?;
    conn.exec("UPDATE meta SET schema_version = $1 WHERE id = 1", args![found + 1]).await?;
    Ok(true)
}

#[cfg(test)]
pub(super) mod tests {
    use super::SchemaMigration;

    /// A later version, for tests of migrations.
    pub(in crate::store) const fn next(common: &'static str) -> SchemaMigration {
        SchemaMigration { common, sqlite: "", postgres: "" }
    }
}
