//! Decides whether and when a delivery that did not succeed is tried again. The engine waits and tries.

use crate::deliver::{DeliverError, DeliverErrorKind};

/// The most attempts for an item that fails without a prospect; then it is quarantined.
pub const TRIES_MAX: u32 = 3;

/// The longest wait between two attempts, unless the receiver asks for a longer one.
const PAUSE_MAX_MS: i64 = 60_000;

/// The step after an attempt that did not succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextAttempt {
    /// Another attempt at this time, in milliseconds since 1970.
    At(i64),
    /// The item failed too often.
    Quarantine,
    /// The receiver stays unavailable; the item is kept for a person to have it sent again.
    Block,
}

/// The step after `tries` attempts, the last of which ended with `error`. `deadline_ms` is the end of the round's wall
/// time for a receiver on another machine, and `None` for one on this machine, where waiting does not help.
#[must_use]
pub fn next_attempt(error: &DeliverError, tries: u32, now_ms: i64, deadline_ms: Option<i64>) -> NextAttempt {
    let at_ms = now_ms.saturating_add(pause_ms(tries)).max(error.retry_at_ms.unwrap_or(0));
    match (error.kind, deadline_ms) {
        (DeliverErrorKind::Blocked, _) => NextAttempt::Block,
        (DeliverErrorKind::Transient | DeliverErrorKind::InDoubt, Some(deadline_ms)) if at_ms >= deadline_ms => {
            NextAttempt::Block
        }
        (DeliverErrorKind::Transient | DeliverErrorKind::InDoubt, Some(_)) => NextAttempt::At(at_ms),
        _ if tries >= TRIES_MAX => NextAttempt::Quarantine,
        (_, Some(_)) => NextAttempt::At(at_ms),
        (_, None) => NextAttempt::At(now_ms),
    }
}

/// The first retry is immediate, because most faults are short; then the wait doubles.
fn pause_ms(tries: u32) -> i64 {
    let doublings = tries.saturating_sub(2).min(16);
    if tries < 2 { 0 } else { (1000_i64 << doublings).min(PAUSE_MAX_MS) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_tries_and_deadline_decide_the_next_attempt() {
        let transient = || DeliverError::transient("503");
        let later = |at_ms| transient().retry_at(Some(at_ms));
        let failed = || DeliverError::failed("422");
        let (end, none) = (Some(100_000), None);
        let table = [
            (transient(), 1, end, NextAttempt::At(10_000)),
            (transient(), 2, end, NextAttempt::At(11_000)),
            (transient(), 3, end, NextAttempt::At(12_000)),
            (transient(), 40, end, NextAttempt::At(70_000)),
            (transient(), 40, Some(60_000), NextAttempt::Block),
            (later(50_000), 1, end, NextAttempt::At(50_000)),
            (later(500_000), 1, end, NextAttempt::Block),
            (later(5_000), 1, end, NextAttempt::At(10_000)),
            (transient(), 2, none, NextAttempt::At(10_000)),
            (transient(), 3, none, NextAttempt::Quarantine),
            (failed(), 2, end, NextAttempt::At(11_000)),
            (failed(), 3, end, NextAttempt::Quarantine),
            (DeliverError::blocked("401"), 1, end, NextAttempt::Block),
        ];
        for (error, tries, deadline_ms, expected) in table {
            assert_eq!(next_attempt(&error, tries, 10_000, deadline_ms), expected, "{error:?} {tries}");
        }
    }
}
