//! A clock that only a test moves.

use loopwright::BoxFuture;
use loopwright::clock::Clock;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// A clock that only a test moves, which wakes the tasks that wait for a moment on it. Clones are the
/// same clock.
#[derive(Debug, Clone)]
pub(crate) struct ManualClock(Arc<watch::Sender<i64>>);

impl ManualClock {
    /// A clock set to this moment.
    #[must_use]
    pub(crate) fn new(at_ms: i64) -> Self {
        Self(Arc::new(watch::Sender::new(at_ms)))
    }

    /// Sets the clock; it may move backwards.
    pub(crate) fn set(&self, at_ms: i64) {
        self.0.send_replace(at_ms);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> i64 {
        *self.0.borrow()
    }

    fn until(&self, at_ms: i64) -> BoxFuture<'_, ()> {
        let mut moved = self.0.subscribe();
        Box::pin(async move {
            // The sender lives in `self`, so the channel cannot close while we wait.
            let _ = moved.wait_for(|now| *now >= at_ms).await;
        })
    }

    fn until_or_set(&self, at_ms: i64) -> BoxFuture<'_, ()> {
        let mut moved = self.0.subscribe();
        Box::pin(async move {
            let stood = *moved.borrow_and_update();
            let _ = moved.wait_for(|now| *now >= at_ms || *now < stood).await;
        })
    }

    /// Monotonic time is this clock's time.
    fn after(&self, span: Duration) -> BoxFuture<'_, ()> {
        self.until(self.now_ms().saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }
}
