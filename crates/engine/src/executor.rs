//! The seed's action executors as an outlet: an embedder's executor is called with the idempotency key of each item.

use crate::round::Outlet;
use loopwright_core::BoxFuture;
use loopwright_core::deliver::{Deliver, DeliverError, Delivery, Found, Receipt};
use loopwright_core::executor::ActionExecutor;
use loopwright_core::human_gate::ProposedAction;
use loopwright_core::spec::LoopSpec;
use std::sync::Arc;

/// An executor behind the delivery interface.
pub(crate) struct ExecutorOutlet {
    executor: Arc<dyn ActionExecutor>,
    spec: LoopSpec,
}

impl ExecutorOutlet {
    pub(crate) fn outlet(executor: Arc<dyn ActionExecutor>, spec: LoopSpec) -> Outlet {
        Outlet::Deliver(Arc::new(Self { executor, spec }))
    }
}

impl Deliver for ExecutorOutlet {
    fn deliver<'a>(&'a self, item: &'a Delivery) -> BoxFuture<'a, Result<Receipt, DeliverError>> {
        Box::pin(async move {
            let summary = item.item.title.clone().unwrap_or_else(|| self.spec.intent.clone());
            let action = ProposedAction::new(item.item.kind.word(), summary, true);
            match self.executor.execute(&self.spec, &action, &item.key).await {
                Ok(receipt) => Ok(Receipt { place: receipt.summary, head: item.commit.clone(), at_ms: 0 }),
                Err(error) => Err(DeliverError::failed(error.to_string())),
            }
        })
    }

    /// An executor cannot be asked; what may have happened before a crash is in doubt, never repeated blindly.
    fn find<'a>(&'a self, _: &'a Delivery) -> BoxFuture<'a, Result<Found, DeliverError>> {
        Box::pin(async { Ok(Found::Unknown) })
    }
}
