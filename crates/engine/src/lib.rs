//! Loopwright as a library: run AI coding agents in loops you can trust.
//!
//! A [`LoopSpec`] describes a loop: its purpose, its level of trust, its gates and its outputs. With a maker and a checker
//! it becomes a [`LoopEngine`]; [`run_once`](LoopEngine::run_once) runs one round from recall to record and returns a
//! [`RoundReport`]. It needs no daemon, no command line, no global state and no environment.
//!
//! # Quick start
//!
//! A spec is plain data. It is built, checked, stored and compared without a repository or an agent:
//!
//! ```
//! use loopwright::{LoopLevel, LoopSpec};
//!
//! let spec = LoopSpec::new("issue-triage", "label and route new issues", LoopLevel::L1Report)
//!     .with_cadence("every 2h")
//!     .with_action_kind("comment")
//!     .with_maker_prompt("Propose a label and an owner for each new issue.");
//! let back: LoopSpec = serde_json::from_str(&serde_json::to_string(&spec)?)?;
//! assert_eq!(back, spec);
//! assert!(spec.check().is_ok());
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! A round needs a git repository with a commit, a state directory, and agents. The checkout is never touched: the
//! maker works in a private copy, the gates and the checker see the sealed candidate, and a person approves what waits.
//!
//! ```no_run
//! use loopwright::agents::CommandAgent;
//! use loopwright::spec::{ActionKind, Gate, OutputSpec, RunGate};
//! use loopwright::{EngineSettings, LoopEngine, LoopLevel, LoopSpec, RoundOutcome, StdoutSink};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let mut spec = LoopSpec::new("ci-sweeper", "keep main green", LoopLevel::L2Assisted)
//!     .with_maker_prompt("Find out why the tests fail and fix the cause, not the tests.");
//! spec.gates = vec![Gate::Run(RunGate::new("tests", vec!["./run-tests".into()]))];
//! spec.output = vec![OutputSpec::new(ActionKind::PullRequest)];
//! spec.protect = vec!["tests/**".into()];
//!
//! let engine = LoopEngine::builder(spec)
//!     .maker(CommandAgent::new(&["my-agent".into(), "--work".into()])?)
//!     .checker(CommandAgent::new(&["my-agent".into(), "--judge".into()])?)
//!     .with_local_forge()
//!     .with_sink(StdoutSink)
//!     .build(EngineSettings::new("/var/lib/my-program/loops"), "/srv/my-repository")
//!     .await?;
//!
//! let report = engine.run_once().await?;
//! if report.outcome == Some(RoundOutcome::Escalated) {
//!     // A person has read the report. The approval binds the candidate they saw.
//!     let candidate = report.candidate.as_deref().unwrap_or_default();
//!     engine.approve(&report.round, candidate, "ada").await?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Bindings
//!
//! | role | trait | provided |
//! |---|---|---|
//! | maker, checker | [`Agent`](agents::Agent) | [`CommandAgent`](agents::CommandAgent), [`ScriptedAgent`](agents::ScriptedAgent), your own |
//! | approval at L3 | [`HumanGate`] | [`AlwaysEscalate`] (default), [`AllowlistGate`], [`CallbackGate`] |
//! | delivery of approved work | [`ActionExecutor`], [`Deliver`](deliver::Deliver) | none (default), the local forge, [`CallbackActionExecutor`] |
//! | round reports | [`LoopSink`] | [`StdoutSink`] |
//!
//! A [`LoopScheduler`] runs several loops on one engine, each on its cadence: durable, with one timer and no polling,
//! and stopped by its handle.
//!
//! The defaults are careful: every outward action waits for a person, and nothing leaves before an executor, a receiver
//! or the local forge is bound. The names of outcomes that the seed of this library used are [`RoundOutcome::Shipped`]
//! (`Proceeded`) and [`RoundOutcome::OverBudget`] (`BudgetExhausted`).
//!
//! Each report's `boundary` states what confines an agent. [`CommandAgent`](agents::CommandAgent) and
//! [`ScriptedAgent`](agents::ScriptedAgent) start their programs in a sandbox that the kernel enforces: they see a
//! [`sandbox_view`] and nothing else of this machine. Gates do too. An agent of your own that starts no program has the
//! same access as your program, and the boundary lists it as a gap; one that does start programs starts them in
//! [`AgentInvocation::view`](agents::AgentInvocation) and declares that in its
//! [`AgentCapabilities`](agents::AgentCapabilities). Where the kernel cannot confine agents, loops at L2 and L3 are
//! refused unless their spec has `sandbox: off`; see [`boundary`]. A program that holds keys should call
//! [`proc::make_undumpable`] early. The programs in `examples/` run unchanged.

pub mod agents;
pub mod autonomy;
pub mod backup;
pub mod boundary;
pub mod budget_meter;
pub mod caches;
mod ceiling_source;
pub mod clock;
pub mod connections;
pub mod daemon;
mod decide;
mod depth;
pub mod egress;
pub mod engine;
mod error;
pub mod events;
mod executor;
pub mod forget;
pub mod gates;
pub mod gc;
pub mod git;
pub mod import;
pub mod known_secrets;
mod lease;
pub mod live_line;
mod live_rounds;
mod loop_engine;
mod open_issues;
pub mod outbox;
pub mod path_roots;
pub mod probe;
pub mod proc;
mod proof;
mod questions;
pub mod raise;
pub mod random;
pub mod rename;
pub mod repo_file;
pub mod report;
pub mod round;
pub mod sandbox_view;
mod scheduler;
pub mod seam;
pub mod setup;
pub mod shared_lock;
mod shared_watch;
mod sink;
pub mod staging;
pub mod state_dir;
pub mod store;
pub mod takeover;
pub mod toolchains;
pub mod triggers;
pub mod worker;
pub mod workflow;
pub mod workspace;

pub use ceiling_source::{CeilingSource, PresentCeilings};
pub use decide::QuestionHold;
pub use engine::{CommitIdentity, Engine, EngineSettings};
pub use error::EngineError;
pub use known_secrets::KnownSecrets;
pub use loop_engine::{BuildError, LoopEngine, LoopEngineBuilder};
pub use loopwright_core::BoxFuture;
pub use loopwright_core::actor::{Actor, ActorIdentity};
pub use loopwright_core::budget::{self, BudgetLimit, BudgetState, TokenBudget};
pub use loopwright_core::deliver;
pub use loopwright_core::dispatch::{ConcurrencyLimits, LoopKey};
pub use loopwright_core::executor::{
    ActionError, ActionExecutor, ActionReceipt, ApprovalOnlyExecutor, CallbackActionExecutor,
};
pub use loopwright_core::human_gate::{
    AllowlistGate, AlwaysEscalate, CallbackGate, GateDecision, HumanGate, ProposedAction, default_gate_for,
};
pub use loopwright_core::level::LoopLevel;
pub use loopwright_core::outcome::RoundOutcome;
pub use loopwright_core::patterns;
pub use loopwright_core::report::RoundReport;
pub use loopwright_core::spec::{self, LoopSpec};
pub use loopwright_core::units;
pub use open_issues::open_issues;
pub use scheduler::{LoopScheduler, ScheduleError, SchedulerHandle};
pub use sink::{LoopSink, SinkError, StdoutSink};
