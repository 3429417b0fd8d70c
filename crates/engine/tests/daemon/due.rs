//! Due loops: at their due time, once, with a receipt.

use crate::world::*;
use loopwright::daemon::tick;
use loopwright::proc::CancelToken;
use loopwright::spec::{CatchUp, Overlap};
use loopwright::{Engine, RoundOutcome};
use std::sync::Arc;

#[tokio::test]
async fn loop_fires_at_its_due_time_and_not_because_a_daemon_started() {
    let stage = Stage::new(vec![every("look", "every 1h")]).await;
    stage.at(10 * MINUTE);
    let mut show = stage.open().await;
    show.settled().await;
    assert_eq!(show.daemon.snapshot().await.expect("at work").next_wake_ms, Some(T0 + HOUR));
    stage.at(HOUR - 1);
    show.settled().await;
    assert_eq!((show.ear.count("started"), stage.troop.troupe.starts().len()), (0, 0), "it is not due");
    stage.at(HOUR);
    show.ear.hears("started look due:2026-05-01T01:00:00Z").await;
    show.ear.hears("ended look reported").await;
    show.settled().await;
    let receipts = show.receipts(&stage.key("look")).await;
    let rounds = show.rounds().await;
    assert_eq!((receipts.len(), rounds.len()), (1, 1));
    assert_eq!((receipts[0].receipt.word(), receipts[0].round.as_ref()), ("started", Some(&rounds[0].id)));
    assert_eq!((rounds[0].trigger.as_str(), rounds[0].occurrence.as_str()), ("every 1h", "due:2026-05-01T01:00:00Z"));
    show.close().await;
}

#[tokio::test]
async fn daemon_does_not_wake_between_two_due_times() {
    let stage = Stage::new(vec![every("look", "every 1h")]).await;
    let mut show = stage.open().await;
    show.settled().await;
    let before = show.ear.sleeps();
    for minute in 1..60 {
        stage.at(minute * MINUTE);
        tokio::task::yield_now().await;
    }
    // The daemon woke only to answer this request.
    show.daemon.snapshot().await.expect("at work");
    assert_eq!(show.ear.sleeps(), before + 1);
    show.close().await;
}

#[tokio::test]
async fn every_due_time_has_one_receipt_over_a_restart_and_a_long_suspend() {
    let stage = Stage::new(vec![every("look", "every 1h")]).await;
    let mut show = stage.open().await;
    stage.at(HOUR);
    show.ear.hears("ended look").await;
    show.settled().await;
    show.close().await;
    stage.at(5 * HOUR + 20 * MINUTE);
    let mut show = stage.open().await;
    show.ear.hears("ended look").await;
    show.settled().await;
    let key = stage.key("look");
    let receipts = show.receipts(&key).await;
    let stood_for: i64 = receipts.iter().map(|row| row.count).sum();
    assert_eq!(stood_for, 5, "{:?}", show.fates(&key).await);
    assert_eq!(show.rounds().await.len(), 2, "one in its hour, one for all that were missed");
    // The machine was suspended for three more hours with the daemon running.
    stage.at(8 * HOUR + 30 * MINUTE);
    show.ear.hears("ended look").await;
    show.settled().await;
    let stood_for: i64 = show.receipts(&key).await.iter().map(|row| row.count).sum();
    assert_eq!((stood_for, show.rounds().await.len()), (8, 3), "{:?}", show.fates(&key).await);
    show.close().await;
}

#[tokio::test]
async fn missed_occurrences_are_caught_up_one_by_one_if_the_loop_says_so() {
    let mut spec = every("look", "every 1h");
    spec.on.catch_up = CatchUp::All(3);
    let stage = Stage::new(vec![spec]).await;
    stage.open().await.close().await;
    stage.at(5 * HOUR + MINUTE);
    let mut show = stage.open().await;
    for _ in 0..3 {
        show.ear.hears("ended look reported").await;
    }
    show.settled().await;
    let fates = show.fates(&stage.key("look")).await;
    assert_eq!(fates.iter().filter(|fate| fate.contains("started")).count(), 3, "{fates:?}");
    let stood_for: i64 = show.receipts(&stage.key("look")).await.iter().map(|row| row.count).sum();
    assert_eq!(stood_for, 5, "{fates:?}");
    show.close().await;
}

#[tokio::test]
async fn due_time_while_a_round_runs_is_skipped_by_default() {
    let stage = Stage::new(vec![every("look", "every 1h")]).await;
    stage.troop.troupe.play("look", Play::Hang);
    let mut show = stage.open().await;
    stage.at(HOUR);
    show.ear.hears("started look").await;
    stage.at(2 * HOUR);
    show.ear.hears("kept look overlap due:2026-05-01T02:00:00Z").await;
    stage.troop.troupe.let_go();
    show.ear.hears("ended look reported").await;
    show.settled().await;
    assert_eq!(show.fates(&stage.key("look")).await, ["60 started", "120 overlap"]);
    show.close().await;
}

#[tokio::test]
async fn queued_due_time_starts_when_the_running_round_ends() {
    let mut spec = every("look", "every 1h");
    spec.on.overlap = Overlap::Queue;
    let stage = Stage::new(vec![spec]).await;
    stage.troop.troupe.play("look", Play::Hang);
    let mut show = stage.open().await;
    stage.at(HOUR);
    show.ear.hears("started look due:2026-05-01T01").await;
    stage.at(2 * HOUR);
    stage.troop.troupe.play("look", Play::Report);
    stage.troop.troupe.let_go();
    show.ear.hears("ended look reported").await;
    show.ear.hears("started look due:2026-05-01T02").await;
    show.ear.hears("ended look reported").await;
    show.settled().await;
    assert_eq!(show.fates(&stage.key("look")).await, ["60 started", "120 started"]);
    show.close().await;
}

#[tokio::test]
async fn due_time_cancels_the_running_round_if_the_loop_says_so() {
    let mut spec = every("look", "every 1h");
    spec.on.overlap = Overlap::Cancel;
    let stage = Stage::new(vec![spec]).await;
    stage.troop.troupe.play("look", Play::Hang);
    let mut show = stage.open().await;
    stage.at(HOUR);
    show.ear.hears("started look due:2026-05-01T01").await;
    stage.troop.troupe.play("look", Play::Report);
    stage.at(2 * HOUR);
    show.ear.hears("cancelling look").await;
    show.ear.hears("ended look cancelled").await;
    show.ear.hears("started look due:2026-05-01T02").await;
    show.ear.hears("ended look reported").await;
    show.close().await;
}

#[tokio::test]
async fn two_loops_with_one_lock_run_one_after_the_other() {
    let mut specs = vec![every("left", "every 1h"), every("right", "every 1h")];
    specs.iter_mut().for_each(|spec| spec.locks = vec!["docs".to_owned()]);
    let stage = Stage::new(specs).await;
    stage.troop.troupe.play("left", Play::Hang);
    stage.troop.troupe.play("right", Play::Hang);
    let mut show = stage.open().await;
    stage.at(HOUR);
    show.ear.hears("started left").await;
    assert_eq!(show.daemon.snapshot().await.expect("at work").running.len(), 1, "the lock is taken");
    stage.troop.troupe.let_go();
    show.ear.hears("ended left reported").await;
    show.ear.hears("started right due:2026-05-01T01:00:00Z").await;
    stage.troop.troupe.let_go();
    show.ear.hears("ended right reported").await;
    show.close().await;
}

#[tokio::test]
async fn path_below_a_locked_one_waits_and_names_the_holder() {
    let mut specs = vec![every("wide", "every 1h"), every("zoom", "every 1h")];
    (specs[0].locks, specs[1].locks) = (vec!["path:src/".to_owned()], vec!["path:src/a.rs".to_owned()]);
    let stage = Stage::new(specs).await;
    stage.troop.troupe.play("wide", Play::Hang);
    let mut show = stage.open().await;
    stage.at(HOUR);
    show.ear.hears("started wide").await;
    let why = show.daemon.explain(&stage.key("zoom")).await.expect("at work").text();
    assert!(
        why.contains("the lock `path:src/a.rs`: `path:src/` conflicts with it") && why.contains("of `wide`"),
        "{why}"
    );
    stage.troop.troupe.let_go();
    show.ear.hears("started zoom due:2026-05-01T01:00:00Z").await;
    show.ear.hears("ended zoom reported").await;
    show.close().await;
}

#[tokio::test]
async fn item_of_another_loops_running_round_is_left_to_it() {
    let mut specs = vec![every("left", "every 1h"), every("right", "every 1h")];
    specs.iter_mut().for_each(|spec| spec.locks = vec!["item".to_owned()]);
    let stage = Stage::new(specs).await;
    stage.troop.troupe.play("left", Play::Hang);
    stage.troop.find("left", &["issue-1@a"]);
    stage.troop.find("right", &["issue-1@b"]);
    let mut show = stage.open().await;
    stage.at(HOUR);
    show.ear.hears("started left").await;
    let why = loop {
        let why = show.daemon.explain(&stage.key("right")).await.expect("at work").text();
        if !why.starts_with("running") {
            break why;
        }
        show.ear.hears("sleeps").await;
    };
    assert!(why.contains("waiting for the lock `issue:1`") && why.contains("of `left`"), "{why}");
    stage.troop.troupe.begun_times(1).await;
    assert_eq!(stage.troop.troupe.starts(), ["left"], "only one round works on the item");
    stage.troop.troupe.let_go();
    show.ear.hears("ended left reported").await;
    show.ear.hears("started right due:2026-05-01T01:00:00Z").await;
    show.ear.hears("ended right reported").await;
    show.close().await;
}

#[tokio::test]
async fn one_pass_runs_only_loops_that_are_due_now() {
    let stage = Stage::new(vec![every("look", "every 1h"), every("rest", "every 6h")]).await;
    let pass = || async {
        let engine = Engine::open(stage.settings()).await.expect("the state directory is free");
        let report =
            tick(engine.clone(), Arc::clone(&stage.troop) as _, stage.limits.clone(), &CancelToken::new()).await;
        engine.close().await.expect("closed");
        report.expect("a pass")
    };
    assert!(pass().await.rounds.is_empty(), "a pass makes nothing due");
    stage.at(2 * HOUR + MINUTE);
    let report = pass().await;
    let names: Vec<_> = report.rounds.iter().map(|round| (&*round.key.name, round.outcome)).collect();
    assert_eq!(names, [("look", Some(RoundOutcome::Reported))]);
    assert_eq!(report.receipts.len(), 1, "{:?}", report.receipts);
    assert!(pass().await.rounds.is_empty(), "it was done");
}

#[tokio::test]
async fn one_pass_does_not_wait_for_the_round_of_another_process() {
    let stage = Stage::new(vec![every("far", "every 1h"), every("look", "every 1h")]).await;
    let pass = || async {
        let engine = Engine::open(stage.settings()).await.expect("the store is shared");
        let cancel = CancelToken::new();
        let pass = tick(engine.clone(), Arc::clone(&stage.troop) as _, stage.limits.clone(), &cancel);
        let report = tokio::time::timeout(PATIENCE, pass).await.expect("a pass ends").expect("a pass");
        engine.close().await.expect("closed");
        report
    };
    assert!(pass().await.rounds.is_empty(), "a pass makes nothing due");
    stage.troop.troupe.play("far", Play::Hang);
    let elsewhere = Engine::open(stage.settings()).await.expect("the store is shared");
    let (bind, cancel) = (stage.troop.bindings(), CancelToken::new());
    let here = async {
        stage.troop.troupe.begun_times(1).await;
        stage.at(HOUR + MINUTE);
        let report = pass().await;
        stage.troop.troupe.let_go();
        report
    };
    let (far, report) = tokio::join!(elsewhere.run(stage.troop.request("far"), &bind, &cancel), here);
    assert_eq!(far.expect("it runs on").outcome, Some(RoundOutcome::Reported));
    let names: Vec<_> = report.rounds.iter().map(|round| (&*round.key.name, round.outcome)).collect();
    assert_eq!(names, [("look", Some(RoundOutcome::Reported))]);
    elsewhere.close().await.expect("closed");
}

#[tokio::test]
async fn clock_that_is_set_back_is_reported_at_once_and_repeats_nothing() {
    let stage = Stage::new(vec![every("look", "every 1h")]).await;
    let mut show = stage.open().await;
    stage.at(5 * HOUR);
    show.ear.hears("ended look reported").await;
    show.settled().await;
    stage.at(HOUR);
    show.ear.hears("scheduler(clockbehind").await;
    stage.at(5 * HOUR + MINUTE);
    show.ear.hears("scheduler(clockright").await;
    show.settled().await;
    assert_eq!(show.rounds().await.len(), 1, "nothing is repeated");
    stage.at(6 * HOUR);
    show.ear.hears("ended look reported").await;
    show.close().await;
}
