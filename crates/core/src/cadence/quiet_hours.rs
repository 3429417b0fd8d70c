//! Quiet hours: a range of the wall clock, also over midnight, and when it ends.

use super::day_times::DAY_MINUTES;
use super::zone::{CadenceZone, clamp_to_supported};

const MINUTE_MS: i64 = 60_000;

/// A range of minutes of the day; the end is not included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QuietHours {
    pub(super) from: u16,
    pub(super) to: u16,
}

impl QuietHours {
    /// Whether a minute of the day is quiet.
    pub(super) fn has(self, minute: i64) -> bool {
        let (from, to) = (i64::from(self.from), i64::from(self.to));
        if from < to { (from..to).contains(&minute) } else { minute >= from || minute < to }
    }

    /// When the quiet hours around an instant end; `None` outside of them.
    pub(super) fn until(self, zone: &CadenceZone, at_ms: i64) -> Option<i64> {
        let started = clamp_to_supported(at_ms);
        let mut at = started;
        // A change of the offset may leave the quiet hours or enter them again; at most a few changes follow each
        // other.
        for _ in 0..8 {
            let stretch = zone.offset_period(at);
            let minute = (at + stretch.offset_ms).div_euclid(MINUTE_MS);
            if !self.has(minute.rem_euclid(DAY_MINUTES)) {
                return (at > started).then_some(at);
            }
            let ahead = (i64::from(self.to) - minute).rem_euclid(DAY_MINUTES);
            let ahead = if ahead == 0 { DAY_MINUTES } else { ahead };
            let end = (minute + ahead) * MINUTE_MS - stretch.offset_ms;
            if end < stretch.to_ms || stretch.to_ms <= at {
                return Some(end);
            }
            at = stretch.to_ms;
        }
        Some(at)
    }
}
