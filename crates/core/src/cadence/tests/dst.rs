//! Hours that a zone skips or repeats, as tables. The rule: fixed times run once (right after the gap, or the first of
//! the two), wildcard hours run whenever the wall clock shows them, intervals ignore wall clocks.

use super::*;
use expect_test::{Expect, expect};

fn check(cadence: &str, zone: &str, after: &str, count: usize, expected: Expect) {
    expected.assert_eq(&listed(&schedule(&[cadence], zone), after, count));
}

#[test]
fn fixed_time_in_the_gap_runs_once_right_after_it() {
    // Long because it is a table of moments.
    let berlin = |cadence: &str, expected: Expect| check(cadence, "Europe/Berlin", "2026-03-27T23:00:00Z", 4, expected);
    berlin(
        "daily 02:30",
        expect![[r#"
            2026-03-28 Sat 02:30:00 +01:00
            2026-03-29 Sun 03:00:00 +02:00 shifted
            2026-03-30 Mon 02:30:00 +02:00
            2026-03-31 Tue 02:30:00 +02:00
        "#]],
    );
    berlin(
        "30 2 * * *",
        expect![[r#"
            2026-03-28 Sat 02:30:00 +01:00
            2026-03-29 Sun 03:00:00 +02:00 shifted
            2026-03-30 Mon 02:30:00 +02:00
            2026-03-31 Tue 02:30:00 +02:00
        "#]],
    );
    // All times in one gap are one occurrence.
    berlin(
        "0,20,40 2 * * *",
        expect![[r#"
            2026-03-28 Sat 02:00:00 +01:00
            2026-03-28 Sat 02:20:00 +01:00
            2026-03-28 Sat 02:40:00 +01:00
            2026-03-29 Sun 03:00:00 +02:00 shifted
        "#]],
    );
    berlin(
        "30 2,3 * * *",
        expect![[r#"
            2026-03-28 Sat 02:30:00 +01:00
            2026-03-28 Sat 03:30:00 +01:00
            2026-03-29 Sun 03:00:00 +02:00 shifted
            2026-03-29 Sun 03:30:00 +02:00
        "#]],
    );
    // The instant after the gap is an occurrence itself: it is not shifted and not doubled.
    check(
        "0,30 2,3 * * *",
        "Europe/Berlin",
        "2026-03-28T12:00:00Z",
        3,
        expect![[r#"
            2026-03-29 Sun 03:00:00 +02:00
            2026-03-29 Sun 03:30:00 +02:00
            2026-03-30 Mon 02:00:00 +02:00
        "#]],
    );
    berlin(
        "weekly sun 02:00,02:59",
        expect![[r#"
            2026-03-29 Sun 03:00:00 +02:00 shifted
            2026-04-05 Sun 02:00:00 +02:00
            2026-04-05 Sun 02:59:00 +02:00
            2026-04-12 Sun 02:00:00 +02:00
        "#]],
    );
}

#[test]
fn wildcard_hours_and_intervals_do_not_move_in_the_gap() {
    let berlin = |cadence: &str, expected: Expect| check(cadence, "Europe/Berlin", "2026-03-28T23:30:00Z", 4, expected);
    berlin(
        "0 * * * *",
        expect![[r#"
            2026-03-29 Sun 01:00:00 +01:00
            2026-03-29 Sun 03:00:00 +02:00
            2026-03-29 Sun 04:00:00 +02:00
            2026-03-29 Sun 05:00:00 +02:00
        "#]],
    );
    berlin(
        "0 */2 * * *",
        expect![[r#"
            2026-03-29 Sun 04:00:00 +02:00
            2026-03-29 Sun 06:00:00 +02:00
            2026-03-29 Sun 08:00:00 +02:00
            2026-03-29 Sun 10:00:00 +02:00
        "#]],
    );
    berlin(
        "every 1h",
        expect![[r#"
            2026-03-29 Sun 01:00:00 +01:00
            2026-03-29 Sun 03:00:00 +02:00
            2026-03-29 Sun 04:00:00 +02:00
            2026-03-29 Sun 05:00:00 +02:00
        "#]],
    );
}

#[test]
fn fixed_time_in_the_fold_runs_once_and_wildcard_hours_run_twice() {
    let berlin = |cadence: &str, expected: Expect| check(cadence, "Europe/Berlin", "2026-10-24T23:30:00Z", 4, expected);
    berlin(
        "daily 02:30",
        expect![[r#"
            2026-10-25 Sun 02:30:00 +02:00
            2026-10-26 Mon 02:30:00 +01:00
            2026-10-27 Tue 02:30:00 +01:00
            2026-10-28 Wed 02:30:00 +01:00
        "#]],
    );
    berlin(
        "30 1-3 * * *",
        expect![[r#"
            2026-10-25 Sun 02:30:00 +02:00
            2026-10-25 Sun 03:30:00 +01:00
            2026-10-26 Mon 01:30:00 +01:00
            2026-10-26 Mon 02:30:00 +01:00
        "#]],
    );
    berlin(
        "0 * * * *",
        expect![[r#"
            2026-10-25 Sun 02:00:00 +02:00
            2026-10-25 Sun 02:00:00 +01:00
            2026-10-25 Sun 03:00:00 +01:00
            2026-10-25 Sun 04:00:00 +01:00
        "#]],
    );
    berlin(
        "every 1h",
        expect![[r#"
            2026-10-25 Sun 02:00:00 +02:00
            2026-10-25 Sun 02:00:00 +01:00
            2026-10-25 Sun 03:00:00 +01:00
            2026-10-25 Sun 04:00:00 +01:00
        "#]],
    );
}

#[test]
fn between_the_two_passes_of_a_fold_the_fixed_time_is_over() {
    // 00:45Z is 02:45 summer time; 01:15Z is 02:15 for the second time.
    for after in ["2026-10-25T00:45:00Z", "2026-10-25T01:15:00Z"] {
        let next = schedule(&["daily 02:30"], "Europe/Berlin").next_after(ms(after)).expect("a due");
        assert_eq!(wall(next.at_ms, "Europe/Berlin"), "2026-10-26 Mon 02:30:00 +01:00", "{after}");
    }
}

#[test]
fn odd_zones_keep_the_rule() {
    // Long because it is a table of moments.
    // Half an hour back and forth.
    check(
        "*/15 * * * *",
        "Australia/Lord_Howe",
        "2026-04-04T14:30:00Z",
        6,
        expect![[r#"
            2026-04-05 Sun 01:45:00 +11:00
            2026-04-05 Sun 01:30:00 +10:30
            2026-04-05 Sun 01:45:00 +10:30
            2026-04-05 Sun 02:00:00 +10:30
            2026-04-05 Sun 02:15:00 +10:30
            2026-04-05 Sun 02:30:00 +10:30
        "#]],
    );
    check(
        "daily 02:15",
        "Australia/Lord_Howe",
        "2026-10-02T20:00:00Z",
        3,
        expect![[r#"
            2026-10-04 Sun 02:30:00 +11:00 shifted
            2026-10-05 Mon 02:15:00 +11:00
            2026-10-06 Tue 02:15:00 +11:00
        "#]],
    );
    // An offset of 45 minutes.
    check(
        "daily 02:50",
        "Pacific/Chatham",
        "2026-09-25T20:00:00Z",
        3,
        expect![[r#"
            2026-09-27 Sun 03:45:00 +13:45 shifted
            2026-09-28 Mon 02:50:00 +13:45
            2026-09-29 Tue 02:50:00 +13:45
        "#]],
    );
    // Midnight does not exist.
    check(
        "daily 00:00",
        "Africa/Cairo",
        "2026-04-22T23:00:00Z",
        3,
        expect![[r#"
            2026-04-24 Fri 01:00:00 +03:00 shifted
            2026-04-25 Sat 00:00:00 +03:00
            2026-04-26 Sun 00:00:00 +03:00
        "#]],
    );
    // A whole day does not exist: its occurrence comes right after it, once.
    check(
        "daily 08:00",
        "Pacific/Apia",
        "2011-12-29T00:00:00Z",
        3,
        expect![[r#"
            2011-12-29 Thu 08:00:00 -10:00
            2011-12-31 Sat 00:00:00 +14:00 shifted
            2011-12-31 Sat 08:00:00 +14:00
        "#]],
    );
    // An offset with seconds.
    check(
        "daily 00:30",
        "Africa/Monrovia",
        "1972-01-05T12:00:00Z",
        3,
        expect![[r#"
            1972-01-06 Thu 00:30:00 -00:44:30
            1972-01-07 Fri 00:44:30 +00:00 shifted
            1972-01-08 Sat 00:30:00 +00:00
        "#]],
    );
}

/// The rows of systemd's own table (`test_next` in its calendar tests) that a cadence without a year can express, with
/// systemd's result. `None`: systemd finds nothing, because it skips times in a gap.
#[test]
fn systemds_table_holds_except_that_a_gap_is_not_skipped() {
    // Long because it is a table of moments.
    struct Row {
        systemd: &'static str,
        cadence: &'static str,
        zone: &'static str,
        after: &'static str,
        theirs: Option<&'static str>,
        ours: &'static str,
    }
    let row = |systemd, cadence, zone, after, theirs, ours| Row { systemd, cadence, zone, after, theirs, ours };
    let same = |systemd, cadence, zone, after, at| row(systemd, cadence, zone, after, Some(at), at);
    let table = [
        same("2016-03-27 03:17 UTC", "17 3 27 3 *", "UTC", "2016-01-01T00:00:00Z", "2016-03-27T03:17:00Z"),
        same("2016-03-27 03:17 Berlin", "17 3 27 3 *", "Europe/Berlin", "2016-01-01T00:00:00Z", "2016-03-27T01:17:00Z"),
        // systemd skips the gap and would wait a year; Loopwright runs right after it.
        row(
            "2016-03-27 03:17 Helsinki",
            "17 3 27 3 *",
            "Europe/Helsinki",
            "2016-01-01T00:00:00Z",
            None,
            "2016-03-27T01:00:00Z",
        ),
        same(
            "Sun 16:00 Berlin",
            "weekly sun 16:00",
            "Europe/Berlin",
            "2016-02-21T08:00:00.123Z",
            "2016-02-21T15:00:00Z",
        ),
        same("*-*-01/5 04:00 UTC", "0 4 1-31/5 * *", "UTC", "2022-02-28T01:00:00Z", "2022-03-01T04:00:00Z"),
        same("*-01/7-01 04:00 UTC", "0 4 1 1-12/7 *", "UTC", "2022-10-01T07:00:00Z", "2023-01-01T04:00:00Z"),
        same("2017-08-06 9..17/2:00 UTC", "0 9-17/2 6 8 *", "UTC", "2017-08-06T14:30:00Z", "2017-08-06T15:00:00Z"),
        same("2016-12-* 3..21/6:00 UTC", "0 3-21/6 * 12 *", "UTC", "2016-12-24T21:00:00.001Z", "2016-12-25T03:00:00Z"),
        same("2016-02~01 UTC", "0 0 L 2 *", "UTC", "2016-01-01T00:00:00Z", "2016-02-29T00:00:00Z"),
        same("Mon 2017-05~07/1 UTC", "0 0 * 5 monL", "UTC", "2017-05-01T00:00:00Z", "2017-05-29T00:00:00Z"),
        same(
            "03:30 Auckland, gap day",
            "30 3 24 9 *",
            "Pacific/Auckland",
            "2017-01-01T00:00:00Z",
            "2017-09-23T14:30:00Z",
        ),
        // Another gap.
        row(
            "02:30 Auckland, gap day",
            "30 2 24 9 *",
            "Pacific/Auckland",
            "2017-01-01T00:00:00Z",
            None,
            "2017-09-23T14:00:00Z",
        ),
        same(
            "02:30 Auckland, fold day",
            "30 2 2 4 *",
            "Pacific/Auckland",
            "2017-01-01T00:00:00Z",
            "2017-04-01T13:30:00Z",
        ),
        // After the first 02:30 there is no second one: the next is a year later (systemd's row has a year and finds
        // none).
        row(
            "02:30 Auckland, fold day, asked again",
            "30 2 2 4 *",
            "Pacific/Auckland",
            "2017-04-01T13:30:00Z",
            None,
            "2018-04-01T14:30:00Z",
        ),
        same(
            "03:30 Auckland, fold day",
            "30 3 2 4 *",
            "Pacific/Auckland",
            "2017-01-01T00:00:00Z",
            "2017-04-01T15:30:00Z",
        ),
        same("20:42 Auckland", "42 20 9 9 *", "Pacific/Auckland", "2017-01-01T00:00:00Z", "2017-09-09T08:42:00Z"),
        // Dublin's winter time is a negative summer time; systemd once looped here. It skips the gap to the next
        // Sunday.
        row(
            "Sun 01:00 Dublin",
            "weekly sun 01:00",
            "Europe/Dublin",
            "2021-03-22T11:27:58Z",
            Some("2021-04-04T00:00:00Z"),
            "2021-03-28T01:00:00Z",
        ),
        same("hourly Dublin", "0 * * * *", "Europe/Dublin", "2025-03-30T00:00:00Z", "2025-03-30T01:00:00Z"),
    ];
    for Row { systemd, cadence, zone, after, theirs, ours } in table {
        let next = schedule(&[cadence], zone).next_after(ms(after)).expect("a due");
        assert_eq!(wall(next.at_ms, "UTC"), wall(ms(ours), "UTC"), "{systemd}: `{cadence}` in {zone} after {after}");
        let is_gap = theirs != Some(ours) && !systemd.contains("asked again");
        assert_eq!(next.shifted, is_gap, "{systemd}: only in a gap do we differ from systemd");
    }
}

#[test]
fn several_cadences_at_one_instant_are_one_due_named_after_the_one_it_belongs_to() {
    let schedule = schedule(&["daily 02:30", "0 3 * * *"], "Europe/Berlin");
    let dues: Vec<DueTime> = schedule.coming(ms("2026-03-28T12:00:00Z")).take(2).collect();
    assert_eq!(wall(dues[0].at_ms, "Europe/Berlin"), "2026-03-29 Sun 03:00:00 +02:00");
    assert_eq!((&*dues[0].cadence, dues[0].shifted), ("0 3 * * *", false));
    assert_eq!(wall(dues[1].at_ms, "Europe/Berlin"), "2026-03-30 Mon 02:30:00 +02:00");
    assert_eq!(schedule.next_after(ms("2026-03-28T12:00:00Z")).as_ref(), Some(&dues[0]));
}

#[test]
fn rare_days_are_defined() {
    check(
        "0 0 29 2 *",
        "UTC",
        "2096-02-28T00:00:00Z",
        2,
        expect![[r#"
            2096-02-29 Wed 00:00:00 +00:00
            2104-02-29 Fri 00:00:00 +00:00
        "#]],
    );
    check(
        "0 0 31 * *",
        "UTC",
        "2026-01-01T00:00:00Z",
        4,
        expect![[r#"
            2026-01-31 Sat 00:00:00 +00:00
            2026-03-31 Tue 00:00:00 +00:00
            2026-05-31 Sun 00:00:00 +00:00
            2026-07-31 Fri 00:00:00 +00:00
        "#]],
    );
    check(
        "0 9 * * mon#5",
        "UTC",
        "2026-01-01T00:00:00Z",
        3,
        expect![[r#"
            2026-03-30 Mon 09:00:00 +00:00
            2026-06-29 Mon 09:00:00 +00:00
            2026-08-31 Mon 09:00:00 +00:00
        "#]],
    );
}

#[test]
fn occurrence_exactly_at_the_queried_moment_is_over() {
    for cadence in ["every 1s", "every 15m", "daily 08:00", "0 8 * * *"] {
        let schedule = schedule(&[cadence], "UTC");
        let first = schedule.next_after(ms("2026-01-01T07:59:59.999Z")).expect("a due").at_ms;
        assert_eq!(first, ms("2026-01-01T08:00:00Z"), "{cadence}");
        assert!(schedule.next_after(first).expect("a due").at_ms > first, "{cadence}");
    }
}
