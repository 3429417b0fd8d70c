//! The one clock. Wall time for records, monotonic time for deadlines; tests bring their own.

use loopwright_core::BoxFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// Tells the time.
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970, UTC.
    fn now_ms(&self) -> i64;

    /// Comes back when that moment has come.
    fn until(&self, at_ms: i64) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            loop {
                let left_ms = u64::try_from(at_ms.saturating_sub(self.now_ms())).unwrap_or(0);
                if left_ms == 0 {
                    return;
                }
                // A timer stands still while the machine sleeps, and a moment does not: it is looked at again.
                let left = Duration::from_millis(left_ms).min(LOOK_AGAIN);
                // Nothing ever comes, so that only the time does.
                let _ = tokio::time::timeout(left, std::future::pending::<()>()).await;
            }
        })
    }
}

/// How long a timer is believed at most while a moment is waited for.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        jiff::Timestamp::now().as_millisecond()
    }
}

/// A clock that moves one step each time it is read, for repeatable transcripts.
#[derive(Debug, Clone)]
pub struct SteppingClock {
    next: Arc<AtomicI64>,
    step_ms: i64,
}

impl SteppingClock {
    /// Starts at a moment and advances by a step.
    #[must_use]
    pub fn new(start_ms: i64, step_ms: i64) -> Self {
        Self { next: Arc::new(AtomicI64::new(start_ms)), step_ms }
    }
}

impl Clock for SteppingClock {
    fn now_ms(&self) -> i64 {
        self.next.fetch_add(self.step_ms, Ordering::SeqCst)
    }

    /// It leaps there.
    fn until(&self, at_ms: i64) -> BoxFuture<'_, ()> {
        self.next.fetch_max(at_ms, Ordering::SeqCst);
        Box::pin(std::future::ready(()))
    }
}

/// A moment as RFC 3339 in UTC, to the second.
#[must_use]
pub fn rfc3339(ms: i64) -> String {
    let seconds = jiff::Timestamp::from_second(ms.div_euclid(1000)).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    seconds.to_string()
}

/// The UTC day of a moment, `YYYY-MM-DD`.
#[must_use]
pub fn day(ms: i64) -> String {
    rfc3339(ms).chars().take(10).collect()
}
