//! The agents of this machine: which programs are there, what each can do, and by what it asks its model.

use super::Context;
use super::providers::{Access, Standing};
use crate::error::CommandError;
use loopwright::agents::{self, Capabilities, DRIVEN, Installed};
use loopwright_core::spec::{AgentSpec, AgentUse};
use std::path::Path;

/// One agent that loops can name by a word.
#[derive(Debug)]
pub(crate) struct Candidate {
    /// Its word.
    pub(crate) agent: AgentUse,
    /// Its program, if it is there.
    pub(crate) installed: Option<Installed>,
    /// What it can do; known of one that this build drives.
    pub(crate) capabilities: Option<Capabilities>,
    /// By what it asks its model.
    pub(crate) standing: Standing,
}

impl Candidate {
    /// Whether a loop that names it would run here.
    pub(crate) fn is_usable(&self) -> bool {
        self.capabilities.is_some() && !matches!(self.standing, Standing::Lacking(_))
    }
}

impl Context {
    /// Every agent that has a program of its own, in the order in which one is chosen for a loop that names none.
    pub(crate) fn candidates(&self, work_tree: Option<&Path>) -> Result<Vec<Candidate>, CommandError> {
        let (access, path) = (self.access()?, self.extra_path(work_tree));
        let candidate = |agent: AgentUse| {
            let installed = agents::find(agent, &path, work_tree);
            let driven = installed.clone().and_then(|installed| agents::driven_by(installed).ok());
            let capabilities = driven.map(|agent| agent.capabilities());
            Candidate { agent, installed, capabilities, standing: standing(&access, agent) }
        };
        Ok(DRIVEN.map(candidate).into())
    }
}

fn standing(access: &Access, agent: AgentUse) -> Standing {
    access.of(&AgentSpec::new(agent))
}
