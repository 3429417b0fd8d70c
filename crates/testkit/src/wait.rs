//! Waiting for the world: the one place where a test passes time, always for a named condition and with a deadline.

use std::time::{Duration, Instant};

/// How long a look at the condition and the next one lie apart.
const PAUSE: Duration = Duration::from_millis(5);

/// Waits until `condition` holds; panics with `what` when it does not in time.
#[track_caller]
pub fn until(what: &str, timeout: Duration, mut condition: impl FnMut() -> bool) {
    value(what, timeout, || condition().then_some(()));
}

/// Waits until `look` finds something and returns it; panics with `what` when it does not in time.
#[track_caller]
pub fn value<T>(what: &str, timeout: Duration, look: impl FnMut() -> Option<T>) -> T {
    within(timeout, look).unwrap_or_else(|| panic!("waited {timeout:?} for {what}"))
}

/// Waits until `look` finds something; nothing when it does not in time.
pub fn within<T>(timeout: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if started.elapsed() >= timeout {
            return None;
        }
        // A spurious wake-up only means one more look.
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
    fn waiting_in_vain_says_what_for() {
        let ended = std::panic::catch_unwind(|| until("a cow to fly", Duration::ZERO, || false));
        let text = ended.expect_err("the condition never holds").downcast::<String>().expect("a text");
        assert!(text.contains("a cow to fly"), "{text}");
    }
}
