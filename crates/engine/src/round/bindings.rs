//! What a loop is bound to when it runs: its agents, its human gate, and where its outputs go.

use crate::agents::Agent;
use loopwright_core::deliver::Deliver;
use loopwright_core::human_gate::HumanGate;
use loopwright_core::spec::Role;
use std::sync::Arc;

/// What a loop is bound to.
#[derive(Clone)]
pub struct Bindings {
    /// Does the work.
    pub maker: Arc<dyn Agent>,
    /// Judges it; absent only where the loop says `check: none`.
    pub checker: Option<Arc<dyn Agent>>,
    /// Who takes over from them.
    pub fallback: Fallback,
    /// Decides at L3 what may leave without a person.
    pub gate: Arc<dyn HumanGate>,
    /// Where outputs go.
    pub outlet: Outlet,
}

/// Who takes over, in this order, while an agent is not to be had or its provider says no.
#[derive(Clone, Default)]
pub struct Fallback {
    /// From the maker.
    pub maker: Vec<Arc<dyn Agent>>,
    /// From the checker.
    pub checker: Vec<Arc<dyn Agent>>,
}

impl Bindings {
    /// Every agent that may play a role, in the order in which they are tried.
    pub fn chain(&self, role: Role) -> impl Iterator<Item = &Arc<dyn Agent>> {
        let (first, rest) = match role {
            Role::Checker => (self.checker.as_ref(), &self.fallback.checker),
            Role::Maker | Role::Planner | Role::Prover | Role::Attacker => (Some(&self.maker), &self.fallback.maker),
        };
        first.into_iter().chain(rest)
    }

    /// Every agent of every role.
    pub fn agents(&self) -> impl Iterator<Item = (Role, &Arc<dyn Agent>)> {
        [Role::Maker, Role::Checker].into_iter().flat_map(|role| self.chain(role).map(move |agent| (role, agent)))
    }
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
