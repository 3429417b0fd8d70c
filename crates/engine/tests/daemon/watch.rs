//! The daemon's work besides due loops: rounds that exceed their time limit, time in which the scheduler did not wake,
//! rounds that wait for their budget.

use crate::manual_clock::ManualClock;
use crate::world::*;
use loopwright::clock::Clock as _;
use loopwright::daemon::tick;
use loopwright::proc::CancelToken;
use loopwright::raise::BudgetRaise;
use loopwright::units::{TimeSpan, Usd};
use loopwright::{Engine, LoopSpec};
use loopwright_core::budget::{BudgetLimit, Reservation};
use std::sync::Arc;

#[tokio::test]
async fn round_that_exceeds_its_time_limit_is_reported_once_and_keeps_its_slot() {
    let mut spec = every("slow", "every 1h");
    spec.timeout = Some(TimeSpan::secs(600));
    let stage = Stage::new(vec![spec]).await;
    stage.troop.troupe.play("slow", Play::Hang);
    let mut show = stage.open().await;
    stage.at(HOUR);
    show.ear.hears("started slow").await;
    stage.at(HOUR + 14 * MINUTE);
    show.ear.hears("sleeps").await;
    assert_eq!(show.ear.count("scheduler(stalled"), 0, "its limit and five minutes are not over");
    stage.at(HOUR + 15 * MINUTE);
    let event_line = show.ear.hears("scheduler(stalled").await;
    assert!(event_line.contains("slow"), "{event_line}");
    stage.at(HOUR + 40 * MINUTE);
    show.ear.hears("sleeps").await;
    assert_eq!(show.ear.count("scheduler(stalled"), 1, "once");
    stage.at(2 * HOUR);
    show.ear.hears("kept slow overlap due:2026-05-01T02:00:00Z").await;
    stage.troop.troupe.let_go();
    show.ear.hears("ended slow reported").await;
    show.close().await;
}

#[tokio::test]
async fn next_due_time_in_events_ignores_checks_of_rounds() {
    let mut spec = every("slow", "every 1h");
    spec.timeout = Some(TimeSpan::secs(600));
    let stage = Stage::new(vec![spec, every("rare", "every 5h")]).await;
    stage.troop.troupe.play("slow", Play::Hang);
    let mut show = stage.open().await;
    stage.at(HOUR);
    // It wakes for the round's own limit first.
    show.ear.hears(&format!("sleeps {} due {}", HOUR + 15 * MINUTE, 2 * HOUR)).await;
    show.ear.hears("started slow").await;
    show.close().await;
}

#[tokio::test]
async fn gap_in_which_the_scheduler_did_not_wake_is_reported_with_both_ends() {
    let stage = Stage::new(vec![every("look", "every 1h")]).await;
    let mut show = stage.open().await;
    stage.at(HOUR + 4 * MINUTE);
    show.ear.hears("ended look reported").await;
    show.settled().await;
    assert_eq!(show.ear.count("scheduler(gap"), 0, "a few minutes are no gap");
    stage.at(7 * HOUR + 30 * MINUTE);
    let event_line = show.ear.hears("scheduler(gap").await;
    let ends = [T0 + 2 * HOUR, T0 + 7 * HOUR + 30 * MINUTE].map(|ms| ms.to_string());
    assert!(ends.iter().all(|end| event_line.contains(end)), "{event_line}");
    show.ear.hears("ended look reported").await;
    show.settled().await;
    assert_eq!(show.fates(&stage.key("look")).await, ["60 started", "120 coalesced x5", "420 started"]);
    show.close().await;
}

/// A loop whose daily budget allows one round that reserves 600 tokens after one that used 500.
fn thrifty() -> LoopSpec {
    let mut spec = every("look", "daily 04:00,09:00,15:00");
    spec.attempts = 1;
    spec.budget.round.tokens = Some(600);
    spec.budget.day.tokens = Some(1_000);
    spec
}

/// The second round of the day does not fit the budget and is suspended.
async fn over_budget(stage: &Stage) -> (Show, String) {
    stage.troop.troupe.play("look", Play::Use(500));
    let mut show = stage.open().await;
    stage.at(4 * HOUR);
    show.ear.hears("ended look reported").await;
    stage.at(9 * HOUR);
    show.ear.hears("ended look over-budget").await;
    show.settled().await;
    let row = show
        .rounds()
        .await
        .into_iter()
        .find(|row| row.phase == loopwright_core::round::RoundPhase::Suspended)
        .expect("a suspended round");
    (show, row.id)
}

async fn comes_to_its_end(show: &mut Show, round: &str) {
    while show.engine.store().round(round).await.expect("read").and_then(|row| row.ended_ms).is_none() {
        show.ear.hears("ended look").await;
    }
    let row = show.engine.store().round(round).await.expect("read").expect("a round");
    assert_eq!(row.outcome, Some(loopwright_core::outcome::RoundOutcome::Reported), "{row:?}");
}

#[tokio::test]
async fn round_over_its_daily_budget_resumes_on_the_next_day() {
    let stage = Stage::new(vec![thrifty()]).await;
    let (mut show, round) = over_budget(&stage).await;
    assert_eq!(stage.troop.troupe.starts().len(), 1, "no agent was started over budget");
    stage.at(15 * HOUR);
    show.ear.hears("kept look backoff due:2026-05-01T15:00:00Z").await;
    stage.at(24 * HOUR - MINUTE);
    show.settled().await;
    assert_eq!(show.rounds().await.len(), 2, "no other round starts on an exhausted day");
    let row = show.engine.store().round(&round).await.expect("read").expect("a round");
    assert_eq!(row.phase, loopwright_core::round::RoundPhase::Suspended, "the day is not over");
    stage.at(24 * HOUR + MINUTE);
    comes_to_its_end(&mut show, &round).await;
    show.close().await;
}

#[tokio::test]
async fn round_at_its_limit_of_turns_waits_for_a_person_and_not_for_the_next_day() {
    let stage = Stage::new(vec![every("look", "daily 04:00")]).await;
    stage.troop.troupe.play("look", Play::Limit(BudgetLimit::Turns));
    let mut show = stage.open().await;
    stage.at(4 * HOUR);
    show.ear.hears("ended look over-budget").await;
    show.settled().await;
    let round = show.rounds().await.pop().expect("a round").id;
    stage.troop.troupe.play("look", Play::Report);
    stage.at(24 * HOUR + MINUTE);
    show.settled().await;
    let row = show.engine.store().round(&round).await.expect("read").expect("a round");
    assert_eq!(row.phase, loopwright_core::round::RoundPhase::Suspended, "no new day changes a limit of turns");
    assert_eq!(stage.troop.troupe.starts().len(), 1, "nothing started on the next day before its due time");
    show.close().await;
}

#[tokio::test]
async fn round_over_its_daily_budget_resumes_when_a_person_raises_it() {
    let stage = Stage::new(vec![thrifty()]).await;
    let (mut show, round) = over_budget(&stage).await;
    let raise = |show: &Show, round: Option<String>| {
        let by = Reservation { tokens: 600, usd: Usd(0) };
        let key = stage.key("look");
        let raise = BudgetRaise {
            repo: key.repo.to_string(),
            loop_name: key.name.to_string(),
            round,
            zone: None,
            by,
            actor: "ada".into(),
        };
        let engine = show.engine.clone();
        async move { loopwright::raise::record_raise(&engine, raise).await.expect("raised") }
    };
    raise(&show, None).await;
    comes_to_its_end(&mut show, &round).await;
    show.close().await;
}

#[tokio::test]
async fn one_pass_resumes_a_suspended_round_before_it_starts_another_of_its_loop() {
    let stage = Stage::new(vec![thrifty()]).await;
    let (show, round) = over_budget(&stage).await;
    show.close().await;
    stage.at(28 * HOUR + MINUTE);
    let engine = Engine::open(stage.settings()).await.expect("the state directory is free");
    let pass = tick(engine.clone(), Arc::clone(&stage.troop) as _, stage.limits.clone(), &CancelToken::new()).await;
    engine.close().await.expect("closed");
    let rounds = pass.expect("a pass").rounds;
    assert_eq!(rounds.first().map(|first| &first.round), Some(&round), "{rounds:?}");
}

#[tokio::test]
async fn manual_clock_wakes_waiters_whose_moment_it_passes() {
    let clock = ManualClock::new(1_000);
    let other = clock.clone();
    let waits = tokio::spawn(async move { other.until(5_000).await });
    clock.set(4_000);
    tokio::task::yield_now().await;
    assert!(!waits.is_finished() && clock.now_ms() == 4_000);
    clock.set(5_000);
    waits.await.expect("the wait returns");
}
