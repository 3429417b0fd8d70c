//! The permissions of an agent, and the mode in which it asks for them. Each permission is for one use and never
//! permanent: the next request may be for another thing.

use super::super::tools::{self, AgentTool};
use super::super::{AgentError, AgentInvocation};
use super::protocol::PermissionRequest;
use loopwright_core::spec::AgentUse;

/// The rules of one start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AcpPolicy {
    edits: bool,
    runs: bool,
    fetches: bool,
    hold: ToolRestraint,
    default_asks: bool,
    /// The names of the servers that the role may use.
    servers: Vec<String>,
}

/// The mechanism that restricts an agent to its tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ToolRestraint {
    /// It may do everything inside its sandbox.
    Free,
    /// Its sandbox, and also a mode if it has one.
    Walls,
    /// Only a mode in which it asks.
    Mode,
}

impl AcpPolicy {
    /// The rules that follow from a start's tools.
    ///
    /// # Errors
    /// Lists that the protocol's kinds of tools cannot express.
    pub(super) fn from_invocation(invocation: &AgentInvocation, default_asks: bool) -> Result<Self, AgentError> {
        let tools = tools::tools_for(invocation)?;
        let has = |tool| tools.contains(&tool);
        tools::ensure_kept(AgentUse::Acp, &tools, tools::ground_of(invocation))?;
        let (edits, runs) = (has(AgentTool::Edit), has(AgentTool::Bash));
        let hold = match (edits, runs) {
            (true, true) => ToolRestraint::Free,
            (false, _) if invocation.view.is_read_only() => ToolRestraint::Walls,
            _ => ToolRestraint::Mode,
        };
        let servers = invocation.mcp_servers.iter().map(|server| server.name.to_ascii_lowercase()).collect();
        Ok(Self { edits, runs, fetches: has(AgentTool::WebFetch), hold, default_asks, servers })
    }

    /// Whether a request is allowed. The program sets the kind. A title may be a model's text, so it counts only if
    /// there is no kind and it is exactly a tool's name.
    pub(super) fn allows(&self, ask: &PermissionRequest) -> bool {
        match ask.kind() {
            "read" | "search" | "think" => true,
            "edit" | "delete" | "move" => self.edits,
            "execute" => self.runs,
            "fetch" => self.fetches,
            "switch_mode" => false,
            _ => self.by_name(ask.name()),
        }
    }

    fn by_name(&self, name: &str) -> bool {
        match name.to_ascii_lowercase().as_str() {
            "read" | "view" | "read_file" | "glob" | "tree" | "list" | "ls" | "grep" | "search" => true,
            "edit" | "replace" | "write" | "write_file" | "create" => self.edits,
            "bash" | "shell" | "execute" | "run_shell_command" => self.runs,
            "fetch" | "web_fetch" | "webfetch" | "web_search" => self.fetches,
            // An agent that may run commands can do anything that its sandbox allows.
            name => (self.edits && self.runs) || self.is_of_server(name),
        }
    }

    /// Whether a name is that of a tool of a server: `docs__search`, `mcp__docs__search`, `docs: search` or
    /// `search (docs MCP Server)`.
    fn is_of_server(&self, name: &str) -> bool {
        let is_word = |text: &str| {
            let mut letters = text.bytes();
            letters.any(|byte| byte.is_ascii_alphanumeric())
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
        };
        let bare = name.strip_prefix("mcp__").unwrap_or(name);
        self.servers.iter().any(|server| {
            let after = bare.strip_prefix(server.as_str());
            let tool = after
                .and_then(|rest| rest.strip_prefix(": ").or_else(|| rest.strip_prefix(['_', '-'])))
                .or_else(|| name.strip_suffix(&format!(" ({server} mcp server)")));
            tool.is_some_and(is_word)
        })
    }

    /// The mode to switch to, if any.
    ///
    /// # Errors
    /// When only a mode can restrict the agent, and it offers none that does.
    pub(super) fn mode<'m>(&self, offered: &[&'m str]) -> Result<Option<&'m str>, (String, String)> {
        let wanted: &[&str] = match (self.hold, self.edits, self.runs) {
            (ToolRestraint::Free, ..) => return Ok(None),
            (_, false, false) => &["read-only", "readonly", "approve", "ask", "default", "plan"],
            _ => &["approve", "ask", "default"],
        };
        let trusted = |word: &str| word != "default" || self.default_asks;
        let wanted = wanted.iter().filter(|word| self.hold == ToolRestraint::Walls || trusted(word));
        // Some agents write a URL before the name.
        let word = |id: &str| id.rsplit(['#', '/']).next().unwrap_or_default().to_ascii_lowercase();
        let found = wanted.into_iter().find_map(|wanted| offered.iter().copied().find(|id| word(id) == *wanted));
        if found.is_none() && self.needs_mode() { Err(no_mode()) } else { Ok(found) }
    }

    /// Whether the agent must not continue if it refused the mode.
    pub(super) fn needs_mode(&self) -> bool {
        self.hold == ToolRestraint::Mode
    }
}

/// Why an agent that cannot be restricted is refused.
pub(super) fn no_mode() -> (String, String) {
    let what = "the acp agent offers no mode in which it asks before it changes or runs anything".to_owned();
    (what, "leave `tools` out, check the sandbox with `loopwright doctor`, or choose another agent".to_owned())
}
