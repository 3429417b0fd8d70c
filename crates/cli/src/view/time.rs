//! Moments and spans for people, on the wall clock of the user's zone; documents use RFC 3339 and numbers instead.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use loopwright::clock::{Clock as _, SystemClock, rfc3339};
use loopwright_core::cadence::{DayZone, find_zone};
use std::sync::OnceLock;

/// The zone of this process, so that every page shows the same clock. UTC until it is set.
static ZONE: OnceLock<TimeZone> = OnceLock::new();

/// Sets the zone of all pages; only the first call counts. An unknown name means UTC.
pub(crate) fn set_zone(name: &str) {
    let _ = ZONE.set(find_zone(name).unwrap_or(TimeZone::UTC));
}

/// The zone whose days count for budgets that loops share.
pub(crate) fn day_zone() -> DayZone {
    ZONE.get().and_then(|zone| DayZone::find(zone.iana_name()?)).unwrap_or_default()
}

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    SystemClock.now_ms()
}

/// A moment in milliseconds since 1970, which documents have as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(pub(crate) i64);

impl serde::Serialize for Moment {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&timestamp(self.0))
    }
}

/// A moment for documents.
pub(crate) fn timestamp(ms: i64) -> String {
    rfc3339(ms)
}

/// The moment of a text in a document; `None` if it is not a time.
pub(crate) fn parse_timestamp(text: &str) -> Option<i64> {
    text.parse::<Timestamp>().ok().map(|at| at.as_millisecond())
}

/// The date and time of a moment in the user's zone, with the zone's name: `2026-11-18 14:03:05 CET`.
pub(crate) fn date_and_time(ms: i64) -> String {
    wall_clock(ms, "%Y-%m-%d %H:%M:%S %Z")
}

/// The time of day of a moment in the user's zone, with the zone's name: `14:03:05 CET`.
pub(crate) fn time_of_day(ms: i64) -> String {
    wall_clock(ms, "%H:%M:%S %Z")
}

/// The minute of the day at a moment, in the user's zone.
pub(crate) fn minute_of_day(ms: i64) -> u16 {
    let zone = ZONE.get().cloned().unwrap_or(TimeZone::UTC);
    let minutes = |at: Timestamp| {
        let at = at.to_zoned(zone);
        u16::from(at.hour().unsigned_abs()) * 60 + u16::from(at.minute().unsigned_abs())
    };
    Timestamp::from_millisecond(ms).map_or(0, minutes)
}

fn wall_clock(ms: i64, form: &str) -> String {
    let zone = ZONE.get().cloned().unwrap_or(TimeZone::UTC);
    // A moment that no calendar has is shown as documents have it.
    Timestamp::from_millisecond(ms).map_or_else(|_| rfc3339(ms), |at| at.to_zoned(zone).strftime(form).to_string())
}

/// The time since a moment; "now" for a future moment, because clocks differ a little.
pub(crate) fn time_since(ms: i64, now: i64) -> String {
    match now.saturating_sub(ms) {
        past if past < SECOND => "now".to_owned(),
        past => format!("{} ago", coarse(past)),
    }
}

/// The time until a moment.
pub(crate) fn time_until(ms: i64, now: i64) -> String {
    match ms.saturating_sub(now) {
        left if left <= 0 => "expired".to_owned(),
        left => format!("in {}", coarse(left)),
    }
}

fn coarse(ms: i64) -> String {
    match ms {
        ms if ms < MINUTE => format!("{}s", (ms / SECOND).max(1)),
        ms if ms < HOUR => format!("{}m", ms / MINUTE),
        ms if ms < 2 * DAY => format!("{}h", ms / HOUR),
        ms => format!("{}d", ms / DAY),
    }
}

/// The time that something has taken so far, in whole seconds.
pub(crate) fn elapsed_text(ms: i64) -> String {
    match ms.max(0) {
        ms if ms < MINUTE => format!("{}s", ms / SECOND),
        ms => duration_text(ms),
    }
}

/// The duration of something.
pub(crate) fn duration_text(ms: i64) -> String {
    match ms.max(0) {
        ms if ms < SECOND => format!("{ms}ms"),
        ms if ms < MINUTE => format!("{}.{}s", ms / SECOND, ms % SECOND / 100),
        ms if ms < HOUR => format!("{}m{:02}s", ms / MINUTE, ms % MINUTE / SECOND),
        ms => format!("{}h{:02}m", ms / HOUR, ms % HOUR / MINUTE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_and_distances_are_short() {
        for (ms, expected) in [(-5, "0ms"), (820, "820ms"), (12_340, "12.3s"), (250_000, "4m10s"), (7_380_000, "2h03m")]
        {
            assert_eq!(duration_text(ms), expected);
        }
        for (past, expected) in [(-9, "now"), (0, "now"), (59_999, "59s ago"), (HOUR, "1h ago"), (3 * DAY, "3d ago")] {
            assert_eq!(time_since(1_000_000, 1_000_000 + past), expected);
        }
        assert_eq!((time_until(5, 5), time_until(DAY + 1, 1)), ("expired".to_owned(), "in 24h".to_owned()));
    }
}
