//! Loops that follow loops: with provenance, exactly once, and with a limit.

use crate::world::*;
use loopwright::LoopSpec;
use loopwright::store::SignalRow;

fn following(name: &str, leader: &str) -> LoopSpec {
    let mut spec = every(name, "");
    spec.on.after = vec![leader.to_owned()];
    spec
}

#[tokio::test]
async fn end_of_one_loop_makes_its_followers_due_with_provenance() {
    let stage = Stage::new(vec![every("first", "every 1h"), following("second", "first")]).await;
    let mut show = stage.open().await;
    stage.at(HOUR);
    show.ear.hears("ended first reported").await;
    show.ear.hears("started second after:first:").await;
    show.ear.hears("ended second reported").await;
    show.settled().await;
    let rounds = show.rounds().await;
    let of = |name: &str| rounds.iter().find(|round| round.loop_name == name).expect("a round of each");
    let (first, second) = (of("first"), of("second"));
    assert_eq!(second.occurrence, format!("after:first:{}", first.id));
    let signal = show.engine.store().signal(&second.repo, "second", &second.occurrence).await.expect("signal");
    let data = signal.and_then(|signal| signal.data).expect("it says where it comes from");
    assert!(data.contains("\"depth\":1") && data.contains(&first.id), "{data}");
    assert_eq!(show.receipts(&stage.key("second")).await.len(), 1);
    show.close().await;
}

#[tokio::test]
async fn loops_that_follow_each_other_in_a_ring_come_to_rest() {
    let mut first = following("first", "second");
    first = first.with_cadence("every 1h");
    let stage = Stage::new(vec![first, following("second", "first")]).await;
    let mut show = stage.open().await;
    stage.at(HOUR);
    show.ear.hears("too-deep").await;
    show.settled().await;
    assert_eq!(show.rounds().await.len(), 9, "one that was due, and eight that follow");
    show.close().await;
}

#[tokio::test]
async fn follower_that_was_not_started_before_a_crash_is_started_after_it() {
    let stage = Stage::new(vec![every("first", "every 1h"), following("second", "first")]).await;
    let mut show = stage.open().await;
    stage.at(HOUR);
    // The end of the first and the signal to the second are one transaction, so one event implies the other.
    show.ear.hears("ended first reported").await;
    show.die().await;
    let mut show = stage.open().await;
    show.ear.hears("ended second reported").await;
    show.settled().await;
    let rounds = show.rounds().await;
    assert_eq!(rounds.iter().filter(|round| round.loop_name == "second").count(), 1, "{rounds:?}");
    assert_eq!(show.receipts(&stage.key("second")).await.len(), 1);
    show.close().await;
}

fn event(stage: &Stage, delivery: &str) -> SignalRow {
    let key = stage.key("look");
    SignalRow {
        repo: key.repo.to_string(),
        loop_name: "look".to_owned(),
        key: format!("webhook:github:{delivery}"),
        trigger: "webhook".to_owned(),
        at_ms: T0,
        item: Some("run-7@1".to_owned()),
        title: Some("red".to_owned()),
        data: Some("{}".to_owned()),
        taken_ms: None,
    }
}

#[tokio::test]
async fn item_of_an_event_is_retried_after_failures_until_a_person_is_asked() {
    let stage = Stage::new(vec![every("look", "")]).await;
    stage.troop.troupe.play("look", Play::Fail);
    let mut show = stage.open().await;
    let _ = show.daemon.signal(event(&stage, "d1")).await.expect("kept");
    show.ear.hears("ended look failed").await;
    stage.at(5 * MINUTE);
    show.ear.hears("started look again:").await;
    show.ear.hears("ended look failed").await;
    stage.at(10 * MINUTE);
    show.ear.hears("ended look failed").await;
    stage.at(10 * HOUR);
    show.settled().await;
    let rounds = show.rounds().await;
    assert_eq!(rounds.len(), 3, "{rounds:?}");
    assert!(rounds.iter().all(|round| round.item.as_deref() == Some("run-7@1")), "{rounds:?}");
    let open = show.engine.store().inbox(9).await.expect("inbox");
    let asked: Vec<_> = open.iter().map(|row| row.kind.word()).collect();
    assert_eq!(asked, ["item-failed"], "the loop itself continues with others: {open:?}");
    let other = SignalRow { item: Some("run-8@1".to_owned()), ..event(&stage, "d2") };
    stage.troop.troupe.play("look", Play::Report);
    let _ = show.daemon.signal(other).await.expect("kept");
    show.ear.hears("ended look reported").await;
    show.close().await;
}

#[tokio::test]
async fn item_of_an_event_is_retried_after_a_crash_but_not_after_a_verdict_or_a_stop() {
    let stage = Stage::new(vec![every("look", "")]).await;
    stage.troop.troupe.play("look", Play::Hang);
    let show = stage.open().await;
    let _ = show.daemon.signal(event(&stage, "d1")).await.expect("kept");
    stage.troop.troupe.begun_times(1).await;
    show.die().await;
    let mut show = stage.open().await;
    show.ear.hears("started look again:").await;
    let rounds = show.rounds().await;
    let second = rounds.iter().find(|round| round.occurrence.starts_with("again:")).expect("it is on record");
    assert!(show.daemon.cancel(&second.id, "enough").await.expect("it is at work"));
    show.ear.hears("ended look cancelled").await;
    show.settled().await;
    assert_eq!(show.rounds().await.len(), 2, "a person cancelled it");
    assert_eq!(show.engine.store().pending_signals(9).await.expect("signals"), []);
    show.close().await;
}
