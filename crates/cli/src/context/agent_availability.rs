//! The agents of this machine: the programs that are installed, their capabilities, and their access to a model.

use super::CommandContext;
use super::providers::{AgentAccess, ModelAccess};
use crate::error::CommandError;
use loopwright::agents::{self, AgentCapabilities, DRIVEN_AGENTS, InstalledAgent};
use loopwright_core::spec::{AgentSpec, AgentUse};
use std::path::Path;

/// One agent that loops can name by a word.
#[derive(Debug)]
pub(crate) struct AgentAvailability {
    /// Its word in loop files.
    pub(crate) agent: AgentUse,
    /// Its program, if installed.
    pub(crate) installed: Option<InstalledAgent>,
    /// Its capabilities; `None` for an agent that this build does not drive.
    pub(crate) capabilities: Option<AgentCapabilities>,
    /// How it gets access to its model.
    pub(crate) access: AgentAccess,
}

impl AgentAvailability {
    /// Whether a loop that names it can run here.
    pub(crate) fn is_usable(&self) -> bool {
        self.capabilities.is_some() && !matches!(self.access, AgentAccess::Missing(_))
    }
}

impl CommandContext {
    /// Every agent that has its own program, in the order in which a loop that names none chooses.
    pub(crate) fn agent_availability(&self, work_tree: Option<&Path>) -> Result<Vec<AgentAvailability>, CommandError> {
        let (access, path) = (self.model_access()?, self.extra_path(work_tree));
        let candidate = |agent: AgentUse| {
            let installed = agents::find(agent, &path, work_tree);
            let driven = installed.clone().and_then(|installed| agents::driven_agent_at(installed).ok());
            let capabilities = driven.map(|agent| agent.capabilities());
            AgentAvailability { agent, installed, capabilities, access: agent_access(&access, agent) }
        };
        Ok(DRIVEN_AGENTS.map(candidate).into())
    }
}

fn agent_access(access: &ModelAccess, agent: AgentUse) -> AgentAccess {
    access.for_agent(&AgentSpec::new(agent))
}
