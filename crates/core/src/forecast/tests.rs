//! Forecasts of small scenarios whose result can be counted manually.

use super::*;
use crate::cadence::LoopSchedule;
use crate::spec::Triggers;
use crate::units::TimeSpan;

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;

fn plan(name: &str, every: &str, minutes: i64, dollars: &[u64]) -> ForecastLoop {
    let on = Triggers { every: vec![TimeSpan::parse(every).expect("a span")], ..Triggers::default() };
    let schedule = LoopSchedule::of(&on, name, "UTC").expect("a schedule");
    let like = |dollars: &u64| RoundProfile {
        duration_ms: minutes * MINUTE,
        usd: Usd(dollars * 1_000_000),
        outcome: RoundOutcome::Reported,
    };
    ForecastLoop {
        entry: LoopEntry::new(LoopKey::new("repo", name), schedule),
        rounds: dollars.iter().map(like).collect(),
        day: None,
        after: Vec::new(),
    }
}

fn question(hours: i64, total: usize) -> ForecastRequest {
    let from_ms = 1_767_225_600_000 + 1;
    let limits = ConcurrencyLimits { total, ..ConcurrencyLimits::default() };
    ForecastRequest {
        from_ms,
        until_ms: from_ms + hours * HOUR,
        limits,
        standings: Vec::new(),
        plays: 100,
        seed: 7,
        steps_max: 100_000,
        run_steps_max: 100_000,
    }
}

fn fate(of: &LoopForecast, fate: OccurrenceOutcome) -> u64 {
    of.fates.get(&fate).copied().unwrap_or(0)
}

#[test]
fn every_due_moment_of_a_quick_loop_starts_and_costs_its_round() {
    let predicted = forecast(&[plan("quick", "1h", 5, &[2])], &question(24, 4));
    assert_eq!(
        (predicted.plays, predicted.is_cut, fate(&predicted.loops[0], OccurrenceOutcome::Started)),
        (100, false, 24)
    );
    let always = ForecastRange { p10: Usd(48_000_000), p50: Usd(48_000_000), p90: Usd(48_000_000) };
    assert_eq!((predicted.cost, predicted.loops[0].cost), (always, always));
    assert_eq!((predicted.collisions.len(), predicted.decisions.len()), (0, 24));
}

#[test]
fn loop_that_is_slower_than_its_cadence_skips_overlapping_occurrences() {
    let predicted = forecast(&[plan("slow", "5m", 12, &[0])], &question(1, 4));
    let slow = &predicted.loops[0];
    assert_eq!(
        (fate(slow, OccurrenceOutcome::Started), fate(slow, OccurrenceOutcome::Overlap)),
        (4, 8),
        "{:?}",
        slow.fates
    );
}

#[test]
fn loops_that_collide_at_a_limit_are_listed_with_the_one_that_waited() {
    let predicted = forecast(&[plan("a", "1h", 10, &[1]), plan("b", "1h", 10, &[1])], &question(4, 1));
    let started: Vec<_> = predicted.loops.iter().map(|one| fate(one, OccurrenceOutcome::Started)).collect();
    assert_eq!(started, [4, 3], "the last of `b` waits beyond the end");
    let [met] = predicted.collisions.as_slice() else { panic!("one pair, not {:?}", predicted.collisions) };
    assert_eq!((&*met.waits.name, &*met.runs.name, met.times, met.longest_ms), ("b", "a", 3, 10 * MINUTE));
}

#[test]
fn cost_is_a_spread_and_the_same_seed_gives_the_same() {
    let plans = [plan("dear", "1d", 5, &[0, 10])];
    let (first, again) = (forecast(&plans, &question(240, 4)), forecast(&plans, &question(240, 4)));
    assert_eq!(first, again);
    assert!(first.cost.p10 < first.cost.p50 && first.cost.p50 < first.cost.p90, "{:?}", first.cost);
    assert_ne!(first.cost, forecast(&plans, &ForecastRequest { seed: 8, plays: 21, ..question(240, 4) }).cost);
}

#[test]
fn day_ceiling_holds_and_rounds_that_reach_it_are_counted() {
    let plans = [ForecastLoop { day: Some(Usd(5_000_000)), ..plan("bounded", "6h", 5, &[2]) }];
    let predicted = forecast(&plans, &question(47, 4));
    assert_eq!(predicted.cost.p90, Usd(10_000_000), "two days of five dollars");
    assert!(predicted.loops[0].over_budget >= 2, "{:?}", predicted.loops[0]);
}

#[test]
fn run_that_would_never_end_is_cut_and_marked_as_cut() {
    let predicted = forecast(&[plan("hasty", "1s", 0, &[0])], &question(24 * 365, 4));
    assert!(predicted.is_cut && predicted.plays == 1);
}

#[test]
fn delayed_start_names_a_limited_number_of_loops_in_a_fleet_that_is_always_full() {
    let plans: Vec<_> = (0..150).map(|nth| plan(&format!("l{nth:03}"), "12h", 5, &[1])).collect();
    let predicted = forecast(&plans, &ForecastRequest { plays: 1, ..question(24, 2) });
    let longest = predicted.loops.iter().map(|one| one.longest_wait_ms).max();
    assert!(longest > Some(5 * HOUR), "nearly every loop runs while another one waits: {longest:?}");
    let starts = predicted.loops.iter().map(|one| fate(one, OccurrenceOutcome::Started)).sum::<u64>();
    let met: u64 = predicted.collisions.iter().map(|pair| pair.times).sum();
    assert!(met > 0 && met <= starts * 32, "{met} collisions of {starts} starts");
}

#[test]
fn fleet_with_too_many_steps_for_a_second_run_still_has_a_spread_of_costs() {
    let plans =
        [plan("dear", "1h", 5, &[0, 10]), ForecastLoop { day: Some(Usd(5_000_000)), ..plan("capped", "1h", 5, &[2]) }];
    let large = ForecastRequest { steps_max: 1, ..question(47, 4) };
    let (drawn, whole) = (forecast(&plans, &large), forecast(&plans, &question(47, 4)));
    assert_eq!((drawn.is_cut, drawn.plays, whole.plays), (false, 20, 100));
    assert!(drawn.cost.p10 < drawn.cost.p50 && drawn.cost.p50 < drawn.cost.p90, "{:?}", drawn.cost);
    // A ceiling holds in every draw, and a loop without a choice costs the same in each.
    let capped = Usd(10_000_000);
    assert_eq!(drawn.loops[1].cost, ForecastRange { p10: capped, p50: capped, p90: capped });
    assert_eq!(drawn.loops[1].cost, whole.loops[1].cost);
    assert_eq!(drawn.loops[0].fates, whole.loops[0].fates, "counts are those of the first run");
    assert_eq!(drawn, forecast(&plans, &large));
}

#[test]
fn steps_of_a_run_grow_with_the_occurrences_and_not_with_the_square_of_the_loops() {
    let steps = |loops: usize| {
        let plans: Vec<_> = (0..loops).map(|nth| plan(&format!("l{nth:03}"), "1h", 5, &[1])).collect();
        let (question, dice) = (question(24, 2), SeededRandom::new(7, 0));
        ForecastRun::run(&plans, &ForecastRequest { run_steps_max: usize::MAX, ..question }, dice).steps
    };
    let (few, many) = (steps(40), steps(160));
    assert!(many < few * 5, "{few} steps for 40 loops and {many} for 160");
}

#[test]
fn loop_that_follows_another_is_simulated_when_a_round_of_that_one_ends() {
    let mut follower = plan("b", "1h", 5, &[1]);
    follower.entry.schedule = LoopSchedule::of(&Triggers::default(), "b", "UTC").expect("a schedule");
    follower.after = vec![LoopKey::new("repo", "a")];
    let mut ring = follower.clone();
    ring.entry.key = LoopKey::new("repo", "c");
    ring.after = vec![LoopKey::new("repo", "b"), LoopKey::new("repo", "c")];
    let predicted = forecast(&[plan("a", "1h", 10, &[1]), follower, ring], &question(24, 4));
    let started: Vec<_> = predicted.loops.iter().map(|one| fate(one, OccurrenceOutcome::Started)).collect();
    assert_eq!(started[..2], [24, 23], "the last round of `a` ends after the period");
    assert!(
        started[2] > 23 * 5 && started[2] <= 23 * 8,
        "a loop that follows itself stops with its chain: {started:?}"
    );
    assert_eq!(predicted.loops[1].cost.p50, Usd(23_000_000));
}
