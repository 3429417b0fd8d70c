//! Pushes before delivering: the engine pushes the item's commit with a credential that the forge lends, and then
//! passes the item on. A forge never sees the engine's repository.

use super::push::{PassedCommit, refused_if_moved};
use crate::git::EngineRepo;
use loopwright_core::BoxFuture;
use loopwright_core::deliver::{Deliver, DeliverError, Delivery, DeliveryLookup, DeliveryReceipt, PushTarget};
use std::sync::Arc;

/// A receiver that pushes an item's commit before it delivers the item.
pub struct PushingDeliver {
    inner: Arc<dyn Deliver>,
    engine: EngineRepo,
}

impl PushingDeliver {
    /// Pushes from the engine's repository, then delivers to `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn Deliver>, engine: EngineRepo) -> Self {
        Self { inner, engine }
    }

    async fn push(&self, item: &Delivery, target: &PushTarget) -> Result<(), DeliverError> {
        let passed = PassedCommit::from_delivery(item, &self.engine).await?;
        // An earlier attempt pushed it but did not deliver.
        if target.expected_old.as_deref() == Some(passed.head().as_str()) {
            return Ok(());
        }
        passed.push_to(&self.engine, target).await.map_err(refused_if_moved)
    }
}

impl Deliver for PushingDeliver {
    fn deliver<'a>(&'a self, item: &'a Delivery) -> BoxFuture<'a, Result<DeliveryReceipt, DeliverError>> {
        Box::pin(async move {
            if let Some(target) = self.inner.push_target(item).await? {
                self.push(item, &target).await?;
            }
            self.inner.deliver(item).await
        })
    }

    fn find<'a>(&'a self, item: &'a Delivery) -> BoxFuture<'a, Result<DeliveryLookup, DeliverError>> {
        self.inner.find(item)
    }
}
