//! The library's entry point: one loop, bound to its agents, its human gate and its executor.

use crate::agents::Agent;
use crate::engine::{Engine, EngineSettings};
use crate::error::EngineError;
use crate::events::{EventKind, EventSink};
use crate::executor::ExecutorOutlet;
use crate::proc::CancelToken;
use crate::round::{DeliveryOutlet, LoopBindings, RoleAgents, RunRequest};
use crate::sink::LoopSink;
use loopwright_core::actor::Actor;
use loopwright_core::budget::Reservation;
use loopwright_core::deliver::Deliver;
use loopwright_core::executor::ActionExecutor;
use loopwright_core::human_gate::{HumanGate, default_gate_for};
use loopwright_core::report::RoundReport;
use loopwright_core::spec::{CheckMode, CheckedSpec, LoopSpec, Role, SpecProblems};
use std::path::PathBuf;
use std::sync::Arc;

/// Runs one loop.
///
/// The defaults are careful: every outward action waits for a person ([`AlwaysEscalate`](crate::AlwaysEscalate)), and
/// nothing leaves at all until an executor is bound ([`ApprovalOnlyExecutor`](crate::ApprovalOnlyExecutor)).
#[derive(Clone)]
pub struct LoopEngine {
    pub(crate) engine: Engine,
    pub(crate) spec: CheckedSpec,
    pub(crate) repo: PathBuf,
    pub(crate) bind: LoopBindings,
    sinks: Vec<Arc<dyn LoopSink>>,
    cancel: CancelToken,
}

/// Builds a [`LoopEngine`].
pub struct LoopEngineBuilder {
    spec: LoopSpec,
    maker: Option<Arc<dyn Agent>>,
    checker: Option<Arc<dyn Agent>>,
    fallback: RoleAgents,
    gate: Option<Arc<dyn HumanGate>>,
    outlet: DeliveryOutlet,
    events: Vec<Arc<dyn EventSink>>,
    sinks: Vec<Arc<dyn LoopSink>>,
    cancel: CancelToken,
}

/// The reason why a loop engine could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The spec is not valid.
    #[error("{0}")]
    Spec(SpecProblems),
    /// A role has no agent.
    #[error("the loop has no {0}; bind one with the builder")]
    NoAgent(&'static str),
    /// The state directory could not be opened, or the loop needs something that this build cannot do.
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
            fallback: RoleAgents::default(),
            gate: None,
            outlet: DeliveryOutlet::ApprovalOnly,
            events: Vec::new(),
            sinks: Vec::new(),
            cancel: CancelToken::new(),
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

    /// Stops the running round: the process trees of its agents are killed and it ends as interrupted.
    ///
    /// A stop is final for this value and its clones: a later round ends as interrupted before any agent starts. To
    /// continue, build another on the same [`Engine`].
    pub fn stop(&self) {
        self.cancel.cancel();
    }

    /// Runs one round until it ends or waits for a person. It first recovers the rounds of this loop that a dead engine
    /// left. The sinks receive the report of each.
    ///
    /// # Errors
    /// When no round can start (no repository, no commit, a part of the spec that this build cannot do) or the record
    /// cannot be written. Every other failure, such as a broken agent, is an outcome in the report.
    pub async fn run_once(&self) -> Result<RoundReport, EngineError> {
        let repo = self.engine.git().discover(&self.repo).await?;
        for row in self.engine.collect_abandoned().await? {
            if row.loop_name == self.spec.name && row.repo == repo.id {
                match Box::pin(self.engine.resume(&row.id, &self.bind, &self.cancel)).await {
                    Ok(round) => self.notify_sinks(&self.engine.round_report(&round).await?),
                    // Another call took the round after it was listed.
                    Err(EngineError::Stale(_)) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        let request = RunRequest::manual(self.spec.clone(), &self.repo, "library");
        let report = Box::pin(self.engine.run(request, &self.bind, &self.cancel)).await?;
        Ok(self.notified(report))
    }

    /// Approves a waiting round's candidate, and delivers it when enough people have approved. The answer binds the
    /// candidate that the person saw: take it from the report.
    ///
    /// # Errors
    /// When no round of that id waits, or the loop's approval policy refuses the answer.
    pub async fn approve(
        &self,
        round: &str,
        candidate: &str,
        actor: impl Into<Actor>,
    ) -> Result<RoundReport, EngineError> {
        let report = self.engine.approve(round, candidate, actor, &self.bind).await?;
        Ok(self.notified(report))
    }

    /// Ends a waiting round with a denial.
    ///
    /// # Errors
    /// When no round of that id waits, or the person may not answer.
    pub async fn deny(&self, round: &str, actor: impl Into<Actor>, why: &str) -> Result<RoundReport, EngineError> {
        let report = self.engine.deny(round, actor, why, &self.bind).await?;
        Ok(self.notified(report))
    }

    /// Resumes a suspended round, with its ceilings raised by this much.
    ///
    /// # Errors
    /// [`EngineError::Stale`] when it is not suspended, [`EngineError::WorkGone`] when its workspace no longer exists.
    pub async fn resume(&self, round: &str, actor: &str, raised: Reservation) -> Result<RoundReport, EngineError> {
        let report = self.engine.resume_suspended(round, actor, raised, &self.bind, &self.cancel).await?;
        Ok(self.notified(report))
    }

    fn notified(&self, report: RoundReport) -> RoundReport {
        self.notify_sinks(&report);
        report
    }

    /// Passes the report to every sink; one that fails affects neither the others nor the caller.
    pub(crate) fn notify_sinks(&self, report: &RoundReport) {
        if !report.should_deliver() {
            return;
        }
        for sink in &self.sinks {
            if let Err(error) = sink.deliver(report) {
                let failed = EventKind::SinkFailed { error: error.to_string() };
                self.engine.publish(None, Some(&report.round), failed);
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

    /// Binds a further maker, used while the ones before it are blocked.
    #[must_use]
    pub fn maker_fallback(mut self, agent: impl Agent + 'static) -> Self {
        self.fallback.add(Role::Maker, Arc::new(agent));
        self
    }

    /// Binds a further checker, used while the ones before it are blocked.
    #[must_use]
    pub fn checker_fallback(mut self, agent: impl Agent + 'static) -> Self {
        self.fallback.add(Role::Checker, Arc::new(agent));
        self
    }

    /// Binds a planner or an attacker; several are tried in this order. Without one, the maker's agents play the role.
    #[must_use]
    pub fn role_agent(mut self, role: Role, agent: impl Agent + 'static) -> Self {
        self.fallback.add(role, Arc::new(agent));
        self
    }

    /// Binds the human gate that is asked at L3.
    #[must_use]
    pub fn with_gate(mut self, gate: impl HumanGate + 'static) -> Self {
        self.gate = Some(Arc::new(gate));
        self
    }

    /// Binds the executor of approved actions: a function or an [`ActionExecutor`] that needs only the kind and the
    /// key.
    #[must_use]
    pub fn with_action_executor(mut self, executor: impl ActionExecutor + 'static) -> Self {
        self.outlet = ExecutorOutlet::outlet(Arc::new(executor), self.spec.clone());
        self
    }

    /// Sends approved actions to your own receiver, which gets each item whole: its text, its commit, its marker.
    #[must_use]
    pub fn with_deliver(mut self, deliver: impl Deliver + 'static) -> Self {
        self.outlet = DeliveryOutlet::Deliver(Arc::new(deliver));
        self
    }

    /// Sends approved actions to the local forge of the state directory.
    #[must_use]
    pub fn with_local_forge(mut self) -> Self {
        self.outlet = DeliveryOutlet::LocalForge;
        self
    }

    /// Receives the events of this loop's rounds, in order; several sinks may be bound.
    #[must_use]
    pub fn with_events(mut self, sink: impl EventSink + 'static) -> Self {
        self.events.push(Arc::new(sink));
        self
    }

    /// Passes the report of each round that comes to rest to a sink; several may be bound.
    #[must_use]
    pub fn with_sink(mut self, sink: impl LoopSink + 'static) -> Self {
        self.sinks.push(Arc::new(sink));
        self
    }

    /// Opens the state directory and checks the spec.
    ///
    /// # Errors
    /// When the spec is not valid, a role has no agent, or the state directory cannot be opened.
    pub async fn build(self, settings: EngineSettings, repo: impl Into<PathBuf>) -> Result<LoopEngine, BuildError> {
        let engine = Engine::open(settings).await?;
        self.build_on(engine, repo)
    }

    /// Builds on a state directory that is already open, so that several loops share it.
    ///
    /// # Errors
    /// When the spec is not valid or a role has no agent.
    pub fn build_on(self, engine: Engine, repo: impl Into<PathBuf>) -> Result<LoopEngine, BuildError> {
        let level = self.spec.level;
        let spec = self.spec.check().map_err(BuildError::Spec)?;
        if self.checker.is_none() && spec.check == CheckMode::Required {
            return Err(BuildError::NoAgent("checker"));
        }
        let maker = self.maker.ok_or(BuildError::NoAgent("maker"))?;
        let chain = |first: Option<Arc<dyn Agent>>, role| {
            first.into_iter().chain(self.fallback.chain(role).iter().cloned()).collect()
        };
        let makers: Vec<Arc<dyn Agent>> = chain(Some(maker), Role::Maker);
        let mut agents = RoleAgents::default().with_chain(Role::Checker, chain(self.checker, Role::Checker));
        // A planner or an attacker that is not bound is the maker's agent, started fresh.
        for role in [Role::Planner, Role::Attacker].into_iter().filter(|role| spec.plays(*role)) {
            let named = chain(None, role);
            agents = agents.with_chain(role, if named.is_empty() { makers.clone() } else { named });
        }
        let agents = agents.with_chain(Role::Maker, makers);
        let bind = LoopBindings {
            agents,
            gate: self.gate.unwrap_or_else(|| default_gate_for(level).into()),
            outlet: self.outlet,
        };
        let engine = engine.with_own_events();
        self.events.into_iter().for_each(|sink| engine.events().attach(sink).keep());
        Ok(LoopEngine { engine, spec, repo: repo.into(), bind, sinks: self.sinks, cancel: self.cancel })
    }
}
