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

impl PriorDelivery {
    /// The history after an attempt that failed. A doubt stays until a look-up or a receipt settles it.
    #[must_use]
    pub fn after(self, error: &DeliverError) -> Self {
        if error.is_after_effect { Self::MaybeSent } else { self }
    }
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
    /// The receiver accepts nothing until a person fixes the access to it; the item was not delivered as a whole.
    Blocked(DeliverError),
    /// The item may have been delivered, and the lookup failed; another lookup may find out.
    Lost(DeliverError),
    /// The item was not delivered as a whole; another attempt, which must know of this one, may succeed.
    Retry(DeliverError),
}

impl DeliveryOutcome {
    /// The outcome of an error whose answer was not lost.
    pub(crate) fn from_error(error: DeliverError) -> Self {
        match error.kind {
            DeliverErrorKind::Refused => Self::Refused(error.text),
            DeliverErrorKind::Blocked => Self::Blocked(error),
            DeliverErrorKind::Transient | DeliverErrorKind::Failed | DeliverErrorKind::InDoubt => Self::Retry(error),
        }
    }
}

/// Delivers one item whose claim is already durable.
pub async fn deliver_one(deliver: &dyn Deliver, seam: &Seam, item: &Delivery, prior: PriorDelivery) -> DeliveryOutcome {
    match (find_delivered(deliver, seam, item).await, prior) {
        (Ok(DeliveryLookup::Yes(receipt)), _) => DeliveryOutcome::Sent(receipt),
        (Ok(DeliveryLookup::No), _) | (Ok(DeliveryLookup::Unknown), PriorDelivery::Fresh) => {
            act(deliver, seam, item, prior).await
        }
        (Ok(DeliveryLookup::Unknown), PriorDelivery::MaybeSent) => DeliveryOutcome::InDoubt(
            "an earlier attempt may have been delivered, and the forge cannot confirm it".to_owned(),
        ),
        // A lookup that is refused says nothing about the earlier attempt.
        (Err(error), PriorDelivery::MaybeSent) if error.kind == DeliverErrorKind::Refused => {
            DeliveryOutcome::InDoubt(error.text)
        }
        (Err(error), PriorDelivery::MaybeSent) => DeliveryOutcome::Lost(error),
        (Err(error), PriorDelivery::Fresh) => DeliveryOutcome::from_error(error),
    }
}

async fn act(deliver: &dyn Deliver, seam: &Seam, item: &Delivery, prior: PriorDelivery) -> DeliveryOutcome {
    if let Err(fault) = seam.before("deliver.execute") {
        return DeliveryOutcome::Retry(DeliverError::transient(fault.to_string()));
    }
    let answer = match deliver.deliver(item).await {
        Ok(receipt) => seam.after("deliver.execute").map(|()| receipt).map_err(lost),
        Err(error) => Err(error),
    };
    match answer {
        Ok(receipt) => DeliveryOutcome::Sent(receipt),
        Err(error) if error.kind == DeliverErrorKind::InDoubt => reconcile(deliver, seam, item, error).await,
        Err(error) if error.kind == DeliverErrorKind::Refused => refused(deliver, seam, item, prior, error).await,
        Err(error) => DeliveryOutcome::from_error(error),
    }
}

/// A refusal is final, unless something of the item may be visible: a part of it, or all of it by an earlier attempt
/// that a forge shows late, and whose repetition it refuses.
async fn refused(
    deliver: &dyn Deliver,
    seam: &Seam,
    item: &Delivery,
    prior: PriorDelivery,
    error: DeliverError,
) -> DeliveryOutcome {
    let text = match (error.is_after_effect, prior) {
        (false, PriorDelivery::Fresh) => return DeliveryOutcome::Refused(error.text),
        (true, _) => format!("a part of it may be visible; the rest was refused: {}", error.text),
        (false, PriorDelivery::MaybeSent) => {
            format!("an earlier attempt may have been delivered, and this one was refused: {}", error.text)
        }
    };
    match find_delivered(deliver, seam, item).await {
        Ok(DeliveryLookup::Yes(receipt)) => DeliveryOutcome::Sent(receipt),
        Ok(DeliveryLookup::No | DeliveryLookup::Unknown) | Err(_) => DeliveryOutcome::InDoubt(text),
    }
}

/// The answer was lost: only the forge knows whether the item arrived.
async fn reconcile(deliver: &dyn Deliver, seam: &Seam, item: &Delivery, lost: DeliverError) -> DeliveryOutcome {
    match find_delivered(deliver, seam, item).await {
        Ok(DeliveryLookup::Yes(receipt)) => DeliveryOutcome::Sent(receipt),
        // A forge may show the item later.
        Ok(DeliveryLookup::No) => DeliveryOutcome::Retry(DeliverError::transient(lost.text).after_effect()),
        Ok(DeliveryLookup::Unknown) => DeliveryOutcome::InDoubt(lost.text),
        Err(error) => {
            let text = format!("{}; then the lookup failed: {}", lost.text, error.text);
            DeliveryOutcome::Lost(DeliverError { text, ..error })
        }
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
