//! A worker: a process that takes offered rounds from a store that machines share, and runs them with its own agents,
//! keys and sandbox. It decides how many rounds it takes; the process that schedules decides which loops are due.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::lease;
use crate::live_rounds::RoundStarter;
use crate::proc::CancelToken;
use crate::store::{ClaimedRound, OfferPlace, ProcessInfo, RowChange, StoreError, WorkerRow, WorkerState};
use crate::takeover::RoundBinder;
use loopwright_core::dispatch::{FleetMember, PlacementNeeds};
use loopwright_core::round::{BoundaryLevel, Round};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// How often an idle worker looks for a round by itself; a hint of the database makes it look at once.
const LOOK: Duration = Duration::from_secs(60);
/// How often it looks while the store is away.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// The offer of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerSettings {
    /// Its name, which no other connected worker has.
    pub name: String,
    /// Its labels.
    pub labels: BTreeSet<String>,
    /// The agents that its machine has.
    pub agents: BTreeSet<String>,
    /// The ids of the repositories that it has.
    pub repos: BTreeSet<String>,
    /// How many rounds it runs at once.
    pub slots: usize,
    /// Its version.
    pub version: String,
}

/// A report of a running worker.
#[derive(Debug)]
pub enum WorkerNote {
    /// It took a round.
    Taken(String),
    /// A round of it is at rest, or failed.
    Ended(String, Box<Result<Round, EngineError>>),
    /// The store is away; the worker continues when it is back.
    Away(String),
}

/// A worker of this engine's store.
pub struct Worker {
    engine: Engine,
    binder: Arc<dyn RoundBinder>,
    settings: WorkerSettings,
    report: Arc<dyn Fn(WorkerNote) + Send + Sync>,
    /// Interrupts its rounds.
    interrupt: CancelToken,
}

/// How a worker came to a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RoundClaim {
    /// It took the round from the queue, with its lease.
    Taken,
    /// An earlier process of this worker left it.
    Left,
}

/// The rounds of a worker, by task.
type WorkerRounds = JoinSet<(String, Result<Round, EngineError>)>;

impl Worker {
    /// A worker that reports its progress. Its rounds are interrupted when `interrupt` is set.
    #[must_use]
    pub fn new(
        engine: Engine,
        binder: Arc<dyn RoundBinder>,
        settings: WorkerSettings,
        interrupt: CancelToken,
        report: Arc<dyn Fn(WorkerNote) + Send + Sync>,
    ) -> Self {
        Self { engine, binder, settings, report, interrupt }
    }

    /// Records the worker, so that rounds are offered to it. A drained worker stays drained.
    ///
    /// # Errors
    /// When the store is not one that machines share, another process serves a worker of this name, or the store
    /// cannot be written.
    pub async fn connect(&self) -> Result<(), EngineError> {
        let store = &self.engine.store;
        if !store.is_leased() {
            return Err(EngineError::Daemon(NOT_SHARED.to_owned()));
        }
        let known = store.workers().await?.into_iter().find(|worker| worker.row.name == self.settings.name);
        if let Some(other) = known.filter(|known| known.row.instance != store.instance_name())
            && let Some(process) = &other.process
        {
            return Err(EngineError::Daemon(format!("worker `{}` is {process}", self.settings.name)));
        }
        let row = self.row().await?;
        self.engine.write_rows(vec![RowChange::Worker(row)]).await
    }

    async fn row(&self) -> Result<WorkerRow, EngineError> {
        let before_ms = self.engine.now_ms();
        let since_ms = self.engine.store.server_ms().await?;
        // The answer is from the middle of the call.
        let offset_ms = (before_ms + self.engine.now_ms()) / 2 - since_ms;
        let list = |words: &BTreeSet<String>| serde_json::to_string(words).expect("texts can be written as JSON");
        Ok(WorkerRow {
            name: self.settings.name.clone(),
            instance: self.engine.store.instance_name().to_owned(),
            host: ProcessInfo::current(since_ms).host,
            labels: list(&self.settings.labels),
            agents: list(&self.settings.agents),
            repos: list(&self.settings.repos),
            boundary: self.boundary().await.word().to_owned(),
            slots: i64::try_from(self.settings.slots).unwrap_or(i64::MAX),
            state: WorkerState::Active,
            version: self.settings.version.clone(),
            offset_ms,
            since_ms,
        })
    }

    async fn boundary(&self) -> BoundaryLevel {
        if self.engine.host().await.enforces() { BoundaryLevel::Kernel } else { BoundaryLevel::Process }
    }

    /// Takes and runs rounds until `stop` is set; then it finishes those it has, and disconnects.
    ///
    /// # Errors
    /// When this process has lost the right to write, such as after an upgrade of the schema. Its rounds are interrupted
    /// then.
    pub async fn run(&self, stop: &CancelToken) -> Result<(), EngineError> {
        let mut rounds = WorkerRounds::new();
        for round in self.own_left_rounds().await? {
            self.begin(&mut rounds, round, RoundClaim::Left);
        }
        let taken = self.take_rounds(stop, &mut rounds).await;
        if taken.is_err() {
            self.interrupt.cancel();
        }
        while let Some(ended) = rounds.join_next().await {
            self.report(ended);
        }
        taken?;
        let (name, instance) = (self.settings.name.clone(), self.engine.store.instance_name().to_owned());
        self.engine.write_rows(vec![RowChange::WorkerGone { name, instance }]).await
    }

    async fn take_rounds(&self, stop: &CancelToken, rounds: &mut WorkerRounds) -> Result<(), EngineError> {
        let mut hints = self.engine.store.offer_hints();
        let (mut is_away, mut may_have_taken) = (false, false);
        while !stop.is_cancelled() {
            match self.claim(rounds, may_have_taken).await {
                Ok(()) => (is_away, may_have_taken) = (false, false),
                Err(error) if error.kind.is_passing() => {
                    may_have_taken = true;
                    if !std::mem::replace(&mut is_away, true) {
                        (self.report)(WorkerNote::Away(error.to_string()));
                    }
                }
                Err(error) => return Err(error.into()),
            }
            tokio::select! {
                () = self.engine.settings.clock.after(if is_away { LOOK_AGAIN } else { LOOK }) => {}
                () = hints.next() => {}
                () = stop.cancelled() => {}
                Some(ended) = rounds.join_next(), if !rounds.is_empty() => self.report(ended),
            }
        }
        Ok(())
    }

    /// Takes rounds while it has free slots, and first those of claims whose answers were lost.
    async fn claim(&self, rounds: &mut WorkerRounds, may_have_taken: bool) -> Result<(), StoreError> {
        if may_have_taken {
            for ClaimedRound { round, .. } in self.engine.store.adopt_claims(&self.settings.name).await? {
                self.begin(rounds, round, RoundClaim::Taken);
            }
        }
        while rounds.len() < self.settings.slots {
            let places = self.fitting_places().await?;
            let Some(claimed) = self.engine.store.claim(&self.settings.name, &places).await? else { return Ok(()) };
            self.begin(rounds, claimed.round, RoundClaim::Taken);
        }
        Ok(())
    }

    /// The places of open offers for which this machine has everything.
    async fn fitting_places(&self) -> Result<Vec<OfferPlace>, StoreError> {
        let WorkerSettings { name, labels, agents, slots, .. } = self.settings.clone();
        let me = FleetMember { name, labels, agents, slots, is_draining: false };
        let can_isolate = self.boundary().await == BoundaryLevel::Kernel;
        let mut places = self.engine.store.open_places().await?;
        places.retain(|place| {
            let fits = |needs: &PlacementNeeds| needs.gap(&me).is_none();
            fits(&place.needs) && self.settings.repos.contains(&place.repo) && (can_isolate || !place.is_isolated)
        });
        Ok(places)
    }

    /// Rounds that an earlier process of this worker left: their files are on this machine.
    async fn own_left_rounds(&self) -> Result<Vec<String>, EngineError> {
        let (store, mut own) = (&self.engine.store, Vec::new());
        let elsewhere = lease::held_elsewhere(&self.engine).await?;
        for offer in store.offers().await? {
            let is_own = offer.worker.as_ref() == Some(&self.settings.name);
            if is_own && elsewhere.iter().all(|lease| lease.name != offer.round) {
                let is_open = store.round(&offer.round).await?.is_some_and(|row| !row.phase.is_at_rest());
                own.extend(is_open.then_some(offer.round));
            }
        }
        Ok(own)
    }

    fn begin(&self, rounds: &mut WorkerRounds, round: String, claim: RoundClaim) {
        (self.report)(WorkerNote::Taken(round.clone()));
        let (engine, binder, interrupt) = (self.engine.clone(), Arc::clone(&self.binder), self.interrupt.clone());
        rounds.spawn(async move {
            // Its own, because a person may stop this round alone.
            let cancel = CancelToken::new();
            let ended = {
                let mut run = Box::pin(async {
                    let binder = binder.as_ref();
                    match claim {
                        RoundClaim::Taken => engine.run_claimed(&round, binder, &cancel).await,
                        RoundClaim::Left => {
                            engine.take_over_round(&round, binder, &cancel, RoundStarter::Dispatcher).await
                        }
                    }
                });
                tokio::select! {
                    ended = &mut run => ended,
                    () = interrupt.cancelled() => {
                        cancel.cancel();
                        run.await
                    }
                }
            };
            let ended = match ended {
                // It needs no worker any more.
                Ok(done) => engine.store.drop_offer(&round).await.map(|()| done).map_err(EngineError::from),
                ended => ended,
            };
            (round, ended)
        });
    }

    fn report(&self, ended: Result<(String, Result<Round, EngineError>), tokio::task::JoinError>) {
        // A round whose task panicked keeps its lease until this process ends, and is recovered then.
        match ended {
            Ok((round, ended)) => (self.report)(WorkerNote::Ended(round, Box::new(ended))),
            Err(panic) => (self.report)(WorkerNote::Away(format!("this is a bug: {panic}"))),
        }
    }
}

/// The name of this machine.
#[must_use]
pub fn machine_name() -> String {
    ProcessInfo::current(0).host
}

/// A worker needs a store that other machines reach.
const NOT_SHARED: &str = "a worker needs a store that machines share: `store: postgres://…` in your configuration";
