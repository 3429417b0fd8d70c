//! Action executors as an outlet: the embedder's executor is called with the idempotency key of each item.

use crate::round::DeliveryOutlet;
use loopwright_core::BoxFuture;
use loopwright_core::deliver::{Deliver, DeliverError, Delivery, DeliveryLookup, DeliveryReceipt};
use loopwright_core::executor::{ActionError, ActionExecutor};
use loopwright_core::human_gate::ProposedAction;
use loopwright_core::spec::LoopSpec;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

/// An executor behind the delivery interface.
pub(crate) struct ExecutorOutlet {
    executor: Arc<dyn ActionExecutor>,
    spec: LoopSpec,
    /// Keys whose last call in this process failed without an effect.
    clean: Mutex<HashSet<String>>,
}

impl ExecutorOutlet {
    pub(crate) fn outlet(executor: Arc<dyn ActionExecutor>, spec: LoopSpec) -> DeliveryOutlet {
        DeliveryOutlet::Deliver(Arc::new(Self { executor, spec, clean: Mutex::default() }))
    }

    fn clean(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        self.clean.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn trouble(&self, key: &str, error: &ActionError) -> DeliverError {
        let text = error.to_string();
        match error {
            ActionError::Refused(_) => DeliverError::refused(text),
            ActionError::Exec(_) => {
                self.clean().insert(key.to_owned());
                DeliverError::transient(text)
            }
            // Covers kinds that are added later too: an effect that cannot be ruled out is in doubt.
            _ => DeliverError::in_doubt(text),
        }
    }
}

impl Deliver for ExecutorOutlet {
    fn deliver<'a>(&'a self, item: &'a Delivery) -> BoxFuture<'a, Result<DeliveryReceipt, DeliverError>> {
        Box::pin(async move {
            let summary = item.item.title.clone().unwrap_or_else(|| self.spec.intent.clone());
            let action = ProposedAction::new(item.item.kind.word(), summary, true);
            self.clean().remove(&item.key);
            match self.executor.execute(&self.spec, &action, &item.key).await {
                Ok(receipt) => {
                    Ok(DeliveryReceipt { place: receipt.summary, head: item.commit.clone(), at_ms: 0, note: None })
                }
                Err(error) => Err(self.trouble(&item.key, &error)),
            }
        })
    }

    /// An executor has no lookup. A call that failed without an effect may be repeated; a call that may have taken
    /// effect before a crash is in doubt and is never repeated blindly.
    fn find<'a>(&'a self, item: &'a Delivery) -> BoxFuture<'a, Result<DeliveryLookup, DeliverError>> {
        let found = if self.clean().contains(&item.key) { DeliveryLookup::No } else { DeliveryLookup::Unknown };
        Box::pin(std::future::ready(Ok(found)))
    }
}
