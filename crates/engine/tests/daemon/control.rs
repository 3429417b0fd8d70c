//! Pause and resume, the global stop by command and by file, all of it over restarts; loops that are added and removed.

use crate::world::*;
use loopwright::Engine;
use loopwright::daemon::{LoopFleet as _, STOP_FILE};
use loopwright_core::dispatch::LoopExplanation;

#[tokio::test]
async fn paused_loop_stays_paused_over_a_restart_and_catches_up_nothing() {
    let stage = Stage::new(vec![every("look", "every 1h")]).await;
    let key = stage.key("look");
    let show = stage.open().await;
    show.daemon.pause(&key, "ada", "a holiday").await.expect("paused");
    show.close().await;
    stage.at(2 * HOUR + MINUTE);
    let mut show = stage.open().await;
    show.settled().await;
    stage.at(3 * HOUR);
    show.ear.hears("kept look paused due:2026-05-01T03:00:00Z").await;
    let why = show.daemon.explain(&key).await.expect("at work");
    assert!(matches!(why, LoopExplanation::Paused { .. }), "{why:?}");
    show.daemon.resume(&key, "ada").await.expect("resumed");
    show.settled().await;
    assert_eq!((show.ear.count("started"), show.rounds().await.len()), (0, 0), "no burst");
    stage.at(4 * HOUR);
    show.ear.hears("ended look reported").await;
    show.settled().await;
    let stood_for: i64 = show.receipts(&key).await.iter().map(|row| row.count).sum();
    assert_eq!(stood_for, 4, "{:?}", show.fates(&key).await);
    let kinds: Vec<_> = show.engine.store().tail(0, 1000).await.expect("events").into_iter().map(|e| e.kind).collect();
    for kind in ["loop-paused", "loop-resumed"] {
        assert_eq!(kinds.iter().filter(|known| *known == kind).count(), 1, "{kinds:?}");
    }
    show.close().await;
}

#[tokio::test]
async fn resume_ends_the_wait_after_a_failure_without_a_daemon_too() {
    let stage = Stage::new(vec![every("look", "every 10s")]).await;
    let key = stage.key("look");
    stage.troop.troupe.play("look", Play::Fail);
    let mut show = stage.open().await;
    stage.at(10_000);
    show.ear.hears("ended look failed").await;
    show.settled().await;
    show.close().await;
    let engine = Engine::open(stage.settings()).await.expect("the state directory is free");
    stage.at(25_000);
    let entry = stage.troop.load().await.expect("loops").entries.pop();
    assert!(engine.resume_loop(&key, entry.clone(), "ada").await.expect("resumed"), "it waited");
    assert!(!engine.resume_loop(&key, entry, "ada").await.expect("again"), "it does not wait any more");
    engine.close().await.expect("closed");
    stage.troop.troupe.play("look", Play::Report);
    let mut show = stage.open().await;
    stage.at(30_000);
    show.ear.hears("ended look reported").await;
    show.settled().await;
    let fates: Vec<_> =
        show.receipts(&key).await.into_iter().map(|row| (row.due_ms - T0, row.receipt.word())).collect();
    let fates: Vec<_> = fates.iter().map(|(at_ms, word)| (at_ms / 1_000, *word)).collect();
    assert_eq!(fates, [(10, "started"), (20, "backoff"), (30, "started")]);
    show.close().await;
}

#[tokio::test]
async fn global_stop_ends_rounds_survives_a_restart_and_ends_by_command() {
    let stage = Stage::new(vec![every("look", "every 1h")]).await;
    stage.troop.troupe.play("look", Play::Hang);
    let mut show = stage.open().await;
    stage.at(HOUR);
    show.ear.hears("started look").await;
    show.daemon.freeze("ada", "it costs too much").await.expect("stopped");
    show.ear.hears("ended look cancelled").await;
    show.close().await;
    assert!(stage.world.state().join(STOP_FILE).exists());
    stage.at(2 * HOUR + MINUTE);
    let mut show = stage.open().await;
    stage.at(3 * HOUR);
    show.ear.hears("kept look stopped due:2026-05-01T03:00:00Z").await;
    stage.troop.troupe.play("look", Play::Report);
    show.daemon.thaw("ada").await.expect("thawed");
    assert!(!stage.world.state().join(STOP_FILE).exists());
    show.settled().await;
    assert_eq!(show.rounds().await.len(), 1, "no burst");
    stage.at(4 * HOUR);
    show.ear.hears("ended look reported").await;
    show.close().await;
}

#[tokio::test]
async fn stop_file_stops_everything_as_the_command_does() {
    let stage = Stage::new(vec![every("look", "every 1h")]).await;
    let mut show = stage.open().await;
    let file = stage.world.state().join(STOP_FILE);
    std::fs::write(&file, "the pager rang\n").expect("the file can be written");
    stage.at(HOUR);
    show.ear.hears("frozen file the pager rang").await;
    show.ear.hears("kept look stopped").await;
    std::fs::remove_file(&file).expect("the file can be removed");
    stage.at(2 * HOUR);
    show.ear.hears("thawed").await;
    show.ear.hears("ended look reported").await;
    show.settled().await;
    assert_eq!(show.fates(&stage.key("look")).await, ["60 stopped", "120 started"]);
    show.close().await;
}

#[tokio::test]
async fn stop_ended_without_a_daemon_leaves_one_receipt_for_each_due_time_during_it() {
    let stage = Stage::new(vec![every("look", "every 1h"), every("rest", "every 6h")]).await;
    let key = stage.key("look");
    let mut show = stage.open().await;
    stage.at(HOUR);
    show.ear.hears("ended look reported").await;
    show.settled().await;
    show.close().await;
    let engine = Engine::open(stage.settings()).await.expect("the state directory is free");
    engine.stop_all("ada", "a holiday").await.expect("stopped");
    stage.at(4 * HOUR + MINUTE);
    let entries = stage.troop.load().await.expect("loops").entries;
    let thawed = engine.thaw_all(entries.clone(), "ada").await.expect("thawed");
    assert!(thawed.was_stopped && !thawed.was_clock_behind, "{thawed:?}");
    assert!(!stage.world.state().join(STOP_FILE).exists());
    assert!(!engine.thaw_all(entries, "ada").await.expect("again").has_effect(), "there is nothing to end any more");
    engine.close().await.expect("closed");
    let mut show = stage.open().await;
    show.settled().await;
    assert_eq!(show.fates(&key).await, ["60 started", "120 stopped x3"], "nothing is caught up");
    stage.at(5 * HOUR);
    show.ear.hears("ended look reported").await;
    show.settled().await;
    assert_eq!(show.fates(&key).await, ["60 started", "120 stopped x3", "300 started"]);
    assert_eq!(show.fates(&stage.key("rest")).await, [""; 0]);
    show.close().await;
}

#[tokio::test]
async fn added_loop_starts_now_and_removed_loop_ends() {
    let stage = Stage::new(vec![every("old", "every 1h")]).await;
    let mut show = stage.open().await;
    stage.at(90 * MINUTE);
    show.ear.hears("ended old").await;
    stage.troop.set(vec![every("new", "every 1h")]);
    assert_eq!(show.daemon.reload().await.expect("loaded"), 1);
    stage.at(2 * HOUR);
    show.ear.hears("ended new reported").await;
    show.settled().await;
    assert_eq!(show.fates(&stage.key("new")).await, ["120 started"]);
    assert_eq!(show.ear.count("started old"), 1);
    show.close().await;
}

#[tokio::test]
async fn reload_requested_during_another_reload_sees_later_changes() {
    let stage = Stage::new(vec![every("look", "")]).await;
    let show = stage.open().await;
    stage.troop.slow_down();
    let reload = || {
        let daemon = show.daemon.clone();
        tokio::spawn(async move { daemon.reload().await.expect("read") })
    };
    let first = reload();
    stage.troop.loads(2).await;
    stage.troop.set(vec![every("look", ""), every("more", "")]);
    let second = reload();
    // The daemon handles requests in order, so it has received this one when it answers a later one.
    tokio::task::yield_now().await;
    show.daemon.snapshot().await.expect("at work");
    stage.troop.let_load();
    assert_eq!(first.await.expect("no panic"), 1);
    stage.troop.loads(3).await;
    stage.troop.let_load();
    assert_eq!(second.await.expect("no panic"), 2, "the first reading had passed the change");
    show.close().await;
}
