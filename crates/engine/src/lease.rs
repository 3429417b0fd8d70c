//! Leases as the engine uses them: a round is taken before anything is done with it, and given back when that fails; one
//! process schedules. What a lease is, and when one is free, is the store's.

use crate::engine::{Engine, injected};
use crate::error::EngineError;
use crate::live::{Admission, Arrival, By};
use crate::proc::Cancel;
use crate::store::{
    Batch, Change, DISPATCHER, LeaseHolder, LeaseNeeds, LeaseRequest, RoundLease, StoreError, StoreErrorKind,
};
use loopwright_core::dispatch::Claims;
use loopwright_core::round::Started;

impl Engine {
    /// Takes the lease of the one process that schedules, until it is given back or the engine is closed.
    ///
    /// # Errors
    /// [`StoreErrorKind::Held`] names the process that has it.
    pub async fn lease_dispatcher(&self) -> Result<(), EngineError> {
        let (repo, loop_name) = (String::new(), String::new());
        self.take(LeaseRequest { name: DISPATCHER.to_owned(), repo, loop_name, needs: LeaseNeeds::Nothing }).await?;
        Ok(())
    }

    /// Takes a recorded round, so that nobody else writes about it.
    pub(crate) async fn lease_round(&self, started: &Started, needs: LeaseNeeds) -> Result<(), EngineError> {
        let taken = self.take(lease_request(started, needs)).await;
        if taken.is_err() {
            // An answer that was lost may have taken effect.
            self.give_back(&started.round).await;
        }
        taken.map_err(|error| occupied(error, &started.spec.name))
    }

    pub(crate) async fn take(&self, request: LeaseRequest) -> Result<(), StoreError> {
        let seam = &self.settings.seam;
        seam.before("store.lease").map_err(injected)?;
        self.store.append(Batch::of_rows(self.now_ms(), vec![Change::Lease(request)])).await?;
        seam.after("store.lease").map_err(injected)
    }

    /// Gives a lease back after something went wrong. Where that cannot be written, the end of this process frees it.
    pub(crate) async fn give_back(&self, name: &str) {
        let _ = self.store.release(name).await;
    }

    /// The leases that processes have which are not gone.
    pub(crate) async fn living_leases(&self) -> Result<Vec<RoundLease>, StoreError> {
        let mut leases = self.store.leases().await?;
        leases.retain(|lease| lease.holder != LeaseHolder::Gone);
        Ok(leases)
    }

    /// The leases that other processes have which are not gone.
    pub(crate) async fn leases_elsewhere(&self) -> Result<Vec<RoundLease>, StoreError> {
        let mut leases = self.store.leases().await?;
        leases.retain(|lease| lease.holder == LeaseHolder::Other);
        Ok(leases)
    }

    /// Asks for what the round takes, and for the loop's one place where a daemon keeps it. Without one, the leases on record
    /// say what others have; they are asked again in the transaction of the round's birth.
    pub(crate) async fn admit(&self, by: By, arrival: Arrival, cancel: &Cancel) -> Result<Admission, EngineError> {
        match (by, self.live.porter()) {
            // Whoever keeps the places has made room for it before.
            (By::Dispatcher, _) => Ok(Admission { stay: None, items: arrival.items }),
            (By::Hand, Some(porter)) => porter.admit(arrival, cancel).await,
            (By::Hand, None) => {
                let mut leases = self.living_leases().await?;
                leases.retain(|lease| lease.name != arrival.round);
                let in_the_way = |claims: &Claims| leases.iter().find_map(|lease| lease.keeps_from(claims));
                let (_, items) = arrival.settled(in_the_way).map_err(|why| arrival.busy(why))?;
                Ok(Admission { stay: None, items })
            }
        }
    }

    /// What a round about these items takes from others.
    pub(crate) fn needs(&self, by: By, started: &Started, items: &[std::sync::Arc<str>]) -> LeaseNeeds {
        let claims = Claims::of(&started.spec, &started.repo).about(&started.repo, items);
        match by == By::Hand && self.live.porter().is_none() {
            true => LeaseNeeds::Everywhere(claims),
            false => LeaseNeeds::AmongProcesses(claims),
        }
    }
}

pub(crate) fn lease_request(started: &Started, needs: LeaseNeeds) -> LeaseRequest {
    LeaseRequest {
        name: started.round.clone(),
        repo: started.repo.clone(),
        loop_name: started.spec.name.clone(),
        needs,
    }
}

/// A round that another process has, or that is in the way of another, makes its loop busy.
pub(crate) fn occupied(error: StoreError, loop_name: &str) -> EngineError {
    match &error.kind {
        StoreErrorKind::Held(_) | StoreErrorKind::Occupied(_) => {
            EngineError::Busy { loop_name: loop_name.to_owned(), why: error.kind.to_string() }
        }
        _ => error.into(),
    }
}
