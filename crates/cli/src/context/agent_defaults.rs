//! The agents of loops that name none: those of the configuration, else the first one that is installed. They are found
//! once for all loops of a repository.

use super::{AgentAvailability, CommandContext, CommandError, FileProblem, error_from_problems};
use loopwright_core::spec::{AgentSpec, CheckedSpec, Role};
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::Path;

/// The agents that loops of one repository get in the roles for which they name none.
pub(crate) struct AgentDefaults<'c> {
    cx: &'c CommandContext,
    work_tree: &'c Path,
    configured: BTreeMap<Role, AgentSpec>,
    /// The maker of loops for which the configuration has none. The search looks at every folder of `PATH`.
    installed: OnceCell<Option<AgentSpec>>,
}

impl<'c> AgentDefaults<'c> {
    /// Reads the configuration of a working copy.
    pub(crate) fn read(cx: &'c CommandContext, work_tree: &'c Path) -> Result<Self, CommandError> {
        let configured = cx.config(Some(work_tree))?.config().agents.clone();
        Ok(Self { cx, work_tree, configured, installed: OnceCell::new() })
    }

    /// The loop with an agent in every role that it needs.
    pub(crate) fn complete(&self, spec: CheckedSpec) -> Result<CheckedSpec, CommandError> {
        let mut added = Vec::new();
        let is_used = |role: &Role| matches!(role, Role::Maker | Role::Checker) || spec.plays(*role);
        for role in Role::ALL.into_iter().filter(is_used).filter(|role| !spec.agents.contains_key(role)) {
            let agent = match (self.configured.get(&role), role) {
                (Some(agent), _) => Some(agent.clone()),
                (None, Role::Maker) => self.first_installed()?,
                (None, _) => None,
            };
            added.extend(agent.map(|agent| (role, agent)));
        }
        if added.is_empty() {
            return Ok(spec);
        }
        let mut spec = spec.into_spec();
        spec.agents.extend(added);
        spec.check().map_err(|problems| {
            let found: Vec<_> = problems.into_iter().map(FileProblem::from).collect();
            error_from_problems(&found)
        })
    }

    fn first_installed(&self) -> Result<Option<AgentSpec>, CommandError> {
        if let Some(known) = self.installed.get() {
            return Ok(known.clone());
        }
        let candidates = AgentAvailability::read_all(self.cx, Some(self.work_tree))?;
        let first = candidates.into_iter().find(|candidate| candidate.capabilities.is_some());
        Ok(self.installed.get_or_init(|| first.map(|first| AgentSpec::new(first.agent))).clone())
    }
}
