//! Waiting for external conditions: the only place where a test passes time, always for a named condition and with a
//! deadline.

use std::time::{Duration, Instant};

/// The interval between two checks of the condition.
const PAUSE: Duration = Duration::from_millis(5);

/// Waits until `condition` holds; panics with `what` at the deadline.
#[track_caller]
pub fn until(what: &str, timeout: Duration, mut condition: impl FnMut() -> bool) {
    value(what, timeout, || condition().then_some(()));
}

/// Waits until `look` returns a value and returns it; panics with `what` at the deadline.
#[track_caller]
pub fn value<T>(what: &str, timeout: Duration, look: impl FnMut() -> Option<T>) -> T {
    within(timeout, look).unwrap_or_else(|| panic!("waited {timeout:?} for {what}"))
}

/// Waits until `look` returns a value; `None` at the deadline.
pub fn within<T>(timeout: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if started.elapsed() >= timeout {
            return None;
        }
        // A spurious wake-up only means an additional check.
        std::thread::park_timeout(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_ends_with_the_condition() {
        let mut looks = 0;
        until("the third look", Duration::from_secs(5), || {
            looks += 1;
            looks == 3
        });
        assert_eq!(looks, 3);
    }

    #[test]
    fn failed_wait_reports_its_condition() {
        let ended = std::panic::catch_unwind(|| until("a cow to fly", Duration::ZERO, || false));
        let text = ended.expect_err("the condition never holds").downcast::<String>().expect("a text");
        assert!(text.contains("a cow to fly"), "{text}");
    }
}
