//! Manual rounds beside the daemon's: one round of a loop at a time, for every starter.

use crate::world::*;
use loopwright::EngineError;
use loopwright::daemon::{LoopFleet as _, PreparedStart};
use loopwright::proc::CancelToken;

#[tokio::test]
async fn manual_round_is_refused_while_the_loop_runs_and_vice_versa() {
    let stage = Stage::new(vec![every("look", "every 1h")]).await;
    let key = stage.key("look");
    stage.troop.troupe.play("look", Play::Hang);
    let mut show = stage.open().await;
    let Ok(PreparedStart::Round(ready)) = stage.troop.prepare(&show.engine, &key).await else {
        panic!("it can be prepared")
    };
    stage.at(HOUR);
    show.ear.hears("started look").await;
    let cancel = CancelToken::new();
    let refused = show.engine.run(stage.troop.request("look"), &ready.bind, &cancel).await;
    assert!(matches!(refused, Err(EngineError::Busy { .. })), "{refused:?}");
    stage.troop.troupe.let_go();
    show.ear.hears("ended look reported").await;
    show.settled().await;
    let (engine, request) = (show.engine.clone(), stage.troop.request("look"));
    let bind = ready.bind.clone();
    let by_hand = tokio::spawn(async move { engine.run(request, &bind, &CancelToken::new()).await });
    stage.troop.troupe.begun_times(2).await;
    stage.at(2 * HOUR);
    show.ear.hears("kept look overlap").await;
    stage.troop.troupe.let_go();
    let report = by_hand.await.expect("no panic").expect("a round");
    assert_eq!(report.exit, Some(0));
    show.ear.hears("ended look reported").await;
    show.settled().await;
    assert_eq!(show.fates(&key).await, ["60 started", "120 overlap"]);
    show.close().await;
}

#[tokio::test]
async fn manual_round_is_stopped_by_its_id_and_by_the_end_of_the_daemon() {
    let stage = Stage::new(vec![every("look", "")]).await;
    let key = stage.key("look");
    stage.troop.troupe.play("look", Play::Hang);
    let show = stage.open().await;
    let Ok(PreparedStart::Round(ready)) = stage.troop.prepare(&show.engine, &key).await else {
        panic!("it can be prepared")
    };
    for end_by_id in [true, false] {
        let before = stage.troop.troupe.starts().len();
        let (engine, request, bind) = (show.engine.clone(), stage.troop.request("look"), ready.bind.clone());
        let by_hand = tokio::spawn(async move { engine.run(request, &bind, &CancelToken::new()).await });
        stage.troop.troupe.begun_times(before + 1).await;
        let running = show.daemon.snapshot().await.expect("at work").running;
        let round = running[0].round.clone().expect("it is on record");
        match end_by_id {
            true => assert!(show.daemon.cancel(&round, "enough").await.expect("at work")),
            false => show.daemon.drain(std::time::Duration::ZERO).await.expect("at work"),
        }
        let report = by_hand.await.expect("no panic").expect("a round");
        assert_eq!(report.exit, Some(130));
    }
    let (ended, _) = show.end().await;
    assert_eq!(ended, loopwright::daemon::DaemonEnd::Drained);
}

#[tokio::test]
async fn manual_round_is_refused_during_a_global_stop_and_while_the_daemon_ends() {
    let stage = Stage::new(vec![every("look", "every 1h"), every("other", "")]).await;
    let mut show = stage.open().await;
    let Ok(PreparedStart::Round(ready)) = stage.troop.prepare(&show.engine, &stage.key("other")).await else {
        panic!("it can be prepared")
    };
    let engine = show.engine.clone();
    let by_hand = async || match engine.run(stage.troop.request("other"), &ready.bind, &CancelToken::new()).await {
        Err(EngineError::Busy { why, .. }) => why,
        other => panic!("it was not refused: {other:?}"),
    };
    show.daemon.freeze("ada", "lunch").await.expect("stopped");
    // The record says so too; removing the file alone does not end the stop.
    std::fs::remove_file(stage.world.state().join(loopwright::daemon::STOP_FILE)).expect("it is there");
    assert_eq!(by_hand().await, "everything is stopped by ada: lunch");
    show.daemon.thaw("ada").await.expect("thawed");
    stage.troop.troupe.play("look", Play::Hang);
    stage.at(HOUR);
    show.ear.hears("started look").await;
    show.daemon.drain(std::time::Duration::from_secs(3600)).await.expect("at work");
    assert_eq!(by_hand().await, "the daemon is shutting down");
    stage.troop.troupe.let_go();
    assert_eq!(show.end().await.0, loopwright::daemon::DaemonEnd::Drained);
}
