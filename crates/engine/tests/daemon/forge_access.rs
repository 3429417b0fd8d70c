//! A forge that gives no access at a due time: the occurrence waits until a person has fixed the cause, and then starts.

use crate::common::mending;
use crate::world::*;
use loopwright::outbox::{ConnectedForge, ForgeConnector, PushRoute};
use loopwright::round::DeliveryOutlet;
use loopwright::{BoxFuture, EngineSettings, LoopLevel};
use loopwright_core::deliver::{Deliver, DeliverError, Delivery, DeliveryLookup, DeliveryReceipt};
use loopwright_core::forge::{
    Answer, CheckQuery, CheckRun, CommentsOf, ForgeComment, ForgePage, Issue, ItemQuery, PageToken, PullFile,
    PullRequest, ReadForge,
};
use loopwright_core::outbox::StagedItem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// More than the dispatcher's limit for starts that fail.
const TRIES: i64 = 8;

/// A forge whose token a person has to replace. Behind it, nothing is open.
#[derive(Clone, Default)]
struct LockedForge {
    has_token: Arc<AtomicBool>,
}

fn nothing<'a, T: Send + 'a>() -> Answer<'a, ForgePage<T>> {
    Box::pin(std::future::ready(Ok(ForgePage { rows: Vec::new(), next: None })))
}

impl ReadForge for LockedForge {
    fn pulls<'a>(&'a self, _: &'a ItemQuery, _: Option<&'a PageToken>) -> Answer<'a, ForgePage<PullRequest>> {
        nothing()
    }

    fn branch_pulls<'a>(&'a self, _: &'a str, _: &'a str) -> Answer<'a, Vec<PullRequest>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn issues<'a>(&'a self, _: &'a ItemQuery, _: Option<&'a PageToken>) -> Answer<'a, ForgePage<Issue>> {
        nothing()
    }

    fn checks<'a>(&'a self, _: &'a CheckQuery, _: Option<&'a PageToken>) -> Answer<'a, ForgePage<CheckRun>> {
        nothing()
    }

    fn comments<'a>(&'a self, _: CommentsOf, _: Option<&'a PageToken>) -> Answer<'a, ForgePage<ForgeComment>> {
        nothing()
    }

    fn changed_files(&self, _: u64) -> Answer<'_, Vec<PullFile>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}

impl Deliver for LockedForge {
    fn deliver<'a>(&'a self, _: &'a Delivery) -> BoxFuture<'a, Result<DeliveryReceipt, DeliverError>> {
        Box::pin(std::future::ready(Err(DeliverError::refused("the test sends nothing"))))
    }

    fn find<'a>(&'a self, _: &'a Delivery) -> BoxFuture<'a, Result<DeliveryLookup, DeliverError>> {
        Box::pin(std::future::ready(Ok(DeliveryLookup::No)))
    }
}

impl ForgeConnector for LockedForge {
    fn forge(&self, _: &str, _: Option<&str>) -> Result<ConnectedForge, DeliverError> {
        match self.has_token.load(Ordering::SeqCst) {
            true => {
                let (deliver, read) = (Arc::new(self.clone()), Arc::new(self.clone()));
                Ok(ConnectedForge { deliver, read, route: PushRoute::default() })
            }
            false => Err(DeliverError::blocked("work does not accept the token")),
        }
    }

    fn destination(&self, name: &str, _: Option<&str>) -> Option<String> {
        Some(name.to_owned())
    }

    fn messenger(&self, _: &StagedItem) -> Result<Option<Arc<dyn Deliver>>, DeliverError> {
        Ok(None)
    }
}

#[tokio::test]
async fn due_time_with_a_wrong_token_waits_until_a_person_replaces_the_token() {
    let mut spec = mending(LoopLevel::L2Assisted).with_cadence("every 1h");
    (spec.name, spec.forge) = ("look".to_owned(), "work".to_owned());
    let stage = Stage::new(vec![spec]).await;
    stage.troop.send_to(DeliveryOutlet::NamedForge);
    let forge = LockedForge::default();
    let settings = EngineSettings { forges: Some(Arc::new(forge.clone())), ..stage.settings() };
    let mut show = stage.open_with(settings).await;
    for attempt in 0..TRIES {
        stage.at(HOUR + attempt * 31_000);
        let line = show.ear.hears("not-started look").await;
        assert_eq!(line, "not-started look true work does not accept the token");
    }
    assert_eq!(show.fates(&stage.key("look")).await, Vec::<String>::new(), "the occurrence has no receipt yet");
    forge.has_token.store(true, Ordering::SeqCst);
    stage.at(HOUR + TRIES * 31_000);
    let started = show.ear.hears("started look").await;
    assert_eq!(started, "started look due:2026-05-01T01:00:00Z", "the same occurrence");
    show.ear.hears("ended look").await;
    show.settled().await;
    assert_eq!(show.rounds().await.len(), 1);
    show.close().await;
}
