//! The library's front door: one loop, bound to its agents, its human gate and its executor.

use crate::agents::Agent;
use crate::engine::{Engine, Settings};
use crate::error::EngineError;
use crate::executor::ExecutorOutlet;
use crate::live::By;
use crate::proc::Cancel;
use crate::progress::{Notice, Progress};
use crate::round::{Bindings, Fallback, Outlet, Run, RunRequest};
use crate::sink::LoopSink;
use loopwright_core::budget::Reservation;
use loopwright_core::deliver::Deliver;
use loopwright_core::executor::ActionExecutor;
use loopwright_core::human_gate::{HumanGate, default_gate_for};
use loopwright_core::report::RoundReport;
use loopwright_core::round::Round;
use loopwright_core::spec::{CheckMode, CheckedSpec, LoopSpec, Problems};
use std::path::PathBuf;
use std::sync::Arc;

/// Runs one loop.
///
/// Defaults are the careful ones: nothing leaves without a person ([`AlwaysEscalate`](crate::AlwaysEscalate)), and nothing
/// leaves at all until an executor is bound ([`ApprovalOnlyExecutor`](crate::ApprovalOnlyExecutor)).
#[derive(Clone)]
pub struct LoopEngine {
    pub(crate) engine: Engine,
    pub(crate) spec: CheckedSpec,
    pub(crate) repo: PathBuf,
    pub(crate) bind: Bindings,
    progress: Arc<dyn Progress>,
    sinks: Vec<Arc<dyn LoopSink>>,
    cancel: Cancel,
}

/// Puts a [`LoopEngine`] together.
pub struct LoopEngineBuilder {
    spec: LoopSpec,
    maker: Option<Arc<dyn Agent>>,
    checker: Option<Arc<dyn Agent>>,
    fallback: Fallback,
    gate: Option<Arc<dyn HumanGate>>,
    outlet: Outlet,
    progress: Arc<dyn Progress>,
    sinks: Vec<Arc<dyn LoopSink>>,
    cancel: Cancel,
}

/// Why a loop engine could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The spec is not valid.
    #[error("{0}")]
    Spec(Problems),
    /// A role has no agent.
    #[error("the loop has no {0}; bind one with the builder")]
    NoAgent(&'static str),
    /// The state directory could not be opened, or the loop asks for what this build cannot do.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl LoopEngine {
    /// Starts from a spec.
    #[must_use]
    pub fn builder(spec: LoopSpec) -> LoopEngineBuilder {
        LoopEngineBuilder {
            spec,
            maker: None,
            checker: None,
            fallback: Fallback::default(),
            gate: None,
            outlet: Outlet::ApprovalOnly,
            progress: Arc::new(()),
            sinks: Vec::new(),
            cancel: Cancel::new(),
        }
    }

    /// The loop.
    #[must_use]
    pub fn spec(&self) -> &LoopSpec {
        &self.spec
    }

    /// The opened state directory.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Stops the running round: its agents are ended whole and it ends as interrupted.
    ///
    /// A stop is final for this value and its clones: a later round ends as interrupted before any agent starts. To go on,
    /// build another on the same [`Engine`].
    pub fn stop(&self) {
        self.cancel.cancel();
    }

    /// One round now, to its rest: an end, or waiting for a person. What a dead engine left of this loop is taken to its
    /// end first. The sinks are told of each.
    ///
    /// # Errors
    /// When there can be no round at all (no repository, no commit, a part of the spec that this build cannot do) or the
    /// record cannot be kept. Everything else, also a broken agent, is an outcome of the report.
    pub async fn run_once(&self) -> Result<RoundReport, EngineError> {
        let repo = self.engine.git().discover(&self.repo).await?;
        for row in self.engine.abandoned().await? {
            if row.loop_name == self.spec.name && row.repo == repo.id {
                match self.engine.resume(&row.id, &self.bind, self.progress.as_ref(), &self.cancel).await {
                    Ok(round) => self.tell(&self.engine.report_of(&round).await?),
                    // Another call took it between the look and the hand.
                    Err(EngineError::Stale(_)) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        let request = RunRequest::manual(self.spec.clone(), &self.repo, "library");
        let report = self.engine.run(request, &self.bind, self.progress.as_ref(), &self.cancel).await?;
        Ok(self.told(report))
    }

    /// Lets a waiting round's candidate out and delivers it. The answer binds the candidate that was seen: take it from the
    /// report that was looked at.
    ///
    /// # Errors
    /// When nothing waits under that id or the candidate is another one.
    pub async fn approve(&self, round: &str, candidate: &str, actor: &str) -> Result<RoundReport, EngineError> {
        let report = self.engine.approve(round, candidate, actor, &self.bind, self.progress.as_ref()).await?;
        Ok(self.told(report))
    }

    /// Ends a waiting round with a no.
    ///
    /// # Errors
    /// When nothing waits under that id.
    pub async fn deny(&self, round: &str, actor: &str, why: &str) -> Result<RoundReport, EngineError> {
        let report = self.engine.deny(round, actor, why, &self.bind, self.progress.as_ref()).await?;
        Ok(self.told(report))
    }

    /// Lets a suspended round go on from where it stood, with this much more than its ceilings.
    ///
    /// # Errors
    /// [`EngineError::Stale`] when it is not suspended, [`EngineError::WorkGone`] when there is nothing to go on from.
    pub async fn resume(&self, round: &str, actor: &str, raised: Reservation) -> Result<RoundReport, EngineError> {
        let (progress, cancel) = (self.progress.as_ref(), &self.cancel);
        let report = self.engine.go_on(round, actor, raised, &self.bind, progress, cancel).await?;
        Ok(self.told(report))
    }

    fn told(&self, report: RoundReport) -> RoundReport {
        self.tell(&report);
        report
    }

    /// Tells every sink; one that fails keeps neither the others nor the caller from the report.
    pub(crate) fn tell(&self, report: &RoundReport) {
        if !report.should_deliver() {
            return;
        }
        for sink in &self.sinks {
            if let Err(error) = sink.deliver(report) {
                self.progress.notice(&Notice::SinkFailed { round: &report.round, error: &error });
            }
        }
    }
}

impl LoopEngineBuilder {
    /// Binds the maker.
    #[must_use]
    pub fn maker(mut self, agent: impl Agent + 'static) -> Self {
        self.maker = Some(Arc::new(agent));
        self
    }

    /// Binds the checker.
    #[must_use]
    pub fn checker(mut self, agent: impl Agent + 'static) -> Self {
        self.checker = Some(Arc::new(agent));
        self
    }

    /// Binds a further agent that takes over from the maker while those before it are kept from work.
    #[must_use]
    pub fn maker_fallback(mut self, agent: impl Agent + 'static) -> Self {
        self.fallback.maker.push(Arc::new(agent));
        self
    }

    /// Binds a further agent that takes over from the checker.
    #[must_use]
    pub fn checker_fallback(mut self, agent: impl Agent + 'static) -> Self {
        self.fallback.checker.push(Arc::new(agent));
        self
    }

    /// Binds the human gate that is asked at L3.
    #[must_use]
    pub fn with_gate(mut self, gate: impl HumanGate + 'static) -> Self {
        self.gate = Some(Arc::new(gate));
        self
    }

    /// Binds what performs approved actions: a function or an [`ActionExecutor`] that acts on the kind and the key alone.
    #[must_use]
    pub fn with_action_executor(mut self, executor: impl ActionExecutor + 'static) -> Self {
        self.outlet = ExecutorOutlet::outlet(Arc::new(executor), self.spec.clone());
        self
    }

    /// Sends approved actions to a receiver of your own, which is given each item whole: its text, its commit, its marker.
    #[must_use]
    pub fn with_deliver(mut self, deliver: impl Deliver + 'static) -> Self {
        self.outlet = Outlet::Deliver(Arc::new(deliver));
        self
    }

    /// Sends approved actions to the local forge of the state directory.
    #[must_use]
    pub fn with_local_forge(mut self) -> Self {
        self.outlet = Outlet::LocalForge;
        self
    }

    /// Watches rounds.
    #[must_use]
    pub fn with_progress(mut self, progress: impl Progress + 'static) -> Self {
        self.progress = Arc::new(progress);
        self
    }

    /// Tells a sink of each round that comes to rest; several may be bound.
    #[must_use]
    pub fn with_sink(mut self, sink: impl LoopSink + 'static) -> Self {
        self.sinks.push(Arc::new(sink));
        self
    }

    /// Opens the state directory and checks the spec.
    ///
    /// # Errors
    /// When the spec is not valid, a role has no agent, or the state directory cannot be opened.
    pub async fn build(self, settings: Settings, repo: impl Into<PathBuf>) -> Result<LoopEngine, BuildError> {
        let engine = Engine::open(settings).await?;
        self.build_on(engine, repo)
    }

    /// The same on a state directory that is open already, so that several loops share one.
    ///
    /// # Errors
    /// When the spec is not valid or a role has no agent.
    pub fn build_on(self, engine: Engine, repo: impl Into<PathBuf>) -> Result<LoopEngine, BuildError> {
        let level = self.spec.level;
        let spec = self.spec.check().map_err(BuildError::Spec)?;
        let checker = match (spec.check, self.checker) {
            (CheckMode::Required, None) => return Err(BuildError::NoAgent("checker")),
            (_, checker) => checker,
        };
        let bind = Bindings {
            maker: self.maker.ok_or(BuildError::NoAgent("maker"))?,
            checker,
            fallback: self.fallback,
            gate: self.gate.unwrap_or_else(|| default_gate_for(level).into()),
            outlet: self.outlet,
        };
        Ok(LoopEngine {
            engine,
            spec,
            repo: repo.into(),
            bind,
            progress: self.progress,
            sinks: self.sinks,
            cancel: self.cancel,
        })
    }
}

impl Engine {
    /// Runs one round to its rest: an end, or waiting for a person.
    ///
    /// # Errors
    /// When the loop cannot run here, or the record cannot be kept.
    pub async fn run(
        &self,
        request: RunRequest,
        bind: &Bindings,
        progress: &dyn Progress,
        cancel: &Cancel,
    ) -> Result<RoundReport, EngineError> {
        let round = self.run_by(request, bind, progress, cancel, By::Hand, &mut |_| ()).await?;
        self.report_of(&round).await
    }

    /// The same, by the daemon or by hand. Says when the round is on record.
    pub(crate) async fn run_by(
        &self,
        request: RunRequest,
        bind: &Bindings,
        progress: &dyn Progress,
        cancel: &Cancel,
        by: By,
        born: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Round, EngineError> {
        let why = request.spec.not_runnable();
        if !why.is_empty() {
            return Err(EngineError::NotRunnable { name: request.spec.name.clone(), why });
        }
        let (mut run, actions) = Run::start(self, bind, request, progress, cancel, by).await?;
        born(&run.round().facts().started.round);
        if let Err(error) = run.drive(actions).await {
            self.give_back(&run.round().facts().started.round).await;
            return Err(error);
        }
        run.tidy().await;
        Ok(run.rested().await)
    }
}
