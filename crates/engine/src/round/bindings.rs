//! The bindings of a loop when it runs: its agents, its human gate, and the outlet for its outputs.

use crate::agents::Agent;
use loopwright_core::deliver::Deliver;
use loopwright_core::human_gate::{GateDecision, HumanGate, ProposedAction};
use loopwright_core::level::LoopLevel;
use loopwright_core::spec::Role;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The bindings of a loop.
#[derive(Clone)]
pub struct LoopBindings {
    /// The agents of each role.
    pub agents: RoleAgents,
    /// Decides at L3 which outputs may be sent without a person.
    pub gate: Arc<dyn HumanGate>,
    /// The outlet for outputs.
    pub outlet: DeliveryOutlet,
}

impl LoopBindings {
    /// Asks the human gate, which only advises: the level and the sensitive paths were decided before.
    pub(super) fn decide(&self, level: LoopLevel, proposed: &[ProposedAction]) -> GateDecision {
        if matches!(self.outlet, DeliveryOutlet::ApprovalOnly) {
            return GateDecision::escalate("no action executor is configured");
        }
        let mut answers = proposed.iter().map(|action| self.gate.decide(level, action));
        answers.find(|answer| !answer.is_auto()).unwrap_or(GateDecision::AutoProceed)
    }
}

/// The agents of each role, in the order in which they are tried. No role uses the agents of another one: a loop whose
/// checker is the maker's agent binds that agent twice.
#[derive(Clone, Default)]
pub struct RoleAgents(BTreeMap<Role, Vec<Arc<dyn Agent>>>);

impl RoleAgents {
    /// Adds an agent at the end of a role's chain.
    #[must_use]
    pub fn with(mut self, role: Role, agent: Arc<dyn Agent>) -> Self {
        self.add(role, agent);
        self
    }

    /// Adds an agent in place, at the end of a role's chain.
    pub fn add(&mut self, role: Role, agent: Arc<dyn Agent>) {
        self.0.entry(role).or_default().push(agent);
    }

    /// Replaces a role's chain; an empty one unbinds the role.
    #[must_use]
    pub fn with_chain(mut self, role: Role, chain: Vec<Arc<dyn Agent>>) -> Self {
        self.0.insert(role, chain);
        self
    }

    /// The agents of a role, in the order in which they are tried.
    #[must_use]
    pub fn chain(&self, role: Role) -> &[Arc<dyn Agent>] {
        self.0.get(&role).map(Vec::as_slice).unwrap_or_default()
    }

    /// Every agent of every role.
    pub fn iter(&self) -> impl Iterator<Item = (Role, &Arc<dyn Agent>)> {
        self.0.iter().flat_map(|(role, chain)| chain.iter().map(move |agent| (*role, agent)))
    }
}

/// The outlet for outputs.
#[derive(Clone)]
pub enum DeliveryOutlet {
    /// The local forge in the state directory.
    LocalForge,
    /// The forge that the loop names, from the engine's settings.
    NamedForge,
    /// The embedder's own delivery.
    Deliver(Arc<dyn Deliver>),
    /// No outlet: everything waits for a person, and an approval is refused because there is no executor.
    ApprovalOnly,
}
