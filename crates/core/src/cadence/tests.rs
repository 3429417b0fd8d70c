//! What schedules say.

use super::*;

fn schedule(on: &Triggers) -> Schedule {
    Schedule::of(on, "repo/loop", "UTC").expect("a schedule")
}

fn ms(text: &str) -> i64 {
    text.parse::<jiff::Timestamp>().expect("a timestamp").as_millisecond()
}

#[test]
fn daily_in_berlin() {
    let on =
        Triggers { daily: vec!["02:30".to_owned()], timezone: Some("Europe/Berlin".to_owned()), ..Triggers::default() };
    let schedule = schedule(&on);
    let dues: Vec<_> =
        schedule.coming(ms("2026-03-27T12:00:00Z")).take(3).map(|due| (due.at_ms, due.shifted)).collect();
    let expected =
        [(ms("2026-03-28T01:30:00Z"), false), (ms("2026-03-29T01:00:00Z"), true), (ms("2026-03-30T00:30:00Z"), false)];
    assert_eq!(dues, expected);
}
