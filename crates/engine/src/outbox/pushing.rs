//! Pushes before delivering: the engine pushes the item's commit with a credential that the forge lends, and then
//! passes the item on. A forge never sees the engine's repository.

use super::PushRoute;
use super::push::PassedCommit;
use crate::git::EngineRepo;
use crate::store::Store;
use loopwright_core::BoxFuture;
use loopwright_core::deliver::{
    Deliver, DeliverError, DeliverErrorKind, Delivery, DeliveryLookup, DeliveryReceipt, PushTarget, WorkLookup,
};
use loopwright_core::spec::ActionKind;
use std::sync::Arc;

/// A receiver that pushes an item's commit before it delivers the item.
pub struct PushingDeliver {
    inner: Arc<dyn Deliver>,
    engine: EngineRepo,
    route: Option<PushRoute>,
    leases: Option<Arc<Store>>,
}

impl PushingDeliver {
    /// Pushes from the engine's repository, then delivers to `inner`. A push ends with the leases of `leases`, if
    /// there is such a store: a process that was frozen for longer does not push when it wakes up.
    #[must_use]
    pub fn new(inner: Arc<dyn Deliver>, engine: EngineRepo, leases: Option<Arc<Store>>) -> Self {
        Self { inner, engine, route: None, leases }
    }

    /// The same receiver, which pushes to the place in the user's configuration and to no other.
    #[must_use]
    pub fn with_route(self, route: PushRoute) -> Self {
        Self { route: Some(route), ..self }
    }

    async fn push_leased(&self, item: &Delivery, target: &PushTarget) -> Result<(), DeliverError> {
        let Some(store) = &self.leases else { return self.push(item, target).await };
        let pushed = store.while_leased(self.push(item, target)).await;
        let lapsed = || DeliverError::transient("the lease of the round ended before the push was over");
        // git may have pushed before it was ended.
        pushed.unwrap_or_else(|| Err(maybe_pushed(item, target, lapsed())))
    }

    async fn push(&self, item: &Delivery, target: &PushTarget) -> Result<(), DeliverError> {
        self.check_target(item, target)?;
        let passed = PassedCommit::from_delivery(item, &self.engine).await?;
        // An earlier attempt pushed it but did not deliver.
        if target.expected_old.as_deref() == Some(passed.head().as_str()) {
            return Ok(());
        }
        if item.item.kind == ActionKind::PullRequest {
            passed.record(&self.engine, &target.branch).await?;
        }
        let pushed = passed.push_to(&self.engine, target, self.route.as_ref()).await;
        match pushed {
            // The answer to a push can be lost, and git then repeats the push by itself: the branch shows whether it
            // arrived.
            Err(error) => match self.inner.push_target(item).await {
                Ok(Some(now)) if now.expected_old.as_deref() == Some(passed.head().as_str()) => Ok(()),
                // The item is there as a whole.
                Ok(None) => Ok(()),
                Ok(Some(_)) | Err(_) => Err(maybe_pushed(item, target, error)),
            },
            Ok(()) => Ok(()),
        }
    }

    /// A forge may lend a credential for the item's own branch at the configured place, and for nothing else.
    fn check_target(&self, item: &Delivery, target: &PushTarget) -> Result<(), DeliverError> {
        let branch = match item.item.kind {
            ActionKind::Commit => &item.base_branch,
            _ => &item.branch,
        };
        if target.branch != *branch {
            let text = format!("the forge names the branch `{}`, and the item is for `{branch}`", target.branch);
            return Err(DeliverError::refused(text));
        }
        match &self.route {
            Some(route) if route.url != target.url => {
                Err(DeliverError::refused("the forge names another place for pushes than the configuration"))
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// A push that the forge denied changed nothing; the result of every other failure is unknown.
fn maybe_pushed(item: &Delivery, target: &PushTarget, error: DeliverError) -> DeliverError {
    let is_unknown = matches!(error.kind, DeliverErrorKind::Transient | DeliverErrorKind::InDoubt);
    if target.is_visible(item) && is_unknown { error.after_effect() } else { error }
}

impl Deliver for PushingDeliver {
    fn deliver<'a>(&'a self, item: &'a Delivery) -> BoxFuture<'a, Result<DeliveryReceipt, DeliverError>> {
        Box::pin(async move {
            if let Some(target) = self.inner.push_target(item).await? {
                self.push_leased(item, &target).await?;
                let delivered = self.inner.deliver(item).await;
                return delivered.map_err(|error| if target.is_visible(item) { error.after_effect() } else { error });
            }
            self.inner.deliver(item).await
        })
    }

    fn find<'a>(&'a self, item: &'a Delivery) -> BoxFuture<'a, Result<DeliveryLookup, DeliverError>> {
        self.inner.find(item)
    }

    fn expect_earlier(&self, item: &Delivery) {
        self.inner.expect_earlier(item);
    }

    fn find_work<'a>(&'a self, item: &'a Delivery) -> BoxFuture<'a, Result<WorkLookup, DeliverError>> {
        self.inner.find_work(item)
    }
}
