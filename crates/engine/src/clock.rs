//! The one clock. Wall time for records, monotonic time for deadlines; tests bring their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Tells the time.
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970, UTC.
    fn now_ms(&self) -> i64;
}

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
