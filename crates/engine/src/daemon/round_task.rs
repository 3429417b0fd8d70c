//! The work of one task: a due loop becomes a round that runs until it is at rest, or the task resumes a round of an
//! earlier engine.

use super::admission::DaemonAdmission;
use super::fleet::{LoopFleet, PreparedStart, ReadyRound};
use super::followers::follower_signals;
use super::message::DaemonSender;
use super::persist;
use super::running_rounds::{RetryDecision, RoundTaskOutcome};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::events::EventKind;
use crate::lease;
use crate::live_rounds::RoundStarter;
use crate::probe::ProbeResult as Found;
use crate::proc::CancelToken;
use crate::round::{DueRecord, RoundCaller, RunRequest, error_chain, too_many_open};
use crate::store::{DISPATCHER, LeaseHolder, StoreError, StoreErrorKind};
use loopwright_core::budget::Reservation;
use loopwright_core::dispatch::{LoopKey, PlacementNeeds, RoundStart};
use loopwright_core::round::{Phase, Round};
use std::sync::Arc;
use std::time::Duration;

/// The journal's actor for rounds that were started because they were due, and for resumed rounds.
const ACTOR: &str = "schedule";

/// The interval between checks whether a round of another process is at rest.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The context of every task.
#[derive(Clone)]
pub(super) struct RoundTask {
    pub(super) engine: Engine,
    pub(super) fleet: Arc<dyn LoopFleet>,
    pub(super) sender: DaemonSender,
    pub(super) slot: u64,
    pub(super) cancel: CancelToken,
}

impl RoundTask {
    /// Starts a due loop.
    pub(super) async fn start(self, start: RoundStart) -> RoundTaskOutcome {
        let stopped =
            || RoundTaskOutcome::NotStarted { why: "stopped before it began".to_owned(), again: RetryDecision::Soon };
        let prepared = tokio::select! {
            prepared = self.fleet.prepare(&self.engine, &start.key) => prepared,
            // A running probe ends when its future is dropped.
            () = self.cancel.cancelled() => return stopped(),
        };
        let ready = match prepared {
            Ok(PreparedStart::Round(ready)) => ready,
            Ok(PreparedStart::NoWork) => return RoundTaskOutcome::NoWork,
            Err(error) => return not_started(error),
        };
        if self.cancel.is_cancelled() {
            return stopped();
        }
        let ReadyRound { engine, bind, mut request } = *ready;
        match too_many_open(&engine, &request.spec, &bind, &start.key.repo, &request.repo).await {
            Ok(None) => {}
            Ok(Some(open)) => return RoundTaskOutcome::TooManyOpen { open },
            Err(error) => return not_started(error),
        }
        if start.items.is_empty() && request.spec.locks_items() {
            match self.claim(&mut request).await {
                Ok(true) => {}
                Ok(false) => return RoundTaskOutcome::Withheld,
                Err(error) => return not_started(error),
            }
        }
        let (key, occurrence) = (start.key.clone(), start.receipt.occurrence.clone());
        let request = due(request, start);
        let mut is_born = false;
        let mut born = |round: &str| {
            is_born = true;
            // Without a daemon there is no receiver; the round is on record.
            let (slot, round) = (self.slot, round.to_owned());
            let _ = self.sender.send(move |desk| desk.on_round_started(slot, round));
        };
        let caller = RoundCaller { bind: &bind, cancel: &self.cancel, by: RoundStarter::Dispatcher };
        let ran = match PlacementNeeds::from_spec(&request.spec).filter(|_| engine.store.is_leased()) {
            Some(needs) => engine.offer_as(request, caller, needs, &mut born).await.map(Some),
            None => engine.run_as(request, caller, &mut born).await.map(|_| None),
        };
        match ran {
            Ok(None) => RoundTaskOutcome::Rested,
            Ok(Some(offered)) => Box::pin(self.watch(offered)).await,
            Err(error) if is_born => left_open(&error),
            Err(EngineError::Busy { loop_name, why }) => {
                self.look_for_left().await;
                not_started(EngineError::Busy { loop_name, why })
            }
            Err(error) => self.read_back(not_started(error), &key, &occurrence).await,
        }
    }

    /// Rounds that another process abandoned are finished before other rounds of their loops start.
    async fn look_for_left(&self) {
        // If they cannot be read now, the next try reads them.
        for row in self.engine.collect_abandoned().await.unwrap_or_default() {
            let key = LoopKey::new(&row.repo, &row.loop_name);
            let _ = self.sender.send(move |desk| desk.left_open(key, row.id));
        }
    }

    /// Leaves out items that rounds of other loops work on; returns false if no item is left and the start waits.
    async fn claim(&self, request: &mut RunRequest) -> Result<bool, EngineError> {
        let Some(Found::Items(found)) = &mut request.probe_result else { return Ok(true) };
        if found.is_empty() {
            return Ok(true);
        }
        let (slot, items) = (self.slot, found.iter().map(|item| item.key.as_str().into()).collect());
        match self.sender.request(move |desk, reply| desk.handle_claim(slot, items, reply)).await? {
            Some(granted) => found.retain(|item| granted.iter().any(|key| **key == *item.key)),
            None => return Ok(false),
        }
        Ok(true)
    }

    /// A start whose answer was lost may have taken effect: this reads the record before it reports the start as
    /// failed.
    async fn read_back(&self, outcome: RoundTaskOutcome, key: &LoopKey, occurrence: &str) -> RoundTaskOutcome {
        if !matches!(outcome, RoundTaskOutcome::NotStarted { again: RetryDecision::Soon, .. }) {
            return outcome;
        }
        let found = self.engine.store.receipt(&key.repo, &key.name, occurrence).await;
        match found.ok().flatten().and_then(|receipt| receipt.round) {
            Some(round) => RoundTaskOutcome::AlreadyRecorded { round: Some(round) },
            None => outcome,
        }
    }

    /// Resumes a round that an earlier engine left, or that this one could not resume before.
    pub(super) async fn take_over(self, round: String) -> RoundTaskOutcome {
        match self.engine.store.round(&round).await {
            Ok(Some(row)) if row.phase.is_at_rest() => return RoundTaskOutcome::Rested,
            Ok(_) => {}
            Err(error) => return left_open(&error.into()),
        }
        match self.replace_worker(&round).await {
            Ok(LostWorker::None) => {}
            Ok(LostWorker::Replaced) => return Box::pin(self.watch(round)).await,
            Ok(LostWorker::Unfinished) => {
                let text = "its worker is gone, and its files with it";
                self.engine.publish(None, Some(&round), EventKind::Warning(text.to_owned()));
                // It only ends: this machine does not have its files.
                self.cancel.cancel();
            }
            Err(error) => return left_open(&error),
        }
        let taken =
            self.engine.take_over_round(&round, self.fleet.as_ref(), &self.cancel, RoundStarter::Dispatcher).await;
        taken.map_or_else(|error| left_open(&error), |_| RoundTaskOutcome::Rested)
    }

    /// Watches a round that another process runs: it comes to rest there, or that process ends and this one resumes it.
    pub(super) async fn watch(self, round: String) -> RoundTaskOutcome {
        let mut is_stopped = false;
        loop {
            match lease::held_elsewhere(&self.engine).await {
                Ok(leases) if leases.iter().all(|lease| lease.name != round) && !self.runs_here(&round) => break,
                Ok(_) => {}
                Err(error) => return left_open(&error.into()),
            }
            tokio::select! {
                () = self.engine.settings.clock.after(LOOK_AGAIN) => {}
                () = self.cancel.cancelled(), if !is_stopped => match self.stop_placed(&round).await {
                    Ok(true) => is_stopped = true,
                    // This process must not end it.
                    Ok(false) => return RoundTaskOutcome::Rested,
                    Err(error) => return left_open(&error),
                },
            }
        }
        if let (Some(admission), Ok(recorded)) =
            (self.engine.live_rounds.admission(), self.engine.load_round(&round).await)
            && recorded.round.is_at_rest()
        {
            if let Err(error) = self.follow(&admission, &recorded.round).await {
                return left_open(&error);
            }
            admission.on_round_at_rest(&recorded.round).await;
            return RoundTaskOutcome::Rested;
        }
        self.take_over(round).await
    }

    /// A person stopped the round, or everything: an offered round ends here, and a worker ends the one it has. Returns
    /// false for a round that was not offered to workers, and when only this process ends.
    async fn stop_placed(&self, round: &str) -> Result<bool, EngineError> {
        let Some(why) = self.cancel.why() else { return Ok(false) };
        if self.engine.store.offer(round).await?.is_none() {
            return Ok(false);
        }
        self.engine.end_offered(round, self.fleet.as_ref(), &why).await?;
        Ok(true)
    }

    /// Whether a command in this process works on the round, such as one that ends it.
    fn runs_here(&self, round: &str) -> bool {
        self.engine.live_rounds.contains(round)
    }

    /// Makes the loops due that follow a round of another process: that process does not know them. A signal that is
    /// there already stays as it is.
    async fn follow(&self, admission: &DaemonAdmission, round: &Round) -> Result<(), EngineError> {
        let started = &round.facts().started;
        let followers = admission.followers(&started.repo, &started.spec.name);
        let signals = follower_signals(&self.engine.store, &followers, round, self.engine.now_ms()).await?;
        if !signals.is_empty() {
            self.engine.write_rows(signals).await?;
        }
        if self.engine.store.offer(&started.round).await?.is_some() {
            self.engine.store.drop_offer(&started.round).await?;
        }
        Ok(())
    }

    /// Decides about a round whose worker is gone. Until the maker has started, another worker begins again. After
    /// that, the round's files were on that machine.
    async fn replace_worker(&self, round: &str) -> Result<LostWorker, EngineError> {
        let store = &self.engine.store;
        let Some(offer) = store.offer(round).await? else { return Ok(LostWorker::None) };
        let lease = store.leases().await?.into_iter().find(|lease| lease.name == round);
        match lease.as_ref().map(|lease| lease.holder) {
            Some(LeaseHolder::Other | LeaseHolder::Offered) => return Ok(LostWorker::Replaced),
            Some(LeaseHolder::Ours) => return Ok(LostWorker::None),
            Some(LeaseHolder::Gone) | None => {}
        }
        let recorded = self.engine.load_round(round).await?;
        let is_early =
            matches!(recorded.round.phase(), Phase::Recalling | Phase::Probing | Phase::Isolating | Phase::Baselining);
        if !is_early || offer.tries >= TRIES_MAX {
            return Ok(LostWorker::Unfinished);
        }
        // A worker that could not continue has released the lease.
        let instance = lease.and_then(|lease| lease.process).map_or(String::new(), |process| process.instance);
        // If another process was faster, it is that one's now.
        store.offer_again(round, &instance).await?;
        Ok(LostWorker::Replaced)
    }

    /// Checks a round whose caller is gone: it never started, it is at rest, or it was left open.
    pub(super) async fn check_abandoned(self, round: String) -> RoundTaskOutcome {
        match self.engine.store.round(&round).await {
            Ok(Some(row)) if !row.phase.is_at_rest() => RoundTaskOutcome::LeftOpen {
                why: "the caller that started the round is gone".to_owned(),
                again: RetryDecision::Soon,
            },
            Ok(_) => RoundTaskOutcome::Rested,
            Err(error) => left_open(&error.into()),
        }
    }

    /// Recovers a round whose task panicked.
    pub(super) async fn recover_from_panic(self, round: String, text: String) -> RoundTaskOutcome {
        let mended = self.engine.end_broken_round(&round, &text, self.fleet.as_ref(), &self.cancel).await;
        mended.map_or_else(|error| left_open(&error), |_| RoundTaskOutcome::Rested)
    }

    /// Resumes a suspended round whose budget may have room again, or sends a blocked one again.
    pub(super) async fn resume(self, round: String) -> RoundTaskOutcome {
        let resumed = self.resumed(&round).await;
        match resumed {
            // It does not wait any more, or its workspace is gone.
            Ok(()) | Err(EngineError::Stale(_) | EngineError::WorkGone(_)) => RoundTaskOutcome::Rested,
            // Another caller answers for it right now, or another process runs a round of its loop.
            Err(EngineError::Busy { .. }) => RoundTaskOutcome::Deferred,
            Err(error) => left_open(&error),
        }
    }

    async fn resumed(&self, round: &str) -> Result<(), EngineError> {
        let recorded = self.engine.load_round(round).await?;
        // An earlier attempt to resume it came further, and then failed.
        if !recorded.round.is_at_rest() {
            let (fleet, by) = (self.fleet.as_ref(), RoundStarter::Dispatcher);
            return self.engine.take_over_round(round, fleet, &self.cancel, by).await.map(drop);
        }
        let (engine, bind) = self.fleet.rebind(&self.engine, &recorded.round.facts().started);
        let caller = RoundCaller { bind: &bind, cancel: &self.cancel, by: RoundStarter::Dispatcher };
        if recorded.round.facts().is_blocked {
            return engine.send_again_as(round, caller).await.map(drop);
        }
        engine.resume_suspended_as(round, ACTOR, Reservation::default(), caller).await?;
        Ok(())
    }
}

/// The most workers that a round is given to, one after the other.
const TRIES_MAX: i64 = 3;

/// The end of a round whose worker is gone.
enum LostWorker {
    /// The round was not offered to workers.
    None,
    /// Another worker may take it, or has taken it.
    Replaced,
    /// It cannot continue.
    Unfinished,
}

/// The request with the loop's trigger.
fn due(request: RunRequest, start: RoundStart) -> RunRequest {
    let receipt = persist::receipt_row(&start.receipt);
    RunRequest {
        trigger: receipt.trigger.clone(),
        occurrence: Some(receipt.occurrence.clone()),
        actor: ACTOR.to_owned(),
        items: start.items.iter().map(ToString::to_string).collect(),
        due: Some(DueRecord {
            receipt,
            schedule: persist::schedule_row(&start.standing),
            signals: start.signals.into_iter().map(|signal| signal.occurrence).collect(),
        }),
        ..request
    }
}

/// Why there is no round, and whether a later try makes sense.
fn not_started(error: EngineError) -> RoundTaskOutcome {
    let why = error_chain(&error);
    let kind = match error {
        EngineError::Store(StoreError { kind, .. }) => kind,
        EngineError::Stale(_) | EngineError::Busy { .. } => {
            return RoundTaskOutcome::NotStarted { why, again: RetryDecision::Soon };
        }
        // Also a wrong token or a deleted repository: a person fixes it, and the occurrence is still there then.
        EngineError::Forge(_) => return RoundTaskOutcome::NotStarted { why, again: RetryDecision::WithForge },
        _ => return RoundTaskOutcome::NotStarted { why, again: RetryDecision::Never },
    };
    match kind {
        StoreErrorKind::Occurrence { round } => RoundTaskOutcome::AlreadyRecorded { round: Some(round) },
        StoreErrorKind::Conflict(_) => RoundTaskOutcome::AlreadyRecorded { round: None },
        kind if is_store_lost(&kind) => RoundTaskOutcome::Fenced(why),
        _ => RoundTaskOutcome::NotStarted { why, again: RetryDecision::Soon },
    }
}

/// A round is on record and did not come to rest.
fn left_open(error: &EngineError) -> RoundTaskOutcome {
    let why = error_chain(error);
    match error {
        EngineError::Store(StoreError { kind, .. }) if is_store_lost(kind) => RoundTaskOutcome::Fenced(why),
        EngineError::History { .. } | EngineError::Unreadable { .. } | EngineError::Unknown(_) => {
            RoundTaskOutcome::LeftOpen { why, again: RetryDecision::Never }
        }
        _ => RoundTaskOutcome::LeftOpen { why, again: RetryDecision::Soon },
    }
}

/// Whether this process has lost the right to schedule. A round that another process took over is only lost itself.
pub(super) fn is_store_lost(kind: &StoreErrorKind) -> bool {
    match kind {
        StoreErrorKind::Fenced { name, .. } => name == DISPATCHER,
        kind => matches!(kind, StoreErrorKind::Closed | StoreErrorKind::Replaced | StoreErrorKind::Newer { .. }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use loopwright_core::forge::ForgeError;

    #[test]
    fn start_waits_for_a_forge_that_is_down_or_gives_no_access() {
        let again = |error: ForgeError| match not_started(EngineError::Forge(error)) {
            RoundTaskOutcome::NotStarted { again, .. } => again,
            other => panic!("{other:?}"),
        };
        assert_eq!(again(ForgeError::unavailable("503")), RetryDecision::WithForge);
        assert_eq!(again(ForgeError::Refused("no such repository".to_owned())), RetryDecision::WithForge);
    }
}
