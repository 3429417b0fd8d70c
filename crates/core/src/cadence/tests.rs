//! Tests of schedules, as tables and as properties.

mod between;
mod dst;
mod grammar;
mod quiet;
mod refused;
mod zones;

use super::*;
use crate::level::LoopLevel;
use crate::spec::LoopSpec;

/// The triggers for cadence strings in a zone.
fn triggers(cadences: &[&str], zone: &str) -> Triggers {
    let spec = LoopSpec::new("a-loop", "Say when.", LoopLevel::L1Report);
    let mut spec = cadences.iter().fold(spec, |mut spec, cadence| {
        spec.add_cadence(cadence);
        spec
    });
    assert_eq!(spec.unread, [], "{cadences:?}");
    spec.on.timezone = Some(zone.to_owned());
    spec.on
}

fn compiled(on: &Triggers) -> LoopSchedule {
    LoopSchedule::of(on, "repo/a-loop", "UTC").unwrap_or_else(|problem| panic!("{problem}: {}", problem.hint))
}

fn schedule(cadences: &[&str], zone: &str) -> LoopSchedule {
    compiled(&triggers(cadences, zone))
}

fn ms(text: &str) -> i64 {
    text.parse::<jiff::Timestamp>().expect("a timestamp").as_millisecond()
}

/// An instant on the wall clock of a zone, with its offset.
fn wall(at_ms: i64, zone: &str) -> String {
    let zone = jiff::tz::TimeZoneDatabase::bundled().get(zone).expect("a zone");
    let at = jiff::Timestamp::from_millisecond(at_ms).expect("an instant").to_zoned(zone);
    at.strftime("%Y-%m-%d %a %H:%M:%S %:z").to_string()
}

/// The first due times after a moment, one on each line.
fn listed(schedule: &LoopSchedule, after: &str, count: usize) -> String {
    let line = |due: DueTime| {
        let mark = if due.shifted { " shifted" } else { "" };
        format!("{}{mark}\n", wall(due.at_ms, schedule.zone()))
    };
    schedule.coming(ms(after)).take(count).map(line).collect()
}
