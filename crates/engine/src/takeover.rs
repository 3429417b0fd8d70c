//! Takeover: the engine recovers the rounds of a dead engine and closes questions that have expired. Every process that
//! changes state starts with it, both commands and the daemon; it does not touch rounds that another living process
//! works on. A round that cannot continue is reported and left open, so that it does not block the others.
//! People's answers to recorded rounds use the same path.

use crate::daemon::LoopSlot;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::lease;
use crate::live_rounds::{ItemSelection, LiveRoundGuard, RoundStarter};
use crate::proc::CancelToken;
use crate::round::{LoopBindings, RecordedRound, RoundCaller, RoundDriver, admission_request, bounded, busy, fold};
use crate::store::{LeaseNeeds, LeaseRequest, RoundRow, StoreError, StoreErrorKind};
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::round::{Event, Expired, Phase, Round, RoundStarted, StageFailed};
use loopwright_core::worded;

/// Binds recorded rounds to agents again.
pub trait RoundBinder: Send + Sync {
    /// The bindings of a recorded round, and the engine with the settings of the round's repository. An agent that no
    /// longer exists makes the round fail, not the caller.
    fn rebind(&self, engine: &Engine, started: &RoundStarted) -> (Engine, LoopBindings);
}

worded! {
    /// The kind of takeover.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum TakeoverKind {
        /// A dead engine left the round; it was recovered.
        Recovered = "recovered",
        /// Its question expired.
        Expired = "expired",
        /// It was suspended, and resumes.
        Resumed = "resumed",
    }
}

/// A round that was taken over, and the result.
#[derive(Debug)]
pub struct TakenOverRound {
    /// The kind of takeover.
    pub what: TakeoverKind,
    /// The round.
    pub round: String,
    /// Its loop; unknown for a round whose record cannot be read.
    pub loop_name: Option<String>,
    /// The round's outcome, or the reason why it cannot continue.
    pub ended: Result<Option<RoundOutcome>, EngineError>,
}

impl Engine {
    /// Reads a round from its record.
    ///
    /// # Errors
    /// When there is no record, or it is inconsistent.
    pub async fn load_round(&self, id: &str) -> Result<RecordedRound, EngineError> {
        let events = self.store.events(id).await?;
        if events.is_empty() {
            return Err(EngineError::Unknown(id.to_owned()));
        }
        fold(id, &events)
    }

    /// Ends every process tree that rounds of a dead engine left, and returns the rounds that must be resumed. Running
    /// rounds of this process or of another one are not among them.
    ///
    /// # Errors
    /// When the store or the process table cannot be read.
    pub async fn collect_abandoned(&self) -> Result<Vec<RoundRow>, EngineError> {
        let open = self.store.open_rounds().await?;
        let mut left: Vec<_> = open.into_iter().filter(|row| !row.phase.is_at_rest()).collect();
        if left.is_empty() {
            return Ok(left);
        }
        let elsewhere = lease::held_elsewhere(self).await?;
        left.retain(|row| !elsewhere.iter().any(|lease| lease.name == row.id));
        let mut abandoned = Vec::new();
        for row in left {
            // The first caller to register it, in this process or another, recovers it.
            let Some(_here) = self.live_rounds.register(&row.id) else { continue };
            if self.sweep_left(&row).await? {
                abandoned.push(row);
            }
        }
        Ok(abandoned)
    }

    /// Ends the leftover processes of a dead engine's round. Returns false if another process has resumed the round.
    async fn sweep_left(&self, row: &RoundRow) -> Result<bool, EngineError> {
        let request = LeaseRequest {
            name: row.id.clone(),
            repo: row.repo.clone(),
            loop_name: row.loop_name.clone(),
            needs: LeaseNeeds::loop_slot(),
        };
        match lease::take(self, request).await {
            Ok(()) => {}
            Err(StoreError { kind: StoreErrorKind::Held(_), .. }) => return Ok(false),
            // Another round of the loop runs. This one stays abandoned, and its recovery sweeps its processes.
            Err(StoreError { kind: StoreErrorKind::Occupied(_), .. }) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
        let swept = sweep_processes(&row.id);
        self.store.release(&row.id).await?;
        swept.map(|()| true)
    }

    /// Resumes an abandoned round and runs it until it is at rest.
    ///
    /// # Errors
    /// When its record cannot be read or written.
    pub async fn resume(&self, id: &str, bind: &LoopBindings, cancel: &CancelToken) -> Result<Round, EngineError> {
        self.apply_answer(id, Event::Recovered, RoundCaller::manual(bind, cancel)).await
    }

    /// Applies an event from outside to a recorded round and performs what follows.
    pub(crate) async fn apply_answer(
        &self,
        id: &str,
        event: Event,
        caller: RoundCaller<'_>,
    ) -> Result<Round, EngineError> {
        let here = self.live_rounds.register(id).ok_or_else(|| busy(id))?;
        let recorded = self.load_round(id).await?;
        let facts = recorded.round.facts();
        // A round that resumes needs its loop's slot, as a new one does; an answer to a round at rest only ends it.
        let (hold, needs) = if resumes(&event) {
            let request = admission_request(&facts.started, &facts.items, ItemSelection::All);
            let hold = lease::admit(self, caller, request).await?.slot;
            (hold, lease::needs(self, caller.by, &facts.started, &facts.items))
        } else if matches!(event, Event::Broke(_)) {
            (None, LeaseNeeds::loop_slot())
        } else {
            (None, LeaseNeeds::Nothing)
        };
        lease::lease_round(self, &facts.started, needs).await?;
        // From here on no other process writes about the round; this reads the events that were written in the
        // meantime.
        let answered = self.answer_leased(id, event, caller, here, hold).await;
        if answered.is_err() {
            lease::give_back(self, id).await;
        }
        answered
    }

    async fn answer_leased(
        &self,
        id: &str,
        event: Event,
        caller: RoundCaller<'_>,
        here: LiveRoundGuard,
        hold: Option<LoopSlot>,
    ) -> Result<Round, EngineError> {
        if matches!(event, Event::Recovered | Event::Broke(_)) {
            sweep_processes(id)?;
        }
        let mut run = RoundDriver::reopen(self, caller, self.load_round(id).await?, here, hold).await?;
        let has_slot = resumes(&event) || matches!(event, Event::Broke(_));
        match run.answered(event).await {
            Ok(()) => Ok(run.finish_at_rest().await),
            Err(error) => {
                if !has_slot && !matches!(error, EngineError::Stale(_) | EngineError::Refused(_)) {
                    // It has no slot whose release would report it, so a daemon is asked to resume it.
                    if let Some(admission) = self.live_rounds.admission() {
                        admission.on_round_left_open(&run.round().facts().started);
                    }
                }
                Err(error)
            }
        }
    }

    /// Takes over the work of a dead engine: running rounds, one after the other, then questions that have expired.
    ///
    /// # Errors
    /// When the store cannot be read or written; a failure of one round goes to the callback.
    pub async fn take_over(
        &self,
        rebind: &dyn RoundBinder,
        cancel: &CancelToken,
        tell: &mut (dyn FnMut(TakenOverRound) + Send),
    ) -> Result<(), EngineError> {
        let stopped = CancelToken::new();
        let cancel = match self.global_stop().await? {
            // The rounds only end: none of their work starts while everything is stopped.
            Some(_) => {
                stopped.cancel();
                &stopped
            }
            None => cancel,
        };
        for row in self.collect_abandoned().await? {
            // The process that schedules decides about the rounds of workers.
            if self.store.offer(&row.id).await?.is_some() {
                continue;
            }
            let ended = self.take_over_round(&row.id, rebind, cancel, RoundStarter::Manual).await;
            if !is_elsewhere(&ended) {
                tell(TakenOverRound {
                    loop_name: Some(row.loop_name),
                    ..taken(TakeoverKind::Recovered, &row.id, ended)?
                });
            }
        }
        for id in self.expired_rounds().await? {
            let ended = self.close_expired(&id, rebind).await;
            if !is_elsewhere(&ended) {
                tell(taken(TakeoverKind::Expired, &id, ended)?);
            }
        }
        Ok(())
    }

    /// Recovers an abandoned round.
    pub(crate) async fn take_over_round(
        &self,
        id: &str,
        rebind: &dyn RoundBinder,
        cancel: &CancelToken,
        by: RoundStarter,
    ) -> Result<Round, EngineError> {
        let (engine, bind) = rebind.rebind(self, &self.load_round(id).await?.round.facts().started);
        engine.apply_answer(id, Event::Recovered, RoundCaller { bind: &bind, cancel, by }).await
    }

    /// Continues a round that this process took from the workers' queue, until it is at rest. A round that has only
    /// started begins; one that a lost worker had begun is recovered.
    pub(crate) async fn run_claimed(
        &self,
        id: &str,
        rebind: &dyn RoundBinder,
        cancel: &CancelToken,
    ) -> Result<Round, EngineError> {
        let (engine, bind) = rebind.rebind(self, &self.load_round(id).await?.round.facts().started);
        let caller = RoundCaller { bind: &bind, cancel, by: RoundStarter::Dispatcher };
        let here = engine.live_rounds.register(id).ok_or_else(|| busy(id))?;
        let done = engine.run_leased(id, caller, here).await;
        if done.is_err() {
            lease::give_back(&engine, id).await;
        }
        done
    }

    /// Ends a round that no worker has taken yet. Returns false if a worker was faster, or it is not offered.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub async fn end_offered(&self, id: &str, rebind: &dyn RoundBinder, why: &str) -> Result<bool, EngineError> {
        if !self.store.withdraw_offer(id).await? {
            return Ok(false);
        }
        let stopped = CancelToken::new();
        stopped.cancel_because(why);
        self.run_claimed(id, rebind, &stopped).await.map(|_| true)
    }

    async fn run_leased(&self, id: &str, caller: RoundCaller<'_>, here: LiveRoundGuard) -> Result<Round, EngineError> {
        sweep_processes(id)?;
        let recorded = self.load_round(id).await?;
        let (is_fresh, actions) = (recorded.index == 1, recorded.actions.clone());
        let mut run = RoundDriver::reopen(self, caller, recorded, here, None).await?;
        match is_fresh {
            true => Box::pin(run.drive(actions)).await?,
            false => run.answered(Event::Recovered).await?,
        }
        Ok(run.finish_at_rest().await)
    }

    /// Ends a round whose code panicked, with the panic message; a round that was already sending is recovered instead.
    pub(crate) async fn end_broken_round(
        &self,
        id: &str,
        text: &str,
        rebind: &dyn RoundBinder,
        cancel: &CancelToken,
    ) -> Result<Round, EngineError> {
        let recorded = self.load_round(id).await?;
        let (engine, bind) = rebind.rebind(self, &recorded.round.facts().started);
        let event = match recorded.round.phase() {
            Phase::Sending(_) | Phase::Recording(_) => Event::Recovered,
            phase => Event::Broke(StageFailed {
                stage: phase.stage(),
                code: "panic".to_owned(),
                text: bounded(&format!("this is a bug: {text}")),
            }),
        };
        if recorded.round.is_at_rest() {
            return Ok(recorded.round);
        }
        engine.apply_answer(id, event, RoundCaller { bind: &bind, cancel, by: RoundStarter::Dispatcher }).await
    }

    /// Closes an expired question as a denial.
    pub(crate) async fn close_expired(&self, id: &str, rebind: &dyn RoundBinder) -> Result<Round, EngineError> {
        let (engine, bind) = rebind.rebind(self, &self.load_round(id).await?.round.facts().started);
        let expired = Event::Expired(Expired { at_ms: Some(self.now_ms()) });
        let (cancel, by) = (&CancelToken::new(), RoundStarter::Dispatcher);
        engine.apply_answer(id, expired, RoundCaller { bind: &bind, cancel, by }).await
    }
}

/// Whether a round resumes on this event, and needs its loop's slot for that.
fn resumes(event: &Event) -> bool {
    matches!(event, Event::Recovered | Event::Resumed(_))
}

/// Ends every process that a round left.
fn sweep_processes(round: &str) -> Result<(), EngineError> {
    loopwright_sandbox::sweep(&format!("lw-{round}")).map(drop).map_err(EngineError::Sweep)
}

/// Whether another process was faster and recovers the round.
fn is_elsewhere(ended: &Result<Round, EngineError>) -> bool {
    let fenced = |kind: &StoreErrorKind| matches!(kind, StoreErrorKind::Fenced { .. });
    match ended {
        Err(EngineError::Busy { .. } | EngineError::Stale(_)) => true,
        Err(EngineError::Store(error)) => fenced(&error.kind),
        Ok(_) | Err(_) => false,
    }
}

/// A store error ends the takeover; any other error belongs to the round.
fn taken(what: TakeoverKind, id: &str, ended: Result<Round, EngineError>) -> Result<TakenOverRound, StoreError> {
    let ended = match ended {
        Err(EngineError::Store(error)) => return Err(error),
        Ok(round) => Ok(round.outcome()),
        Err(error) => Err(error),
    };
    Ok(TakenOverRound { what, round: id.to_owned(), loop_name: None, ended })
}
