//! Hints of a PostgreSQL server that a round was offered, so that an idle worker asks for rounds only once a minute. A
//! hint may be lost or wrong: nothing is decided by one, and every reader also looks by itself.

use std::time::Duration;

use sqlx::postgres::{PgListener, PgPoolOptions};

use crate::clock::pause;

use super::Store;
use super::conn::{SqlConnection, SqlDialect, SqlResult};
use super::open::StoreLocation;

/// The channel of all hints.
const CHANNEL: &str = "loopwright_offers";
/// The pause before another attempt to listen.
const AGAIN: Duration = Duration::from_secs(5);

/// The hints of one process.
pub(crate) struct OfferHints<'s> {
    store: &'s Store,
    listener: Option<PgListener>,
}

impl OfferHints<'_> {
    /// The next hint that a worker may find a round. Also returns when hints may have been lost. On SQLite there are
    /// none.
    pub(crate) async fn next(&mut self) {
        let StoreLocation::Postgres(place) = &self.store.location else { return std::future::pending().await };
        loop {
            if let Some(listener) = &mut self.listener {
                // Without a notification the connection was lost, and is opened again.
                if matches!(listener.try_recv().await, Ok(Some(_))) {
                    return;
                }
                self.listener = None;
                return;
            }
            let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(place.options());
            let listening = async {
                let mut listener = PgListener::connect_with(&pool).await?;
                listener.listen(CHANNEL).await.map(|()| listener)
            };
            match tokio::time::timeout(place.answer(), listening).await {
                Ok(Ok(listener)) => {
                    self.listener = Some(listener);
                    // Rounds may have been offered before.
                    return;
                }
                // The reader looks by itself meanwhile.
                Ok(Err(_)) | Err(_) => pause(AGAIN).await,
            }
        }
    }
}

/// Notifies the workers in the open transaction that a round may be there for them.
pub(super) async fn notify(conn: &mut SqlConnection) -> SqlResult<()> {
    match conn.dialect() {
        SqlDialect::Sqlite => Ok(()),
        SqlDialect::Postgres => conn.exec(format!("SELECT pg_notify('{CHANNEL}', '')"), &[]).await.map(drop),
    }
}

impl Store {
    /// The hints for workers of this process.
    pub(crate) fn offer_hints(&self) -> OfferHints<'_> {
        OfferHints { store: self, listener: None }
    }
}
