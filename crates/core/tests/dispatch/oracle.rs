//! The invariants of every history: once per occurrence, every due time in exactly one place, limits and locks, order,
//! and a timer that is set.

use super::world::{BASE_MS, Era, World, holds, holds_with, is_quiet_at, locks_items, meet};
use loopwright_core::dispatch::{LoopExplanation, LoopKey, OccurrenceOutcome, RoundStart, StartBlocker};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The loops that waited before a step, each with the time since when.
pub(crate) type Before = BTreeMap<LoopKey, i64>;

/// Loops that could start if slots and locks were free, and since when.
pub(crate) fn waiting(world: &World) -> Before {
    let since = |key: &LoopKey| match world.why(key) {
        LoopExplanation::Waiting { since_ms, .. } => Some((key.clone(), since_ms)),
        _ => None,
    };
    world.loaded.keys().filter_map(since).collect()
}

/// Before a start is performed: P1, limits, locks, and no start that a person has forbidden.
pub(crate) fn check_start(world: &World, start: &RoundStart) {
    let key = &start.key;
    assert!(!world.is_taken(key), "P1: {key} starts while a round of it runs");
    assert!(!world.is_frozen, "{key} starts while everything is stopped");
    assert!(!world.paused.contains(key), "{key} starts while it is paused");
    assert!(!world.is_behind(), "{key} starts by a clock that is behind");
    let file = world.loaded.get(key).expect("a start of a loop that is loaded");
    assert!(!(file.is_quiet && is_quiet_at(world.now)), "{key} starts in its quiet hours");
    if let Some(lacking) = lacking(world, key, &start.items, None) {
        panic!("{lacking} is exceeded by {key}");
    }
}

/// Before a start continues with the items that its probe found: no other round works on any of them.
pub(crate) fn check_grant(world: &World, ticket: u64, items: &[Arc<str>]) {
    let flying = world.flights.iter().find(|flight| flight.start.ticket == ticket).expect("a start that claims");
    let key = &flying.start.key;
    let others = held(world, Some(key));
    for need in holds_with(key, items).iter().filter(|need| need.starts_with("lock:item:")) {
        let taken = others.iter().find(|(_, held)| held.iter().any(|held| meet(held, need)));
        assert!(taken.is_none(), "{need} is granted to {key} while {taken:?} has it");
    }
}

/// No two rounds, running or starting, hold conflicting resources.
fn check_locks(world: &World) {
    let all = held(world, None);
    for (at, (one, held)) in all.iter().enumerate() {
        for (other, others) in &all[at + 1..] {
            let met = held
                .iter()
                .filter(|need| need.starts_with("lock:"))
                .find(|need| others.iter().any(|held| meet(held, need)));
            assert!(met.is_none(), "{one} and {other} run together, and both hold {met:?}");
        }
    }
}

/// The resources that rounds hold, except those of one loop.
fn held(world: &World, without: Option<&LoopKey>) -> Vec<(LoopKey, Vec<String>)> {
    let running = world.rounds.iter().map(|(key, (_, held))| (key.clone(), held.clone()));
    let flying = world.flights.iter().map(|flight| (flight.start.key.clone(), flight.held()));
    running.chain(flying).filter(|(key, _)| without != Some(key)).collect()
}

/// The resource that a loop lacks to start a round about some items, not counting a round that has just started.
fn lacking(world: &World, key: &LoopKey, items: &[Arc<str>], without: Option<&LoopKey>) -> Option<String> {
    let held = held(world, without);
    if held.len() >= world.limits.total {
        return Some("the total limit".to_owned());
    }
    holds_with(key, items).into_iter().find(|need| {
        let used = held.iter().filter(|(_, held)| held.iter().any(|held| meet(held, need))).count();
        let limit = match need.split_once(':').expect("a kind") {
            ("repo", _) => world.limits.per_repo,
            ("agent", name) => world.limits.per_agent.get(name).copied().unwrap_or(usize::MAX),
            _ => 1,
        };
        used >= limit
    })
}

/// After a step.
pub(crate) fn check(world: &World, before: &Before, started: &[RoundStart]) {
    check_locks(world);
    for key in world.eras.keys() {
        check_receipts(world, key);
    }
    if world.is_behind() {
        assert!(world.dispatcher.next_wake().is_some(), "a clock that is behind is looked at again");
        return;
    }
    check_timer(world);
    let whys: Vec<_> = world.loaded.keys().map(|key| (key, world.why(key))).collect();
    // A loop that has waited very long may have resources reserved for it.
    let is_patient = before.values().all(|since_ms| is_short(world, *since_ms));
    for (key, why) in &whys {
        let is_left = matches!(why, LoopExplanation::Waiting { on: StartBlocker::Nothing, .. });
        assert!(!is_left, "{key} could start and is left");
        // The same holds if it entered the queue with this step, for loops that need the same resources.
        let leaves_to = |other: &LoopKey, why: &LoopExplanation| {
            let is_long = matches!(why, LoopExplanation::Waiting { since_ms, .. } if !is_short(world, *since_ms));
            is_long && other != *key && holds(key).iter().any(|need| holds(other).iter().any(|held| meet(held, need)))
        };
        if is_patient && !whys.iter().any(|(other, why)| leaves_to(other, why)) {
            check_order(world, key, why, before, started);
        }
    }
}

fn is_short(world: &World, since_ms: i64) -> bool {
    world.now - since_ms < 10 * 60_000
}

/// Every due time of every era up to the mark has one receipt, in order; none has two, none is invented, none is before
/// the era or after the mark. A past due time without a receipt waits.
fn check_receipts(world: &World, key: &LoopKey) {
    let next_ms = uncovered(world, key);
    let mark_ms = world.kept.standings[key].mark_ms;
    assert!(next_ms > mark_ms, "P10: {key} lost the due at {} (mark {})", at(next_ms), at(mark_ms));
    let is_flying = world.flights.iter().any(|flight| flight.start.key == *key);
    let is_known = !world.kept.standings[key].fingerprint.is_empty() && world.loaded.contains_key(key);
    if is_known && !world.is_behind() && !is_flying && next_ms <= world.now {
        let why = world.why(key);
        let waits = match &why {
            LoopExplanation::Running { queued, .. } => *queued > 0,
            LoopExplanation::Waiting { .. }
            | LoopExplanation::Quiet { .. }
            | LoopExplanation::OpenMax { .. }
            | LoopExplanation::BackingOff { .. } => true,
            _ => false,
        };
        assert!(waits, "P10: {key} has no receipt for {} and does not wait: {why:?}", at(next_ms));
    }
}

/// The first due time of the present era without a receipt, if all before it have exactly one.
pub(crate) fn uncovered(world: &World, key: &LoopKey) -> i64 {
    let mut eras = world.eras[key].iter().peekable();
    let mut era = eras.next().expect("an era");
    let mut next_ms = first_after(era, era.from_ms);
    let mut last_ms = i64::MIN;
    let receipts = world.kept.receipts.iter().filter(|one| one.key == *key && one.occurrence.starts_with("due:"));
    for receipt in receipts {
        while let Some(later) = eras.next_if(|later| receipt.due_ms > later.from_ms) {
            era = later;
            next_ms = first_after(era, era.from_ms);
        }
        let (due_ms, through_ms) = (receipt.due_ms, receipt.through_ms.unwrap_or(receipt.due_ms));
        assert!(due_ms > last_ms, "P10: {key} settles {} after {}", at(due_ms), at(last_ms));
        assert_eq!(due_ms, next_ms, "P10: {key} settles {} where {} was due: {receipt:?}", at(due_ms), at(next_ms));
        let count = (through_ms - due_ms) / era.every_ms + 1;
        assert_eq!((through_ms - due_ms) % era.every_ms, 0, "P10: {key} invents {}", at(through_ms));
        assert_eq!(receipt.count, count as u64, "P10: {key} counts wrong: {receipt:?}");
        assert!(receipt.fate != OccurrenceOutcome::Started || count == 1, "P1: one round for {count} receipts");
        last_ms = through_ms;
        next_ms = first_after(era, through_ms);
    }
    eras.last().map_or(next_ms, |last| first_after(last, last.from_ms))
}

fn first_after(era: &Era, ms: i64) -> i64 {
    (ms.div_euclid(era.every_ms) + 1) * era.every_ms
}

/// The timer is set, in the future, and not after the first due time of any loop.
fn check_timer(world: &World) {
    let dues = world.loaded.values().map(|file| {
        let every_ms = file.every_m * 60_000;
        first_after(&Era { every_ms, from_ms: 0 }, world.now.max(world.seen))
    });
    let Some(first_ms) = dues.min() else { return };
    let wake_ms = world.dispatcher.next_wake();
    assert!(wake_ms.is_none_or(|ms| ms > world.now), "the timer is set to the past: {wake_ms:?} at {}", at(world.now));
    // Due times that arrive while a start is pending are processed after its answer.
    if world.flights.is_empty() {
        let wake_ms = wake_ms.expect("a timer while something will be due");
        assert!(wake_ms <= first_ms, "the timer sleeps through {} until {}", at(first_ms), at(wake_ms));
    }
}

/// No loop is passed over by a lower-ranked loop for a resource that both need.
fn check_order(world: &World, key: &LoopKey, why: &LoopExplanation, before: &Before, started: &[RoundStart]) {
    let LoopExplanation::Waiting { since_ms, on, .. } = why else { return };
    let priority = |key: &LoopKey| world.loaded.get(key).map_or(0, |file| file.priority);
    for start in started {
        // How long a loop has waited that was not in the queue before is unknown here.
        let other_ms = before.get(&start.key).copied().unwrap_or(i64::MIN);
        let is_before = (-priority(key), *since_ms) < (-priority(&start.key), other_ms);
        let is_passed_over = is_before
            && !matches!(on, StartBlocker::Turn { .. } | StartBlocker::Retry { .. })
            // The items of the next round of these loops are unknown here.
            && !locks_items(key)
            && lacking(world, key, &[], Some(&start.key)).is_none();
        assert!(!is_passed_over, "order: {} goes before {key}, which waits for {on:?}", start.key);
    }
}

fn at(ms: i64) -> String {
    format!("{:+}m", (ms - BASE_MS) as f64 / 60_000.0)
}
