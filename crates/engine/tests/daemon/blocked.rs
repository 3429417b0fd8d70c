//! Approved items whose receiver accepts nothing: the daemon sends them again by itself, ever more slowly, and once.

use crate::common::mending;
use crate::store::{Faults, mended};
use crate::world::*;
use loopwright::proc::CancelToken;
use loopwright::round::{DeliveryOutlet, LoopBindings};
use loopwright::seam::{Seam, SeamHook};
use loopwright::{BoxFuture, Engine, EngineSettings, LoopLevel, RoundReport};
use loopwright_core::deliver::{Deliver, DeliverError, Delivery, DeliveryLookup, DeliveryReceipt};
use loopwright_core::outcome::RoundOutcome;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::sync::Notify;

/// A receiver that a person has to repair.
#[derive(Default)]
struct BrokenReceiver {
    is_repaired: AtomicBool,
    calls: AtomicUsize,
    arrived: AtomicUsize,
}

impl Deliver for BrokenReceiver {
    fn deliver<'a>(&'a self, _: &'a Delivery) -> BoxFuture<'a, Result<DeliveryReceipt, DeliverError>> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let answer = match self.is_repaired.load(Ordering::SeqCst) {
            true => {
                self.arrived.fetch_add(1, Ordering::SeqCst);
                Ok(DeliveryReceipt { place: "there".to_owned(), head: None, at_ms: T0, note: None })
            }
            false => Err(DeliverError::blocked("the token is not valid")),
        };
        Box::pin(std::future::ready(answer))
    }

    fn find<'a>(&'a self, _: &'a Delivery) -> BoxFuture<'a, Result<DeliveryLookup, DeliverError>> {
        Box::pin(std::future::ready(Ok(DeliveryLookup::No)))
    }
}

/// A loop whose candidate waits, with a receiver.
async fn waiting_stage(receiver: Arc<dyn Deliver>) -> Stage {
    let mut spec = mending(LoopLevel::L2Assisted);
    spec.name = "look".to_owned();
    let stage = Stage::new(vec![spec]).await;
    stage.troop.send_to(DeliveryOutlet::Deliver(receiver));
    stage
}

/// Runs the loop to its question and approves the candidate.
async fn approve(stage: &Stage, show: &mut Show) -> RoundReport {
    let bind = LoopBindings { agents: mended(), ..stage.troop.bindings() };
    let request = stage.troop.request("look");
    let asked = show.engine.run(request, &bind, &CancelToken::new()).await.expect("a round");
    assert_eq!(asked.outcome, Some(RoundOutcome::Escalated), "{asked:?}");
    show.ear.hears("ended look escalated").await;
    let candidate = asked.candidate.clone().expect("a candidate");
    show.engine.approve(&asked.round, &candidate, "ada", &bind).await.expect("it is kept")
}

/// A receiver that creates the item, fails at a second step, and then does not accept its token any more.
#[derive(Default)]
struct PartialReceiver {
    is_created: AtomicBool,
}

impl Deliver for PartialReceiver {
    fn deliver<'a>(&'a self, _: &'a Delivery) -> BoxFuture<'a, Result<DeliveryReceipt, DeliverError>> {
        self.is_created.store(true, Ordering::SeqCst);
        Box::pin(std::future::ready(Err(DeliverError::transient("the labels failed").after_effect())))
    }

    fn find<'a>(&'a self, _: &'a Delivery) -> BoxFuture<'a, Result<DeliveryLookup, DeliverError>> {
        let answer = match self.is_created.load(Ordering::SeqCst) {
            true => Err(DeliverError::blocked("the token is not valid")),
            false => Ok(DeliveryLookup::No),
        };
        Box::pin(std::future::ready(answer))
    }
}

#[tokio::test]
async fn item_whose_create_succeeded_before_a_later_call_blocked_may_have_been_sent() {
    let stage = waiting_stage(Arc::new(PartialReceiver::default())).await;
    let mut show = stage.open().await;
    let kept = approve(&stage, &mut show).await;
    let reasons: Vec<_> = kept.reasons.iter().map(|reason| reason.text.as_str()).collect();
    let outbox = show.engine.store().outbox(&kept.round).await.expect("rows");
    let states: Vec<_> = outbox.iter().map(|row| row.state.word()).collect();
    assert!(
        reasons.iter().any(|text| text.contains("may have been sent")) || states.contains(&"in-doubt"),
        "{reasons:?} {states:?}"
    );
    show.close().await;
}

#[tokio::test]
async fn resend_that_fails_before_it_begins_is_tried_again_without_a_restart() {
    let receiver = Arc::new(BrokenReceiver::default());
    let stage = waiting_stage(Arc::clone(&receiver) as Arc<dyn Deliver>).await;
    let faults = Arc::new(Faults::default());
    let hook = Arc::clone(&faults) as Arc<dyn SeamHook>;
    let mut show = stage.open_with(EngineSettings { seam: Seam::hooked(hook), ..stage.settings() }).await;
    approve(&stage, &mut show).await;
    show.settled().await;
    receiver.is_repaired.store(true, Ordering::SeqCst);
    // The round does not leave its waiting phase.
    faults.before.store(1, Ordering::SeqCst);
    stage.at(MINUTE);
    show.ear.hears("parked look").await;
    assert_eq!(receiver.calls.load(Ordering::SeqCst), 1);
    stage.at(2 * HOUR);
    show.ear.hears("ended look shipped").await;
    assert_eq!(receiver.arrived.load(Ordering::SeqCst), 1);
    show.close().await;
}

/// A receiver that can never take the item.
#[derive(Default)]
struct PoisonedReceiver {
    calls: AtomicUsize,
}

impl Deliver for PoisonedReceiver {
    fn deliver<'a>(&'a self, _: &'a Delivery) -> BoxFuture<'a, Result<DeliveryReceipt, DeliverError>> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(Err(DeliverError::failed("this text breaks the receiver"))))
    }

    fn find<'a>(&'a self, _: &'a Delivery) -> BoxFuture<'a, Result<DeliveryLookup, DeliverError>> {
        Box::pin(std::future::ready(Ok(DeliveryLookup::No)))
    }
}

#[tokio::test]
async fn item_that_its_receiver_can_never_take_is_quarantined_after_three_attempts() {
    let receiver = Arc::new(PoisonedReceiver::default());
    let stage = waiting_stage(Arc::clone(&receiver) as Arc<dyn Deliver>).await;
    let mut show = stage.open().await;
    let ended = approve(&stage, &mut show).await;
    let outbox = show.engine.store().outbox(&ended.round).await.expect("rows");
    let states: Vec<_> = outbox.iter().map(|row| row.state.word()).collect();
    assert_eq!(
        (states.as_slice(), receiver.calls.load(Ordering::SeqCst)),
        (["quarantined"].as_slice(), 3),
        "{ended:?}"
    );
    show.settled().await;
    stage.at(3 * HOUR);
    show.settled().await;
    assert_eq!(receiver.calls.load(Ordering::SeqCst), 3, "it is not tried again");
    show.close().await;
}

/// A receiver that is blocked twice, and takes its time at the second call.
#[derive(Default)]
struct HeldReceiver {
    calls: AtomicUsize,
    has_second: Notify,
    release: Notify,
}

impl Deliver for HeldReceiver {
    fn deliver<'a>(&'a self, _: &'a Delivery) -> BoxFuture<'a, Result<DeliveryReceipt, DeliverError>> {
        Box::pin(async move {
            let earlier = self.calls.fetch_add(1, Ordering::SeqCst);
            if earlier == 1 {
                self.has_second.notify_one();
                self.release.notified().await;
            }
            match earlier {
                0 | 1 => Err(DeliverError::blocked("the token is not valid")),
                _ => Ok(DeliveryReceipt { place: "there".to_owned(), head: None, at_ms: T0, note: None }),
            }
        })
    }

    fn find<'a>(&'a self, _: &'a Delivery) -> BoxFuture<'a, Result<DeliveryLookup, DeliverError>> {
        Box::pin(std::future::ready(Ok(DeliveryLookup::No)))
    }
}

#[tokio::test]
async fn resend_beside_another_process_that_sends_is_tried_again_without_a_restart() {
    let receiver = Arc::new(HeldReceiver::default());
    let stage = waiting_stage(Arc::clone(&receiver) as Arc<dyn Deliver>).await;
    let mut show = stage.open().await;
    let kept = approve(&stage, &mut show).await;
    let candidate = kept.candidate.clone().expect("a candidate");
    show.settled().await;
    let elsewhere = Engine::open(stage.settings()).await.expect("the store is shared");
    let bind = LoopBindings { agents: mended(), ..stage.troop.bindings() };
    let here = async {
        receiver.has_second.notified().await;
        stage.at(MINUTE);
        // The other process has the round.
        show.ear.hears("ended look -").await;
        receiver.release.notify_one();
    };
    let (again, ()) = tokio::join!(elsewhere.approve(&kept.round, &candidate, "ada", &bind), here);
    assert_eq!(again.expect("it is kept").outcome, Some(RoundOutcome::Escalated));
    elsewhere.close().await.expect("closed");
    stage.at(2 * MINUTE);
    show.ear.hears("ended look shipped").await;
    assert_eq!(receiver.calls.load(Ordering::SeqCst), 3);
    show.close().await;
}

#[tokio::test]
async fn blocked_items_are_sent_by_themselves_after_the_repair_also_after_a_restart() {
    let receiver = Arc::new(BrokenReceiver::default());
    let stage = waiting_stage(Arc::clone(&receiver) as Arc<dyn Deliver>).await;
    let mut show = stage.open().await;
    let blocked = approve(&stage, &mut show).await;
    assert_eq!((blocked.outcome, receiver.calls.load(Ordering::SeqCst)), (Some(RoundOutcome::Escalated), 1));

    stage.at(MINUTE - 1);
    show.settled().await;
    assert_eq!(receiver.calls.load(Ordering::SeqCst), 1, "not before a minute");
    stage.at(MINUTE);
    show.ear.hears("ended look escalated").await;
    show.settled().await;
    assert_eq!(receiver.calls.load(Ordering::SeqCst), 2);
    show.close().await;

    receiver.is_repaired.store(true, Ordering::SeqCst);
    let mut show = stage.open().await;
    stage.at(3 * MINUTE - 1);
    show.settled().await;
    assert_eq!(receiver.calls.load(Ordering::SeqCst), 2, "the wait doubles");
    stage.at(3 * MINUTE);
    show.ear.hears("ended look shipped").await;
    show.settled().await;
    stage.at(10 * MINUTE);
    show.settled().await;
    assert_eq!((receiver.calls.load(Ordering::SeqCst), receiver.arrived.load(Ordering::SeqCst)), (3, 1));
    show.close().await;
}
