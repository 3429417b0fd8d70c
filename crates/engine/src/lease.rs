//! Leases as the engine uses them: the engine leases a round before it works on it, and releases the lease on failure;
//! one process schedules. The store defines what a lease is and when one is free.

use crate::engine::{Engine, injected};
use crate::error::EngineError;
use crate::live_rounds::{AdmissionRequest, AdmittedRound, RoundStarter};
use crate::proc::CancelToken;
use crate::store::{
    DISPATCHER, LeaseHolder, LeaseNeeds, LeaseRequest, RoundLease, RowChange, StoreBatch, StoreError, StoreErrorKind,
};
use loopwright_core::dispatch::RoundClaims;
use loopwright_core::round::RoundStarted;

impl Engine {
    /// Takes the lease of the one process that schedules, until it is released or the engine is closed.
    ///
    /// # Errors
    /// [`StoreErrorKind::Held`] names the process that holds it.
    pub async fn lease_dispatcher(&self) -> Result<(), EngineError> {
        let (repo, loop_name) = (String::new(), String::new());
        self.take(LeaseRequest { name: DISPATCHER.to_owned(), repo, loop_name, needs: LeaseNeeds::Nothing }).await?;
        Ok(())
    }

    /// Leases a recorded round, so that no other process writes to it.
    pub(crate) async fn lease_round(&self, started: &RoundStarted, needs: LeaseNeeds) -> Result<(), EngineError> {
        let taken = self.take(lease_request(started, needs)).await;
        if taken.is_err() {
            // A call whose answer was lost may have taken effect.
            self.give_back(&started.round).await;
        }
        taken.map_err(|error| occupied(error, &started.spec.name))
    }

    pub(crate) async fn take(&self, request: LeaseRequest) -> Result<(), StoreError> {
        let seam = &self.settings.seam;
        seam.before("store.lease").map_err(injected)?;
        self.store.append(StoreBatch::of_rows(self.now_ms(), vec![RowChange::Lease(request)])).await?;
        seam.after("store.lease").map_err(injected)
    }

    /// Releases a lease after a failure. If that cannot be written, the end of this process frees it.
    pub(crate) async fn give_back(&self, name: &str) {
        let _ = self.store.release(name).await;
    }

    /// The leases of processes that are alive.
    pub(crate) async fn living_leases(&self) -> Result<Vec<RoundLease>, StoreError> {
        let mut leases = self.store.leases().await?;
        leases.retain(|lease| lease.holder != LeaseHolder::Gone);
        Ok(leases)
    }

    /// The leases of other processes that are alive.
    pub(crate) async fn leases_elsewhere(&self) -> Result<Vec<RoundLease>, StoreError> {
        let mut leases = self.store.leases().await?;
        leases.retain(|lease| lease.holder == LeaseHolder::Other);
        Ok(leases)
    }

    /// Requests the round's claims, and the loop's slot if a daemon manages slots. Without a daemon, the recorded
    /// leases show what other rounds hold; the transaction that records the round's start checks them again.
    pub(crate) async fn admit(
        &self,
        by: RoundStarter,
        arrival: AdmissionRequest,
        cancel: &CancelToken,
    ) -> Result<AdmittedRound, EngineError> {
        match (by, self.live_rounds.admission()) {
            // The dispatcher has already reserved the slot.
            (RoundStarter::Dispatcher, _) => Ok(AdmittedRound { slot: None, items: arrival.items }),
            (RoundStarter::Manual, Some(porter)) => porter.admit(arrival, cancel).await,
            (RoundStarter::Manual, None) => {
                let mut leases = self.living_leases().await?;
                leases.retain(|lease| lease.name != arrival.round);
                let in_the_way = |claims: &RoundClaims| leases.iter().find_map(|lease| lease.keeps_from(claims));
                let (_, items) = arrival.resolve_items(in_the_way).map_err(|why| arrival.busy_error(why))?;
                Ok(AdmittedRound { slot: None, items })
            }
        }
    }

    /// The lease that a round with these items needs.
    pub(crate) fn needs(&self, by: RoundStarter, started: &RoundStarted, items: &[std::sync::Arc<str>]) -> LeaseNeeds {
        let claims = RoundClaims::from_spec(&started.spec, &started.repo).with_items(&started.repo, items);
        match by == RoundStarter::Manual && self.live_rounds.admission().is_none() {
            true => LeaseNeeds::Everywhere(claims),
            false => LeaseNeeds::AmongProcesses(claims),
        }
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
