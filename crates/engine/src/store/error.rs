//! The errors of a store, and the only place that interprets the databases' own codes. It does not decide how to handle
//! an error.

use super::lease::RoundLease;
use super::money::{SpendCeiling, SpendRow};

/// A store operation that did not happen: what was being done, and why not.
#[derive(Debug, thiserror::Error)]
#[error("{doing}: {kind}")]
pub struct StoreError {
    /// The operation, as a fragment (“append to round `r1`”).
    pub doing: String,
    /// The reason.
    pub kind: StoreErrorKind,
}

/// Why a store operation did not happen.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// There is no database at that location; reading never creates one.
    #[error("there is no store there yet")]
    Missing,
    /// Another process has the lease.
    #[error("{0}")]
    Held(Box<RoundLease>),
    /// A running round holds a lock that this one requests.
    #[error("{0}")]
    Occupied(String),
    /// Another process took the lease over; this process may not write about it any more.
    #[error("another process took `{name}` over (our fence {ours}, now {found})")]
    Fenced {
        /// The round, or the dispatcher.
        name: String,
        /// The number we got when we took it; 0 if we never did.
        ours: i64,
        /// The number found in the database.
        found: i64,
    },
    /// The writer has not seen the latest state.
    #[error("{0}")]
    Conflict(String),
    /// This occurrence of the loop already has a round.
    #[error("this occurrence already has round `{round}`")]
    Occurrence {
        /// The round that has it.
        round: String,
    },
    /// A reservation would pass a ceiling; the whole batch was rolled back.
    #[error("{what} of {wanted} would pass the ceiling of {ceiling}")]
    OverCeiling {
        /// Which scope and unit.
        what: String,
        /// The sum that the scope would reach.
        wanted: i64,
        /// The allowed sum.
        ceiling: i64,
        /// The ceiling that would be passed, including everything that was added to it.
        full: Box<SpendCeiling>,
        /// The spend of the scope without this reservation.
        spend: Box<SpendRow>,
    },
    /// The database was written by a newer Loopwright.
    #[error("the store has schema version {found}, this binary knows up to {known}; use a newer loopwright")]
    Newer {
        /// The version found.
        found: i64,
        /// The newest version this binary knows.
        known: i64,
    },
    /// The database or its journal is damaged. It is never recreated.
    #[error("{0}; keep a copy of the file, run `loopwright verify`, restore a backup")]
    Corrupt(String),
    /// The database file was deleted or replaced under us.
    #[error("the database file was deleted or replaced while it was in use")]
    Replaced,
    /// Another process keeps the database locked longer than we wait.
    #[error("another process is writing: {0}")]
    Busy(String),
    /// The disk, the file system or the connection failed.
    #[error("{0}")]
    Io(String),
    /// The location cannot hold a store.
    #[error("{0}")]
    Unsuitable(String),
    /// The batch breaks a limit or a rule of the schema.
    #[error("{0}")]
    Invalid(String),
    /// The store was opened for reading.
    #[error("the store is open for reading only")]
    ReadOnly,
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

impl StoreErrorKind {
    /// Adds the operation that failed.
    pub(super) fn during(self, doing: impl Into<String>) -> StoreError {
        StoreError { doing: doing.into(), kind: self }
    }
}

/// Adds the operation to an error that does not name it.
pub(super) trait ErrorContext<T> {
    fn during(self, doing: impl FnOnce() -> String) -> Result<T, StoreError>;
}

impl<T, E: Into<StoreErrorKind>> ErrorContext<T> for Result<T, E> {
    fn during(self, doing: impl FnOnce() -> String) -> Result<T, StoreError> {
        self.map_err(|error| error.into().during(doing()))
    }
}

impl From<std::io::Error> for StoreErrorKind {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error.to_string())
    }
}

impl From<sqlx::Error> for StoreErrorKind {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::Database(db) => match db.code() {
                Some(code) if code.len() == 5 => postgres_kind(&code, db.message()),
                Some(code) => sqlite_kind(code.parse().unwrap_or(1), db.message()),
                None => Self::Io(error.to_string()),
            },
            // A column of the wrong type or text that is not UTF-8: Loopwright never writes such values.
            sqlx::Error::ColumnDecode { .. }
            | sqlx::Error::Decode(_)
            | sqlx::Error::ColumnIndexOutOfBounds { .. }
            | sqlx::Error::RowNotFound => Self::Corrupt(error.to_string()),
            _ => Self::Io(error.to_string()),
        }
    }
}

/// SQLite's extended result codes; the primary code is the low byte.
fn sqlite_kind(code: i32, message: &str) -> StoreErrorKind {
    const READONLY_DBMOVED: i32 = 1032;
    let text = format!("{message} (sqlite {code})");
    match (code, code & 0xff) {
        (READONLY_DBMOVED, _) => StoreErrorKind::Replaced,
        (_, 5 | 6) => StoreErrorKind::Busy(text),
        (_, 11 | 26) => StoreErrorKind::Corrupt(text),
        (_, 18..=20) => StoreErrorKind::Invalid(text),
        // A missing table or column means damage too: the schema version says that it exists.
        (_, 1) => StoreErrorKind::Corrupt(text),
        _ => StoreErrorKind::Io(text),
    }
}

/// PostgreSQL's SQLSTATE codes; the class is the first two characters.
fn postgres_kind(code: &str, message: &str) -> StoreErrorKind {
    let text = format!("{message} (postgres {code})");
    match (code, &code[..2]) {
        ("40001" | "40P01" | "55P03", _) => StoreErrorKind::Busy(text),
        (_, "23" | "22") => StoreErrorKind::Invalid(text),
        // A missing table or column, or PostgreSQL's own code for damage.
        ("42P01" | "42703", _) | (_, "XX") => StoreErrorKind::Corrupt(text),
        _ => StoreErrorKind::Io(text),
    }
}
