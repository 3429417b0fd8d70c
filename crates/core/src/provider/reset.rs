//! Finds the time at which a limit ends in an error message: "try again in 3m 20s", "resets 3pm (UTC)", a timestamp
//! after a bar. Agents run with UTC as their time zone, so a time of day without a zone is UTC. Times in other zones
//! are not guessed.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

/// The number of bytes of a text that are searched.
const TEXT_MAX: usize = 4 << 10;
/// The longest window of any provider is a week.
pub(super) const AHEAD_MAX_MS: i64 = 8 * 24 * 3600 * 1000;

/// A duration follows one of these.
const BEFORE_SPAN: &str = "try again in|try again after|retry in|retry after|retry-after|retry_after|retrydelay|\
    resets in|resets_in_seconds|reset in|reset after|available in|available again in|wait for|please wait";

/// A point in time follows one of these.
const BEFORE_MOMENT: &str = "resets at|resets_at|reset_at|reset at|resets on|resets|try again at|available at";

/// Whether a reset time is plausible: not in the past and not beyond any provider's window.
#[must_use]
pub fn is_plausible_reset(at_ms: i64, now_ms: i64) -> bool {
    (now_ms..=now_ms.saturating_add(AHEAD_MAX_MS)).contains(&at_ms)
}

/// The time at which the limit in a message ends, in milliseconds since 1970. `None` for a time in the past or beyond
/// any provider's window.
#[must_use]
pub fn find_reset(text: &str, now_ms: i64) -> Option<i64> {
    let text = text[..text.floor_char_boundary(TEXT_MAX)].to_ascii_lowercase();
    let after = |keys: &'static str| {
        let found = keys.split('|').flat_map(|key| text.match_indices(key).map(|(at, key)| (at, at + key.len())));
        let mut found: Vec<_> = found.collect();
        found.sort_unstable_by_key(|(at, end)| (*at, std::cmp::Reverse(*end)));
        found.into_iter().map(|(_, end)| value(&text[end..])).collect::<Vec<_>>()
    };
    let spans = after(BEFORE_SPAN).into_iter().filter_map(|rest| now_ms.checked_add(find_span(rest)?));
    let moments = after(BEFORE_MOMENT).into_iter().filter_map(|rest| moment(rest, now_ms));
    let bars = text.match_indices('|').filter_map(|(at, _)| find_epoch(text[at + 1..].trim_start()));
    spans.chain(moments).chain(bars).find(|at| is_plausible_reset(*at, now_ms))
}

/// The text after a key, without separators.
fn value(rest: &str) -> &str {
    let mut rest = rest.trim_start_matches([' ', ':', '"', '\'', '=', '~', '\n']);
    for word in ["about ", "approximately ", "around "] {
        rest = rest.strip_prefix(word).unwrap_or(rest);
    }
    rest
}

/// Milliseconds of a duration such as `3m 20s`, `1.5 hours`, `2 minutes and 5 seconds`, `250ms`, or a bare number of
/// seconds.
pub(super) fn find_span(mut rest: &str) -> Option<i64> {
    let mut sum: Option<f64> = None;
    while let Some((number, after)) = number(rest) {
        let letters = after.trim_start_matches(' ');
        let word = letters.len() - letters.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
        let Some(unit) = unit(&letters[..word]) else {
            // Seconds need no unit, but only as the whole duration.
            return sum.or(Some(number * 1000.0)).and_then(whole);
        };
        sum = Some(sum.unwrap_or_default() + number * unit);
        rest = letters[word..].trim_start_matches([' ', ',']);
        rest = rest.strip_prefix("and ").unwrap_or(rest);
    }
    sum.and_then(whole)
}

#[expect(clippy::cast_possible_truncation, reason = "bounded just before")]
fn whole(ms: f64) -> Option<i64> {
    (ms.is_finite() && (0.0..1e15).contains(&ms)).then(|| ms.ceil() as i64)
}

fn number(text: &str) -> Option<(f64, &str)> {
    let end = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
    let digits = text[..end].trim_end_matches('.');
    Some((digits.parse().ok()?, &text[digits.len()..]))
}

fn unit(word: &str) -> Option<f64> {
    Some(match word {
        "ms" | "millisecond" | "milliseconds" => 1.0,
        "s" | "sec" | "secs" | "second" | "seconds" => 1000.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60_000.0,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3_600_000.0,
        "d" | "day" | "days" => 86_400_000.0,
        _ => return None,
    })
}

fn moment(rest: &str, now_ms: i64) -> Option<i64> {
    find_epoch(rest).or_else(|| find_stamp(rest)).or_else(|| daytime(rest, now_ms))
}

/// Seconds or milliseconds since 1970.
pub(super) fn find_epoch(text: &str) -> Option<i64> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let number: i64 = text[..digits].parse().ok()?;
    match digits {
        10 => number.checked_mul(1000),
        13 => Some(number),
        _ => None,
    }
}

/// An RFC 3339 timestamp; without an offset it is UTC.
pub(super) fn find_stamp(text: &str) -> Option<i64> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || "-:.+tz".contains(c))).unwrap_or(text.len());
    let word = text[..end].trim_end_matches(['.', ':', '-']).to_ascii_uppercase();
    let zoned = word.parse::<Timestamp>().ok();
    let plain = || if word.contains('T') { utc(word.parse::<DateTime>().ok()?) } else { None };
    zoned.or_else(plain).map(Timestamp::as_millisecond)
}

fn utc(at: DateTime) -> Option<Timestamp> {
    Some(at.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

/// `3pm`, `3:15 pm`, `15:00`, `nov 20, 3pm`, `nov 20th, 2026 3:15 pm`, each optionally with `(utc)`; the next such
/// time.
fn daytime(text: &str, now_ms: i64) -> Option<i64> {
    let now = Timestamp::from_millisecond(now_ms).ok()?.to_zoned(TimeZone::UTC).datetime();
    let (day, rest) = match day(text, now.date()) {
        Some((day, rest)) => (Some(day), rest),
        None => (None, text),
    };
    let rest = rest.trim_start_matches([' ', ',']);
    let (time, rest) = clock(rest.strip_prefix("at ").unwrap_or(rest))?;
    if other_zone(rest) {
        return None;
    }
    let at = day.unwrap_or(now.date()).to_datetime(time);
    let at = if day.is_none() && at <= now { at.checked_add(Span::new().days(1)).ok()? } else { at };
    utc(at).map(Timestamp::as_millisecond)
}

fn other_zone(rest: &str) -> bool {
    let named = rest.trim_start().strip_prefix('(').and_then(|rest| rest.split(')').next());
    named.is_some_and(|zone| !matches!(zone.trim(), "utc" | "gmt" | "etc/utc"))
}

/// A day of a month, in the next year if this year's is long past.
fn day(text: &str, today: Date) -> Option<(Date, &str)> {
    const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let letters = text.len() - text.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
    let month = MONTHS.iter().position(|month| letters >= 3 && text.starts_with(month))?;
    let (number_of_day, rest) = digits(text[letters..].trim_start())?;
    let rest = ["st", "nd", "rd", "th"].iter().find_map(|end| rest.strip_prefix(end)).unwrap_or(rest);
    let after = rest.trim_start_matches([' ', ',']);
    let (year, rest) = match digits(after) {
        Some((year @ 2000..=9000, rest)) => (Some(year), rest),
        _ => (None, rest),
    };
    let on = |year: i16| Date::new(year, i8::try_from(month + 1).ok()?, i8::try_from(number_of_day).ok()?).ok();
    let this = on(year.and_then(|year| i16::try_from(year).ok()).unwrap_or(today.year()))?;
    let found = if year.is_none() && this < today { on(today.year() + 1)? } else { this };
    Some((found, rest))
}

fn clock(text: &str) -> Option<(Time, &str)> {
    let (hour, rest) = digits(text)?;
    let (minute, rest) = match rest.strip_prefix(':').and_then(digits) {
        Some((minute, rest)) => (Some(minute), rest),
        None => (None, rest),
    };
    let rest = rest.strip_prefix(':').and_then(digits).map_or(rest, |(_, rest)| rest);
    let half = rest.trim_start_matches([' ', '\u{202f}']);
    let (hour, rest) = match (half.strip_prefix("am"), half.strip_prefix("pm")) {
        (Some(rest), _) if (1..=12).contains(&hour) => (hour % 12, rest),
        (_, Some(rest)) if (1..=12).contains(&hour) => (hour % 12 + 12, rest),
        // A bare number is not a time of day.
        _ if minute.is_some() => (hour, rest),
        _ => return None,
    };
    let at = Time::new(i8::try_from(hour).ok()?, i8::try_from(minute.unwrap_or(0)).ok()?, 0, 0).ok()?;
    Some((at, rest))
}

fn digits(text: &str) -> Option<(u32, &str)> {
    let end = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    Some((text[..end].parse().ok()?, &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::{date, time};

    /// 2026-11-15 17:00 UTC.
    fn now() -> i64 {
        utc(date(2026, 11, 15).to_datetime(time(17, 0, 0, 0))).expect("a moment").as_millisecond()
    }

    fn at(text: &str) -> Option<String> {
        let ms = find_reset(text, now())?;
        Some(Timestamp::from_millisecond(ms).expect("a moment").to_string())
    }

    #[test]
    fn reset_times_are_found_in_messages_of_providers_and_programs() {
        let cases = [
            ("Please try again in 3m 20s.", "2026-11-15T17:03:20Z"),
            ("Please try again in 1h2m3s. Visit", "2026-11-15T18:02:03Z"),
            ("try again in 2 hours and 5 minutes", "2026-11-15T19:05:00Z"),
            ("Please try again in 1.5s.", "2026-11-15T17:00:01.5Z"),
            ("try again in 250ms", "2026-11-15T17:00:00.25Z"),
            ("try again in 4 days 1 hour.", "2026-11-19T18:00:00Z"),
            ("Your quota will reset after 3h20m5s.", "2026-11-15T20:20:05Z"),
            ("{\"retryDelay\": \"34.5s\"}", "2026-11-15T17:00:34.5Z"),
            ("429 (retry-after: 30)", "2026-11-15T17:00:30Z"),
            ("{\"resets_in_seconds\":90,\"plan\":\"x\"}", "2026-11-15T17:01:30Z"),
            ("{\"resets_at\":1794765600}", "2026-11-15T18:00:00Z"),
            ("Claude AI usage limit reached|1794765600", "2026-11-15T18:00:00Z"),
            ("usage limit reached|1794765600000", "2026-11-15T18:00:00Z"),
            ("You've hit your limit · resets 9pm (UTC)", "2026-11-15T21:00:00Z"),
            ("You've hit your limit · resets 3pm (UTC)", "2026-11-16T15:00:00Z"),
            ("5-hour limit reached ∙ resets 12am", "2026-11-16T00:00:00Z"),
            ("Weekly limit reached, resets Nov 20, 3:30pm (UTC)", "2026-11-20T15:30:00Z"),
            ("Weekly limit reached, resets Nov 20 at 15:30", "2026-11-20T15:30:00Z"),
            ("try again at Nov 20th, 2026 3:15 PM.", "2026-11-20T15:15:00Z"),
            ("or try again at 5:15 PM.", "2026-11-15T17:15:00Z"),
            ("resets at 2026-11-15T18:30:00Z", "2026-11-15T18:30:00Z"),
            ("resets at 2026-11-15T18:30:00+01:00.", "2026-11-15T17:30:00Z"),
        ];
        for (text, expected) in cases {
            assert_eq!(at(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn messages_without_a_usable_time_have_no_reset() {
        for text in [
            "",
            "rate limited",
            "try again in a while",
            "try again later",
            "resets 3pm (America/New_York)",
            "resets 27:99",
            "resets Foo 31, 3pm",
            "resets Feb 30, 3pm",
            "limit|1494765600",
            "limit|17",
            "try again in 900 days",
            "try again in 99999999999999999999999999 hours",
            "resets 5",
        ] {
            assert_eq!(at(text), None, "{text}");
        }
    }
}
