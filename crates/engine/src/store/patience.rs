//! Patience with a database server that is away: a round whose maker was paid waits for the server instead of giving up.
//! This decides how long calls are repeated, and when a lease that expired during an outage counts again. It does not
//! decide what a call does.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::pause;
use crate::proc::CancelToken;

use super::conn::SqlResult;
use super::error::StoreErrorKind;
use super::open::StoreLocation;

/// The first pause between two tries. Each is twice as long as the one before.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// The time that a cancelled round still waits for the server: its end should be recorded, and a shutdown must not wait
/// for long.
const CANCELLED: Duration = Duration::from_secs(10);
/// During an outage of this length other processes may have missed a renewal.
const OUTAGE: Duration = Duration::from_secs(5);

tokio::task_local! {
    static PATIENCE: StorePatience;
}

/// How long the calls of a task wait for a server that is away.
#[derive(Clone)]
pub(crate) struct StorePatience {
    /// The longest wait of one call.
    pub(crate) most: Duration,
    /// Shortens the wait.
    pub(crate) cancel: CancelToken,
    /// Reports when a wait begins and when it is over.
    pub(crate) tell: Arc<dyn Fn(String) + Send + Sync>,
}

/// Runs `work` with patience. Without it, and on SQLite, a call fails at once.
pub(crate) async fn patiently<T>(patience: StorePatience, work: impl Future<Output = T>) -> T {
    PATIENCE.scope(patience, work).await
}

/// The wait of one call.
pub(super) struct OutageWait {
    patience: Option<StorePatience>,
    since: Option<Instant>,
    pause: Duration,
}

impl OutageWait {
    pub(super) fn of(location: &StoreLocation) -> Self {
        let patience = match location {
            StoreLocation::Sqlite(_) => None,
            StoreLocation::Postgres(_) => PATIENCE.try_with(StorePatience::clone).ok(),
        };
        Self { patience, since: None, pause: PAUSE }
    }

    /// Waits before the next try. Returns false when the error does not pass, or the patience is at its end.
    pub(super) async fn goes_on(&mut self, error: &StoreErrorKind) -> bool {
        let Some(patience) = self.patience.as_ref().filter(|_| error.is_passing()) else { return false };
        let since = *self.since.get_or_insert_with(Instant::now);
        if self.pause == PAUSE {
            let minutes = patience.most.as_secs() / 60;
            (patience.tell)(format!("{error}; waiting up to {minutes} minutes for it"));
        }
        let is_cancelled = patience.cancel.is_cancelled();
        let most = if is_cancelled { patience.most.min(CANCELLED) } else { patience.most };
        if since.elapsed() >= most {
            return false;
        }
        tokio::select! {
            () = pause(self.pause.min(most)) => {}
            () = patience.cancel.cancelled(), if !is_cancelled => {}
        }
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        true
    }

    /// The call succeeded.
    pub(super) fn end(&self) {
        if let (Some(patience), Some(since)) = (&self.patience, self.since) {
            (patience.tell)(format!("the database is back after {} s", since.elapsed().as_secs()));
        }
    }
}

/// The contact of this process with the server, as far as it knows.
pub(super) struct ServerContact(Mutex<ContactState>);

struct ContactState {
    heard: Instant,
    is_lost: bool,
    /// Until when expired leases do not count.
    doubts_until: Option<Instant>,
}

impl Default for ServerContact {
    fn default() -> Self {
        Self(Mutex::new(ContactState { heard: Instant::now(), is_lost: false, doubts_until: None }))
    }
}

impl ServerContact {
    fn lock(&self) -> MutexGuard<'_, ContactState> {
        // Each change under the lock is complete.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new connection was opened. After an outage the others get as long as a lease lasts to renew theirs.
    pub(super) fn connected(&self, lease: Duration) {
        let mut state = self.lock();
        if std::mem::take(&mut state.is_lost) && state.heard.elapsed() > OUTAGE {
            state.doubts_until = Some(Instant::now() + lease);
        }
        state.heard = Instant::now();
    }

    /// A call ended.
    pub(super) fn note<T>(&self, answer: &SqlResult<T>) {
        let mut state = self.lock();
        match answer {
            Err(StoreErrorKind::Away(_)) => state.is_lost = true,
            _ if !state.is_lost => state.heard = Instant::now(),
            _ => {}
        }
    }

    /// Whether an expired lease may be one that its process could not renew.
    pub(super) fn doubts(&self) -> bool {
        self.lock().doubts_until.is_some_and(|until| Instant::now() < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn away() -> SqlResult<()> {
        Err(StoreErrorKind::Away("gone".to_owned()))
    }

    #[test]
    fn expired_leases_count_again_a_lease_after_an_outage() {
        let contact = ServerContact::default();
        contact.note(&away());
        contact.connected(Duration::from_secs(60));
        assert!(!contact.doubts(), "a connection that breaks for a moment is no outage");
        contact.note(&away());
        contact.lock().heard = Instant::now() - OUTAGE * 2;
        contact.note(&away());
        assert!(!contact.doubts(), "it is still away");
        contact.connected(Duration::from_secs(60));
        assert!(contact.doubts());
        contact.lock().doubts_until = Some(Instant::now());
        assert!(!contact.doubts());
    }
}
