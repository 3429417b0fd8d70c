//! The days of a calendar cadence. No zones: a day here is a calendar date.

use jiff::Timestamp;
use jiff::tz::Offset;

/// A calendar date, counted in days from 1970-01-01.
pub(super) type DayNumber = i64;

/// Days of the month, months and weekdays of a cadence. The fields mean what croner's mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CadenceDays {
    /// Bit 1 to 12.
    pub(super) months: u16,
    /// Days of the month, bit 1 to 31.
    pub(super) dates: u32,
    /// Days of the month to whose nearest working day the cadence moves (`15W`), bit 1 to 31.
    pub(super) nearest: u32,
    /// The last day of the month (`L`), or its last working day (`LW`).
    pub(super) last: MonthEnd,
    /// Weekdays, bit 0 is Sunday.
    pub(super) weekdays: u8,
    /// The first to fifth of a weekday in its month (`mon#2`).
    pub(super) nth: [u8; 5],
    /// The last of a weekday in its month (`friL`).
    pub(super) weekday_last: u8,
    /// How days of the month and weekdays combine.
    pub(super) join: DayJoin,
}

/// Whether the last day of the month is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MonthEnd {
    No,
    Day,
    WorkingDay,
}

/// How days of the month and weekdays combine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DayJoin {
    /// Neither is named.
    Any,
    /// Only days of the month are named.
    Dates,
    /// Only weekdays are named.
    Weekdays,
    /// Both are named and one suffices, as Vixie's cron has it.
    Either,
    /// Both are named and both must hold (`+` before the weekdays).
    Both,
}

impl CadenceDays {
    /// Every day.
    pub(super) const ALL: Self = Self {
        months: 0x1ffe,
        dates: 0xffff_fffe,
        nearest: 0,
        last: MonthEnd::No,
        weekdays: 0x7f,
        nth: [0; 5],
        weekday_last: 0,
        join: DayJoin::Any,
    };

    /// These weekdays, bit 0 is Sunday.
    pub(super) const fn weekly(weekdays: u8) -> Self {
        Self { weekdays, join: DayJoin::Weekdays, ..Self::ALL }
    }

    /// The first matching day from `day` on and before `limit`.
    pub(super) fn next(&self, mut day: DayNumber, limit: DayNumber) -> Option<DayNumber> {
        while day < limit {
            let date = Date::of(day);
            if self.months & (1 << date.month) == 0 {
                day += i64::from(date.length - date.day) + 1;
            } else if self.matches(date) {
                return Some(day);
            } else {
                day += 1;
            }
        }
        None
    }

    /// Whether the cadence names this day.
    pub(super) fn has(&self, day: DayNumber) -> bool {
        let date = Date::of(day);
        self.months & (1 << date.month) != 0 && self.matches(date)
    }

    /// Whether the cadence names this day, given that it names its month.
    fn matches(&self, date: Date) -> bool {
        match self.join {
            DayJoin::Any => true,
            DayJoin::Dates => self.date_matches(date),
            DayJoin::Weekdays => self.weekday_matches(date),
            DayJoin::Either => self.date_matches(date) || self.weekday_matches(date),
            DayJoin::Both => self.date_matches(date) && self.weekday_matches(date),
        }
    }

    fn date_matches(&self, date: Date) -> bool {
        let last = match self.last {
            MonthEnd::No => false,
            MonthEnd::Day => date.day == date.length,
            MonthEnd::WorkingDay => date.day == working_day(date.length, date),
        };
        let near = |day: u32| self.nearest & (1 << day) != 0 && working_day(day, date) == date.day;
        // No day moves further than two days.
        let moved = || (date.day.saturating_sub(2).max(1)..=(date.day + 2).min(date.length)).any(near);
        last || self.dates & (1 << date.day) != 0 || (self.nearest != 0 && moved())
    }

    fn weekday_matches(&self, date: Date) -> bool {
        let bit = 1 << date.weekday;
        let nth = self.nth[(date.day as usize - 1) / 7];
        let last = if date.day + 7 > date.length { self.weekday_last } else { 0 };
        (self.weekdays | nth | last) & bit != 0
    }

    /// The longest wait between two matching days within the years that a schedule is checked for, in days; `None` if
    /// it exceeds `most`, or if no day matches.
    pub(super) fn longest_wait(&self, most: i64) -> Option<i64> {
        let (mut day, end, mut longest) = (FIRST_YEAR, LAST_YEAR, 0);
        while day < end {
            let next = self.next(day, day + most + 1)?;
            longest = longest.max(next - day);
            day = next + 1;
        }
        Some(longest)
    }
}

/// 1970-01-01 and 2101-01-01: this range covers every combination of leap years and weekdays in practical use.
const FIRST_YEAR: DayNumber = 0;
const LAST_YEAR: DayNumber = 47_847;

/// The working day nearest to a day of the same month, without leaving the month.
fn working_day(day: u32, date: Date) -> u32 {
    let weekday = (i64::from(date.weekday) + i64::from(day) - i64::from(date.day)).rem_euclid(7);
    match weekday {
        6 if day > 1 => day - 1,
        6 => day + 2,
        0 if day < date.length => day + 1,
        0 => day - 2,
        _ => day,
    }
}

/// A day by its position in month and week.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Date {
    month: u32,
    day: u32,
    /// Days of the month.
    length: u32,
    /// 0 is Sunday.
    weekday: u32,
}

impl Date {
    fn of(day: DayNumber) -> Self {
        let midnight = Timestamp::from_second(day * 86_400).expect("days are held between the years 1900 and 3000");
        let date = Offset::UTC.to_datetime(midnight).date();
        let [month, day, length, weekday] =
            [date.month(), date.day(), date.days_in_month(), date.weekday().to_sunday_zero_offset()]
                .map(|number| u32::from(number.unsigned_abs()));
        Self { month, day, length, weekday }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calendar_agrees_with_the_zone_library() {
        let mut date = jiff::civil::date(1895, 1, 1);
        let mut day = -27_393;
        while date.year() < 2105 {
            let ours = Date::of(day);
            let theirs = (date.month(), date.day(), date.days_in_month(), date.weekday().to_sunday_zero_offset());
            let ours = (ours.month as i8, ours.day as i8, ours.length as i8, ours.weekday as i8);
            assert_eq!(ours, theirs, "{date}");
            (date, day) = (date.tomorrow().expect("the year is small"), day + 1);
        }
    }
}
