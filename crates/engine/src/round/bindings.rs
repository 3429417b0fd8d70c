//! What a loop is bound to when it runs: its agents, its human gate, and where its outputs go.

use crate::agents::Agent;
use loopwright_core::deliver::Deliver;
use loopwright_core::human_gate::HumanGate;
use loopwright_core::spec::Role;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a loop is bound to.
#[derive(Clone)]
pub struct LoopBindings {
    /// The agents of each role.
    pub agents: RoleAgents,
    /// Decides at L3 what may leave without a person.
    pub gate: Arc<dyn HumanGate>,
    /// Where outputs go.
    pub outlet: DeliveryOutlet,
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

    /// The same in place.
    pub fn add(&mut self, role: Role, agent: Arc<dyn Agent>) {
        self.0.entry(role).or_default().push(agent);
    }

    /// Replaces a role's chain; an empty one unbinds the role.
    #[must_use]
    pub fn with_chain(mut self, role: Role, chain: Vec<Arc<dyn Agent>>) -> Self {
        self.0.insert(role, chain);
        self
    }

    /// The agents that may play a role, in the order in which they are tried.
    #[must_use]
    pub fn chain(&self, role: Role) -> &[Arc<dyn Agent>] {
        self.0.get(&role).map(Vec::as_slice).unwrap_or_default()
    }

    /// Every agent of every role.
    pub fn iter(&self) -> impl Iterator<Item = (Role, &Arc<dyn Agent>)> {
        self.0.iter().flat_map(|(role, chain)| chain.iter().map(move |agent| (*role, agent)))
    }
}

/// Where outputs go.
#[derive(Clone)]
pub enum DeliveryOutlet {
    /// The local forge in the state directory.
    LocalForge,
    /// Whatever the embedder brings.
    Deliver(Arc<dyn Deliver>),
    /// Nowhere: everything waits for a person, and approving it is refused for want of an executor.
    ApprovalOnly,
}
