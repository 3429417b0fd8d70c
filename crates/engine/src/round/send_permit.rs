//! The permission to act on a receiver, checked at the last moment: right before a push, and between the push and the
//! create. A stop that arrives after the push prevents the create.

use crate::daemon::open_proposals;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::probe::read_forge;
use crate::proc::CancelToken;
use crate::round::{DeliveryOutlet, LoopBindings};
use crate::store::{LeaseHolder, StoreError};
use loopwright_core::BoxFuture;
use loopwright_core::deliver::{
    Deliver, DeliverError, Delivery, DeliveryLookup, DeliveryReceipt, PushTarget, WorkLookup,
};
use loopwright_core::dispatch::LoopKey;
use loopwright_core::forge::{ForgeError, ItemQuery, ReadForge, count_open_pulls, read_rows};
use loopwright_core::spec::{ActionKind, LoopSpec};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The most open pull requests that are counted; `open_max` is at most 1,000.
const COUNTED_MAX: NonZeroUsize = NonZeroUsize::new(1_001).expect("it is not zero");

/// The conditions under which a round may act on a receiver.
pub(super) struct SendPermit {
    pub(super) engine: Engine,
    pub(super) cancel: CancelToken,
    /// The number of open pull requests that the loop may have, and the forge that has them.
    pub(super) room: Option<(u32, Arc<dyn ReadForge>)>,
}

impl SendPermit {
    async fn check(&self, item: &Delivery) -> Result<(), DeliverError> {
        if let Some(text) = stop_reason(&self.engine, &self.cancel).await.map_err(|error| unreadable(&error))? {
            return Err(DeliverError::blocked(text));
        }
        if self.engine.store.is_leased() {
            // A fresh lease: no other process can take the round over while this one sends.
            let _ = self.engine.store.renew().await.map_err(|error| unreadable(&error))?;
        }
        let leases = self.engine.store.leases().await.map_err(|error| unreadable(&error))?;
        if !leases.iter().any(|lease| lease.name == item.round && lease.holder == LeaseHolder::Ours) {
            // The next write of this process is refused, and the round belongs to the other one.
            return Err(DeliverError::transient("another process has taken over the round"));
        }
        match &self.room {
            Some((open_max, forge)) if item.item.kind == ActionKind::PullRequest => {
                self.check_room(item, *open_max, forge.as_ref()).await
            }
            _ => Ok(()),
        }
    }

    /// Counts the loop's pull requests that are open, and those that other rounds of the loop are sending right now.
    async fn check_room(&self, item: &Delivery, open_max: u32, forge: &dyn ReadForge) -> Result<(), DeliverError> {
        let query = ItemQuery { loop_name: Some(item.loop_name.clone()), ..ItemQuery::open() };
        let query = &query;
        let pulls = read_rows(COUNTED_MAX, |from| Box::pin(async move { forge.pulls(query, from.as_ref()).await }));
        let mut others: Vec<String> = pulls.await.map_err(read_failed)?.into_iter().map(|pull| pull.branch).collect();
        let claimed = self.engine.store.outbox_claimed(&item.repo, &item.loop_name).await;
        let claimed = claimed.map_err(|error| unreadable(&error))?;
        let sending = claimed.iter().filter(|row| row.kind == ActionKind::PullRequest && row.round != item.round);
        others.extend(sending.map(|row| format!("loop/{}/{}", row.loop_name, row.round)));
        others.sort_unstable();
        others.dedup();
        others.retain(|branch| *branch != item.branch);
        if others.len() < usize::try_from(open_max).unwrap_or(usize::MAX) {
            return Ok(());
        }
        let open = others.len();
        Err(DeliverError::blocked(format!(
            "the loop has {open} open pull requests, and its `open_max` is {open_max}: it goes out when one is merged or \
             closed"
        )))
    }
}

fn unreadable(error: &dyn std::error::Error) -> DeliverError {
    DeliverError::transient(crate::round::error_chain(error))
}

/// The lease ended during an attempt: this process was frozen, or could not renew it. A request
/// that was sent may still arrive.
fn lapsed() -> DeliverError {
    DeliverError::in_doubt("the lease of the round ended during the attempt".to_owned())
}

fn read_failed(error: ForgeError) -> DeliverError {
    match error {
        ForgeError::Refused(text) => DeliverError::blocked(text),
        ForgeError::Unavailable { text, retry_at_ms } => DeliverError::transient(text).retry_at(retry_at_ms),
    }
}

/// The reason why nothing may be sent: a person stopped everything, or the round was stopped.
pub(super) async fn stop_reason(engine: &Engine, cancel: &CancelToken) -> Result<Option<String>, EngineError> {
    if let Some(stop) = engine.global_stop().await? {
        return Ok(Some(format!("everything is stopped by {}: {}", stop.by, stop.why)));
    }
    let stopped = |why: Option<Arc<str>>| match why {
        Some(why) => format!("the round was stopped: {why}"),
        None => "the round was stopped".to_owned(),
    };
    Ok(cancel.is_cancelled().then(|| stopped(cancel.why())))
}

/// A receiver that is reached only with a permit. It knows whether an effect may have begun.
pub(super) struct PermittedDeliver {
    inner: Arc<dyn Deliver>,
    permit: SendPermit,
    begun: AtomicBool,
}

impl PermittedDeliver {
    pub(super) fn new(inner: Arc<dyn Deliver>, permit: SendPermit) -> Self {
        Self { inner, permit, begun: AtomicBool::new(false) }
    }

    /// Whether an attempt may have had a visible effect. A new branch without its pull request is none.
    pub(super) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::SeqCst)
    }
}

impl Deliver for PermittedDeliver {
    fn deliver<'a>(&'a self, item: &'a Delivery) -> BoxFuture<'a, Result<DeliveryReceipt, DeliverError>> {
        Box::pin(async move {
            self.permit.check(item).await?;
            self.begun.store(true, Ordering::SeqCst);
            let sent = self.permit.engine.store.while_leased(self.inner.deliver(item)).await;
            sent.unwrap_or_else(|| Err(lapsed()))
        })
    }

    fn push_target<'a>(&'a self, item: &'a Delivery) -> BoxFuture<'a, Result<Option<PushTarget>, DeliverError>> {
        Box::pin(async move {
            let target = self.inner.push_target(item).await?;
            if let Some(target) = &target {
                self.permit.check(item).await?;
                self.begun.fetch_or(target.is_visible(item), Ordering::SeqCst);
            }
            Ok(target)
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

/// The number of a loop's proposals, if it has reached `open_max`: pull requests that are open on its forge, and those
/// that wait for a person. `None` if there are fewer, or the loop opens none, or the embedder delivers its outputs.
pub(crate) async fn too_many_open(
    engine: &Engine,
    spec: &LoopSpec,
    bind: &LoopBindings,
    repo_id: &str,
    work_tree: &Path,
) -> Result<Option<u32>, EngineError> {
    let opens = spec.output.iter().any(|output| output.kind == ActionKind::PullRequest);
    let is_forge = matches!(bind.outlet, DeliveryOutlet::LocalForge | DeliveryOutlet::NamedForge);
    if !opens || !is_forge {
        return Ok(None);
    }
    let forge = read_forge(engine, spec, repo_id, work_tree).await.map_err(EngineError::Forge)?;
    let open = count_open_pulls(forge.as_ref(), &spec.name, COUNTED_MAX.get()).await.map_err(EngineError::Forge)?;
    let waiting = waiting_proposals(engine, repo_id, &spec.name).await?;
    let all = u32::try_from(open).unwrap_or(u32::MAX).saturating_add(waiting);
    Ok((all >= spec.open_max).then_some(all))
}

async fn waiting_proposals(engine: &Engine, repo: &str, loop_name: &str) -> Result<u32, StoreError> {
    open_proposals(engine.store.as_ref(), &LoopKey::new(repo, loop_name)).await
}
