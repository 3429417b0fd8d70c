//! The library's scheduler: runs loops that are bound in code when they are due.
//!
//! It is the daemon for loops without files. Due times, receipts, marks, limits and pauses are the same, and are as
//! durable as the rounds. Starting a program fires no loop; missed runs are caught up as each loop specifies.

use crate::agents::AbsentAgent;
use crate::daemon::{
    Daemon, DaemonEnd, DaemonJoin, FleetLoops, LoopFleet, PreparedStart, ReadyRound, RoundOrigin, TickReport, tick,
};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::events::{AttachedSink, EventKind, LiveEvent};
use crate::git::UserRepo;
use crate::loop_engine::LoopEngine;
use crate::proc::CancelToken;
use crate::round::{DeliveryOutlet, LoopBindings, RoleAgents, RunRequest};
use crate::takeover::RoundBinder;
use loopwright_core::BoxFuture;
use loopwright_core::cadence::CadenceProblem;
use loopwright_core::dispatch::{ConcurrencyLimits, LoopEntry, LoopKey};
use loopwright_core::human_gate::default_gate_for;
use loopwright_core::round::RoundStarted;
use loopwright_core::spec::Role;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

/// The recorded starter of due rounds.
const ACTOR: &str = "scheduler";

/// Runs loops on their cadence.
///
/// All of them share one [`Engine`]: build each with [`build_on`](crate::LoopEngineBuilder::build_on). Their sinks
/// receive the report of every round that the scheduler runs. One process schedules a state directory; the store names
/// it if another one tries.
#[derive(Clone)]
pub struct LoopScheduler {
    engine: Engine,
    limits: ConcurrencyLimits,
    loops: Arc<Registry>,
}

/// A running scheduler. Dropping the handle does not stop the scheduler; [`SchedulerHandle::stop`] does.
#[must_use = "the handle is what ends the scheduler"]
pub struct SchedulerHandle {
    daemon: Daemon,
    ending: DaemonJoin,
    /// Rounds that came to rest; `None` ends the reports.
    rested: UnboundedSender<Option<String>>,
    reports: JoinHandle<()>,
}

/// The reason why a loop cannot be scheduled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// Its cadence is not valid.
    #[error("loop `{name}`: {} ({})", problem.text, problem.hint)]
    Cadence {
        /// The loop.
        name: String,
        /// The problem, and what to write instead.
        problem: CadenceProblem,
    },
    /// It has no trigger.
    #[error("loop `{0}` has no cadence and follows nothing: give it one, for example `every 15m`, or call `run_once`")]
    NeverDue(String),
    /// A loop of that name in that repository is already registered.
    #[error("loop `{0}` is already registered")]
    Twice(String),
    /// It was built on another state directory than the scheduler.
    #[error("loop `{0}` was built on another engine; build it with `build_on` and the scheduler's own")]
    OtherEngine(String),
    /// Its repository cannot be read.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl LoopScheduler {
    /// A scheduler without loops. The default time zone is UTC.
    #[must_use]
    pub fn new(engine: Engine) -> Self {
        let loops = Registry { zone: "UTC".to_owned(), loops: BTreeMap::new() };
        Self { engine, limits: ConcurrencyLimits::default(), loops: Arc::new(loops) }
    }

    /// Sets the IANA time zone of loops that name none. It is looked up when a loop is registered.
    #[must_use]
    pub fn with_zone(mut self, zone: &str) -> Self {
        zone.clone_into(&mut Arc::make_mut(&mut self.loops).zone);
        self
    }

    /// Sets how many rounds may run at once.
    #[must_use]
    pub fn with_limits(mut self, limits: ConcurrencyLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Adds a loop. Its problems are reported here, not when it is due.
    ///
    /// # Errors
    /// When its cadence is not valid, it has no trigger, its name is taken, or its repository cannot be read.
    pub async fn register(&mut self, one: LoopEngine) -> Result<&mut Self, ScheduleError> {
        let name = one.spec.name.clone();
        if !one.engine.shares_store_with(&self.engine) {
            return Err(ScheduleError::OtherEngine(name));
        }
        let repo = self.engine.git().discover(&one.repo).await.map_err(EngineError::from)?;
        let entry = self
            .loops
            .entry(&repo.id, &one)
            .map_err(|problem| ScheduleError::Cadence { name: name.clone(), problem })?;
        if !entry.schedule.is_timed() && entry.events.is_empty() && one.spec.on.after.is_empty() {
            return Err(ScheduleError::NeverDue(name));
        }
        if self.loops.loops.contains_key(&entry.key) {
            return Err(ScheduleError::Twice(name));
        }
        Arc::make_mut(&mut self.loops).loops.insert(entry.key, Registered { repo, one });
        Ok(self)
    }

    /// The number of loops.
    #[must_use]
    pub fn len(&self) -> usize {
        self.loops.loops.len()
    }

    /// Whether there are no loops.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.loops.loops.is_empty()
    }

    /// One pass: starts the loops that are due now and waits for their rounds. Loops that become due meanwhile wait for
    /// the next pass.
    ///
    /// # Errors
    /// When the record cannot be read or written. A failure of one loop is that loop's outcome.
    pub async fn tick_once(&self) -> Result<TickReport, EngineError> {
        let (rested, rounds, attached) = self.rested();
        // Dropping the pass ends it.
        let done = tick(self.engine.clone(), self.fleet(), self.limits.clone(), &CancelToken::new()).await;
        drop(attached);
        // The receiver is in this function.
        let _ = rested.send(None);
        deliver(&self.engine, &self.loops, rounds).await;
        done
    }

    /// Takes over the rounds of an earlier process, and schedules in the background until it is stopped. It uses no
    /// thread and no polling: one timer waits for the next due time.
    ///
    /// # Errors
    /// When the record cannot be read, or a scheduler already runs on this engine.
    pub async fn start(self) -> Result<SchedulerHandle, EngineError> {
        let (rested, rounds, attached) = self.rested();
        let (daemon, ending) = Daemon::start(self.engine.clone(), self.fleet(), self.limits.clone()).await?;
        let (engine, loops) = (self.engine.clone(), Arc::clone(&self.loops));
        let reports = tokio::spawn(async move {
            deliver(&engine, &loops, rounds).await;
            drop(attached);
        });
        Ok(SchedulerHandle { daemon, ending, rested, reports })
    }

    fn fleet(&self) -> Arc<dyn LoopFleet> {
        Arc::clone(&self.loops) as Arc<dyn LoopFleet>
    }

    /// The rounds that come to rest, from the event stream.
    fn rested(&self) -> (UnboundedSender<Option<String>>, UnboundedReceiver<Option<String>>, AttachedSink) {
        let (sender, rounds) = unbounded_channel();
        let own = sender.clone();
        let sink = move |event: &LiveEvent| {
            let is_rest = match &event.kind {
                // A round that a person runs reports to its caller, who has the sinks.
                EventKind::Ended { outcome: Some(_), begun: RoundOrigin::Due | RoundOrigin::Earlier } => true,
                EventKind::Expired { ended } => ended.is_ok(),
                _ => false,
            };
            // The receiver is gone after a sink panicked.
            let _ = event.round.clone().filter(|_| is_rest).map(|round| sender.send(Some(round)));
        };
        (own, rounds, self.engine.events().attach(Arc::new(sink)))
    }
}

impl SchedulerHandle {
    /// The daemon, to pause, resume, stop, signal and explain loops.
    #[must_use]
    pub fn daemon(&self) -> &Daemon {
        &self.daemon
    }

    /// Starts nothing new, waits for running rounds within the grace period, cancels the rest, and waits for all of
    /// them.
    pub async fn stop(self, grace: Duration) -> DaemonEnd {
        // A scheduler that has already ended cannot drain; the result says how it ended.
        let _ = self.daemon.drain(grace).await;
        self.wait().await
    }

    /// Waits for the scheduler and its sinks to end.
    pub async fn wait(self) -> DaemonEnd {
        let ended = self.ending.wait().await;
        // A sink that panicked has ended the reports, and nothing else.
        let _ = self.rested.send(None);
        let _ = self.reports.await;
        ended
    }
}

/// The loops, as the daemon loads them.
#[derive(Clone)]
struct Registry {
    zone: String,
    loops: BTreeMap<LoopKey, Registered>,
}

#[derive(Clone)]
struct Registered {
    repo: UserRepo,
    one: LoopEngine,
}

impl Registry {
    fn entry(&self, repo: &str, one: &LoopEngine) -> Result<LoopEntry, CadenceProblem> {
        let mut entry = LoopEntry::from_spec(&one.spec, repo, &self.zone)?;
        if entry.agents.is_empty() {
            let first = |role| one.bind.agents.chain(role).first();
            entry.agents = Role::ALL.into_iter().filter_map(first).map(|agent| Arc::from(agent.name())).collect();
            entry.agents.dedup();
        }
        Ok(entry)
    }
}

impl LoopFleet for Registry {
    fn load(&self) -> BoxFuture<'_, Result<FleetLoops, EngineError>> {
        let mut loops = FleetLoops::default();
        for (key, Registered { one, .. }) in &self.loops {
            match self.entry(&key.repo, one) {
                Ok(entry) => loops.entries.push(entry),
                Err(problem) => {
                    let error = EngineError::Daemon(format!("loop `{}`: {}", key.name, problem.text));
                    return Box::pin(std::future::ready(Err(error)));
                }
            }
            loops.after.extend(one.spec.on.after.iter().map(|leader| (key.clone(), Arc::from(leader.as_str()))));
        }
        Box::pin(std::future::ready(Ok(loops)))
    }

    fn prepare<'a>(&'a self, _: &'a Engine, key: &'a LoopKey) -> BoxFuture<'a, Result<PreparedStart, EngineError>> {
        Box::pin(async move {
            let gone = || EngineError::Daemon(format!("loop `{key}` is not registered"));
            let Registered { repo, one } = self.loops.get(key).ok_or_else(gone)?;
            let request = RunRequest::manual(one.spec.clone(), &one.repo, ACTOR);
            ReadyRound { engine: one.engine.clone(), bind: one.bind.clone(), request }.run_probe(repo).await
        })
    }
}

impl RoundBinder for Registry {
    fn rebind(&self, engine: &Engine, started: &RoundStarted) -> (Engine, LoopBindings) {
        let key = LoopKey::new(&started.repo, &started.spec.name);
        match self.loops.get(&key) {
            Some(Registered { one, .. }) => (one.engine.clone(), one.bind.clone()),
            None => (engine.clone(), unregistered(started)),
        }
    }
}

/// The bindings of a recorded round whose loop is not registered: its agents cannot start, and nothing is delivered.
fn unregistered(started: &RoundStarted) -> LoopBindings {
    let what = format!("the loop `{}` is not registered with this scheduler", started.spec.name);
    let absent = Arc::new(AbsentAgent::new("unregistered", &what, "register it before the scheduler starts"));
    let mut agents = RoleAgents::default();
    for role in Role::ALL.into_iter().filter(|role| started.spec.plays(*role)) {
        agents.add(role, Arc::clone(&absent) as _);
    }
    LoopBindings { agents, gate: default_gate_for(started.spec.level).into(), outlet: DeliveryOutlet::ApprovalOnly }
}

/// Passes the report of each round to the sinks, until the daemon has ended. A report that cannot be read is on record
/// but reaches no sink.
async fn deliver(engine: &Engine, loops: &Registry, mut rounds: UnboundedReceiver<Option<String>>) {
    while let Some(Some(round)) = rounds.recv().await {
        let Ok(recorded) = engine.load_round(&round).await else { continue };
        let started = &recorded.round.facts().started;
        let Some(known) = loops.loops.get(&LoopKey::new(&started.repo, &started.spec.name)) else { continue };
        if let Ok(report) = engine.round_report(&recorded.round).await {
            known.one.notify_sinks(&report);
        }
    }
}
