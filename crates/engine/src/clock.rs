//! The one clock. Wall time for records, monotonic time for deadlines; tests bring their own.

mod wall;

use loopwright_core::BoxFuture;
use std::time::Duration;

/// The source of time.
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970, UTC.
    fn now_ms(&self) -> i64;

    /// Returns when that moment is reached.
    fn until(&self, at_ms: i64) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            loop {
                let left_ms = u64::try_from(at_ms.saturating_sub(self.now_ms())).unwrap_or(0);
                if left_ms == 0 {
                    return;
                }
                // A timer stops while the machine is suspended, so the clock is read again at intervals.
                pause(Duration::from_millis(left_ms).min(LOOK_AGAIN)).await;
            }
        })
    }

    /// Returns when that moment is reached, or when the clock was set, so that the caller can read it again.
    fn until_or_set(&self, at_ms: i64) -> BoxFuture<'_, ()> {
        self.until(at_ms)
    }

    /// Returns after a duration of monotonic time, even if the clock is set meanwhile: for leases and other things that
    /// no wall-clock moment bounds.
    fn after(&self, span: Duration) -> BoxFuture<'_, ()> {
        Box::pin(pause(span))
    }
}

/// Waits for a duration of monotonic time.
pub(crate) async fn pause(span: Duration) {
    // The future never completes, so only the timeout can.
    let _ = tokio::time::timeout(span, std::future::pending::<()>()).await;
}

/// Milliseconds since the boot, also those in which the machine was suspended or this process was frozen.
pub(crate) fn boot_ms() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    now.tv_sec.saturating_mul(1_000).saturating_add(now.tv_nsec / 1_000_000)
}

/// The longest wait before the clock is read again.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        jiff::Timestamp::now().as_millisecond()
    }

    /// One kernel timer, which also fires after the machine was suspended and after the clock was set.
    fn until(&self, at_ms: i64) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            while self.now_ms() < at_ms {
                if wall::wait_until(at_ms).await.is_err() {
                    // No kernel timer is available: read the clock at intervals.
                    let left_ms = u64::try_from(at_ms.saturating_sub(self.now_ms())).unwrap_or(0);
                    pause(Duration::from_millis(left_ms).min(LOOK_AGAIN)).await;
                }
            }
        })
    }

    fn until_or_set(&self, at_ms: i64) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // Without a kernel timer nothing reports that the clock was set.
            if self.now_ms() < at_ms && wall::wait_until(at_ms).await.is_err() {
                self.until(at_ms).await;
            }
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_system_clock_wakes_at_the_moment_and_not_before() {
        let at = SystemClock.now_ms() + 60;
        SystemClock.until(at).await;
        let late = SystemClock.now_ms() - at;
        assert!((0..5_000).contains(&late), "{late} ms late");
        SystemClock.until(at).await;
    }

    #[tokio::test]
    async fn waiting_for_a_moment_beyond_the_kernels_range_is_no_error() {
        let far = tokio::time::timeout(Duration::from_millis(20), SystemClock.until(i64::MAX)).await;
        assert!(far.is_err(), "it has not come");
    }
}
