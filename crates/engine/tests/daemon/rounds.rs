//! Failures of a round stay its own: a panic, a broken file, a failure that repeats.

use crate::world::*;
use loopwright::RoundOutcome;

#[tokio::test]
async fn panic_of_one_agent_fails_its_round_with_the_message_and_nothing_else() {
    let stage = Stage::new(vec![every("mad", "every 1h"), every("sane", "every 1h")]).await;
    stage.troop.troupe.play("mad", Play::Panic);
    let mut show = stage.open().await;
    stage.at(HOUR);
    show.ear.hears("panicked mad the agent of mad lost its head").await;
    show.ear.hears("ended mad failed").await;
    show.settled().await;
    let rounds = show.rounds().await;
    let mad = rounds.iter().find(|round| round.loop_name == "mad").expect("its round is on record");
    assert_eq!(mad.outcome, Some(RoundOutcome::Failed));
    assert!(mad.summary.contains("lost its head"), "{}", mad.summary);
    let sane = rounds.iter().find(|round| round.loop_name == "sane").expect("the other ran");
    assert_eq!(sane.outcome, Some(RoundOutcome::Reported));
    stage.troop.troupe.play("mad", Play::Report);
    stage.at(2 * HOUR);
    show.ear.hears("ended mad reported").await;
    show.close().await;
}

#[tokio::test]
async fn loop_that_cannot_be_prepared_gets_a_failed_receipt_and_others_continue() {
    let stage = Stage::new(vec![every("bent", "every 1h"), every("good", "every 1h")]).await;
    stage.troop.break_file("bent");
    let mut show = stage.open().await;
    stage.at(HOUR);
    show.ear.hears("kept bent failed").await;
    show.settled().await;
    let receipts = show.receipts(&stage.key("bent")).await;
    assert_eq!((receipts.len(), receipts[0].receipt.word()), (1, "failed"));
    assert!(receipts[0].reason.contains("it broke"), "{}", receipts[0].reason);
    assert_eq!(show.fates(&stage.key("good")).await, ["60 started"]);
    show.close().await;
}

#[tokio::test]
async fn a_loop_that_pauses_itself_before_its_first_round_asks_too() {
    let stage = Stage::new(vec![every("bent", "every 6h")]).await;
    stage.troop.break_file("bent");
    let mut show = stage.open().await;
    for start in 1..=3 {
        stage.at(start * 6 * HOUR);
        show.ear.hears("kept bent failed").await;
        show.settled().await;
    }
    show.ear.hears("asked bent").await;
    show.settled().await;
    let asked = async |show: &Show| {
        let open = show.engine.store().inbox(10).await.expect("inbox");
        open.into_iter().map(|row| (row.kind, row.round, row.loop_name)).collect::<Vec<_>>()
    };
    assert_eq!(
        asked(&show).await,
        [(loopwright::store::InboxKind::LoopPaused.to_owned(), String::new(), "bent".to_owned())]
    );
    show.close().await;
    let show = stage.open().await;
    show.daemon.resume(&stage.key("bent"), "ada").await.expect("resumed");
    assert_eq!(asked(&show).await, []);
    show.close().await;
}

#[tokio::test]
async fn the_same_failure_three_times_pauses_the_loop_and_asks() {
    let stage = Stage::new(vec![every("look", "every 6h")]).await;
    stage.troop.troupe.play("look", Play::Fail);
    let mut show = stage.open().await;
    for round in 1..=3 {
        stage.at(round * 6 * HOUR);
        show.ear.hears("ended look failed").await;
        show.settled().await;
    }
    show.ear.hears("asked look").await;
    show.settled().await;
    let open = show.engine.store().inbox(10).await.expect("inbox");
    assert_eq!(open.iter().filter(|row| row.kind == loopwright::store::InboxKind::LoopPaused).count(), 1, "{open:?}");
    stage.at(24 * HOUR);
    show.ear.hears("kept look paused").await;
    stage.troop.troupe.play("look", Play::Report);
    show.daemon.resume(&stage.key("look"), "ada").await.expect("resumed");
    let open = show.engine.store().inbox(10).await.expect("inbox");
    assert!(open.iter().all(|row| row.kind != loopwright::store::InboxKind::LoopPaused), "{open:?}");
    stage.at(30 * HOUR);
    show.ear.hears("ended look reported").await;
    show.close().await;
}

#[tokio::test]
async fn drain_waits_until_its_deadline_and_then_cancels() {
    let stage = Stage::new(vec![every("look", "every 1h"), every("late", "every 2h")]).await;
    stage.troop.troupe.play("look", Play::Hang);
    let mut show = stage.open().await;
    stage.at(HOUR);
    show.ear.hears("started look").await;
    show.daemon.drain(std::time::Duration::from_secs(90 * 60)).await.expect("it is at work");
    stage.at(2 * HOUR);
    show.daemon.snapshot().await.expect("it waits for the round");
    assert_eq!(show.ear.count("started late"), 0, "nothing new starts");
    stage.at(2 * HOUR + 31 * MINUTE);
    show.ear.hears("ended look interrupted").await;
    let (ended, lines) = show.end().await;
    assert_eq!(ended, loopwright::daemon::DaemonEnd::Drained, "{lines:?}");
}

#[tokio::test]
async fn a_second_request_to_end_is_immediate() {
    let stage = Stage::new(vec![every("look", "every 1h")]).await;
    stage.troop.troupe.play("look", Play::Hang);
    let mut show = stage.open().await;
    stage.at(HOUR);
    show.ear.hears("started look").await;
    let hour = std::time::Duration::from_secs(3600);
    show.daemon.drain(hour).await.expect("it is at work");
    show.daemon.drain(hour).await.expect("it is at work");
    let (ended, lines) = show.end().await;
    assert_eq!(ended, loopwright::daemon::DaemonEnd::Drained);
    assert!(lines.iter().any(|line| line == "ended look interrupted"), "{lines:?}");
}

#[tokio::test]
async fn hanging_probe_ends_with_the_daemon_and_with_a_stop() {
    let stage = Stage::new(vec![every("look", "every 1h")]).await;
    stage.troop.silence("look");
    let mut show = stage.open().await;
    stage.at(HOUR);
    show.ear.hears("starting").await;
    show.daemon.freeze("ada", "enough").await.expect("stopped");
    show.ear.hears("kept look stopped due:2026-05-01T01:00:00Z").await;
    show.daemon.thaw("ada").await.expect("thawed");
    stage.at(2 * HOUR);
    show.ear.hears("starting").await;
    let begun = tokio::time::Instant::now();
    show.daemon.drain(std::time::Duration::ZERO).await.expect("it is at work");
    let (ended, lines) = show.end().await;
    assert_eq!(ended, loopwright::daemon::DaemonEnd::Drained, "{lines:?}");
    assert!(
        begun.elapsed() < std::time::Duration::from_secs(15),
        "the daemon waited for the probe: {:?}",
        begun.elapsed()
    );
}
