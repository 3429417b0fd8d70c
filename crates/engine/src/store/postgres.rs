//! The place of a PostgreSQL store, and one connection to it: the rule for encryption, the settings of a session, and a
//! deadline for every answer. A connection that failed is never used again. It knows no table.

use std::str::FromStr as _;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection, PgSslMode};
use sqlx::{ConnectOptions as _, Connection as _};

use super::conn::{SqlConnection, SqlResult};
use super::error::StoreErrorKind;

/// A server that does not answer at all must not block a start forever.
const CONNECT: Duration = Duration::from_secs(10);
/// Longer than the server's own limit for a statement, which normally ends it first.
pub(super) const ANSWER: Duration = Duration::from_secs(65);
/// The longest wait for the migration of another process, and for an own one.
const MIGRATION: Duration = Duration::from_secs(3_600);
/// The time to close a connection in order; after it the connection is dropped.
const CLOSE: Duration = Duration::from_secs(5);

/// The settings of every session.
const SESSION: &[(&str, &str)] = &[
    ("synchronous_commit", "on"),
    ("lock_timeout", "5s"),
    ("statement_timeout", "60s"),
    // A frozen process must not keep others waiting with an open transaction.
    ("idle_in_transaction_session_timeout", "10s"),
    // The session of a machine that was lost ends within about a minute, and with it what the session had locked.
    ("tcp_keepalives_idle", "30"),
    ("tcp_keepalives_interval", "10"),
    ("tcp_keepalives_count", "3"),
    ("tcp_user_timeout", "60000"),
    ("client_min_messages", "warning"),
];

/// A PostgreSQL database. Its address may hold a password and is never shown.
#[derive(Clone)]
pub(super) struct PostgresLocation {
    options: Box<PgConnectOptions>,
    answer: Duration,
}

impl PostgresLocation {
    /// Parses the address (`postgres://…`).
    pub(super) fn new(url: &str) -> SqlResult<Self> {
        let options = PgConnectOptions::from_str(url)
            .map_err(|_| StoreErrorKind::Unsuitable("the address is not a `postgres://` address".into()))?;
        let asked = asks_for_encryption(url).then(|| options.get_ssl_mode());
        let is_local = options.get_socket().is_some() || is_loopback(options.get_host());
        let mode = encryption(is_local, asked)?;
        let options = options
            .ssl_mode(mode)
            .application_name("loopwright")
            .options(SESSION.iter().copied())
            .disable_statement_logging();
        Ok(Self { options: Box::new(options), answer: ANSWER })
    }

    /// The same database with another deadline for answers.
    pub(super) fn answering_within(self, answer: Duration) -> Self {
        Self { answer, ..self }
    }

    /// How to connect.
    pub(super) fn options(&self) -> PgConnectOptions {
        (*self.options).clone()
    }

    /// The deadline for an answer.
    pub(super) fn answer(&self) -> Duration {
        self.answer
    }

    /// The database without its password, for messages.
    pub(super) fn name(&self) -> String {
        let (host, port) = (self.options.get_host(), self.options.get_port());
        format!("postgres://{host}:{port}/{}", self.options.get_database().unwrap_or_default())
    }

    pub(super) async fn connect(&self) -> SqlResult<SqlConnection> {
        let connect = tokio::time::timeout(CONNECT.min(self.answer), self.options.connect());
        let conn = connect.await.map_err(|_| no_answer())??;
        Ok(SqlConnection::Postgres(PostgresConnection { conn, answer: self.answer, is_lost: false }))
    }

    #[cfg(test)]
    pub(super) fn with_lock_timeout(self, timeout: &str) -> Self {
        let options = self.options.options([("lock_timeout", timeout)]);
        Self { options: Box::new(options), ..self }
    }
}

/// Whether the address says how to encrypt; the variables of PostgreSQL's own programs do not count.
fn asks_for_encryption(url: &str) -> bool {
    let query = url.split_once('?').map_or("", |(_, query)| query.split('#').next().unwrap_or_default());
    query.split('&').any(|pair| matches!(pair.split('=').next(), Some("sslmode" | "ssl-mode")))
}

/// Whether connections to this host never leave the machine.
fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.starts_with('/')
        || host.eq_ignore_ascii_case("localhost")
        || address.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

/// On this machine the address decides. Over a network the server must prove its name with a certificate: other modes
/// would send the password and the journal to any machine that answers in its place.
fn encryption(is_local: bool, asked: Option<PgSslMode>) -> SqlResult<PgSslMode> {
    match (is_local, asked) {
        (true, asked) => Ok(asked.unwrap_or(PgSslMode::Prefer)),
        (false, None | Some(PgSslMode::VerifyFull)) => Ok(PgSslMode::VerifyFull),
        (false, Some(PgSslMode::VerifyCa)) => Ok(PgSslMode::VerifyCa),
        (false, Some(_)) => Err(StoreErrorKind::Unsuitable(
            "a database on another machine needs `sslmode=verify-full` (or `verify-ca`), with `sslrootcert=FILE` for \
             an authority of your own; without it, use a tunnel to `localhost`"
                .into(),
        )),
    }
}

fn no_answer() -> StoreErrorKind {
    StoreErrorKind::Away("the server does not answer".into())
}

/// One connection to a server.
pub(super) struct PostgresConnection {
    conn: PgConnection,
    answer: Duration,
    /// Whether it failed; the state of its protocol is then unknown.
    is_lost: bool,
}

impl PostgresConnection {
    /// Makes one call, within the deadline for answers.
    pub(super) async fn call<T>(
        &mut self,
        call: impl AsyncFnOnce(&mut PgConnection) -> Result<T, sqlx::Error>,
    ) -> SqlResult<T> {
        if self.is_lost {
            return Err(StoreErrorKind::Away("the connection was lost".into()));
        }
        // A caller that gives up in the middle leaves an answer on the wire.
        self.is_lost = true;
        let answer = match tokio::time::timeout(self.answer, call(&mut self.conn)).await {
            Ok(answer) => answer.map_err(StoreErrorKind::from),
            Err(_) => Err(no_answer()),
        };
        self.is_lost = matches!(answer, Err(StoreErrorKind::Away(_)));
        answer
    }

    /// Waits for another process's migration, however long it takes, until [`Self::wait_as_usual`].
    pub(super) async fn wait_for_migrations(&mut self) -> SqlResult<()> {
        self.answer = MIGRATION;
        self.call(async |conn| run(conn, "SET lock_timeout = 0; SET statement_timeout = 0").await).await
    }

    /// Ends [`Self::wait_for_migrations`].
    pub(super) async fn wait_as_usual(&mut self, place: &PostgresLocation) -> SqlResult<()> {
        self.call(async |conn| run(conn, "RESET lock_timeout; RESET statement_timeout").await).await?;
        self.answer = place.answer;
        Ok(())
    }

    /// Closes in order; a connection that failed is dropped, which the server notices.
    pub(super) async fn close(self) -> SqlResult<()> {
        if self.is_lost {
            return Ok(());
        }
        tokio::time::timeout(CLOSE, self.conn.close()).await.map_err(|_| no_answer())??;
        Ok(())
    }
}

async fn run(conn: &mut PgConnection, sql: &'static str) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(sql).execute(conn).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn password_is_not_in_the_name() {
        let place = PostgresLocation::new("postgres://me:hush@db.example:5433/loops").expect("an address");
        assert_eq!(place.name(), "postgres://db.example:5433/loops");
    }

    fn mode(url: &str) -> String {
        PostgresLocation::new(url)
            .map_or_else(|error| error.to_string(), |place| format!("{:?}", place.options.get_ssl_mode()))
    }

    #[test]
    fn server_on_another_machine_must_prove_its_name() {
        for url in ["postgres://db.example/x", "postgres://10.0.0.1/x", "postgres://h/x?sslmode=verify-full"] {
            assert_eq!(mode(url), "VerifyFull", "{url}");
        }
        assert_eq!(mode("postgres://db.example/x?sslmode=verify-ca"), "VerifyCa");
        assert_eq!(mode("postgres://localhost/x?hostaddr=10.0.0.1"), "VerifyFull", "the last host counts");
        for weak in ["disable", "allow", "prefer", "require"] {
            let refused = mode(&format!("postgres://db.example/x?a=b&sslmode={weak}"));
            assert!(refused.contains("needs `sslmode=verify-full`"), "{weak}: {refused}");
        }
    }

    #[test]
    fn server_on_this_machine_may_do_without_encryption() {
        for url in
            ["postgres://localhost/x", "postgres://127.0.0.1:5/x", "postgres://[::1]/x", "postgres:///x?host=/run/pg"]
        {
            assert_eq!(mode(url), "Prefer", "{url}");
            let disabled = format!("{url}{}sslmode=disable", if url.contains('?') { '&' } else { '?' });
            assert_eq!(mode(&disabled), "Disable", "{url}");
        }
    }
}
