//! The tools that loop files name, and which of them a role has. What they are called in a program is its adapter's to say.

use super::{AgentError, Invocation};
use loopwright_core::spec::Role;

/// What an agent may do in its workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tool {
    /// Read files.
    Read,
    /// Find files by name.
    Glob,
    /// Find text in files.
    Grep,
    /// Change files.
    Edit,
    /// Write files.
    Write,
    /// Run commands.
    Bash,
    /// Fetch a page.
    WebFetch,
}

impl Tool {
    pub(super) const ALL: [Self; 7] =
        [Self::Read, Self::Glob, Self::Grep, Self::Edit, Self::Write, Self::Bash, Self::WebFetch];

    /// The name in loop files.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Read => "Read",
            Self::Glob => "Glob",
            Self::Grep => "Grep",
            Self::Edit => "Edit",
            Self::Write => "Write",
            Self::Bash => "Bash",
            Self::WebFetch => "WebFetch",
        }
    }
}

/// The tools of a start, each once: those that are listed, or what the role usually has.
///
/// # Errors
/// A name that no tool has. Left out in silence it would be a weaker list than the one that was written, or a stronger one.
pub(super) fn of(invocation: &Invocation) -> Result<Vec<Tool>, AgentError> {
    if invocation.tools.is_empty() {
        return Ok(usual(invocation.role).to_vec());
    }
    let mut tools = invocation.tools.iter().map(|name| known(name)).collect::<Result<Vec<_>, _>>()?;
    tools.sort_unstable();
    tools.dedup();
    Ok(tools)
}

fn usual(role: Role) -> &'static [Tool] {
    match role {
        Role::Maker => &[Tool::Read, Tool::Glob, Tool::Grep, Tool::Edit, Tool::Write, Tool::Bash],
        Role::Checker | Role::Planner | Role::Prover | Role::Attacker => &[Tool::Read, Tool::Glob, Tool::Grep],
    }
}

fn known(name: &str) -> Result<Tool, AgentError> {
    let found = Tool::ALL.into_iter().find(|tool| tool.word() == name);
    found.ok_or_else(|| {
        let words = Tool::ALL.map(Tool::word).join(", ");
        unsupported(format!("there is no tool `{name}`"), format!("`tools` takes {words}"))
    })
}

/// What is asked of a program that cannot keep to it. Nothing was started.
pub(super) fn unsupported(what: impl Into<String>, hint: impl Into<String>) -> AgentError {
    AgentError::Unavailable { what: what.into(), hint: hint.into() }
}
