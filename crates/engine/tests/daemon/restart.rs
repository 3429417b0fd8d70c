//! The daemon finds and recovers the rounds of a dead engine without a person.

use crate::world::*;
use loopwright::Engine;
use loopwright::daemon::ThawReport;
use loopwright::proc::CancelToken;
use loopwright::store::{InboxRow, RowChange};

#[tokio::test]
async fn round_of_a_dead_engine_is_ended_and_its_loop_continues() {
    let stage = Stage::new(vec![every("look", "every 1h")]).await;
    stage.troop.troupe.play("look", Play::Hang);
    // An engine that dies while a round runs: its future is dropped, its lock is free.
    let engine = Engine::open(stage.settings()).await.expect("the state directory is free");
    let request = stage.troop.request("look");
    let ready = loopwright::daemon::LoopFleet::prepare(stage.troop.as_ref(), &engine, &stage.key("look")).await;
    let Ok(loopwright::daemon::PreparedStart::Round(ready)) = ready else { panic!("it can be prepared") };
    let cancel = CancelToken::new();
    tokio::select! {
        ended = engine.run(request, &ready.bind, &cancel) => panic!("it hangs: {ended:?}"),
        () = stage.troop.troupe.begun_times(1) => {}
    }
    engine.close().await.expect("it is gone");
    drop((engine, ready));
    stage.troop.troupe.play("look", Play::Report);
    let mut show = stage.open().await;
    show.ear.hears("ended look interrupted").await;
    stage.at(HOUR);
    show.ear.hears("started look due:2026-05-01T01").await;
    show.ear.hears("ended look reported").await;
    show.settled().await;
    assert!(show.rounds().await.iter().all(|round| round.ended_ms.is_some()));
    show.close().await;
}

#[tokio::test]
async fn two_abandoned_rounds_of_one_loop_end_before_another_starts() {
    let mut look = every("look", "every 1h");
    look.on.overlap = loopwright::spec::Overlap::Queue;
    let stage = Stage::new(vec![look]).await;
    let mut show = stage.open().await;
    show.settled().await;
    show.close().await;
    // Without a daemon nothing limits a loop to one slot, so a dead engine may leave two rounds.
    stage.troop.troupe.play("look", Play::Hang);
    let engine = Engine::open(stage.settings()).await.expect("the state directory is free");
    let (bind, cancel) = (stage.troop.bindings(), CancelToken::new());
    tokio::select! {
        ended = engine.run(stage.troop.request("look"), &bind, &cancel) => panic!("it hangs: {ended:?}"),
        ended = engine.run(stage.troop.request("look"), &bind, &cancel) => panic!("it hangs: {ended:?}"),
        () = stage.troop.troupe.begun_times(2) => {}
    }
    engine.close().await.expect("it is gone");
    drop(engine);
    stage.troop.troupe.play("look", Play::Report);
    stage.at(HOUR);
    let mut show = stage.open().await;
    show.ear.hears("ended look reported").await;
    let look_lines: Vec<_> = show.ear.all().into_iter().filter(|line| line.contains("ed look")).collect();
    let due = "started look due:2026-05-01T01:00:00Z";
    assert_eq!(look_lines, ["ended look interrupted", "ended look interrupted", due, "ended look reported"]);
    show.close().await;
}

#[tokio::test]
async fn daemon_that_dies_with_running_rounds_loses_and_repeats_nothing() {
    let stage = Stage::new(vec![every("a", "every 1h"), every("b", "every 1h"), every("c", "every 1h")]).await;
    stage.troop.troupe.play("b", Play::Hang);
    for hour in 1..=6 {
        let mut show = stage.open().await;
        stage.at(hour * HOUR);
        // From the second hour on, the daemon may resume the round of the first hour instead.
        show.ear.hears_one_of(&["started b", "kept b overlap"]).await;
        // It ends without notice: nothing of it runs any more.
        show.die().await;
    }
    stage.troop.troupe.play("b", Play::Report);
    let mut show = stage.open().await;
    show.settled().await;
    stage.at(7 * HOUR);
    show.ear.hears("started b").await;
    show.settled().await;
    for name in ["a", "b", "c"] {
        let key = stage.key(name);
        let stood_for: i64 = show.receipts(&key).await.iter().map(|row| row.count).sum();
        assert_eq!(stood_for, 7, "{name}: {:?}", show.fates(&key).await);
    }
    let rounds = show.rounds().await;
    assert!(rounds.iter().all(|round| round.ended_ms.is_some()), "{rounds:?}");
    show.close().await;
}

#[tokio::test]
async fn rate_limited_round_resumes_at_the_reset_also_after_a_restart() {
    let stage = Stage::new(vec![every("look", "every 6h")]).await;
    stage.troop.troupe.play("look", Play::Later(T0 + 9 * HOUR));
    let mut show = stage.open().await;
    stage.at(6 * HOUR);
    show.ear.hears("ended look rate-limited").await;
    show.settled().await;
    show.close().await;
    stage.troop.troupe.play("look", Play::Report);
    let mut show = stage.open().await;
    stage.at(9 * HOUR - 1);
    show.settled().await;
    assert_eq!(stage.troop.troupe.starts().len(), 1, "the provider is not back yet");
    stage.at(9 * HOUR + MINUTE);
    show.ear.hears("ended look reported").await;
    show.settled().await;
    let rounds = show.rounds().await;
    assert_eq!(
        (rounds.len(), rounds[0].outcome),
        (1, Some(loopwright_core::outcome::RoundOutcome::Reported)),
        "the same round: {rounds:?}"
    );
    show.close().await;
}

#[tokio::test]
async fn round_that_another_round_blocked_resumes_when_that_one_has_ended() {
    let stage = Stage::new(vec![every("look", "daily 06:00")]).await;
    stage.troop.troupe.play("look", Play::Later(T0 + 9 * HOUR));
    let mut show = stage.open().await;
    stage.at(6 * HOUR);
    show.ear.hears("ended look rate-limited").await;
    show.settled().await;
    stage.troop.troupe.play("look", Play::Hang);
    let (engine, request, bind) = (show.engine.clone(), stage.troop.request("look"), stage.troop.bindings());
    let by_hand = tokio::spawn(async move { engine.run(request, &bind, &CancelToken::new()).await.map(drop) });
    stage.troop.troupe.begun_times(2).await;
    stage.at(9 * HOUR + MINUTE);
    // Its resume time passes: the loop's slot is taken.
    while show.daemon.snapshot().await.expect("at work").next_wake_ms.is_some_and(|at| at <= T0 + 9 * HOUR + MINUTE) {
        show.ear.hears("sleeps").await;
    }
    assert_eq!(stage.troop.troupe.starts().len(), 2);
    stage.troop.troupe.play("look", Play::Report);
    stage.troop.troupe.let_go();
    by_hand.await.expect("no panic").expect("a round");
    show.ear.hears("ended look reported").await;
    show.ear.hears("ended look reported").await;
    show.settled().await;
    let outcomes: Vec<_> = show.rounds().await.into_iter().map(|round| round.outcome).collect();
    let reported = Some(loopwright_core::outcome::RoundOutcome::Reported);
    assert_eq!(outcomes, [reported, reported], "both have ended");
    show.close().await;
}

#[tokio::test]
async fn one_resume_accepts_a_clock_that_was_far_ahead() {
    let stage = Stage::new(vec![every("look", "every 1h")]).await;
    let mut show = stage.open().await;
    stage.at(HOUR);
    show.ear.hears("ended look reported").await;
    stage.at(30 * 24 * HOUR);
    show.ear.hears("ended look reported").await;
    show.settled().await;
    show.close().await;
    stage.at(2 * HOUR + MINUTE);
    let mut show = stage.open().await;
    assert_eq!(show.ear.count("scheduler(clockbehind"), 1, "records a month ahead make the clock implausible");
    let thawed = show.daemon.thaw("ada").await.expect("thawed");
    assert_eq!(thawed, ThawReport { was_stopped: false, was_clock_behind: true });
    let again = show.daemon.thaw("ada").await.expect("thawed");
    assert!(!again.has_effect(), "{again:?}");
    show.close().await;
    for hour in 3..=4 {
        let mut show = stage.open().await;
        assert_eq!(show.ear.count("scheduler(clockbehind"), 0, "a person confirmed the clock");
        stage.at(hour * HOUR);
        show.ear.hears("ended look reported").await;
        show.settled().await;
        show.close().await;
    }
    let mut show = stage.open().await;
    let fates = show.fates(&stage.key("look")).await;
    assert_eq!(fates, ["60 started", "120 coalesced x718", "180 started", "240 started", "43200 started"]);
    // Later records count again: a clock that goes back is implausible.
    stage.at(31 * 24 * HOUR);
    show.ear.hears("ended look reported").await;
    show.settled().await;
    show.close().await;
    stage.at(5 * HOUR);
    let mut show = stage.open().await;
    assert_eq!(show.ear.count("scheduler(clockbehind"), 1);
    show.close().await;
}

#[tokio::test]
async fn implausible_clock_is_accepted_without_a_daemon_too() {
    let (look, away) = (every("look", "every 1h"), every("away", "every 1h"));
    let stage = Stage::new(vec![look.clone(), away.clone()]).await;
    let mut show = stage.open().await;
    stage.at(30 * 24 * HOUR);
    show.ear.hears("ended look reported").await;
    show.settled().await;
    stage.troop.set(vec![look.clone()]);
    show.daemon.reload().await.expect("read again");
    show.close().await;
    stage.at(HOUR);
    let engine = loopwright::Engine::open(stage.settings()).await.expect("the state directory is free");
    let entries = loopwright::daemon::LoopFleet::load(&*stage.troop).await.expect("loops").entries;
    let thawed = engine.thaw_all(entries.clone(), "ada").await.expect("thawed");
    assert_eq!(thawed, ThawReport { was_stopped: false, was_clock_behind: true });
    assert!(!engine.thaw_all(entries, "ada").await.expect("nothing is to be done").has_effect());
    engine.close().await.expect("closed");
    stage.troop.set(vec![look, away]);
    let mut show = stage.open().await;
    assert_eq!(show.ear.count("scheduler(clockbehind"), 0);
    stage.at(2 * HOUR);
    // The loop that did not exist at that time was a month ahead as well.
    // Two rounds start side by side, so either may be on record first.
    let both = ["started away due:2026-05-01T02:00:00Z", "started look due:2026-05-01T02:00:00Z"];
    let mut started = [show.ear.hears_one_of(&both).await, show.ear.hears_one_of(&both).await];
    started.sort();
    assert_eq!(started, both);
    show.close().await;
}

#[tokio::test]
async fn proposals_that_were_open_before_a_restart_hold_a_loop_back_after_it() {
    let stage = Stage::new(vec![every("look", "every 1h")]).await;
    let mut show = stage.open().await;
    stage.at(HOUR);
    show.ear.hears("ended look reported").await;
    show.settled().await;
    let round = show.rounds().await.remove(0);
    let question = |number: u32| {
        RowChange::Inbox(InboxRow {
            id: format!("q-{number}"),
            round: round.id.clone(),
            loop_name: round.loop_name.clone(),
            repo: round.repo.clone(),
            kind: loopwright::store::InboxKind::Approval,
            risk: loopwright::store::InboxRisk::Low,
            candidate: None,
            summary: "look at it".to_owned(),
            created_ms: T0,
            expires_ms: None,
            closed_ms: None,
        })
    };
    show.engine.write_rows((0..3).map(question).collect()).await.expect("three proposals are open");
    show.close().await;
    stage.at(2 * HOUR + 30 * MINUTE);
    let mut show = stage.open().await;
    stage.at(3 * HOUR);
    show.settled().await;
    stage.at(3 * HOUR + MINUTE);
    show.settled().await;
    assert_eq!(show.rounds().await.len(), 1, "nothing new is started: {:?}", show.fates(&stage.key("look")).await);
    show.close().await;
}
