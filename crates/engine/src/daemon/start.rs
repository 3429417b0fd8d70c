//! The work of one task: a due loop becomes a round and is taken to its rest, or a round of an earlier engine is.

use super::fleet::{Fleet, Prepared, Ready};
use super::keep;
use super::mail::{Mail, Post};
use super::rounds::{Again, Finished};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::live::By;
use crate::probe::Work as Found;
use crate::proc::Cancel;
use crate::round::{DueRecord, RunRequest, chain};
use crate::store::{DISPATCHER, StoreError, StoreErrorKind};
use loopwright_core::budget::Reservation;
use loopwright_core::dispatch::{LoopKey, Start};
use std::sync::Arc;
use std::time::Duration;

/// Who the journal says started a round that was due, and goes on with one.
const ACTOR: &str = "schedule";

/// How often it is looked whether a round that another process is at has come to its rest.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What every task needs.
#[derive(Clone)]
pub(super) struct Work {
    pub(super) engine: Engine,
    pub(super) fleet: Arc<dyn Fleet>,
    pub(super) post: Post,
    pub(super) slot: u64,
    pub(super) cancel: Cancel,
}

impl Work {
    /// A due loop.
    pub(super) async fn start(self, start: Start) -> Finished {
        let stopped = || Finished::Unborn { why: "stopped before it began".to_owned(), again: Again::Soon };
        let prepared = tokio::select! {
            prepared = self.fleet.prepare(&self.engine, &start.key) => prepared,
            // A probe that is being asked ends with the asking.
            () = self.cancel.cancelled() => return stopped(),
        };
        let ready = match prepared {
            Ok(Prepared::Round(ready)) => ready,
            Ok(Prepared::NoWork) => return Finished::NoWork,
            Err(error) => return unborn(error),
        };
        if self.cancel.is_cancelled() {
            return stopped();
        }
        let Ready { engine, bind, mut request } = *ready;
        match engine.too_many_open(&request.spec, &bind, &start.key.repo).await {
            Ok(None) => {}
            Ok(Some(open)) => return Finished::TooManyOpen { open },
            Err(error) => return unborn(error),
        }
        if start.items.is_empty() && request.spec.locks_items() {
            match self.claim(&mut request).await {
                Ok(Claimed::Granted) => {}
                Ok(Claimed::Withheld) => return Finished::Withheld,
                Err(error) => return unborn(error),
            }
        }
        let (key, occurrence) = (start.key.clone(), start.receipt.occurrence.clone());
        let request = due(request, start);
        let mut is_born = false;
        let mut born = |round: &str| {
            is_born = true;
            // Without a daemon there is nobody to tell; the round is on record.
            let _ = self.post.send(Mail::Born { slot: self.slot, round: round.to_owned() });
        };
        match engine.run_by(request, &bind, &self.cancel, By::Dispatcher, &mut born).await {
            Ok(_) => Finished::Rested,
            Err(error) if is_born => left(&error),
            Err(EngineError::Busy { loop_name, why }) => {
                self.look_for_left().await;
                unborn(EngineError::Busy { loop_name, why })
            }
            Err(error) => self.read_back(unborn(error), &key, &occurrence).await,
        }
    }

    /// Rounds that a process beside this one has left are taken to their end, before others of their loops begin.
    async fn look_for_left(&self) {
        // What cannot be read now is looked for at the next try.
        for row in self.engine.abandoned().await.unwrap_or_default() {
            let key = LoopKey::new(&row.repo, &row.loop_name);
            let _ = self.post.send(Mail::LeftOpen { key, round: row.id });
        }
    }

    /// Leaves out items on which rounds of other loops work.
    async fn claim(&self, request: &mut RunRequest) -> Result<Claimed, EngineError> {
        let Some(Found::Items(found)) = &mut request.found else { return Ok(Claimed::Granted) };
        if found.is_empty() {
            return Ok(Claimed::Granted);
        }
        let items = found.iter().map(|item| item.key.as_str().into()).collect();
        match self.post.ask(|reply| Mail::Claim { slot: self.slot, items, reply }).await? {
            Some(granted) => {
                found.retain(|item| granted.iter().any(|key| **key == *item.key));
                Ok(Claimed::Granted)
            }
            None => Ok(Claimed::Withheld),
        }
    }

    /// A birth whose answer was lost may have taken effect: the record says, before it is called lost.
    async fn read_back(&self, told: Finished, key: &LoopKey, occurrence: &str) -> Finished {
        if !matches!(told, Finished::Unborn { again: Again::Soon, .. }) {
            return told;
        }
        let found = self.engine.store.receipt(&key.repo, &key.name, occurrence).await;
        match found.ok().flatten().and_then(|receipt| receipt.round) {
            Some(round) => Finished::Known { round: Some(round) },
            None => told,
        }
    }

    /// A round that an earlier engine left, or that this one could not go on with.
    pub(super) async fn retake(self, round: String) -> Finished {
        match self.engine.store.round(&round).await {
            Ok(Some(row)) if row.phase.is_at_rest() => return Finished::Rested,
            Ok(_) => {}
            Err(error) => return left(&error.into()),
        }
        let taken = self.engine.retake(&round, self.fleet.as_ref(), &self.cancel, By::Dispatcher).await;
        taken.map_or_else(|error| left(&error), |_| Finished::Rested)
    }

    /// A round that another process is at: it comes to its rest there, or that process goes and it is taken up here.
    pub(super) async fn watch(self, round: String) -> Finished {
        loop {
            match self.engine.leases_elsewhere().await {
                Ok(leases) if leases.iter().all(|lease| lease.name != round) => break,
                Ok(_) => {}
                Err(error) => return left(&error.into()),
            }
            tokio::select! {
                () = self.engine.settings.clock.after(LOOK_AGAIN) => {}
                // It is not this process's to end.
                () = self.cancel.cancelled() => return Finished::Rested,
            }
        }
        if let (Some(porter), Ok(recorded)) = (self.engine.live.porter(), self.engine.recorded(&round).await)
            && recorded.round.is_at_rest()
        {
            porter.rested(&recorded.round).await;
            return Finished::Rested;
        }
        self.retake(round).await
    }

    /// A round of somebody who has gone: it was never born, it rests, or it was left.
    pub(super) async fn look_after(self, round: String) -> Finished {
        match self.engine.store.round(&round).await {
            Ok(Some(row)) if !row.phase.is_at_rest() => {
                Finished::Left { why: "whoever began it has gone".to_owned(), again: Again::Soon }
            }
            Ok(_) => Finished::Rested,
            Err(error) => left(&error.into()),
        }
    }

    /// A round whose task panicked.
    pub(super) async fn mend(self, round: String, text: String) -> Finished {
        let mended = self.engine.retake_broken(&round, &text, self.fleet.as_ref(), &self.cancel).await;
        mended.map_or_else(|error| left(&error), |_| Finished::Rested)
    }

    /// A suspended round that may have room again.
    pub(super) async fn resume(self, round: String) -> Finished {
        let resumed = self.resumed(&round).await;
        match resumed {
            // It does not wait any more, or what it had is gone: it is a person's.
            Ok(()) | Err(EngineError::Stale(_) | EngineError::WorkGone(_)) => Finished::Rested,
            Err(error) => left(&error),
        }
    }

    async fn resumed(&self, round: &str) -> Result<(), EngineError> {
        let recorded = self.engine.recorded(round).await?;
        let (engine, bind) = self.fleet.rebind(&self.engine, &recorded.round.facts().started);
        let nothing = Reservation::default();
        engine.go_on_by(round, ACTOR, nothing, &bind, &self.cancel, By::Dispatcher).await?;
        Ok(())
    }
}

/// What became of a claim.
enum Claimed {
    Granted,
    Withheld,
}

/// The request with what made the loop due.
fn due(request: RunRequest, start: Start) -> RunRequest {
    let receipt = keep::receipt_row(&start.receipt);
    RunRequest {
        trigger: receipt.trigger.clone(),
        occurrence: Some(receipt.occurrence.clone()),
        actor: ACTOR.to_owned(),
        items: start.items.iter().map(ToString::to_string).collect(),
        due: Some(DueRecord {
            receipt,
            schedule: keep::schedule_row(&start.standing),
            signals: start.signals.into_iter().map(|signal| signal.occurrence).collect(),
        }),
        ..request
    }
}

/// Why there is no round, and whether there may be one later.
fn unborn(error: EngineError) -> Finished {
    let why = chain(&error);
    let kind = match error {
        EngineError::Store(StoreError { kind, .. }) => kind,
        EngineError::Stale(_) | EngineError::Busy { .. } => return Finished::Unborn { why, again: Again::Soon },
        _ => return Finished::Unborn { why, again: Again::Never },
    };
    match kind {
        StoreErrorKind::Occurrence { round } => Finished::Known { round: Some(round) },
        StoreErrorKind::Conflict(_) => Finished::Known { round: None },
        kind if is_over(&kind) => Finished::Fenced(why),
        _ => Finished::Unborn { why, again: Again::Soon },
    }
}

/// A round is on record and was not taken to its rest.
fn left(error: &EngineError) -> Finished {
    let why = chain(error);
    match error {
        EngineError::Store(StoreError { kind, .. }) if is_over(kind) => Finished::Fenced(why),
        EngineError::History { .. } | EngineError::Unreadable { .. } | EngineError::Unknown(_) => {
            Finished::Left { why, again: Again::Never }
        }
        _ => Finished::Left { why, again: Again::Soon },
    }
}

/// Whether this process may schedule no more. A round that another process took over is lost alone.
pub(super) fn is_over(kind: &StoreErrorKind) -> bool {
    match kind {
        StoreErrorKind::Fenced { name, .. } => name == DISPATCHER,
        kind => matches!(kind, StoreErrorKind::Closed | StoreErrorKind::Replaced),
    }
}
