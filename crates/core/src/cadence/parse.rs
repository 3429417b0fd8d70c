//! The grammar of times: times of day, weekdays, cron lines, quiet hours, moments. It turns text into compiled cadences
//! and reports invalid text with a suggestion.

use super::calendar::{CadenceCalendar, DstPolicy};
use super::day_times::{DayTimes, QuietHours};
use super::days::{CadenceDays, DayJoin, MonthEnd};
use super::zone::CadenceZone;
use crate::spec::problem::quoted;
use croner::CronComponent;

/// The longest text of a cadence; longer text is refused.
const TEXT_MAX: usize = 256;

const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const WEEKDAYS_LONG: [&str; 7] = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];
const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// `HH:MM` as a minute of the day, two digits each.
pub(crate) fn parse_time(text: &str) -> Option<u16> {
    let two = |part: &str, most: u16| {
        let number: u16 = part.parse().ok()?;
        (part.len() == 2 && is_digits(part) && number <= most).then_some(number)
    };
    let (hour, minute) = text.split_once(':')?;
    Some(two(hour, 23)? * 60 + two(minute, 59)?)
}

/// A list of times of day: `08:00` or `08:00,17:30`.
pub(crate) fn parse_times(text: &str) -> Option<Vec<u16>> {
    items(text)?.map(parse_time).collect()
}

/// Weekdays and times: `mon 09:30`, `mon,wed 09:30,17:00`, `mon-fri 08:00`. The days are bits, 0 is Sunday.
pub(crate) fn parse_weekly(text: &str) -> Option<(u8, Vec<u16>)> {
    let first_digit = text.find(|c: char| c.is_ascii_digit())?;
    let (days, at) = text.split_at_checked(first_digit)?;
    if !days.ends_with(char::is_whitespace) {
        return None;
    }
    let days = items(days)?.map(weekday_range).try_fold(0, |all, day| Some(all | day?))?;
    Some((days, parse_times(at)?))
}

/// The parts of a list; none of them is empty.
fn items(text: &str) -> Option<impl Iterator<Item = &str>> {
    let fits = text.len() <= TEXT_MAX && text.split(',').all(|part| !part.trim().is_empty());
    fits.then(|| text.split(',').map(str::trim))
}

fn weekday_range(text: &str) -> Option<u8> {
    let Some((from, to)) = text.split_once('-') else { return parse_weekday(text).map(|day| 1 << day) };
    let (from, to) = (parse_weekday(from.trim_end())?, parse_weekday(to.trim_start())?);
    let length = (to + 7 - from) % 7;
    (from != to).then(|| (0..=length).fold(0, |all, step| all | 1 << ((from + step) % 7)))
}

/// A weekday by its short or long name, 0 is Sunday.
pub(crate) fn parse_weekday(text: &str) -> Option<usize> {
    let named = |names: [&str; 7]| names.iter().position(|name| text.eq_ignore_ascii_case(name));
    named(WEEKDAYS).or_else(|| named(WEEKDAYS_LONG))
}

/// The short name of a weekday.
pub(crate) fn weekday_name(day: usize) -> &'static str {
    WEEKDAYS[day % 7]
}

/// Parses `22:00-06:00`; an empty range or a whole day is refused.
pub(super) fn parse_quiet_hours(text: &str) -> Option<QuietHours> {
    let (from, to) = text.split_once('-')?;
    let (from, to) = (parse_time(from.trim())?, parse_time(to.trim())?);
    (from != to).then_some(QuietHours { from, to })
}

/// The end of a day that a date without a time stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DayEdge {
    First,
    Last,
}

/// Parses an RFC 3339 moment, a wall time in the zone, or a date in the zone.
pub(super) fn parse_moment(text: &str, zone: &CadenceZone, edge: DayEdge) -> Option<i64> {
    if let Ok(at) = text.parse::<jiff::Timestamp>() {
        return Some(at.as_millisecond());
    }
    let day = || text.parse::<jiff::civil::Date>().ok().filter(|_| text.len() <= 10);
    match (day(), edge) {
        (Some(day), DayEdge::First) => zone.instant(day.into()),
        (Some(day), DayEdge::Last) => zone.instant(day.tomorrow().ok()?.into()).map(|at| at - 1),
        (None, _) => zone.instant(text.parse().ok()?),
    }
}

/// Parses a five-field cron line, or a nickname for one.
pub(super) fn parse_cron(line: &str) -> Result<CadenceCalendar, String> {
    let line = line.trim();
    let line = NICKNAMES.iter().find(|(name, _)| line.eq_ignore_ascii_case(name)).map_or(line, |(_, line)| line);
    let fields: Vec<&str> = line.split_whitespace().take(8).collect();
    let [minute, hour, date, month, weekday] = fields[..] else {
        return Err(format!("a cron line has five fields, found {}", fields.len()));
    };
    if line.len() > TEXT_MAX {
        return Err(format!("a cron line has at most {TEXT_MAX} characters"));
    }
    let (weekday, both) = weekday.strip_prefix('+').map_or((weekday, false), |rest| (rest, true));
    let minutes = MINUTE.read(minute)?;
    let hours = HOUR.read(hour)?;
    let days = days(&DATE.read(date)?, &MONTH.read(month)?, &WEEKDAY.read(weekday)?, join(date, weekday, both));
    let wild = hour.contains(['*', '?']);
    Ok(CadenceCalendar {
        days,
        times: DayTimes::Grid { hours: bits(&hours, ALL_BIT) as u32, minutes: bits(&minutes, ALL_BIT) },
        hours: if wild { DstPolicy::Wild } else { DstPolicy::Fixed },
    })
}

/// Whether text is a cron line.
pub(crate) fn is_cron(line: &str) -> bool {
    parse_cron(line).is_ok()
}

/// croner's nicknames.
const NICKNAMES: [(&str, &str); 6] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * sun"),
    ("@daily", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// Joins two restricted fields of days as Vixie's cron does: one of them suffices, unless one begins with a star, as
/// `*/2` does.
fn join(date: &str, weekday: &str, both: bool) -> DayJoin {
    let any = |field: &str| field == "*" || field == "?";
    let both = both || date.starts_with('*') || weekday.starts_with('*');
    match (any(date), any(weekday)) {
        (true, true) => DayJoin::Any,
        (true, false) => DayJoin::Weekdays,
        (false, true) => DayJoin::Dates,
        (false, false) if both => DayJoin::Both,
        (false, false) => DayJoin::Either,
    }
}

/// croner's bits of one value of a field.
const ALL_BIT: u8 = 1;
const NTH_BITS: [u8; 5] = [1 << 1, 1 << 2, 1 << 3, 1 << 4, 1 << 5];
const LAST_BIT: u8 = 1 << 6;
const CLOSEST_WEEKDAY_BIT: u8 = 1 << 7;

fn days(date: &CronComponent, month: &CronComponent, weekday: &CronComponent, join: DayJoin) -> CadenceDays {
    // Sunday is 0 and 7.
    let week = |bit| (bits(weekday, bit) & 0x7f | bits(weekday, bit) >> 7) as u8;
    CadenceDays {
        months: bits(month, ALL_BIT) as u16,
        dates: bits(date, ALL_BIT) as u32,
        nearest: bits(date, CLOSEST_WEEKDAY_BIT) as u32,
        last: match (date.is_feature_enabled(LAST_BIT), date.is_feature_enabled(CLOSEST_WEEKDAY_BIT)) {
            (true, true) => MonthEnd::WorkingDay,
            (true, false) => MonthEnd::Day,
            (false, _) => MonthEnd::No,
        },
        weekdays: week(ALL_BIT),
        nth: NTH_BITS.map(week),
        weekday_last: week(LAST_BIT),
        join,
    }
}

fn bits(field: &CronComponent, bit: u8) -> u64 {
    field.get_set_values(bit).into_iter().fold(0, |all, value| all | 1 << value)
}

/// The syntax that a field accepts besides numbers, names, ranges and steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extra {
    None,
    /// `L`, `LW`, `15W`.
    Date,
    /// `mon#2`, `friL`.
    Weekday,
}

impl Extra {
    /// The name that croner uses.
    const fn features(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Date => LAST_BIT | CLOSEST_WEEKDAY_BIT,
            Self::Weekday => LAST_BIT | 0b11_1110,
        }
    }
}

/// A field of a cron line: its name, its range, and its further syntax.
struct CronField {
    name: &'static str,
    least: u16,
    most: u16,
    extra: Extra,
    words: &'static [&'static str],
}

const MINUTE: CronField = CronField { name: "minute", least: 0, most: 59, extra: Extra::None, words: &[] };
const HOUR: CronField = CronField { name: "hour", least: 0, most: 23, extra: Extra::None, words: &[] };
const DATE: CronField = CronField { name: "day of month", least: 1, most: 31, extra: Extra::Date, words: &[] };
const MONTH: CronField = CronField { name: "month", least: 1, most: 12, extra: Extra::None, words: &MONTHS };
const WEEKDAY: CronField =
    CronField { name: "day of week", least: 0, most: 7, extra: Extra::Weekday, words: &WEEKDAYS };

impl CronField {
    /// Names become numbers here, only in the fields where they belong; croner parses the rest of a field.
    fn read(&self, text: &str) -> Result<CronComponent, String> {
        let mut field = CronComponent::new(self.least, self.most, self.extra.features(), 0);
        let parts: Option<Vec<String>> = text.split(',').map(|part| self.numbered(part)).collect();
        let read = parts.is_some_and(|parts| field.parse(&parts.join(",")).is_ok());
        if read { Ok(field) } else { Err(self.problem(text)) }
    }

    /// Replaces names with numbers in a part of a list. `None` for text that croner would accept but that has no
    /// sensible meaning.
    fn numbered(&self, part: &str) -> Option<String> {
        match part.split_once('/') {
            Some((range, step)) => {
                let range = self.range(range, Extra::None)?;
                let step: u16 =
                    step.parse().ok().filter(|number| (1..=self.most).contains(number) && is_digits(step))?;
                Some(format!("{range}/{step}"))
            }
            None if part == "?" => Some("*".to_owned()),
            None => self.range(part, self.extra),
        }
    }

    fn range(&self, text: &str, extra: Extra) -> Option<String> {
        let last = |text: &str| text.eq_ignore_ascii_case("L") || text.eq_ignore_ascii_case("LW");
        if text == "*" || (extra == Extra::Date && last(text)) {
            return Some(text.to_ascii_uppercase());
        }
        let Some((from, to)) = text.split_once('-') else { return self.end(text, extra, 0) };
        Some(format!("{}-{}", self.end(from, Extra::None, 0)?, self.end(to, extra, 1)?))
    }

    /// One end of a range: a number or a name, with an optional suffix.
    fn end(&self, text: &str, extra: Extra, at: usize) -> Option<String> {
        let named =
            self.words.iter().position(|word| text.get(..3).is_some_and(|name| name.eq_ignore_ascii_case(word)));
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (value, rest) = match named {
            // `fri-sun` ends with the Sunday after.
            Some(0) if self.most == 7 && at == 1 => (7, text.get(3..)?),
            Some(name) => (name + usize::from(self.least), text.get(3..)?),
            None => (text.get(..digits)?.parse().ok()?, text.get(digits..)?),
        };
        let rest = rest.to_ascii_uppercase();
        let fits = match extra {
            Extra::None => rest.is_empty(),
            Extra::Date => rest.is_empty() || rest == "W",
            Extra::Weekday => matches!(rest.as_str(), "" | "L" | "#L" | "#1" | "#2" | "#3" | "#4" | "#5"),
        };
        fits.then(|| format!("{value}{rest}"))
    }

    fn problem(&self, text: &str) -> String {
        let Self { name, least, most, .. } = self;
        format!("the {name} {} is not within {least}-{most}", quoted(text))
    }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
