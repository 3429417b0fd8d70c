//! How one item is delivered: look for it first, act once, and when the answer is lost, look again. It keeps no state: the
//! caller makes the claim durable before and the receipt after.

use crate::seam::{Seam, SeamFault};
use loopwright_core::deliver::{Deliver, DeliverError, DeliverErrorKind, Delivery, Found, Receipt};

/// What is known about earlier tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prior {
    /// This item was never claimed before.
    Fresh,
    /// A claim stands, or a try went wrong: the item may be there.
    MaybeSent,
}

/// How a delivery ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is there.
    Sent(Receipt),
    /// It may be there and nobody can tell but a human.
    InDoubt(String),
    /// Policy or the forge says no; it is not there.
    Refused(String),
    /// It is not there; another try, which must know of this one, may work.
    Retry(String),
}

/// Delivers one item whose claim is already durable.
pub async fn deliver_one(deliver: &dyn Deliver, seam: &Seam, item: &Delivery, prior: Prior) -> Verdict {
    match (look(deliver, seam, item).await, prior) {
        (Ok(Found::Yes(receipt)), _) => Verdict::Sent(receipt),
        (Ok(Found::No), _) | (Ok(Found::Unknown), Prior::Fresh) => act(deliver, seam, item).await,
        (Ok(Found::Unknown), Prior::MaybeSent) => {
            Verdict::InDoubt("an earlier try may have arrived, and the forge cannot tell".to_owned())
        }
        (Err(error), _) if error.kind == DeliverErrorKind::Refused => Verdict::Refused(error.text),
        (Err(error), _) => Verdict::Retry(error.text),
    }
}

async fn act(deliver: &dyn Deliver, seam: &Seam, item: &Delivery) -> Verdict {
    if let Err(fault) = seam.before("deliver.execute") {
        return Verdict::Retry(fault.to_string());
    }
    let answer = match deliver.deliver(item).await {
        Ok(receipt) => seam.after("deliver.execute").map(|()| receipt).map_err(lost),
        Err(error) => Err(error),
    };
    match answer {
        Ok(receipt) => Verdict::Sent(receipt),
        Err(error) => match error.kind {
            DeliverErrorKind::Refused => Verdict::Refused(error.text),
            DeliverErrorKind::Transient | DeliverErrorKind::Failed => Verdict::Retry(error.text),
            DeliverErrorKind::InDoubt => reconcile(deliver, seam, item, error.text).await,
        },
    }
}

/// The answer was lost: only the forge knows whether the item arrived.
async fn reconcile(deliver: &dyn Deliver, seam: &Seam, item: &Delivery, why: String) -> Verdict {
    match look(deliver, seam, item).await {
        Ok(Found::Yes(receipt)) => Verdict::Sent(receipt),
        Ok(Found::No) => Verdict::Retry(why),
        Ok(Found::Unknown) => Verdict::InDoubt(why),
        Err(error) => Verdict::InDoubt(format!("{why}; then looking for it: {}", error.text)),
    }
}

async fn look(deliver: &dyn Deliver, seam: &Seam, item: &Delivery) -> Result<Found, DeliverError> {
    let fault = |fault: SeamFault| DeliverError::transient(fault.to_string());
    seam.before("deliver.find").map_err(fault)?;
    let found = deliver.find(item).await?;
    seam.after("deliver.find").map_err(fault)?;
    Ok(found)
}

fn lost(fault: SeamFault) -> DeliverError {
    DeliverError::in_doubt(fault.to_string())
}
