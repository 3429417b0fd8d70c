//! The grammar of times in loop files: cadence strings, times of day, weekdays, cron lines, quiet hours, zone names.
//!
//! Only whether the text is well formed; when something is due is the scheduler's business.

use super::Triggers;
use crate::units::Span;

/// A cadence string of the seeds, understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cadence {
    Every(Span),
    Daily(String),
    Weekly(String),
    Cron(String),
}

impl Cadence {
    /// Reads `every 15m`, `daily 08:00`, `weekly mon 09:30` or a five-field cron line. What the seed's looser grammar also
    /// takes (`every 15 m`, `daily 9:05`, `weekly Monday 9:30`) is read as the strict form it means.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (word, rest) = text.split_once(char::is_whitespace)?;
        let rest = rest.trim();
        match word {
            "every" => Span::parse(&joined(rest)).map(Self::Every),
            "daily" => Some(padded(rest)).filter(|time| is_time(time)).map(Self::Daily),
            "weekly" => Some(short_day(rest)).filter(|time| is_weekly(time)).map(Self::Weekly),
            _ => cron_problem(text).is_none().then(|| Self::Cron(text.to_owned())),
        }
    }

    /// Adds it to the triggers of a loop.
    pub(crate) fn add_to(self, on: &mut Triggers) {
        match self {
            Self::Every(span) => on.every.push(span),
            Self::Daily(time) => on.daily.push(time),
            Self::Weekly(time) => on.weekly.push(time),
            Self::Cron(line) => on.cron.push(line),
        }
    }
}

/// A number and its unit without the space between them.
fn joined(text: &str) -> String {
    match text.split_once(char::is_whitespace) {
        Some((number, unit)) if is_digits(number) => format!("{number}{}", unit.trim_start()),
        _ => text.to_owned(),
    }
}

/// A time of day with two digits for its hour.
fn padded(time: &str) -> String {
    if time.find(':') == Some(1) { format!("0{time}") } else { time.to_owned() }
}

/// A weekday by its first three letters, and a padded time.
fn short_day(text: &str) -> String {
    let Some((day, time)) = text.split_once(char::is_whitespace) else { return text.to_owned() };
    let day = day.to_ascii_lowercase();
    let short =
        WEEKDAYS.iter().zip(WEEKDAYS_LONG).find(|(_, long)| *long == day).map_or(day.as_str(), |(short, _)| short);
    format!("{short} {}", padded(time.trim_start()))
}

/// What to write instead of text that is no cadence.
pub(crate) fn cadence_hint(text: &str) -> String {
    let text = text.trim();
    if Span::parse(text).is_some() {
        return format!("write `every {text}`");
    }
    if is_time(text) {
        return format!("write `daily {text}`");
    }
    if is_weekly(text) {
        return format!("write `weekly {text}`");
    }
    "write `every 15m`, `daily 08:00`, `weekly mon 09:30` or a five-field cron line".to_owned()
}

/// `HH:MM`, from 00:00 to 23:59.
pub(crate) fn is_time(text: &str) -> bool {
    let two = |part: &str, most: u8| {
        part.len() == 2 && part.parse::<u8>().is_ok_and(|number| number <= most) && is_digits(part)
    };
    text.split_once(':').is_some_and(|(hour, minute)| two(hour, 23) && two(minute, 59))
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const WEEKDAYS_LONG: [&str; 7] = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];
const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// A weekday and a time: `mon 09:30`.
pub(crate) fn is_weekly(text: &str) -> bool {
    text.split_once(' ').is_some_and(|(day, time)| WEEKDAYS.contains(&day) && is_time(time))
}

/// A range of hours: `22:00-06:00`.
pub(crate) fn is_quiet(text: &str) -> bool {
    text.split_once('-').is_some_and(|(from, to)| is_time(from) && is_time(to) && from != to)
}

/// A name that looks like one of the zone database: `UTC`, `Europe/Berlin`, `America/Argentina/Ushuaia`.
pub(crate) fn is_zone(text: &str) -> bool {
    let part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic())
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "_+-".contains(c))
    };
    text.len() <= 64 && text.split('/').all(part) && text.split('/').count() <= 3
}

/// A moment or a day, as RFC 3339 writes them.
pub(crate) fn is_moment(text: &str) -> bool {
    text.parse::<jiff::Timestamp>().is_ok()
        || text.parse::<jiff::civil::DateTime>().is_ok()
        || text.parse::<jiff::civil::Date>().is_ok()
}

/// A field of a cron line: its name, its range, and the names it accepts.
struct CronField {
    name: &'static str,
    least: u32,
    most: u32,
    words: &'static [&'static str],
}

const CRON: [CronField; 5] = [
    CronField { name: "minute", least: 0, most: 59, words: &[] },
    CronField { name: "hour", least: 0, most: 23, words: &[] },
    CronField { name: "day of month", least: 1, most: 31, words: &[] },
    CronField { name: "month", least: 1, most: 12, words: &MONTHS },
    CronField { name: "day of week", least: 0, most: 7, words: &WEEKDAYS },
];

/// What is wrong with a five-field cron line, if anything.
pub(crate) fn cron_problem(line: &str) -> Option<String> {
    let fields: Vec<&str> = line.split_whitespace().take(7).collect();
    if fields.len() != CRON.len() {
        return Some(format!("a cron line has five fields, found {}", fields.len()));
    }
    let wrong = CRON.iter().zip(&fields).find(|(field, text)| !field.accepts(text));
    wrong.map(|(field, text)| {
        let CronField { name, least, most, .. } = field;
        format!("the {name} {} is not within {least}-{most}", super::problem::quoted(text))
    })
}

impl CronField {
    fn accepts(&self, text: &str) -> bool {
        text.split(',').all(|part| match part.split_once('/') {
            Some((range, step)) => {
                self.range(range)
                    && is_digits(step)
                    && step.parse().is_ok_and(|step: u32| step > 0 && step <= self.most.max(1))
            }
            None => self.range(part),
        })
    }

    fn range(&self, text: &str) -> bool {
        match text.split_once('-') {
            _ if text == "*" => true,
            Some((from, to)) => self.number(from).zip(self.number(to)).is_some_and(|(from, to)| from <= to),
            None => self.number(text).is_some(),
        }
    }

    fn number(&self, text: &str) -> Option<u32> {
        if let Some(at) = self.words.iter().position(|word| text.eq_ignore_ascii_case(word)) {
            return u32::try_from(at).ok().map(|at| at + self.least);
        }
        let number = text.parse().ok().filter(|_| is_digits(text))?;
        (self.least..=self.most).contains(&number).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_cadences_are_read() {
        for text in
            ["every 15m", "every 2h", "daily 08:00", "weekly mon 09:30", "*/10 9-17 * * 1-5", "0 3 1,15 jan-mar *"]
        {
            assert!(Cadence::parse(text).is_some(), "{text}");
        }
        for text in [
            "15m",
            "every",
            "every 15",
            "daily 8:0",
            "daily 24:00",
            "weekly moonday 09:30",
            "every every 5m",
            "* * * *",
            "",
        ] {
            assert_eq!(Cadence::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_bare_duration_is_told_to_say_every() {
        assert_eq!(cadence_hint("15m"), "write `every 15m`");
        assert_eq!(cadence_hint("08:00"), "write `daily 08:00`");
        assert_eq!(cadence_hint("mon 09:30"), "write `weekly mon 09:30`");
    }

    #[test]
    fn cron_fields_stay_in_their_ranges() {
        for line in [
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * 8",
            "*/0 * * * *",
            "5-1 * * * *",
            "a * * * *",
            "* * * * * *",
            "*/+5 * * * *",
        ] {
            assert!(cron_problem(line).is_some(), "{line}");
        }
        assert_eq!(cron_problem("0 0 * * 7"), None);
    }

    #[test]
    fn quiet_hours_zones_and_moments() {
        assert!(is_quiet("22:00-06:00") && !is_quiet("22:00") && !is_quiet("22-6") && !is_quiet("06:00-06:00"));
        assert!(is_zone("Europe/Berlin") && is_zone("UTC") && is_zone("Etc/GMT+1"));
        assert!(!is_zone("../etc/passwd") && !is_zone("/etc") && !is_zone("") && !is_zone("Europe/Ber lin"));
        assert!(is_moment("2026-01-31") && is_moment("2026-01-31T10:00:00Z") && !is_moment("tomorrow"));
    }
}
