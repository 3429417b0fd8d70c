//! Loopwright as a library: run AI coding agents in loops you can trust.

pub mod agents;
pub mod boundary;
pub mod clock;
mod decide;
pub mod engine;
mod error;
mod executor;
pub mod gates;
pub mod gc;
pub mod git;
mod live;
mod loop_engine;
pub mod outbox;
pub mod places;
pub mod prices;
pub mod proc;
pub mod progress;
mod random;
pub mod report;
pub mod round;
pub mod seam;
mod sink;
pub mod staging;
pub mod store;
pub mod workspace;

pub use engine::{Engine, Identity, Settings};
pub use error::EngineError;
pub use loop_engine::{BuildError, LoopEngine, LoopEngineBuilder};
pub use loopwright_core::BoxFuture;
pub use loopwright_core::budget::{self, BudgetLimit, BudgetState, TokenBudget};
pub use loopwright_core::deliver;
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
pub use sink::{LoopSink, SinkError, StdoutSink};
