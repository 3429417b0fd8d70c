//! The protocol of one delivery: look for the item first, act once, and look again when the answer is lost. It is
//! stateless: the caller makes the claim durable before and the receipt after.

use crate::seam::{Seam, SeamFault};
use loopwright_core::deliver::{Deliver, DeliverError, DeliverErrorKind, Delivery, DeliveryLookup, DeliveryReceipt};

/// The history of earlier attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PriorDelivery {
    /// This item was never claimed before.
    Fresh,
    /// The item was claimed, or an attempt failed: it may have been delivered.
    MaybeSent,
}

/// The result of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// The item was delivered.
    Sent(DeliveryReceipt),
    /// The item may have been delivered; only a person can find out.
    InDoubt(String),
    /// The policy or the forge refused it; it was not delivered.
    Refused(String),
    /// The item was not delivered; another attempt, which must know of this one, may succeed.
    Retry(String),
}

/// Delivers one item whose claim is already durable.
pub async fn deliver_one(deliver: &dyn Deliver, seam: &Seam, item: &Delivery, prior: PriorDelivery) -> DeliveryOutcome {
    match (find_delivered(deliver, seam, item).await, prior) {
        (Ok(DeliveryLookup::Yes(receipt)), _) => DeliveryOutcome::Sent(receipt),
        (Ok(DeliveryLookup::No), _) | (Ok(DeliveryLookup::Unknown), PriorDelivery::Fresh) => {
            act(deliver, seam, item).await
        }
        (Ok(DeliveryLookup::Unknown), PriorDelivery::MaybeSent) => DeliveryOutcome::InDoubt(
            "an earlier attempt may have been delivered, and the forge cannot confirm it".to_owned(),
        ),
        (Err(error), _) if error.kind == DeliverErrorKind::Refused => DeliveryOutcome::Refused(error.text),
        (Err(error), _) => DeliveryOutcome::Retry(error.text),
    }
}

async fn act(deliver: &dyn Deliver, seam: &Seam, item: &Delivery) -> DeliveryOutcome {
    if let Err(fault) = seam.before("deliver.execute") {
        return DeliveryOutcome::Retry(fault.to_string());
    }
    let answer = match deliver.deliver(item).await {
        Ok(receipt) => seam.after("deliver.execute").map(|()| receipt).map_err(lost),
        Err(error) => Err(error),
    };
    match answer {
        Ok(receipt) => DeliveryOutcome::Sent(receipt),
        Err(error) => match error.kind {
            DeliverErrorKind::Refused => DeliveryOutcome::Refused(error.text),
            DeliverErrorKind::Transient | DeliverErrorKind::Blocked | DeliverErrorKind::Failed => {
                DeliveryOutcome::Retry(error.text)
            }
            DeliverErrorKind::InDoubt => reconcile(deliver, seam, item, error.text).await,
        },
    }
}

/// The answer was lost: only the forge knows whether the item arrived.
async fn reconcile(deliver: &dyn Deliver, seam: &Seam, item: &Delivery, why: String) -> DeliveryOutcome {
    match find_delivered(deliver, seam, item).await {
        Ok(DeliveryLookup::Yes(receipt)) => DeliveryOutcome::Sent(receipt),
        Ok(DeliveryLookup::No) => DeliveryOutcome::Retry(why),
        Ok(DeliveryLookup::Unknown) => DeliveryOutcome::InDoubt(why),
        Err(error) => DeliveryOutcome::InDoubt(format!("{why}; then the lookup failed: {}", error.text)),
    }
}

async fn find_delivered(deliver: &dyn Deliver, seam: &Seam, item: &Delivery) -> Result<DeliveryLookup, DeliverError> {
    let fault = |fault: SeamFault| DeliverError::transient(fault.to_string());
    seam.before("deliver.find").map_err(fault)?;
    let found = deliver.find(item).await?;
    seam.after("deliver.find").map_err(fault)?;
    Ok(found)
}

fn lost(fault: SeamFault) -> DeliverError {
    DeliverError::in_doubt(fault.to_string())
}
