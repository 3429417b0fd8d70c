//! The daily pass of the daemon over data past its retention: it runs by itself, leaves running rounds alone, and a daemon
//! without a retention never wakes for it.

use crate::world::*;
use loopwright::proc::CancelToken;
use std::fs;

const DAY: i64 = 24 * HOUR;

/// The rounds that have a report.
fn reports(show: &Show) -> usize {
    fs::read_dir(show.engine.state_dir().root().join("reports")).into_iter().flatten().count()
}

async fn run(stage: &Stage, show: &Show, name: &str) {
    let bind = stage.troop.bindings();
    show.engine.run(stage.troop.request(name), &bind, &CancelToken::new()).await.expect("a round");
}

#[tokio::test]
async fn daemon_removes_old_data_once_a_day_and_leaves_running_rounds_alone() {
    let stage = Stage::new(vec![every("look", ""), every("long", "every 1h")]).await;
    stage.troop.keep_for(30 * MINUTE);
    stage.troop.troupe.play("long", Play::Hang);
    let mut show = stage.open().await;
    run(&stage, &show, "look").await;
    assert_eq!(reports(&show), 1);
    stage.at(HOUR);
    let first = show.ear.hears("collected").await;
    assert!(
        first.starts_with("collected ") && !first.starts_with("collected 0") && first.ends_with("false"),
        "{first}"
    );
    assert_eq!(reports(&show), 0, "the old report is gone");
    stage.troop.troupe.begun_times(2).await;
    stage.troop.troupe.let_go();
    show.ear.hears("ended long reported").await;
    show.settled().await;
    assert_eq!(reports(&show), 1, "a young report stays");
    assert_eq!(show.ear.count("collected"), 1);
    stage.troop.set(vec![every("look", "")]);
    show.daemon.reload().await.expect("loops are read");
    stage.at(HOUR + DAY);
    let second = show.ear.hears("collected").await;
    assert!(!second.starts_with("collected 0") && second.ends_with("false"), "{second}");
    assert_eq!(reports(&show), 0);
    show.close().await;
}

#[tokio::test]
async fn daemon_without_a_retention_does_not_wake_for_old_data() {
    let stage = Stage::new(vec![every("look", "")]).await;
    let show = stage.open().await;
    run(&stage, &show, "look").await;
    assert_eq!(show.daemon.snapshot().await.expect("at work").next_wake_ms, None);
    show.close().await;
}
