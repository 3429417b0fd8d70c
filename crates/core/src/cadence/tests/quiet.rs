//! Quiet hours, jitter, bounds.

use super::*;

#[test]
fn quiet_hours_end_on_the_wall_clock_also_over_midnight() {
    let mut on = triggers(&["every 1h"], "Europe/Berlin");
    on.quiet = Some("22:00-06:00".to_owned());
    let schedule = compiled(&on);
    let until = |at: &str| schedule.quiet_until(ms(at)).map(|end| wall(end, "Europe/Berlin"));
    assert_eq!(until("2026-01-10T20:59:59.999Z"), None);
    assert_eq!(until("2026-01-10T21:00:00Z").as_deref(), Some("2026-01-11 Sun 06:00:00 +01:00"));
    assert_eq!(until("2026-01-11T04:59:59.999Z").as_deref(), Some("2026-01-11 Sun 06:00:00 +01:00"));
    assert_eq!(until("2026-01-11T05:00:00Z"), None);
    // The nights of the two changes are an hour shorter and an hour longer.
    assert_eq!(until("2026-03-28T22:00:00Z").as_deref(), Some("2026-03-29 Sun 06:00:00 +02:00"));
    assert_eq!(until("2026-10-24T22:00:00Z").as_deref(), Some("2026-10-25 Sun 06:00:00 +01:00"));
}

#[test]
fn quiet_hours_that_end_within_a_gap_or_a_fold_end_where_the_wall_clock_leaves_them() {
    let mut on = triggers(&["every 1h"], "Europe/Berlin");
    on.quiet = Some("01:00-02:30".to_owned());
    let schedule = compiled(&on);
    let until = |at: &str| schedule.quiet_until(ms(at)).map(|end| wall(end, "Europe/Berlin"));
    assert_eq!(until("2026-03-29T00:30:00Z").as_deref(), Some("2026-03-29 Sun 03:00:00 +02:00"));
    assert_eq!(until("2026-10-25T00:10:00Z").as_deref(), Some("2026-10-25 Sun 02:30:00 +02:00"));
    assert_eq!(until("2026-10-25T00:40:00Z"), None);
    assert_eq!(until("2026-10-25T01:10:00Z").as_deref(), Some("2026-10-25 Sun 02:30:00 +01:00"));
}

#[test]
fn jitter_is_the_same_for_a_loop_and_spread_over_many() {
    let mut on = triggers(&["every 1h"], "UTC");
    on.jitter = crate::units::TimeSpan::parse("30s");
    let delay = |key: &str| {
        let due = LoopSchedule::of(&on, key, "UTC").expect("a schedule").next_after(0).expect("a due");
        assert_eq!(due.at_ms, 3_600_000);
        due.start_ms - due.at_ms
    };
    assert_eq!(delay("repo/a"), delay("repo/a"));
    let delays: std::collections::BTreeSet<i64> = (0..200).map(|at| delay(&format!("repo/loop-{at}"))).collect();
    assert!(delays.len() > 190 && delays.iter().all(|delay| (0..=30_000).contains(delay)), "{delays:?}");
    let halves = delays.iter().filter(|delay| **delay < 15_000).count();
    assert!((60..140).contains(&halves), "{halves} of {} in the first half", delays.len());
}

#[test]
fn nothing_is_due_outside_of_its_bounds() {
    let mut on = triggers(&["daily 08:00"], "Europe/Berlin");
    (on.not_before, on.until) = (Some("2026-05-02".to_owned()), Some("2026-05-03".to_owned()));
    let schedule = compiled(&on);
    // A day without a time: from its first moment on, and until its last.
    let expected = "2026-05-02 Sat 08:00:00 +02:00\n2026-05-03 Sun 08:00:00 +02:00\n";
    assert_eq!(listed(&schedule, "2026-01-01T00:00:00Z", 5), expected);
    assert_eq!(schedule.between(0, ms("2027-01-01T00:00:00Z"), 9).kept.len(), 2);
    (on.not_before, on.until) = (Some("2026-05-02T06:00:00Z".to_owned()), Some("2026-05-02T08:00".to_owned()));
    assert_eq!(listed(&compiled(&on), "2026-01-01T00:00:00Z", 5), "2026-05-02 Sat 08:00:00 +02:00\n");
}

#[test]
fn fingerprint_follows_the_cadence_and_nothing_else() {
    let base = triggers(&["every 15m", "daily 08:00"], "UTC");
    let print = |on: &Triggers| compiled(on).fingerprint().to_owned();
    let mut later = base.clone();
    later.jitter = crate::units::TimeSpan::parse("30s");
    later.quiet = Some("22:00-06:00".to_owned());
    later.overlap = crate::spec::Overlap::Queue;
    later.files = vec!["src/**".to_owned()];
    assert_eq!(print(&base), print(&later));
    let edits: [fn(&mut Triggers); 4] = [
        |on| on.daily[0] = "08:01".to_owned(),
        |on| on.timezone = Some("Europe/Berlin".to_owned()),
        |on| on.until = Some("2030-01-01".to_owned()),
        |on| on.every.clear(),
    ];
    for edit in edits {
        let mut edited = base.clone();
        edit(&mut edited);
        assert_ne!(print(&base), print(&edited), "{edited:?}");
    }
}

#[test]
fn loop_without_cadence_is_never_due() {
    let schedule = LoopSchedule::of(&Triggers::default(), "repo/a", "Europe/Berlin").expect("a schedule");
    assert!(!schedule.is_timed());
    assert_eq!((schedule.next_after(0), schedule.quiet_until(0)), (None, None));
    assert_eq!(schedule.between(0, i64::MAX, 3), DueRange::default());
    assert_eq!(schedule.describe(), "manual");
}
