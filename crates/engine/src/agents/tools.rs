//! The tools that loop files name, and the tools of each role. Each adapter knows their names in its program.

use super::{AgentError, AgentInvocation};
use loopwright_core::spec::Role;
use loopwright_core::worded;

worded! {
    /// A tool of an agent in its workspace.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub(super) enum AgentTool {
        /// Read files.
        Read = "Read",
        /// Find files by name.
        Glob = "Glob",
        /// Find text in files.
        Grep = "Grep",
        /// Change files.
        Edit = "Edit",
        /// Write files.
        Write = "Write",
        /// Run commands.
        Bash = "Bash",
        /// Fetch a page.
        WebFetch = "WebFetch",
    }
}

/// The tools of a start, each once: the listed ones, or the role's usual ones.
///
/// # Errors
/// An unknown name. Ignoring it silently would give a weaker or a stronger list than the written one.
pub(super) fn tools_for(invocation: &AgentInvocation) -> Result<Vec<AgentTool>, AgentError> {
    if invocation.tools.is_empty() {
        return Ok(usual(invocation.role).to_vec());
    }
    let mut tools = invocation.tools.iter().map(|name| known(name)).collect::<Result<Vec<_>, _>>()?;
    tools.sort_unstable();
    tools.dedup();
    Ok(tools)
}

fn usual(role: Role) -> &'static [AgentTool] {
    match role {
        Role::Maker => {
            &[AgentTool::Read, AgentTool::Glob, AgentTool::Grep, AgentTool::Edit, AgentTool::Write, AgentTool::Bash]
        }
        Role::Checker | Role::Planner | Role::Prover | Role::Attacker => {
            &[AgentTool::Read, AgentTool::Glob, AgentTool::Grep]
        }
    }
}

fn known(name: &str) -> Result<AgentTool, AgentError> {
    let found = AgentTool::ALL.into_iter().find(|tool| tool.word() == name);
    found.ok_or_else(|| {
        let words = AgentTool::ALL.map(AgentTool::word).join(", ");
        unsupported_error(format!("there is no tool `{name}`"), format!("`tools` takes {words}"))
    })
}

/// The error for a restriction that a program cannot enforce. Nothing was started.
pub(super) fn unsupported_error(what: impl Into<String>, hint: impl Into<String>) -> AgentError {
    AgentError::Unavailable { what: what.into(), hint: hint.into() }
}
