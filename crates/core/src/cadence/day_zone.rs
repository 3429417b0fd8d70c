//! Days of a zone, for budgets: the day that a moment belongs to, and the start of the next one.

use super::zone::{CadenceZone, clamp_to_supported};
use crate::spec::LoopSpec;
use jiff::Timestamp;

/// The zone whose days count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DayZone(CadenceZone);

impl Default for DayZone {
    /// UTC.
    fn default() -> Self {
        Self(CadenceZone::find("UTC").expect("every zone database has UTC"))
    }
}

impl DayZone {
    /// A zone by its name; `None` if the database does not have it.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        CadenceZone::find(name).map(Self)
    }

    /// The zone of a loop: its own, or this one if it names none.
    #[must_use]
    pub fn of_loop(&self, spec: &LoopSpec) -> Self {
        spec.on.timezone.as_deref().and_then(Self::find).unwrap_or_else(|| self.clone())
    }

    /// The day of a moment, `YYYY-MM-DD`.
    #[must_use]
    pub fn day(&self, at_ms: i64) -> String {
        self.date(at_ms).to_string()
    }

    /// The first instant of the next day.
    #[must_use]
    pub fn next_day_ms(&self, at_ms: i64) -> i64 {
        let tomorrow = self.date(at_ms).tomorrow().unwrap_or(jiff::civil::Date::MAX);
        self.0.instant(tomorrow.into()).unwrap_or(i64::MAX)
    }

    /// The first instant of the next month.
    #[must_use]
    pub fn next_month_ms(&self, at_ms: i64) -> i64 {
        let last = self.date(at_ms).last_of_month();
        let first = last.tomorrow().unwrap_or(jiff::civil::Date::MAX);
        self.0.instant(first.into()).unwrap_or(i64::MAX)
    }

    fn date(&self, at_ms: i64) -> jiff::civil::Date {
        let at_ms = clamp_to_supported(at_ms);
        let wall_ms = at_ms + self.0.offset_period(at_ms).offset_ms;
        let wall = Timestamp::from_millisecond(wall_ms).unwrap_or(Timestamp::UNIX_EPOCH);
        jiff::tz::Offset::UTC.to_datetime(wall).date()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(text: &str) -> i64 {
        text.parse::<Timestamp>().expect("a moment").as_millisecond()
    }

    #[test]
    fn a_day_turns_at_midnight_of_the_zone() {
        let tokyo = DayZone::find("Asia/Tokyo").expect("a zone");
        let (before, after) = (ms("2026-11-18T14:59:59.999Z"), ms("2026-11-18T15:00:00Z"));
        assert_eq!((tokyo.day(before), tokyo.day(after)), ("2026-11-18".to_owned(), "2026-11-19".to_owned()));
        assert_eq!(tokyo.next_day_ms(before), after);
        assert_eq!(tokyo.next_month_ms(before), ms("2026-11-30T15:00:00Z"));
        assert_eq!(DayZone::default().next_day_ms(before), ms("2026-11-19T00:00:00Z"));
        // In Lebanon, the clock moves forward at midnight: the day begins at 01:00.
        let beirut = DayZone::find("Asia/Beirut").expect("a zone");
        assert_eq!(beirut.next_day_ms(ms("2026-03-28T12:00:00Z")), ms("2026-03-28T22:00:00Z"));
        assert_eq!(beirut.day(ms("2026-03-28T22:00:00Z")), "2026-03-29");
    }
}
