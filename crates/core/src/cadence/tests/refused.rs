//! Refused cadences with their suggestions; and no text causes a panic.

use super::*;
use crate::units::TimeSpan;
use proptest::prelude::*;

/// The first problem of a block and its suggestion.
fn problem(edit: impl FnOnce(&mut Triggers)) -> String {
    let mut on = Triggers::default();
    edit(&mut on);
    let problem = LoopSchedule::of(&on, "repo/a", "UTC").expect_err("refused");
    assert!(problems(&on).contains(&problem), "`check` says the same: {problem}");
    format!("{}: {problem} / {}", problem.key, problem.hint)
}

fn text(text: &str) -> String {
    text.to_owned()
}

#[test]
fn day_that_never_comes_is_refused() {
    let cron = |line: &str| problem(|on| on.cron = vec![text(line)]);
    let never = "names a day that never comes / the last day of a month is `L`, such as `0 3 L 2 *`";
    assert_eq!(cron("0 0 30 2 *"), format!("cron: `0 0 30 2 *` {never}"));
    assert_eq!(cron("0 0 31 2,4,6,9,11 *"), format!("cron: `0 0 31 2,4,6,9,11 *` {never}"));
    // The 29th of February on a Monday: every 28 years.
    assert_eq!(cron("0 0 29 2 +mon"), "cron: `0 0 29 2 +mon` waits longer than ten years for its day / name more days");
    assert_eq!(
        cron("0 0 * * mon#6").split(" / ").next(),
        Some("cron: `0 0 * * mon#6` is not a cron line: the day of week `mon#6` is not within 0-7")
    );
}

#[test]
fn unknown_zone_is_refused_with_the_nearest_name() {
    let zone = |name: &str| {
        problem(|on| {
            on.daily = vec![text("08:00")];
            on.timezone = Some(text(name));
        })
    };
    assert_eq!(zone("Europe/Berln"), "timezone: `Europe/Berln` is not a time zone / did you mean `Europe/Berlin`?");
    assert_eq!(zone("berlin"), "timezone: `berlin` is not a time zone / did you mean `Europe/Berlin`?");
    assert_eq!(zone("New York"), "timezone: `New York` is not a time zone / did you mean `America/New_York`?");
    let any = "an IANA name such as `Europe/Berlin` or `UTC`";
    assert_eq!(zone("+02:00"), format!("timezone: `+02:00` is not a time zone / {any}"));
    assert_eq!(zone("Etc/Unknown"), format!("timezone: `Etc/Unknown` is not a time zone / {any}"));
    assert_eq!(zone("the moon, far side"), format!("timezone: `the moon, far side` is not a time zone / {any}"));
    for name in ["UTC", "europe/berlin", "Z", "EST", "America/Argentina/Ushuaia"] {
        assert!(CadenceZone::find(name).is_some(), "{name}");
    }
}

#[test]
fn cadence_that_quiet_hours_silence_is_refused() {
    let silent = |quiet: &str, edit: fn(&mut Triggers)| {
        let mut on =
            Triggers { quiet: Some(text(quiet)), timezone: Some(text("Europe/Berlin")), ..Triggers::default() };
        edit(&mut on);
        LoopSchedule::of(&on, "repo/a", "UTC")
            .err()
            .map(|problem| format!("{}: {problem} / {}", problem.key, problem.hint))
    };
    let silenced = |cadence: &str, key: &str| {
        let what = "is always within the quiet hours, so it would never start / move it, or make `quiet` shorter";
        Some(format!("{key}: `{cadence}` {what}"))
    };
    assert_eq!(
        silent("22:00-06:00", |on| on.daily = vec![text("23:30,05:59")]),
        silenced("daily 23:30,05:59", "daily")
    );
    assert_eq!(silent("22:00-06:00", |on| on.daily = vec![text("23:30,06:00")]), None);
    assert_eq!(silent("09:00-18:00", |on| on.cron = vec![text("*/5 9-17 * * *")]), silenced("*/5 9-17 * * *", "cron"));
    assert_eq!(silent("22:00-06:00", |on| on.cron = vec![text("*/5 * * * *")]), None);
    // Midnight in UTC is one or two o'clock in Berlin.
    assert_eq!(silent("00:00-03:00", |on| on.every = vec![TimeSpan::secs(86_400)]), silenced("every 1d", "every"));
    assert_eq!(silent("00:00-02:00", |on| on.every = vec![TimeSpan::secs(86_400)]), None);
    assert_eq!(silent("22:00-06:00", |on| on.every = vec![TimeSpan::secs(900)]), None);
}

#[test]
fn intervals_and_bounds_that_make_no_sense_are_refused() {
    assert_eq!(problem(|on| on.every = vec![TimeSpan::secs(0)]), "every: `0ms` is too often / at least `1s`");
    assert_eq!(
        problem(|on| on.every = TimeSpan::parse("500ms").into_iter().collect()),
        "every: `500ms` is too often / at least `1s`"
    );
    assert_eq!(
        problem(|on| on.every = vec![TimeSpan::secs(u64::MAX)]),
        "every: the interval is too long / at most `3650d`"
    );
    let bounds = |from: &str, until: &str| {
        problem(|on| {
            on.weekly = vec![text("mon 08:00")];
            (on.not_before, on.until) = (Some(text(from)), Some(text(until)));
        })
    };
    assert_eq!(
        bounds("2026-05-02", "2026-05-01"),
        "until: `2026-05-01` is not after `2026-05-02` / `until` comes after `not_before`"
    );
    assert_eq!(
        bounds("2026-05-05", "2026-05-06"),
        "until: nothing is due between `2026-05-05` and `2026-05-06` / a later `until`, or a cadence that falls between them"
    );
    // A leap second is text that no clock shows; it is read as the second before.
    assert!(bounds("2016-12-31T23:59:60Z", "2016-12-31T23:59:59Z").contains("nothing is due between"));
    assert!(bounds("soon", "2026-05-06").contains("`soon` is not a moment"));
    assert!(problem(|on| on.every = vec![TimeSpan::secs(60); 65]).contains("the most is 64"));
}

#[test]
fn meaningless_cadence_strings_are_refused_with_a_suggestion() {
    let hint = |cadence: &str| {
        let spec = LoopSpec::new("a", "b", LoopLevel::L1Report).with_cadence(cadence).with_maker_prompt("c");
        let problems = spec.check().expect_err("refused");
        problems.to_string()
    };
    for (cadence, suggestion) in [
        ("15m", "write `every 15m`"),
        ("08:00", "write `daily 08:00`"),
        ("mon 09:30", "write `weekly mon 09:30`"),
        ("5m-15m", "write `every 5m`"),
        ("hourly", "write `every 1h`"),
        ("daily", "write `daily 08:00`"),
        ("weekly mon", "write `weekly mon 09:30`"),
        ("every 0s", "at least `every 1s`"),
        ("every -5m", "write `every 15m`"),
        ("every 5分", "write `every 15m`"),
        ("every 99999999999999999d", "at most `every 3650d`"),
        ("every 1w", "write `every 7d`"),
    ] {
        let hint_text = hint(cadence);
        assert!(hint_text.contains(suggestion), "{cadence}: {hint_text}");
    }
}

fn anything() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "every",
        "daily",
        "weekly",
        "*",
        "*/5",
        "L",
        "LW",
        "15W",
        "mon",
        "Monday",
        "fri#2",
        "5L",
        "+",
        "?",
        "@daily",
        "09:30",
        "24:00",
        "1-5",
        "jan-mar",
        ",",
        "-",
        "/",
        "分",
        "0",
        "7",
        "29",
        "31",
        "2",
        "99999999999",
        "d",
        "s",
        "15m",
        "#",
        "\u{0}",
    ]);
    let joined = (prop::collection::vec(words, 0..8), prop::sample::select(vec!["", " ", ",", "-", "/"]))
        .prop_map(|(words, between)| words.join(between));
    prop_oneof!["\\PC{0,40}", joined.clone(), (joined.clone(), joined).prop_map(|(a, b)| format!("{a} {b}"))]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_text_panics(cadence in anything(), zone in anything(), quiet in anything(), from in anything(), at: i64) {
        let mut spec = LoopSpec::new("a", "b", LoopLevel::L1Report);
        spec.add_cadence(&cadence);
        let mut blocks = vec![spec.on];
        for key in 0..3 {
            let mut on = Triggers::default();
            [&mut on.cron, &mut on.daily, &mut on.weekly][key].push(cadence.clone());
            blocks.push(on);
        }
        for on in &blocks {
            if let Ok(schedule) = LoopSchedule::of(on, "a/b", "Europe/Berlin") {
                let next = schedule.next_after(at);
                prop_assert!(next.is_none_or(|due| due.at_ms > at));
                prop_assert!(schedule.between(at, at.saturating_add(1 << 40), 2).kept.len() <= 2);
            }
        }
        let mut on = blocks.swap_remove(0);
        (on.timezone, on.quiet, on.not_before) = (Some(zone), Some(quiet), Some(from));
        let found = problems(&on);
        prop_assert!(found.iter().all(|problem| !problem.text.is_empty() && !problem.hint.is_empty()));
    }
}
