//! Approved items whose receiver accepts nothing: the daemon sends them again by itself, ever more slowly, and once.

use crate::common::mending;
use crate::store::mended;
use crate::world::*;
use loopwright::proc::CancelToken;
use loopwright::round::{DeliveryOutlet, LoopBindings};
use loopwright::{BoxFuture, LoopLevel};
use loopwright_core::deliver::{Deliver, DeliverError, Delivery, DeliveryLookup, DeliveryReceipt};
use loopwright_core::outcome::RoundOutcome;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

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
                Ok(DeliveryReceipt { place: "there".to_owned(), head: None, at_ms: T0 })
            }
            false => Err(DeliverError::blocked("the token is not valid")),
        };
        Box::pin(std::future::ready(answer))
    }

    fn find<'a>(&'a self, _: &'a Delivery) -> BoxFuture<'a, Result<DeliveryLookup, DeliverError>> {
        Box::pin(std::future::ready(Ok(DeliveryLookup::No)))
    }
}

#[tokio::test]
async fn blocked_items_are_sent_by_themselves_after_the_repair_also_after_a_restart() {
    let mut spec = mending(LoopLevel::L2Assisted);
    spec.name = "look".to_owned();
    let stage = Stage::new(vec![spec]).await;
    let receiver = Arc::new(BrokenReceiver::default());
    stage.troop.send_to(DeliveryOutlet::Deliver(Arc::clone(&receiver) as Arc<dyn Deliver>));
    let mut show = stage.open().await;
    let bind = LoopBindings { agents: mended(), ..stage.troop.bindings() };
    let request = stage.troop.request("look");
    let asked = show.engine.run(request, &bind, &CancelToken::new()).await.expect("a round");
    assert_eq!(asked.outcome, Some(RoundOutcome::Escalated), "{asked:?}");
    show.ear.hears("ended look escalated").await;
    let candidate = asked.candidate.clone().expect("a candidate");
    let blocked = show.engine.approve(&asked.round, &candidate, "ada", &bind).await.expect("it is kept");
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
