//! Cadence strings of the seeds: `every 15m`, `daily 08:00`, `weekly mon 09:30`, a cron line. They become the keys of
//! `on:`.
//!
//! [`crate::cadence`] defines the meaning of the parts and computes due times.

use super::Triggers;
use crate::cadence::parse;
use crate::units::TimeSpan;

/// Adds `every 15m`, `daily 08:00`, `weekly mon 09:30` or a five-field cron line to the triggers of a loop; `None` for
/// other text. The seed's looser forms (`every 15 m`, `daily 9:05`, `weekly Monday 9:30`) are read as their strict form.
pub(crate) fn add_cadence(on: &mut Triggers, text: &str) -> Option<()> {
    let text = text.trim();
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim();
    match word {
        "every" => on.every.push(TimeSpan::parse(&joined(rest))?),
        "daily" => on.daily.push(Some(padded(rest)).filter(|text| parse::parse_times(text).is_some())?),
        "weekly" => on.weekly.push(Some(short_days(rest)).filter(|text| parse::parse_weekly(text).is_some())?),
        _ => on.cron.push(parse::is_cron(text).then(|| text.to_owned())?),
    }
    Some(())
}

/// A number and its unit without the space between them.
fn joined(text: &str) -> String {
    match text.split_once(char::is_whitespace) {
        Some((number, unit)) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{number}{}", unit.trim_start())
        }
        _ => text.to_owned(),
    }
}

/// Times of day with two digits for their hours, without spaces between them.
fn padded(times: &str) -> String {
    let one = |time: &str| if time.find(':') == Some(1) { format!("0{time}") } else { time.to_owned() };
    times.split(',').map(|time| one(time.trim())).collect::<Vec<_>>().join(",")
}

/// Weekdays by their first three letters, and padded times.
fn short_days(text: &str) -> String {
    let digit = text.find(|c: char| c.is_ascii_digit()).unwrap_or(text.len());
    let (days, times) = text.split_at(digit);
    if !days.ends_with(char::is_whitespace) {
        return text.to_owned();
    }
    let short = |day: &str| parse::parse_weekday(day).map_or(day, |at| parse::weekday_name(at)).to_owned();
    let range = |days: &str| days.trim().split('-').map(|day| short(day.trim())).collect::<Vec<_>>().join("-");
    let days = days.split(',').map(range).collect::<Vec<_>>().join(",");
    format!("{days} {}", padded(times))
}

/// The suggestion for text that is not a cadence.
pub(crate) fn cadence_hint(text: &str) -> String {
    let text = text.trim();
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    match word {
        "every" => every_hint(&joined(rest.trim())),
        "daily" => "write `daily 08:00`, two digits each".to_owned(),
        "weekly" => "write `weekly mon 09:30`".to_owned(),
        "hourly" => "write `every 1h`".to_owned(),
        _ => whole_hint(text),
    }
}

fn every_hint(span: &str) -> String {
    let digits = span.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = span.split_at(digits);
    let is_zero = !number.is_empty() && number.bytes().all(|digit| digit == b'0');
    match (unit, number.parse::<u32>()) {
        _ if is_zero => "at least `every 1s`".to_owned(),
        ("w", Ok(weeks)) => format!("write `every {}d`", u64::from(weeks) * 7),
        ("ms" | "s" | "m" | "h" | "d", _) if !number.is_empty() => "at most `every 3650d`".to_owned(),
        _ => "write `every 15m`; the units are s, m, h and d".to_owned(),
    }
}

/// The suggestion for text whose first word is unknown.
fn whole_hint(text: &str) -> String {
    let first_of_range = text.split(['-', '–']).next().map(str::trim);
    if let Some(span) = first_of_range.filter(|span| TimeSpan::parse(span).is_some()) {
        return format!("write `every {span}`");
    }
    if parse::parse_times(text).is_some() {
        return format!("write `daily {text}`");
    }
    if parse::parse_weekly(text).is_some() {
        return format!("write `weekly {text}`");
    }
    "write `every 15m`, `daily 08:00`, `weekly mon 09:30` or a five-field cron line".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_cadences_are_read() {
        for text in
            ["every 15m", "every 2h", "daily 08:00", "weekly mon 09:30", "*/10 9-17 * * 1-5", "0 3 1,15 jan-mar *"]
        {
            assert!(add_cadence(&mut Triggers::default(), text).is_some(), "{text}");
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
            assert_eq!(add_cadence(&mut Triggers::default(), text), None, "{text}");
        }
    }

    #[test]
    fn hint_for_a_bare_duration_adds_every() {
        assert_eq!(cadence_hint("15m"), "write `every 15m`");
        assert_eq!(cadence_hint("08:00"), "write `daily 08:00`");
        assert_eq!(cadence_hint("mon 09:30"), "write `weekly mon 09:30`");
    }
}
