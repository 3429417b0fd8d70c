//! Compiles an `on:` block into a plan and collects its problems: cadences that cannot be parsed, that are never due,
//! or that may never start.

use super::calendar::{CadenceCalendar, DstPolicy, WAIT_DAYS_MAX};
use super::day_times::{DayTimes, QuietHours};
use super::days::{CadenceDays, DayJoin};
use super::parse::{self, DayEdge};
use super::zone::{CadenceZone, WallClock};
use super::{Cadence, CadenceProblem, NO_BOUNDS, Plan, Rule};
use crate::spec::Triggers;
use crate::spec::problem::quoted;
use crate::spec::reader::value::nearest;

/// The shortest interval.
const EVERY_MIN_MS: i64 = 1_000;
/// The most cadences of one loop.
const CADENCES_MAX: usize = 64;
const DAY_MS: i64 = 86_400_000;
/// How late an occurrence may start and still count as on time, unless the loop says otherwise.
const GRACE_MS: i64 = 60_000;
const MINUTE_MS: i64 = 60_000;

/// All problems with the times of an `on:` block, on any machine.
pub(crate) fn problems(on: &Triggers) -> Vec<CadenceProblem> {
    let mut found = Vec::new();
    read_plan(on, None, &mut found);
    found
}

/// Compiles a block for a loop.
pub(super) fn compile(on: &Triggers, key: &str, system_zone: &str) -> Result<Plan, CadenceProblem> {
    let mut found = Vec::new();
    let mut plan = read_plan(on, Some(system_zone), &mut found);
    if !found.is_empty() {
        return Err(found.swap_remove(0));
    }
    plan.jitter_ms = jitter_ms(on, key);
    plan.fingerprint = fingerprint(on, &plan);
    Ok(plan)
}

fn read_plan(on: &Triggers, system_zone: Option<&str>, found: &mut Vec<CadenceProblem>) -> Plan {
    let zone = zone(on, system_zone, found);
    let placed = cadences(on, found);
    let quiet = quiet(on, found);
    let zone_is_known = on.timezone.is_some() || system_zone.is_some();
    for (place, cadence) in &placed {
        found.extend(never(place, cadence));
        found.extend(silenced(place, cadence, quiet, zone_is_known.then_some(&zone)));
    }
    let (after_ms, until_ms) = bounds(on, &zone, found);
    let cadences = placed.into_iter().map(|(_, cadence)| cadence).collect();
    let grace_ms = on.grace.map_or(GRACE_MS, |span| i64::try_from(span.duration().as_millis()).unwrap_or(i64::MAX));
    let plan = Plan { cadences, zone, jitter_ms: 0, grace_ms, quiet, after_ms, until_ms, fingerprint: "".into() };
    found.extend(empty(on, &plan).filter(|_| found.is_empty()));
    plan
}

/// The position of a cadence in the block.
type Place = (&'static str, Option<usize>);

fn problem(place: Place, text: String, hint: impl Into<String>) -> CadenceProblem {
    CadenceProblem { text, hint: hint.into(), key: place.0, index: place.1 }
}

fn zone(on: &Triggers, system_zone: Option<&str>, found: &mut Vec<CadenceProblem>) -> CadenceZone {
    let name = on.timezone.as_deref().or(system_zone).unwrap_or("UTC");
    CadenceZone::find(name).unwrap_or_else(|| {
        let place = ("timezone", None);
        found.push(match on.timezone {
            Some(_) => problem(place, format!("{} is not a time zone", quoted(name)), zone_hint(name)),
            None => problem(
                place,
                format!("this machine's zone {} is not in the zone database", quoted(name)),
                "name the loop's own: `timezone: Europe/Berlin`",
            ),
        });
        CadenceZone::find("UTC").expect("every zone database has UTC")
    })
}

/// The name that was probably meant: by its spelling, or by its city alone.
fn zone_hint(name: &str) -> String {
    let names: Vec<String> = CadenceZone::names().collect();
    let spelled = name.trim().replace(' ', "_");
    let city = |known: &&String| known.rsplit('/').next().is_some_and(|city| city.eq_ignore_ascii_case(&spelled));
    let lower: Vec<String> = names.iter().map(|name| name.to_lowercase().replace('-', "_")).collect();
    let by_spelling = || {
        let near = nearest(&spelled, lower.iter().map(String::as_str))?;
        lower.iter().position(|name| name == near).map(|at| &names[at])
    };
    match names.iter().find(city).or_else(by_spelling) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "an IANA name such as `Europe/Berlin` or `UTC`".to_owned(),
    }
}

fn cadences(on: &Triggers, found: &mut Vec<CadenceProblem>) -> Vec<(Place, Cadence)> {
    let count = on.every.len() + on.daily.len() + on.weekly.len() + on.cron.len();
    if count > CADENCES_MAX {
        let text = format!("the loop has {count} cadences; the most is {CADENCES_MAX}");
        let key = if on.every.len() > CADENCES_MAX { "every" } else { "cron" };
        found.push(problem((key, None), text, "one cron line or a list of times can name many moments"));
        return Vec::new();
    }
    let mut placed = Vec::new();
    let mut read = |place: Place, text: String, rule: Result<Rule, CadenceProblem>| match rule {
        Ok(rule) => placed.push((place, Cadence { text: text.into(), rule })),
        Err(problem) => found.push(problem),
    };
    for (at, span) in on.every.iter().enumerate() {
        let place = ("every", Some(at));
        read(place, format!("every {span}"), every(place, span.duration().as_millis()));
    }
    type Read = fn(Place, &str) -> Result<Rule, CadenceProblem>;
    let written: [(_, _, Read, _); 3] = [
        ("daily", &on.daily, daily, "daily "),
        ("weekly", &on.weekly, weekly, "weekly "),
        ("cron", &on.cron, cron, ""),
    ];
    for (key, texts, rule, prefix) in written {
        for (at, text) in texts.iter().enumerate() {
            let place = (key, Some(at));
            read(place, format!("{prefix}{}", text.trim()), rule(place, text));
        }
    }
    placed
}

fn every(place: Place, millis: u128) -> Result<Rule, CadenceProblem> {
    match i64::try_from(millis) {
        Ok(ms) if ms >= EVERY_MIN_MS => Ok(Rule::Every { ms }),
        Ok(ms) => Err(problem(place, format!("`{ms}ms` is too often"), "at least `1s`")),
        Err(_) => Err(problem(place, "the interval is too long".to_owned(), "at most `3650d`")),
    }
}

fn fixed(days: CadenceDays, times: Vec<u16>) -> Rule {
    Rule::Calendar(Box::new(CadenceCalendar { days, times: DayTimes::listed(times), hours: DstPolicy::Fixed }))
}

fn daily(place: Place, text: &str) -> Result<Rule, CadenceProblem> {
    let times = parse::parse_times(text).ok_or_else(|| {
        let text = format!("{} is not a time of day", quoted(text));
        problem(place, text, "two digits each, such as `08:00` or `08:00,17:30`")
    })?;
    Ok(fixed(CadenceDays::ALL, times))
}

fn weekly(place: Place, text: &str) -> Result<Rule, CadenceProblem> {
    let (days, times) = parse::parse_weekly(text).ok_or_else(|| {
        let text = format!("{} is not a weekday with a time", quoted(text));
        problem(place, text, "such as `mon 09:30` or `mon,wed 09:30,17:00`")
    })?;
    Ok(fixed(CadenceDays::weekly(days), times))
}

fn cron(place: Place, line: &str) -> Result<Rule, CadenceProblem> {
    match parse::parse_cron(line) {
        Ok(calendar) => Ok(Rule::Calendar(Box::new(calendar))),
        Err(reason) => {
            let text = format!("{} is not a cron line: {reason}", quoted(line));
            Err(problem(place, text, "minute, hour, day of month, month, day of week, such as `30 9 * * mon-fri`"))
        }
    }
}

/// Refuses days that never occur, or hardly ever.
fn never(place: &Place, cadence: &Cadence) -> Option<CadenceProblem> {
    let Rule::Calendar(calendar) = &cadence.rule else { return None };
    let days = &calendar.days;
    if is_frequent(days) || days.longest_wait(WAIT_DAYS_MAX).is_some() {
        return None;
    }
    let ever = days.next(0, 400 * 366).is_some();
    let what = if ever { "waits longer than ten years for its day" } else { "names a day that never comes" };
    let hint = if ever { "name more days" } else { "the last day of a month is `L`, such as `0 3 L 2 *`" };
    Some(problem(*place, format!("{} {what}", quoted(&cadence.text)), hint))
}

/// Whether the days certainly occur at least once a year, without consulting a calendar.
fn is_frequent(days: &CadenceDays) -> bool {
    let every_month_has = days.dates & 0x1fff_fffe != 0;
    match days.join {
        DayJoin::Any => true,
        DayJoin::Weekdays => days.weekdays != 0,
        DayJoin::Dates => every_month_has,
        DayJoin::Either => every_month_has || days.weekdays != 0,
        DayJoin::Both => false,
    }
}

fn quiet(on: &Triggers, found: &mut Vec<CadenceProblem>) -> Option<QuietHours> {
    let text = on.quiet.as_deref()?;
    let quiet = parse::parse_quiet_hours(text);
    if quiet.is_none() {
        let what = format!("{} is not a range of hours", quoted(text));
        found.push(problem(("quiet", None), what, "such as `22:00-06:00`"));
    }
    quiet
}

/// Refuses a cadence whose every occurrence lies in the quiet hours.
fn silenced(
    place: &Place,
    cadence: &Cadence,
    quiet: Option<QuietHours>,
    zone: Option<&CadenceZone>,
) -> Option<CadenceProblem> {
    let quiet = quiet?;
    let silent = match &cadence.rule {
        Rule::Calendar(calendar) => calendar.times.all().all(|minute| quiet.has(minute)),
        Rule::Every { ms } => zone.is_some_and(|zone| grid_is_silent(*ms, quiet, zone)),
    };
    silent.then(|| {
        let text = format!("{} is always within the quiet hours, so it would never start", quoted(&cadence.text));
        problem(*place, text, "move it, or make `quiet` shorter")
    })
}

/// Whether all instants of an interval fall into the quiet hours at every offset that the zone currently uses.
fn grid_is_silent(ms: i64, quiet: QuietHours, zone: &CadenceZone) -> bool {
    let step = greatest_common_divisor(ms, DAY_MS);
    if step < MINUTE_MS {
        return false;
    }
    let quiet_at = |offset: i64, at: i64| quiet.has((at + offset).rem_euclid(DAY_MS) / MINUTE_MS);
    zone.offsets_ms().into_iter().all(|offset| (0..DAY_MS / step).all(|at| quiet_at(offset, at * step)))
}

fn greatest_common_divisor(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

fn bounds(on: &Triggers, zone: &CadenceZone, found: &mut Vec<CadenceProblem>) -> (i64, i64) {
    let (mut after_ms, mut until_ms) = NO_BOUNDS;
    let wanted = [("not_before", &on.not_before, DayEdge::First), ("until", &on.until, DayEdge::Last)];
    for (key, text, edge) in wanted {
        let Some(text) = text else { continue };
        match (parse::parse_moment(text, zone, edge), edge) {
            (Some(at), DayEdge::First) => after_ms = after_ms.max(super::clamp_to_supported(at) - 1),
            (Some(at), DayEdge::Last) => until_ms = until_ms.min(at),
            (None, _) => {
                let what = format!("{} is not a moment", quoted(text));
                found.push(problem((key, None), what, "such as `2026-01-31` or `2026-01-31T08:00:00Z`"));
            }
        }
    }
    (after_ms, until_ms)
}

/// Refuses bounds between which nothing is due.
fn empty(on: &Triggers, plan: &Plan) -> Option<CadenceProblem> {
    let (Some(from), Some(until)) = (&on.not_before, &on.until) else { return None };
    let clock = WallClock::new(&plan.zone);
    let due = || plan.cadences.iter().filter_map(|cadence| cadence.rule.next_after(&clock, plan.after_ms));
    if plan.after_ms >= plan.until_ms {
        let what = format!("{} is not after {}", quoted(until), quoted(from));
        return Some(problem(("until", None), what, "`until` comes after `not_before`"));
    }
    let is_empty = !plan.cadences.is_empty() && !due().any(|moment| moment.at_ms <= plan.until_ms);
    is_empty.then(|| {
        let what = format!("nothing is due between {} and {}", quoted(from), quoted(until));
        problem(("until", None), what, "a later `until`, or a cadence that falls between them")
    })
}

/// A delay that is the same for a loop at every start, and spread evenly over many loops.
fn jitter_ms(on: &Triggers, key: &str) -> i64 {
    let Some(span) = on.jitter else { return 0 };
    let most = span.duration().as_millis() as u64;
    let hash = crate::hash::hash_fields(&[b"jitter", key.as_bytes()]);
    let seed = u64::from_str_radix(&hash[..15], 16).unwrap_or(0);
    i64::try_from(seed % (most + 1)).unwrap_or(0)
}

fn fingerprint(on: &Triggers, plan: &Plan) -> Box<str> {
    let mut fields: Vec<&[u8]> = plan.cadences.iter().map(|cadence| cadence.text.as_bytes()).collect();
    fields.sort_unstable();
    let by_calendar = plan.cadences.iter().any(|cadence| matches!(cadence.rule, Rule::Calendar(_)));
    let zone = if by_calendar { plan.zone.name() } else { "" };
    let bounds = [&on.not_before, &on.until].map(|bound| bound.as_deref().unwrap_or(""));
    fields.extend([zone.as_bytes(), bounds[0].as_bytes(), bounds[1].as_bytes()]);
    crate::hash::hash_fields(&fields)[..16].into()
}
