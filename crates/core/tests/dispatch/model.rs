//! Random loops, random events, and the oracles after every step. A failing case is shrunk to a short story.

use super::oracle;
use super::world::{File, MINUTE_MS, Op, World, is_quiet_at};
use loopwright_core::dispatch::ConcurrencyLimits;
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::spec::{CatchUp, Overlap};
use proptest::prelude::*;

fn file() -> impl Strategy<Value = File> {
    let overlap = prop_oneof![Just(Overlap::Skip), Just(Overlap::Queue), Just(Overlap::Cancel)];
    let catch_up = prop_oneof![Just(CatchUp::Once), Just(CatchUp::Skip), (1..4u32).prop_map(CatchUp::All)];
    let every_m = prop_oneof![Just(5), Just(15), Just(60), Just(7), Just(480)];
    (every_m, any::<bool>(), overlap, catch_up, 0..3i64).prop_map(|(every_m, is_quiet, overlap, catch_up, priority)| {
        File { every_m, is_quiet, overlap, catch_up, priority }
    })
}

fn limits() -> impl Strategy<Value = ConcurrencyLimits> {
    (1..5usize, 1..4usize, 1..3usize).prop_map(|(total, per_repo, claude)| ConcurrencyLimits {
        total,
        per_repo,
        per_agent: [("claude".into(), claude)].into(),
    })
}

fn outcome() -> impl Strategy<Value = RoundOutcome> {
    use RoundOutcome::{Cancelled, Failed, Interrupted, RateLimited, Rejected, Shipped};
    proptest::sample::select(vec![Shipped, Shipped, Shipped, Failed, Rejected, RateLimited, Interrupted, Cancelled])
}

fn op() -> impl Strategy<Value = Op> {
    let at = || 0..8usize;
    prop_oneof![
        6 => (0..30i64).prop_map(Op::Wake),
        8 => Just(Op::Timer),
        1 => (-50..300i64).prop_map(Op::Jump),
        1 => (-900..9000i64).prop_map(Op::Jump),
        2 => at().prop_map(Op::Commit),
        2 => at().prop_map(Op::Told),
        6 => at().prop_map(Op::Born),
        1 => (at(), proptest::option::of(0..10i64)).prop_map(|(at, retry)| Op::Unborn(at, retry)),
        1 => at().prop_map(Op::NoWork),
        7 => (at(), outcome(), 0..3u8).prop_map(|(at, outcome, signature)| Op::End(at, outcome, signature)),
        3 => (at(), proptest::option::of(0..3u8)).prop_map(|(at, item)| Op::Signal(at, item)),
        3 => (at(), proptest::collection::vec(0..3u8, 1..3)).prop_map(|(at, items)| Op::Claim(at, items)),
        1 => at().prop_map(Op::Pause),
        1 => at().prop_map(Op::Resume),
        1 => prop_oneof![Just(Op::Freeze), Just(Op::Thaw), Just(Op::Thaw)],
        1 => (at(), file()).prop_map(|(at, file)| Op::Edit(at, file)),
        1 => at().prop_map(Op::Remove),
        2 => Just(Op::Load),
        1 => limits().prop_map(Op::Limits),
        1 => at().prop_map(Op::Hand),
        1 => (at(), 0..5u32).prop_map(|(at, open)| Op::Open(at, open)),
        2 => proptest::option::of(0..4usize).prop_map(Op::Crash),
    ]
}

/// Once everything is allowed and every round ends, every past due time has its receipt and every signal its round.
fn comes_to_rest(world: &mut World) {
    world.now = world.now.max(world.seen);
    if is_quiet_at(world.now) {
        world.now += 9 * 60 * MINUTE_MS;
    }
    world.perform(Op::Thaw);
    world.perform(Op::Load);
    for number in 0..6 {
        world.perform(Op::Resume(number));
        world.perform(Op::Open(number, 0));
    }
    for turn in 0..2_000 {
        let keys: Vec<_> = world.loaded.keys().cloned().collect();
        let is_behind = keys.iter().any(|key| oracle::uncovered(world, key) <= world.now);
        let pending = world.kept.pending.iter().any(|signal| keys.contains(&signal.key));
        if !is_behind && !pending {
            return;
        }
        world.perform(Op::Commit(turn));
        world.perform(Op::Told(turn));
        world.perform(Op::End(turn, RoundOutcome::Shipped, 0));
        world.perform(Op::Wake(i64::from(turn % 50 == 49)));
    }
    panic!("starved: {:?}", world.loaded.keys().map(|key| (key.name.to_string(), world.why(key))).collect::<Vec<_>>());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_due_time_has_one_outcome_in_any_history(
        limits in limits(),
        files in proptest::collection::vec((0..6usize, file()), 1..6),
        ops in proptest::collection::vec(op(), 0..120),
    ) {
        let mut world = World::new(limits, files);
        for op in ops {
            world.perform(op);
        }
        comes_to_rest(&mut world);
    }
}

/// A random case: a loop that enters the queue late but has been due for long has resources reserved for it.
#[test]
fn loop_that_has_been_due_for_long_goes_before_loops_that_become_due_with_it() {
    let file =
        |every_m, catch_up, priority| File { every_m, is_quiet: false, overlap: Overlap::Skip, catch_up, priority };
    let files = vec![
        (5, file(480, CatchUp::Once, 0)),
        (1, file(15, CatchUp::Once, 1)),
        (4, file(5, CatchUp::Once, 0)),
        (2, file(15, CatchUp::All(2), 1)),
    ];
    let limits = ConcurrencyLimits { total: 2, per_repo: 1, per_agent: [("claude".into(), 1)].into() };
    let mut world = World::new(limits, files);
    for op in [Op::Timer, Op::Jump(475), Op::End(0, RoundOutcome::Shipped, 0)] {
        world.perform(op);
    }
    comes_to_rest(&mut world);
}
