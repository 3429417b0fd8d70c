//! Accepted cadences: those of the seeds as written there, lists, names, and cron as croner parses it.

use super::*;
use expect_test::expect;
use proptest::prelude::*;

/// Every cadence in the seeds' documents and in the notes about them, with its source.
const WRITTEN: [(&str, &str); 22] = [
    ("loop-engine spec.rs, field documentation", "every 15m"),
    ("loop-engine spec.rs, field documentation", "daily 08:00"),
    ("loop-engine spec.rs, field documentation", "weekly mon 09:30"),
    ("loop-engine spec.rs, default", "daily 09:00"),
    ("loop-engine spec.rs, test", "every 2h"),
    ("loop-engine patterns, daily_triage", "daily 09:00"),
    ("loop-engine patterns, pr_babysitter and ci_sweeper", "every 10m"),
    ("loop-engine patterns, dependency_sweeper", "daily 04:00"),
    ("loop-engine patterns, changelog_drafter", "daily 18:00"),
    ("loop-engine patterns, post_merge_cleanup", "every 6h"),
    ("loop-engine patterns, issue_triage", "every 2h"),
    ("loop-engine grammar", "daily 9:05"),
    ("loop-engine grammar", "weekly Monday 9:30"),
    ("loop-engine grammar", "every 15 m"),
    ("loop-harness readme, triage-ci", "every 10m"),
    ("loop-harness readme, issue-groomer", "every 1h"),
    ("loop-harness readme, pr-reviewer", "every 3m"),
    ("loop-harness readme, dependency-updater", "daily 06:00"),
    ("loop-harness readme, doc-sync", "daily 07:00"),
    ("loop-harness readme, a new loop", "every 30m"),
    ("loop-harness readme, a new loop", "0 9 * * 1-5"),
    ("loop-harness definitions", "0 6 * * *"),
];

#[test]
fn every_cadence_of_the_seeds_is_accepted_as_written() {
    for (place, cadence) in WRITTEN {
        let schedule = schedule(&[cadence], "Europe/Berlin");
        let dues: Vec<DueTime> = schedule.coming(ms("2026-01-01T00:00:00Z")).take(3).collect();
        assert_eq!(dues.len(), 3, "{place}: {cadence}");
        // Shown as written, except that looser forms are shown in their strict form.
        let strict = ["daily 9:05", "weekly Monday 9:30", "every 15 m"].contains(&cadence);
        assert!(strict || &*dues[0].cadence == cadence, "{place}: {cadence} became {}", dues[0].cadence);
        assert_eq!(schedule.describe(), &*dues[0].cadence);
    }
}

#[test]
fn lists_of_days_and_times() {
    let check = |cadence: &str, expected: expect_test::Expect| {
        expected.assert_eq(&listed(&schedule(&[cadence], "UTC"), "2026-11-14T12:00:00Z", 5));
    };
    check(
        "daily 08:00, 17:30",
        expect![[r#"
            2026-11-14 Sat 17:30:00 +00:00
            2026-11-15 Sun 08:00:00 +00:00
            2026-11-15 Sun 17:30:00 +00:00
            2026-11-16 Mon 08:00:00 +00:00
            2026-11-16 Mon 17:30:00 +00:00
        "#]],
    );
    check(
        "weekly mon,wed 09:30,17:00",
        expect![[r#"
            2026-11-16 Mon 09:30:00 +00:00
            2026-11-16 Mon 17:00:00 +00:00
            2026-11-18 Wed 09:30:00 +00:00
            2026-11-18 Wed 17:00:00 +00:00
            2026-11-23 Mon 09:30:00 +00:00
        "#]],
    );
    check(
        "weekly Fri-Mon 7:00",
        expect![[r#"
            2026-11-15 Sun 07:00:00 +00:00
            2026-11-16 Mon 07:00:00 +00:00
            2026-11-20 Fri 07:00:00 +00:00
            2026-11-21 Sat 07:00:00 +00:00
            2026-11-22 Sun 07:00:00 +00:00
        "#]],
    );
    check(
        "@monthly",
        expect![[r#"
            2026-12-01 Tue 00:00:00 +00:00
            2027-01-01 Fri 00:00:00 +00:00
            2027-02-01 Mon 00:00:00 +00:00
            2027-03-01 Mon 00:00:00 +00:00
            2027-04-01 Thu 00:00:00 +00:00
        "#]],
    );
}

#[test]
fn the_example_of_the_documentation_is_a_schedule() {
    let page = include_str!("../../../../../docs/schedule.md");
    let block =
        page.split("```").nth(1).and_then(|block| block.strip_prefix("yaml\n")).expect("the first block is YAML");
    let file = format!("---\nname: a\nintent: b\n{block}---\n# Maker\nc\n");
    let spec = crate::spec::read_loop_file("a.md", file.as_bytes()).unwrap_or_else(|problems| panic!("{problems}"));
    let expected = "every 15m, daily 08:00,17:30, weekly mon,wed 09:30, weekly fri 16:00, */10 9-17 * * mon-fri";
    assert_eq!(compiled(&spec.on).describe(), expected);
    assert_eq!(compiled(&spec.on).zone(), "Europe/Berlin");
}

#[test]
fn times_are_read_strictly() {
    for text in ["8:00", "24:00", "08:60", "08:0", "+8:00", "08:00,", ",08:00", "", "08:00 17:00", "０８:00"] {
        assert_eq!(parse::parse_times(text), None, "{text}");
    }
    for text in
        ["mon", "mon09:30", "09:30", "mon,,wed 09:30", "moonday 09:30", "mon-mon 09:30", "mon 9:30", "mon 09:30 x"]
    {
        assert_eq!(parse::parse_weekly(text), None, "{text}");
    }
    assert_eq!(parse::parse_weekly("mon, wed 09:30, 17:00"), Some((0b1010, vec![570, 1020])));
}

#[test]
fn cron_fields_stay_in_their_ranges() {
    let wrong = [
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
        "mon * * * *",
        "* * jan * *",
        "1,, * * * *",
        ", * * * *",
        "*/90 * * * *",
        "5/10 * * * *",
        "* * 15W9 * *",
        "* * L-3 * *",
        "* * * * L",
        "* * * * mon#6",
        "* * * * mon#",
        "* * * * monday",
        "*, * * * *",
        "1-2-3 * * * *",
        "-1 * * * *",
        "* * * * +",
        "@reboot",
        "@every 5m",
        "",
        "*/5 * * *",
        "* * * * １",
    ];
    for line in wrong {
        assert!(parse::parse_cron(line).is_err(), "{line}");
    }
}

fn due_days(line: &str) -> Vec<String> {
    let on = Triggers { cron: vec![line.to_owned()], timezone: Some("UTC".to_owned()), ..Triggers::default() };
    let from = "2026-01-01T00:00:00Z".parse::<jiff::Timestamp>().expect("a moment").as_millisecond() - 1;
    let day = |due: crate::cadence::DueTime| {
        jiff::Timestamp::from_millisecond(due.at_ms).expect("a moment").strftime("%a %d %H:%M").to_string()
    };
    compiled(&on).coming(from).take(3).map(day).collect()
}

/// Vixie's cron looks at the first character of both fields of days.
#[test]
fn field_of_days_that_begins_with_a_star_narrows_the_other() {
    assert_eq!(due_days("0 0 */2 * mon"), ["Mon 05 00:00", "Mon 19 00:00", "Mon 09 00:00"]);
    assert_eq!(due_days("0 0 1 * */2"), ["Thu 01 00:00", "Sun 01 00:00", "Sun 01 00:00"]);
    assert_eq!(due_days("0 0 1,15 * mon"), ["Thu 01 00:00", "Mon 05 00:00", "Mon 12 00:00"]);
}

#[test]
fn question_mark_is_a_star_in_every_field() {
    assert_eq!(due_days("? ? ? ? ?"), due_days("* * * * *"));
    assert_eq!(due_days("0 ? 3 ? ?"), due_days("0 * 3 * *"));
}

/// croner joins two restricted fields of days by "or", also where Vixie's cron joins them by "and".
fn as_vixie_reads(line: &str) -> String {
    let fields: Vec<&str> = line.split(' ').collect();
    let [minute, hour, date, month, weekday] = fields[..] else { return line.to_owned() };
    let is_step = |field: &str| field.starts_with('*') && field != "*";
    let plus = if (is_step(date) || is_step(weekday)) && !weekday.starts_with('+') { "+" } else { "" };
    format!("{minute} {hour} {date} {month} {plus}{weekday}")
}

fn field(
    least: u32,
    most: u32,
    words: &'static [&'static str],
    extra: &'static [&'static str],
) -> BoxedStrategy<String> {
    let number = least..=most;
    let range = (least..=most, least..=most).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b)));
    let step = (range.clone(), 1..=most).prop_map(|(range, step)| format!("{range}/{step}"));
    let mut parts = vec![number.prop_map(|number| number.to_string()).boxed(), range.boxed(), step.boxed()];
    if !words.is_empty() {
        parts.push(prop::sample::select(words.to_vec()).prop_map(str::to_owned).boxed());
    }
    if !extra.is_empty() {
        parts.push(prop::sample::select(extra.to_vec()).prop_map(str::to_owned).boxed());
    }
    let list = prop::collection::vec(prop::strategy::Union::new(parts), 1..3).prop_map(|parts| parts.join(","));
    let every = (1..=most).prop_map(|step| format!("*/{step}"));
    prop_oneof![3 => Just("*".to_owned()), 1 => every, 4 => list].boxed()
}

fn cron_line() -> impl Strategy<Value = String> {
    let minute = field(0, 59, &[], &[]);
    let hour = field(0, 23, &[], &[]);
    let date = field(1, 31, &[], &["L", "LW", "15W", "1W", "31W"]);
    let month = field(1, 12, &["jan", "FEB", "mar-may"], &[]);
    let weekday = field(0, 7, &["mon", "SUN", "fri-sun"], &["mon#2", "5L", "tue#L", "1-5#5"]);
    (minute, hour, date, month, weekday, prop::bool::weighted(0.1)).prop_map(
        |(minute, hour, date, month, weekday, both)| {
            let plus = if both && weekday != "*" { "+" } else { "" };
            format!("{minute} {hour} {date} {month} {plus}{weekday}")
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// croner is the reference for the meaning of a line; without offset changes both must find the same moments.
    #[test]
    fn cron_lines_mean_what_croner_says(line in cron_line(), day in 0_i64..20_000) {
        let theirs: croner::Cron = as_vixie_reads(&line).parse().expect("croner reads it");
        // croner ignores a Sunday written as 7 with a following `L`; Loopwright reads it as a Sunday.
        prop_assume!(!line.contains("7L") && !line.contains("7#L"));
        let on = Triggers { cron: vec![line.clone()], ..Triggers::default() };
        let ours = match LoopSchedule::of(&on, "a/b", "UTC") {
            Ok(schedule) => schedule,
            Err(problem) => {
                prop_assert!(problem.text.contains("never comes") || problem.text.contains("ten years"), "{problem}");
                return Ok(());
            }
        };
        let mut at = jiff::Timestamp::from_second(day * 86_400 + 12_345).expect("an instant").to_zoned(jiff::tz::TimeZone::UTC);
        for due in ours.coming(at.timestamp().as_millisecond()).take(3) {
            at = theirs.find_next_occurrence(&at, false).expect("croner finds it");
            prop_assert_eq!(wall(due.at_ms, "UTC"), wall(at.timestamp().as_millisecond(), "UTC"), "{}", line);
        }
    }
}
