//! The receiver of an item: a messenger, the local forge, the forge that the loop names, or the embedder's own. Every
//! receiver is behind a [`SendPermit`].

use super::StageError;
use super::bindings::DeliveryOutlet;
use super::context::RoundContext;
use super::money::RoundBudget;
use super::send_permit::{PermittedDeliver, SendPermit};
use crate::outbox::{ConnectedForge, LocalForge, PushRoute, PushingDeliver, connect_forge};
use loopwright_core::deliver::{Deliver, DeliverError};
use loopwright_core::forge::ReadForge;
use loopwright_core::outbox::StagedItem;
use loopwright_core::round::{RoundFacts, Stage};
use loopwright_core::spec::LoopSpec;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long an item is sent in a round without a wall time.
const PATIENCE: Duration = Duration::from_secs(30 * 60);

/// How long an item is sent at least, unless the round's whole wall time is shorter.
const PATIENCE_MIN: Duration = Duration::from_secs(2 * 60);

/// The receiver of an item.
pub(super) struct ItemReceiver {
    pub(super) deliver: PushingDeliver,
    permitted: Arc<PermittedDeliver>,
    /// Until when an unavailable receiver is retried; `None` on this machine, where waiting does not help.
    pub(super) deadline_ms: Option<i64>,
    /// The end of the round's wall time: no attempt lasts longer.
    pub(super) ends: Instant,
}

impl ItemReceiver {
    /// Whether an attempt may have had an effect.
    pub(super) fn has_begun(&self) -> bool {
        self.permitted.has_begun()
    }
}

/// Why an item has no receiver.
pub(super) enum NoReceiver {
    /// The loop has no outlet, or the item is not for the forge that the configuration names now.
    Refused(String),
    /// It cannot be connected now.
    Blocked(String),
}

/// A receiver, the forge behind it for reading, and the only place of its pushes.
type PlaceParts = (Arc<dyn Deliver>, Option<Arc<dyn ReadForge>>, Option<PushRoute>);

/// The place where an item goes.
enum ItemPlace {
    Messenger(Arc<dyn Deliver>),
    Local(Arc<LocalForge>),
    Remote(ConnectedForge),
    Embedder(Arc<dyn Deliver>),
}

pub(super) async fn receiver(
    cx: &RoundContext<'_>,
    facts: &RoundFacts,
    budget: &RoundBudget,
    item: &StagedItem,
) -> Result<Result<ItemReceiver, NoReceiver>, StageError> {
    let spec = &facts.started.spec;
    let place = match place(cx, facts, item).await? {
        Ok(place) => place,
        Err(none) => return Ok(Err(none)),
    };
    let is_remote = matches!(place, ItemPlace::Messenger(_) | ItemPlace::Remote(_));
    let (inner, read, route): PlaceParts = match place {
        ItemPlace::Messenger(deliver) | ItemPlace::Embedder(deliver) => (deliver, None, None),
        ItemPlace::Local(forge) => (Arc::clone(&forge) as Arc<dyn Deliver>, Some(forge), None),
        ItemPlace::Remote(ConnectedForge { deliver, read, route }) => (deliver, Some(read), Some(route)),
    };
    let room = read.map(|forge| (spec.open_max, forge));
    let permit = SendPermit { engine: cx.engine.clone(), cancel: cx.cancel.clone(), room };
    let permitted = Arc::new(PermittedDeliver::new(inner, permit));
    let leases = Some(Arc::clone(&cx.engine.store));
    let pushing = PushingDeliver::new(Arc::clone(&permitted) as Arc<dyn Deliver>, cx.objects().clone(), leases);
    let deliver = match route {
        Some(route) => pushing.with_route(route),
        None => pushing,
    };
    let patience = sending_time(budget.wall_left(spec), spec);
    let patience_ms = i64::try_from(patience.as_millis()).unwrap_or(i64::MAX);
    let deadline_ms = is_remote.then(|| cx.engine.now_ms().saturating_add(patience_ms));
    Ok(Ok(ItemReceiver { deliver, permitted, deadline_ms, ends: Instant::now() + patience }))
}

/// How long an item is sent: the rest of the round's wall time. A round whose agents used the time up still has a part of
/// it for each item: an approved item that is cut off at once would never arrive.
fn sending_time(left: Option<Duration>, spec: &LoopSpec) -> Duration {
    let Some(left) = left else { return PATIENCE };
    let whole = spec.timeout.or(spec.budget.round.wall).map_or(PATIENCE, |wall| wall.duration());
    left.max(whole.min(PATIENCE_MIN))
}

async fn place(
    cx: &RoundContext<'_>,
    facts: &RoundFacts,
    item: &StagedItem,
) -> Result<Result<ItemPlace, NoReceiver>, StageError> {
    let blocked = |error: DeliverError| Ok(Err(NoReceiver::Blocked(error.text)));
    match &cx.bind.outlet {
        DeliveryOutlet::Deliver(deliver) => return Ok(Ok(ItemPlace::Embedder(Arc::clone(deliver)))),
        DeliveryOutlet::ApprovalOnly => {
            return Ok(Err(NoReceiver::Refused("no action executor is configured".to_owned())));
        }
        DeliveryOutlet::LocalForge | DeliveryOutlet::NamedForge => {}
    }
    // Only an output that the loop file names goes to a messenger; the local forge keeps every other message as a file.
    let forges = cx.engine.settings.forges.as_ref().filter(|_| facts.started.spec.outputs(item.kind));
    match forges.map_or(Ok(None), |forges| forges.messenger(item)) {
        Ok(Some(messenger)) => return Ok(Ok(ItemPlace::Messenger(messenger))),
        Ok(None) => {}
        Err(error) => return blocked(error),
    }
    if matches!(cx.bind.outlet, DeliveryOutlet::LocalForge) {
        let folder = cx.engine.state_dir.forge(&cx.repo.id);
        let forge = LocalForge::open(&folder, cx.objects().clone(), Arc::clone(&cx.engine.settings.clock)).await;
        let forge = forge.map_err(|error| StageError::broke(Stage::Send, "forge", &error))?;
        return Ok(Ok(ItemPlace::Local(Arc::new(forge))));
    }
    if let Some(text) = changed_destination(cx, facts).await {
        return Ok(Err(NoReceiver::Refused(text)));
    }
    match connect_forge(cx.engine, &facts.started.spec, &cx.repo.work_tree).await {
        Ok(forge) => Ok(Ok(ItemPlace::Remote(forge))),
        Err(error) => blocked(error),
    }
}

/// The forge and the repository that the configuration names for a loop: what an approval binds besides tree and items.
/// `None` if the loop's forge is not in the configuration.
pub(super) async fn destination(cx: &RoundContext<'_>, spec: &LoopSpec) -> Option<String> {
    let forges = cx.engine.settings.forges.as_ref()?;
    if !matches!(cx.bind.outlet, DeliveryOutlet::NamedForge) {
        return None;
    }
    let origin = crate::outbox::origin_url(cx.engine, &cx.repo.work_tree).await;
    forges.destination(&spec.forge, origin.as_deref())
}

/// The reason why an approval does not hold any more: the configuration names another place than at the seal.
async fn changed_destination(cx: &RoundContext<'_>, facts: &RoundFacts) -> Option<String> {
    let sealed = facts.destination.as_ref()?;
    let now = destination(cx, &facts.started.spec).await?;
    (now != *sealed).then(|| {
        format!(
            "the approval is stale: it is for {sealed}, and the configuration now names {now}; run the loop again to \
             propose the change there"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use loopwright_core::units::TimeSpan;

    #[test]
    fn used_up_wall_time_leaves_time_for_the_delivery() {
        let second = Duration::from_secs(1);
        let time = |wall: Option<u64>, left: Option<u64>| {
            let mut spec = LoopSpec::default();
            spec.budget.round.wall = wall.map(TimeSpan::secs);
            sending_time(left.map(Duration::from_secs), &spec)
        };
        assert_eq!(time(None, None), PATIENCE);
        assert_eq!(time(Some(1800), Some(1000)), 1000 * second);
        assert_eq!(time(Some(1800), Some(0)), PATIENCE_MIN);
        assert_eq!(time(Some(3), Some(0)), 3 * second);
    }
}
