//! A store that fails: what was decided is not lost, and not done twice.

use crate::world::*;
use loopwright::Settings;
use loopwright::seam::{Moment, Seam, SeamFault, SeamHook};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Makes the next writes fail, before or after they took effect.
#[derive(Default)]
struct Faults {
    before: AtomicU32,
    after: AtomicU32,
}

fn takes_one(count: &AtomicU32) -> bool {
    count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

impl SeamHook for Faults {
    fn hit(&self, moment: Moment, site: &'static str) -> Result<(), SeamFault> {
        let (count, when) = match moment {
            Moment::Before => (&self.before, "before"),
            Moment::After => (&self.after, "after"),
        };
        if site == "store.append" && takes_one(count) { Err(SeamFault { site, when }) } else { Ok(()) }
    }
}

async fn stage() -> (Stage, Arc<Faults>, Show) {
    let stage = Stage::new(vec![every("look", "every 1h")]).await;
    let faults = Arc::new(Faults::default());
    let hook = Arc::clone(&faults) as Arc<dyn SeamHook>;
    let mut show = stage.open_with(Settings { seam: Seam::hooked(hook), ..stage.settings() }).await;
    show.settled().await;
    (stage, faults, show)
}

#[tokio::test]
async fn a_birth_that_cannot_be_written_is_tried_again_and_happens_once() {
    let (stage, faults, mut show) = stage().await;
    faults.before.store(1, Ordering::SeqCst);
    stage.at(HOUR);
    show.ear.hears("not-started look true").await;
    assert!(show.rounds().await.is_empty());
    stage.at(HOUR + MINUTE);
    show.ear.hears("started look due:2026-05-01T01:00:00Z").await;
    show.ear.hears("ended look reported").await;
    show.settled().await;
    assert_eq!((show.fates(&stage.key("look")).await, show.rounds().await.len()), (vec!["60 started".to_owned()], 1));
    show.close().await;
}

#[tokio::test]
async fn a_birth_whose_answer_was_lost_is_found_and_not_made_twice() {
    let (stage, faults, mut show) = stage().await;
    faults.after.store(1, Ordering::SeqCst);
    stage.at(HOUR);
    // The record is asked at once, and the round has its loop's place from then on.
    show.ear.hears("known look due:2026-05-01T01:00:00Z").await;
    show.ear.hears("ended look").await;
    show.settled().await;
    let rounds = show.rounds().await;
    assert_eq!((show.fates(&stage.key("look")).await, rounds.len()), (vec!["60 started".to_owned()], 1));
    assert!(rounds[0].ended_ms.is_some(), "it was taken to its end: {:?}", rounds[0]);
    stage.at(2 * HOUR);
    show.ear.hears("ended look reported").await;
    show.close().await;
}

#[tokio::test]
async fn receipts_that_cannot_be_written_are_written_later_and_once() {
    let (stage, faults, mut show) = stage().await;
    show.daemon.pause(&stage.key("look"), "ada", "a holiday").await.expect("paused");
    faults.before.store(2, Ordering::SeqCst);
    stage.at(HOUR);
    show.ear.hears("unkept").await;
    stage.at(HOUR + 2_000);
    show.ear.hears("unkept").await;
    // The third try succeeds, and its answer is lost: the fourth finds that it is done.
    faults.after.store(1, Ordering::SeqCst);
    stage.at(HOUR + 10_000);
    show.ear.hears("unkept").await;
    stage.at(HOUR + 60_000);
    show.ear.hears("known look due:2026-05-01T01:00:00Z").await;
    show.settled().await;
    assert_eq!(show.fates(&stage.key("look")).await, ["60 paused"]);
    show.close().await;
}
