//! Due times between two moments: the last few and a count, at bounded cost.

use super::*;

const TEN_YEARS_MS: i64 = 3_653 * 86_400_000;

/// The same result by listing everything.
fn plainly(schedule: &LoopSchedule, after_ms: i64, upto_ms: i64, keep: usize) -> DueRange {
    let mut kept: Vec<DueTime> = schedule.coming(after_ms).take_while(|due| due.start_ms <= upto_ms).collect();
    let earlier: Vec<DueTime> = kept.drain(..kept.len().saturating_sub(keep)).collect();
    DueRange {
        earlier: earlier.len() as u64,
        earlier_from_ms: earlier.first().map(|due| due.at_ms),
        earlier_through_ms: earlier.last().map(|due| due.at_ms),
        kept,
    }
}

#[test]
fn counting_agrees_with_listing() {
    let cadences: [&[&str]; 8] = [
        &["every 7m"],
        &["daily 02:30"],
        &["*/10 * * * *"],
        &["0,15,30,45 0-3 * * *"],
        &["weekly mon,wed 09:30,17:00"],
        &["0 12 L * *", "0 12 * * fri#2"],
        &["every 1h", "0 * * * *"],
        &["daily 02:30,03:00", "0 3 * * *", "every 6h"],
    ];
    let starts = ["2026-03-28T22:17:00Z", "2026-10-24T21:00:00Z", "2026-06-01T00:00:00.001Z", "2026-10-25T00:30:00Z"];
    for (cadences, start) in cadences.iter().flat_map(|cadences| starts.map(|start| (cadences, start))) {
        let mut on = triggers(cadences, "Europe/Berlin");
        on.jitter = crate::units::TimeSpan::parse("90s");
        let schedule = compiled(&on);
        for (hours, keep) in [(0, 1), (1, 1), (5, 0), (26, 1), (26, 3), (24 * 9, 2), (24 * 40, 1_000)] {
            let (after, upto) = (ms(start), ms(start) + hours * 3_600_000);
            let expected = plainly(&schedule, after, upto, keep);
            assert_eq!(
                schedule.between(after, upto, keep),
                expected,
                "{cadences:?} from {start}, {hours} h, keep {keep}"
            );
        }
    }
}

#[test]
fn ten_years_every_second_are_counted_not_listed() {
    let schedule = schedule(&["every 1s"], "UTC");
    let between = schedule.between(0, TEN_YEARS_MS, 2);
    assert_eq!(between.earlier, TEN_YEARS_MS as u64 / 1_000 - 2);
    assert_eq!(between.kept.iter().map(|due| due.at_ms).collect::<Vec<_>>(), [TEN_YEARS_MS - 1_000, TEN_YEARS_MS]);
    assert_eq!(between.earlier_from_ms.zip(between.earlier_through_ms), Some((1_000, TEN_YEARS_MS - 2_000)));
}

#[test]
fn ten_years_of_several_cadences_are_a_lower_bound() {
    let schedule = schedule(&["every 1s", "* * * * *", "daily 08:00"], "Europe/Berlin");
    let between = schedule.between(0, TEN_YEARS_MS, 1_000);
    assert_eq!(between.kept.len(), 1_000);
    assert_eq!(between.earlier, TEN_YEARS_MS as u64 / 1_000 - 1_000);
}

#[test]
fn no_moment_is_too_far_away() {
    for cadence in ["every 1s", "every 3650d", "daily 08:00", "0 0 29 2 *", "* * * * *"] {
        let schedule = schedule(&[cadence], "America/New_York");
        for at in [i64::MIN, -1, 0, 1 << 40, 1 << 60, i64::MAX] {
            let _ = schedule.next_after(at);
            let _ = schedule.quiet_until(at);
            for upto in [i64::MIN, 0, 1 << 50, i64::MAX] {
                assert!(schedule.between(at, upto, 3).kept.len() <= 3, "{cadence} {at} {upto}");
            }
        }
    }
}

#[test]
fn intervals_are_a_grid_that_no_start_shifts() {
    let schedule = schedule(&["every 90m"], "Europe/Berlin");
    for after in ["2026-03-29T00:00:00.001Z", "2026-03-29T01:29:59.999Z"] {
        assert_eq!(schedule.next_after(ms(after)).map(|due| due.at_ms), Some(ms("2026-03-29T01:30:00Z")));
    }
}
