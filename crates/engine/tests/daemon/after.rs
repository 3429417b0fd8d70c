//! Loops that follow loops: with provenance, exactly once, and not for ever.

use crate::world::*;
use loopwright::LoopSpec;

fn following(name: &str, leader: &str) -> LoopSpec {
    let mut spec = every(name, "");
    spec.on.after = vec![leader.to_owned()];
    spec
}

#[tokio::test]
async fn the_end_of_one_loop_makes_its_followers_due_with_where_it_comes_from() {
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
async fn a_follower_that_was_not_started_before_a_death_is_started_after_it() {
    let stage = Stage::new(vec![every("first", "every 1h"), following("second", "first")]).await;
    let mut show = stage.open().await;
    stage.at(HOUR);
    // The end of the first and the signal to the second are one transaction, so it cannot be told of one without the other.
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
