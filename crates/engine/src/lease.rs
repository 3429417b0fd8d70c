//! Leases as the engine uses them: the engine leases a round before it works on it, and releases the lease on failure;
//! one process schedules. The store defines what a lease is and when one is free.

use crate::engine::{Engine, injected};
use crate::error::EngineError;
use crate::live_rounds::{AdmissionRequest, AdmittedRound, RoundStarter};
use crate::round::RoundCaller;
use crate::store::{
    LeaseHolder, LeaseNeeds, LeaseRequest, RoundLease, RowChange, StoreBatch, StoreError, StoreErrorKind,
};
use loopwright_core::dispatch::RoundClaims;
use loopwright_core::round::{ProbeItem, RoundStarted};

/// Leases a recorded round, so that no other process writes to it.
pub(crate) async fn lease_round(engine: &Engine, started: &RoundStarted, needs: LeaseNeeds) -> Result<(), EngineError> {
    let taken = take(engine, lease_request(started, needs)).await;
    if taken.is_err() {
        // A call whose answer was lost may have taken effect.
        give_back(engine, &started.round).await;
    }
    taken.map_err(|error| occupied(error, &started.spec.name))
}

pub(crate) async fn take(engine: &Engine, request: LeaseRequest) -> Result<(), StoreError> {
    let seam = &engine.settings.seam;
    seam.before("store.lease").map_err(injected)?;
    engine.store.append(StoreBatch::of_rows(engine.now_ms(), vec![RowChange::Lease(request)])).await?;
    seam.after("store.lease").map_err(injected)
}

/// Releases a lease after a failure. If that cannot be written, the end of this process frees it.
pub(crate) async fn give_back(engine: &Engine, name: &str) {
    let _ = engine.store.release(name).await;
}

/// The leases of other processes that are alive, and of rounds that are offered to workers.
pub(crate) async fn held_elsewhere(engine: &Engine) -> Result<Vec<RoundLease>, StoreError> {
    let mut leases = engine.store.leases().await?;
    leases.retain(|lease| matches!(lease.holder, LeaseHolder::Other | LeaseHolder::Offered));
    Ok(leases)
}

/// Requests the round's claims, and the loop's slot if a daemon manages slots. Without a daemon, the recorded
/// leases show what other rounds hold; the transaction that records the round's start checks them again.
pub(crate) async fn admit(
    engine: &Engine,
    caller: RoundCaller<'_>,
    arrival: AdmissionRequest,
) -> Result<AdmittedRound, EngineError> {
    match (caller.by, engine.live_rounds.admission()) {
        // The dispatcher has already reserved the slot.
        (RoundStarter::Dispatcher, _) => Ok(AdmittedRound { slot: None, items: arrival.items }),
        (RoundStarter::Manual, Some(admission)) => admission.admit(arrival, caller.cancel).await,
        (RoundStarter::Manual, None) => {
            let mut leases = engine.store.leases().await?;
            leases.retain(|lease| lease.holder != LeaseHolder::Gone && lease.name != arrival.round);
            let in_the_way = |claims: &RoundClaims| leases.iter().find_map(|lease| lease.keeps_from(claims));
            let (_, items) = arrival.resolve_items(in_the_way).map_err(|why| arrival.busy_error(why))?;
            Ok(AdmittedRound { slot: None, items })
        }
    }
}

/// The lease that a round with these items needs.
pub(crate) fn needs<'i>(
    engine: &Engine,
    by: RoundStarter,
    started: &RoundStarted,
    items: impl IntoIterator<Item = &'i ProbeItem>,
) -> LeaseNeeds {
    let items: Vec<_> = items.into_iter().map(|item| item.key.as_str().into()).collect();
    let claims = RoundClaims::from_spec(&started.spec, &started.repo).with_items(&started.repo, &items);
    match by == RoundStarter::Manual && engine.live_rounds.admission().is_none() {
        true => LeaseNeeds::Everywhere(claims),
        false => LeaseNeeds::AmongProcesses(claims),
    }
}

pub(crate) fn lease_request(started: &RoundStarted, needs: LeaseNeeds) -> LeaseRequest {
    LeaseRequest {
        name: started.round.clone(),
        repo: started.repo.clone(),
        loop_name: started.spec.name.clone(),
        needs,
    }
}

/// Maps a lease conflict with another round to a busy loop.
pub(crate) fn occupied(error: StoreError, loop_name: &str) -> EngineError {
    match &error.kind {
        StoreErrorKind::Held(_) | StoreErrorKind::Occupied(_) => {
            EngineError::Busy { loop_name: loop_name.to_owned(), why: error.kind.to_string() }
        }
        _ => error.into(),
    }
}
