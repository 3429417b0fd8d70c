//! What a loop is bound to when it runs: its agents, its human gate, and where its outputs go.

use crate::agents::Agent;
use loopwright_core::deliver::Deliver;
use loopwright_core::human_gate::HumanGate;
use std::sync::Arc;

/// What a loop is bound to.
#[derive(Clone)]
pub struct Bindings {
    /// Does the work.
    pub maker: Arc<dyn Agent>,
    /// Judges it; absent only where the loop says `check: none`.
    pub checker: Option<Arc<dyn Agent>>,
    /// Decides at L3 what may leave without a person.
    pub gate: Arc<dyn HumanGate>,
    /// Where outputs go.
    pub outlet: Outlet,
}

/// Where outputs go.
#[derive(Clone)]
pub enum Outlet {
    /// The local forge in the state directory.
    LocalForge,
    /// Whatever the embedder brings.
    Deliver(Arc<dyn Deliver>),
    /// Nowhere: everything waits for a person, and approving it is refused for want of an executor.
    ApprovalOnly,
}
