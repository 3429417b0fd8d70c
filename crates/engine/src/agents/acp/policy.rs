//! What an agent may do when it asks, and the mode in which it asks. Permission is given once at a time and never for good:
//! what is asked next may be another thing.

use super::super::tools::{self, AgentTool, unsupported_error};
use super::super::{AgentError, AgentInvocation};
use super::protocol::{PermissionRequest, SessionMode};

/// The rules of one start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AcpPolicy {
    edits: bool,
    runs: bool,
    fetches: bool,
    hold: ToolRestraint,
    default_asks: bool,
}

/// What holds an agent to its tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ToolRestraint {
    /// It may do everything in its walls.
    Free,
    /// Its walls; a mode besides, where it has one.
    Walls,
    /// Nothing but a mode in which it asks.
    Mode,
}

/// What is answered to an ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PermissionAnswer {
    /// This once.
    Allow,
    /// Not this once.
    Reject,
}

impl AcpPolicy {
    /// The rules that a start's tools make.
    ///
    /// # Errors
    /// Lists that the protocol's kinds of tools cannot tell apart.
    pub(super) fn from_invocation(invocation: &AgentInvocation, default_asks: bool) -> Result<Self, AgentError> {
        let tools = tools::tools_for(invocation)?;
        let has = |tool| tools.contains(&tool);
        let refuse = |what: &str| {
            let hint = "leave `tools` out, or choose an agent that is driven by its own flags";
            Err(unsupported_error(format!("an acp agent cannot be held to {what}"), hint))
        };
        if ![AgentTool::Read, AgentTool::Glob, AgentTool::Grep].into_iter().all(has) {
            return refuse("a list without `Read`, `Glob` or `Grep`: it does not ask before it reads");
        }
        if has(AgentTool::Edit) != has(AgentTool::Write) {
            return refuse("a list with only one of `Edit` and `Write`: they are one kind of tool to it");
        }
        let (edits, runs) = (has(AgentTool::Edit), has(AgentTool::Bash));
        let hold = match (edits, runs) {
            (true, true) => ToolRestraint::Free,
            (false, _) if invocation.view.is_read_only() => ToolRestraint::Walls,
            _ => ToolRestraint::Mode,
        };
        Ok(Self { edits, runs, fetches: has(AgentTool::WebFetch), hold, default_asks })
    }

    /// Whether something may be done. The kind is the program's to say; what stands in titles may be a model's words, so it
    /// counts only where there is no kind and it is exactly a tool's name.
    pub(super) fn decide(&self, ask: &PermissionRequest<'_>) -> PermissionAnswer {
        let allowed = match ask.kind() {
            "read" | "search" | "think" => true,
            "edit" | "delete" | "move" => self.edits,
            "execute" => self.runs,
            "fetch" => self.fetches,
            "switch_mode" => false,
            _ => self.by_name(ask.name()),
        };
        if allowed { PermissionAnswer::Allow } else { PermissionAnswer::Reject }
    }

    fn by_name(&self, name: &str) -> bool {
        match name.to_ascii_lowercase().as_str() {
            "read" | "view" | "read_file" | "glob" | "tree" | "list" | "ls" | "grep" | "search" => true,
            "edit" | "replace" | "write" | "write_file" | "create" => self.edits,
            "bash" | "shell" | "execute" | "run_shell_command" => self.runs,
            "fetch" | "web_fetch" | "webfetch" | "web_search" => self.fetches,
            // Who may run commands can do anything that its walls allow.
            _ => self.edits && self.runs,
        }
    }

    /// The mode to switch to, if any.
    ///
    /// # Errors
    /// When nothing but a mode would hold the agent, and it offers none that does.
    pub(super) fn mode<'m>(&self, offered: &'m [SessionMode<'_>]) -> Result<Option<&'m str>, (String, String)> {
        let wanted: &[&str] = match (self.hold, self.edits, self.runs) {
            (ToolRestraint::Free, ..) => return Ok(None),
            (_, false, false) => &["read-only", "readonly", "approve", "ask", "default", "plan"],
            _ => &["approve", "ask", "default"],
        };
        let trusted = |word: &str| word != "default" || self.default_asks;
        let wanted = wanted.iter().filter(|word| self.hold == ToolRestraint::Walls || trusted(word));
        let found = wanted.into_iter().find_map(|word| offered.iter().find(|mode| mode.word() == *word));
        match found {
            Some(mode) => Ok(Some(mode.id.as_ref())),
            None if self.hold == ToolRestraint::Mode => Err(no_mode()),
            None => Ok(None),
        }
    }

    /// Whether the agent may go on when it did not take the mode.
    pub(super) fn needs_mode(&self) -> bool {
        self.hold == ToolRestraint::Mode
    }
}

/// Why an agent that cannot be held is not used.
pub(super) fn no_mode() -> (String, String) {
    let what = "the acp agent offers no mode in which it asks before it changes or runs anything".to_owned();
    (what, "leave `tools` out, see that there are walls (`loopwright doctor`), or choose another agent".to_owned())
}
