//! Connections to a PostgreSQL store. `migrate` knows its tables, `process` and `lease` know its users.

use std::str::FromStr;
use std::time::Duration;

use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;

use super::conn::{SqlConnection, SqlResult};
use super::error::StoreErrorKind;

/// A server that does not answer at all must not block a start forever.
const CONNECT: Duration = Duration::from_secs(10);

/// A PostgreSQL database. Its address may hold a password and is never shown.
#[derive(Clone)]
pub(super) struct PostgresLocation {
    options: Box<PgConnectOptions>,
}

impl PostgresLocation {
    /// Parses the address (`postgres://…`).
    pub(super) fn new(url: &str) -> SqlResult<Self> {
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
    pub(super) fn name(&self) -> String {
        let (host, port) = (self.options.get_host(), self.options.get_port());
        format!("postgres://{host}:{port}/{}", self.options.get_database().unwrap_or_default())
    }

    pub(super) async fn connect(&self) -> SqlResult<SqlConnection> {
        let answer = tokio::time::timeout(CONNECT, self.options.connect()).await;
        let answer = answer.map_err(|_| StoreErrorKind::Io("the server does not answer".into()))?;
        Ok(SqlConnection::Postgres(answer?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn password_is_not_in_the_name() {
        let place = PostgresLocation::new("postgres://me:hush@db.example:5433/loops").expect("an address");
        assert_eq!(place.name(), "postgres://db.example:5433/loops");
    }
}
