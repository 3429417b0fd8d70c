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
    /// The database server cannot be reached, or takes no writes at the moment. The same call may succeed later.
    #[error("the database is away: {0}")]
    Away(String),
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

/// The beginning of the text of an error whose cause is a full disk.
const NO_SPACE: &str = "no space is left on the disk";
/// The beginning of the text of an error whose cause is a folder or a file system that cannot be written.
const UNWRITABLE: &str = "it cannot be opened for writing";

impl StoreErrorKind {
    /// Whether the disk of the database is full.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Self::Io(text) if text.starts_with(NO_SPACE))
    }

    /// Whether the database, or its folder, cannot be written.
    #[must_use]
    pub fn is_unwritable(&self) -> bool {
        matches!(self, Self::Io(text) if text.starts_with(UNWRITABLE))
    }

    /// Whether the connection must not be used again.
    pub(super) fn costs_connection(&self) -> bool {
        matches!(self, Self::Io(_) | Self::Away(_))
    }

    /// Whether the same call may succeed later by itself.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self, Self::Away(_) | Self::Busy(_))
    }

    /// Names the database in an error whose cause is a full disk: a person has to free space there.
    pub(super) fn on_disk_of(self, database: &str) -> Self {
        match self {
            Self::Io(text) if text.starts_with(NO_SPACE) => {
                Self::Io(text.replacen(NO_SPACE, &format!("{NO_SPACE} of `{database}`"), 1))
            }
            other => other,
        }
    }

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
        match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => no_space(&error.to_string()),
            _ => Self::Io(error.to_string()),
        }
    }
}

fn no_space(text: &str) -> StoreErrorKind {
    StoreErrorKind::Io(format!("{NO_SPACE}: {text}"))
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
            // SQLite has no connection that these could be about.
            sqlx::Error::Io(cause) => wire_kind(cause),
            sqlx::Error::Tls(cause) => Self::Unsuitable(format!("{cause}; {ENCRYPTION}")),
            sqlx::Error::Protocol(_) => Self::Away(error.to_string()),
            sqlx::Error::Configuration(_) => Self::Unsuitable(error.to_string()),
            _ => Self::Io(error.to_string()),
        }
    }
}

const ENCRYPTION: &str = "the server's certificate must be for its name and from a known authority, or from the one of \
                          `sslrootcert=FILE` in the address";

/// A certificate that does not fit will not fit later either.
fn wire_kind(cause: &std::io::Error) -> StoreErrorKind {
    let tls = cause.get_ref().and_then(|inner| inner.downcast_ref::<tokio_rustls::rustls::Error>());
    match tls {
        Some(refused) => StoreErrorKind::Unsuitable(format!("{refused}; {ENCRYPTION}")),
        None => StoreErrorKind::Away(cause.to_string()),
    }
}

/// SQLite's extended result codes; the primary code is the low byte.
fn sqlite_kind(code: i32, message: &str) -> StoreErrorKind {
    const READONLY_DBMOVED: i32 = 1032;
    /// The file that processes share cannot grow.
    const IOERR_SHMSIZE: i32 = 4874;
    let text = format!("{message} (sqlite {code})");
    match (code, code & 0xff) {
        (READONLY_DBMOVED, _) => StoreErrorKind::Replaced,
        (IOERR_SHMSIZE, _) | (_, 13) => no_space(&text),
        (_, 8 | 14) => StoreErrorKind::Io(format!("{UNWRITABLE}: {text}")),
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
    match (code, code.get(..2).unwrap_or_default()) {
        ("40001" | "40P01" | "55P03", _) => StoreErrorKind::Busy(text),
        ("53100", _) => no_space(&text),
        ("53300", _) => StoreErrorKind::Away(format!("{text}; raise its `max_connections`")),
        ("57P01" | "57P02" | "57P03", _) => StoreErrorKind::Away(format!("{text}; it stops or starts")),
        ("25006", _) => StoreErrorKind::Away(format!("{text}; it takes no writes, as a standby does")),
        // The server ended the session; what the session had not committed did not happen.
        ("25P03" | "57P05", _) | (_, "08") => StoreErrorKind::Away(text),
        ("57014", _) => StoreErrorKind::Busy(text),
        // No account, no database, no right: a person has to change that.
        ("3D000" | "42501", _) | (_, "28") => StoreErrorKind::Unsuitable(text),
        (_, "23" | "22") => StoreErrorKind::Invalid(text),
        // A missing table or column, or PostgreSQL's own code for damage.
        ("42P01" | "42703", _) | (_, "XX") => StoreErrorKind::Corrupt(text),
        _ => StoreErrorKind::Io(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_that_is_away_is_told_from_one_that_a_person_must_set_up() {
        let kind = |code| postgres_kind(code, "words");
        for code in ["53300", "57P01", "57P02", "57P03", "25006", "25P03", "08006"] {
            assert!(matches!(kind(code), StoreErrorKind::Away(_)), "{code}");
        }
        for code in ["28P01", "28000", "3D000", "42501"] {
            assert!(matches!(kind(code), StoreErrorKind::Unsuitable(_)), "{code}");
        }
        assert_eq!(
            kind("53300").to_string(),
            "the database is away: words (postgres 53300); raise its `max_connections`"
        );
        assert!(matches!(kind("57014"), StoreErrorKind::Busy(_)));
        assert!(matches!(kind("42601"), StoreErrorKind::Io(_)), "a fault of ours is no outage");
    }
}
