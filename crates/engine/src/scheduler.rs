//! The library's scheduler: loops that are bound in code, run when they are due.
//!
//! It is the daemon with loops that need no files: due moments, receipts, marks, limits and pauses are the same, and survive
//! the program as the rounds do. Nothing fires because a program started; what was missed is caught up as each loop says.

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
use loopwright_core::spec::{CheckMode, Role};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

/// Who starts rounds that are due, on record.
const ACTOR: &str = "scheduler";

/// Runs loops on their cadence.
///
/// All of them share one [`Engine`]: build each with [`build_on`](crate::LoopEngineBuilder::build_on). Their sinks are told of
/// every round that the scheduler runs. The one process that has the state directory open is the one that schedules; the
/// store says who it is when there is another.
#[derive(Clone)]
pub struct LoopScheduler {
    engine: Engine,
    limits: ConcurrencyLimits,
    loops: Arc<Registry>,
}

/// A scheduler at work. Dropping it does not end the scheduler; [`SchedulerHandle::stop`] does.
#[must_use = "the handle is what ends the scheduler"]
pub struct SchedulerHandle {
    daemon: Daemon,
    ending: DaemonJoin,
    /// Rounds that came to rest; `None` ends the reports.
    rested: UnboundedSender<Option<String>>,
    reports: JoinHandle<()>,
}

/// Why a loop cannot be scheduled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// Its cadence means nothing here.
    #[error("loop `{name}`: {} ({})", problem.text, problem.hint)]
    Cadence {
        /// The loop.
        name: String,
        /// What is wrong, and what to write instead.
        problem: CadenceProblem,
    },
    /// Nothing would ever start it.
    #[error("loop `{0}` has no cadence and follows nothing: give it one, for example `every 15m`, or call `run_once`")]
    NeverDue(String),
    /// A loop of that name in that repository is registered already.
    #[error("loop `{0}` is registered already")]
    Twice(String),
    /// It stands on another state directory than the scheduler.
    #[error("loop `{0}` was built on another engine; build it with `build_on` and the scheduler's own")]
    OtherEngine(String),
    /// Its repository cannot be read.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl LoopScheduler {
    /// A scheduler without loops. Loops that name no time zone are meant in UTC.
    #[must_use]
    pub fn new(engine: Engine) -> Self {
        let loops = Registry { zone: "UTC".to_owned(), loops: BTreeMap::new() };
        Self { engine, limits: ConcurrencyLimits::default(), loops: Arc::new(loops) }
    }

    /// The IANA zone of loops that name none. It is looked up when a loop is registered.
    #[must_use]
    pub fn with_zone(mut self, zone: &str) -> Self {
        zone.clone_into(&mut Arc::make_mut(&mut self.loops).zone);
        self
    }

    /// How many rounds may run at once.
    #[must_use]
    pub fn with_limits(mut self, limits: ConcurrencyLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Adds a loop. What is wrong with it is said here, and not when it should have fired.
    ///
    /// # Errors
    /// When its cadence cannot be used, nothing would ever start it, its name is taken, or its repository cannot be read.
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

    /// How many loops there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.loops.loops.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.loops.loops.is_empty()
    }

    /// One pass: starts what is due now and waits for it. What becomes due meanwhile is for the next pass.
    ///
    /// # Errors
    /// When the record cannot be read or kept. What goes wrong with one loop is that loop's outcome.
    pub async fn tick_once(&self) -> Result<TickReport, EngineError> {
        let (rested, rounds, attached) = self.rested();
        // Dropping the pass ends it.
        let done = tick(self.engine.clone(), self.fleet(), self.limits.clone(), &CancelToken::new()).await;
        drop(attached);
        // The other end is the receiver below.
        let _ = rested.send(None);
        deliver(&self.engine, &self.loops, rounds).await;
        done
    }

    /// Takes over what an earlier process left, and schedules in the background until it is stopped. No thread, no ticking:
    /// one timer for the next due moment.
    ///
    /// # Errors
    /// When the record cannot be read, or a scheduler runs on this engine already.
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

    /// The rounds that come to rest here, from the event stream.
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
            // Nobody receives any more when a sink panicked.
            let _ = event.round.clone().filter(|_| is_rest).map(|round| sender.send(Some(round)));
        };
        (own, rounds, self.engine.events().attach(Arc::new(sink)))
    }
}

impl SchedulerHandle {
    /// What the scheduler can be told: pause, resume, stop everything, signal, explain.
    #[must_use]
    pub fn daemon(&self) -> &Daemon {
        &self.daemon
    }

    /// Starts nothing new, lets rounds under way end within the grace, cancels the rest, and waits for all of it.
    pub async fn stop(self, grace: Duration) -> DaemonEnd {
        // One that has ended by itself cannot be asked to; how it ended is the answer.
        let _ = self.daemon.drain(grace).await;
        self.wait().await
    }

    /// Waits for its end, and for its sinks.
    pub async fn wait(self) -> DaemonEnd {
        let ended = self.ending.wait().await;
        // A sink that panicked has ended the reports, and nothing else.
        let _ = self.rested.send(None);
        let _ = self.reports.await;
        ended
    }
}

/// The loops, as the daemon asks for them.
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

/// What a recorded round is bound to whose loop this program does not have: its agents cannot be started, and nothing leaves.
fn unregistered(started: &RoundStarted) -> LoopBindings {
    let what = format!("the loop `{}` is not registered with this scheduler", started.spec.name);
    let absent = Arc::new(AbsentAgent::new("unregistered", &what, "register it before the scheduler starts"));
    let mut agents = RoleAgents::default().with(Role::Maker, Arc::clone(&absent) as _);
    if started.spec.check == CheckMode::Required {
        agents.add(Role::Checker, absent);
    }
    LoopBindings { agents, gate: default_gate_for(started.spec.level).into(), outlet: DeliveryOutlet::ApprovalOnly }
}

/// Tells the sinks of each round, until the daemon has ended. What cannot be read is on record and in nobody's letter box.
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
