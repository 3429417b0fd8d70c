//! The tools that loop files name, the tools of each role, and the lists that each program can keep. Each adapter knows
//! their names in its program.

use super::{AgentError, AgentInvocation, acp};
use loopwright_core::spec::{AgentSpec, AgentUse, Role};
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
    listed(&invocation.tools, invocation.role)
}

fn listed(names: &[String], role: Role) -> Result<Vec<AgentTool>, AgentError> {
    if names.is_empty() {
        return Ok(usual(role).to_vec());
    }
    let mut tools = names.iter().map(|name| known(name)).collect::<Result<Vec<_>, _>>()?;
    tools.sort_unstable();
    tools.dedup();
    Ok(tools)
}

/// The files of a role, as far as they decide about its tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolGround {
    /// There is no sandbox: only the program's own restrictions hold.
    Open,
    /// The sandbox makes the files read-only.
    ReadOnly,
    /// The sandbox allows changes.
    Writable,
}

/// Checks an agent of a loop file as its start would: unknown `tools`, lists of them that the program cannot keep or would
/// ignore, and a model that the program needs.
///
/// # Errors
/// The first problem, with its fix.
pub fn check_agent(agent: &AgentSpec, role: Role, ground: ToolGround) -> Result<(), AgentError> {
    if agent.agent == AgentUse::Command && !agent.tools.is_empty() {
        let hint = "leave `tools` out: the sandbox restricts the program";
        return Err(unsupported_error("`tools` has no effect on a `command` agent", hint));
    }
    acp::ensure_model(agent)?;
    let tools = listed(&agent.tools, role)?;
    ensure_kept(agent.agent, &tools, ground)
}

/// The files of a start.
pub(super) fn ground_of(invocation: &AgentInvocation) -> ToolGround {
    match (invocation.view.confine().is_some(), invocation.view.is_read_only()) {
        (false, _) => ToolGround::Open,
        (true, true) => ToolGround::ReadOnly,
        (true, false) => ToolGround::Writable,
    }
}

/// Checks that a program can keep to these tools. Each adapter asks this too, so that `check` and a start agree.
pub(super) fn ensure_kept(agent: AgentUse, tools: &[AgentTool], ground: ToolGround) -> Result<(), AgentError> {
    match agent {
        AgentUse::Codex => codex(tools, ground),
        AgentUse::Opencode => opencode(tools),
        AgentUse::Acp => acp(tools),
        AgentUse::Claude | AgentUse::Gemini | AgentUse::Command | AgentUse::Scripted => Ok(()),
    }
}

/// It runs commands and changes files with one tool that cannot be split.
fn codex(tools: &[AgentTool], ground: ToolGround) -> Result<(), AgentError> {
    let has = |tool| tools.contains(&tool);
    let hint = "leave `tools` out for codex, or choose another agent for this role";
    let refuse = |what: &str| Err(unsupported_error(format!("codex cannot be restricted to {what}"), hint));
    if has(AgentTool::WebFetch) {
        return refuse("`WebFetch`: it has no such tool");
    }
    let (writes, runs) = (has(AgentTool::Edit) || has(AgentTool::Write), has(AgentTool::Bash));
    match (writes, runs, ground) {
        (true, false, _) => refuse("a list without `Bash`: it changes files by running commands"),
        (false, _, ToolGround::Writable) => refuse("a list without `Edit` and `Write` in a writable workspace"),
        (true, true, _) | (false, _, ToolGround::Open | ToolGround::ReadOnly) => Ok(()),
    }
}

fn opencode(tools: &[AgentTool]) -> Result<(), AgentError> {
    if tools.contains(&AgentTool::Edit) == tools.contains(&AgentTool::Write) {
        return Ok(());
    }
    let hint = "name both in `tools`, or neither";
    Err(unsupported_error("opencode cannot have one of `Edit` and `Write` without the other", hint))
}

/// The protocol knows kinds of tools.
fn acp(tools: &[AgentTool]) -> Result<(), AgentError> {
    let has = |tool| tools.contains(&tool);
    let refuse = |what: &str| {
        let hint = "leave `tools` out, or choose an agent that is driven by its own flags";
        Err(unsupported_error(format!("an acp agent cannot be restricted to {what}"), hint))
    };
    if ![AgentTool::Read, AgentTool::Glob, AgentTool::Grep].into_iter().all(has) {
        return refuse("a list without `Read`, `Glob` or `Grep`: it does not ask before it reads");
    }
    if has(AgentTool::Edit) != has(AgentTool::Write) {
        return refuse("a list with only one of `Edit` and `Write`: they are one kind of tool to it");
    }
    Ok(())
}

fn usual(role: Role) -> &'static [AgentTool] {
    match role {
        Role::Maker => {
            &[AgentTool::Read, AgentTool::Glob, AgentTool::Grep, AgentTool::Edit, AgentTool::Write, AgentTool::Bash]
        }
        // A planner that writes files writes only into its sink: the rest of its view is read-only.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(agent: AgentUse, tools: &[&str], role: Role, ground: ToolGround) -> Option<String> {
        let tools = tools.iter().map(|name| (*name).to_owned()).collect();
        let spec = AgentSpec { tools, ..AgentSpec::new(agent) };
        check_agent(&spec, role, ground).err().map(|error| error.to_string())
    }

    #[test]
    fn goose_without_a_model_is_refused_and_others_choose_one() {
        let check = |run: &[&str], model: Option<&str>| {
            let run = run.iter().map(|word| (*word).to_owned()).collect();
            let spec = AgentSpec { run, model: model.map(str::to_owned), ..AgentSpec::new(AgentUse::Acp) };
            check_agent(&spec, Role::Maker, ToolGround::Writable).err().map(|error| error.to_string())
        };
        let refused = check(&["/opt/bin/goose", "acp"], None);
        assert!(refused.is_some_and(|why| why.contains("has no model of its own")));
        assert_eq!([check(&["goose", "acp"], Some("gpt-5.5")), check(&["gemini", "--acp"], None)], [None, None]);
    }

    #[test]
    fn lists_that_a_program_cannot_keep_are_refused_and_usual_ones_are_not() {
        use AgentUse::{Acp, Claude, Codex, Command, Gemini, Opencode};
        use ToolGround::{Open, ReadOnly, Writable};
        let refused: [(AgentUse, &[&str], ToolGround, &str); 9] = [
            (Claude, &["Read", "Teleport"], Writable, "there is no tool `Teleport`"),
            (Gemini, &["read"], Writable, "there is no tool `read`"),
            (Codex, &["Read", "Edit"], Writable, "without `Bash`"),
            (Codex, &["Read", "WebFetch"], ReadOnly, "no such tool"),
            (Codex, &["Read", "Grep"], Writable, "in a writable workspace"),
            (Opencode, &["Read", "Edit"], Writable, "`Edit` and `Write`"),
            (Acp, &["Read"], Writable, "does not ask before it reads"),
            (Acp, &["Read", "Glob", "Grep", "Edit"], Writable, "one kind of tool"),
            (Command, &["Read"], Writable, "no effect"),
        ];
        for (agent, tools, ground, why) in refused {
            let found = problem(agent, tools, Role::Maker, ground).unwrap_or_default();
            assert!(found.contains(why), "{agent:?} {tools:?}: {found}");
        }
        let kept: [(AgentUse, &[&str], ToolGround); 5] = [
            (Claude, &["Read", "Edit"], Writable),
            (Codex, &["Read", "Grep"], ReadOnly),
            (Codex, &["Read", "Grep"], Open),
            (Codex, &["Bash", "Write"], Writable),
            (Opencode, &["Read", "Edit", "Write"], Writable),
        ];
        for (agent, tools, ground) in kept {
            assert_eq!(problem(agent, tools, Role::Maker, ground), None, "{agent:?} {tools:?}");
        }
        for agent in AgentUse::ALL {
            assert_eq!(problem(agent, &[], Role::Maker, Writable), None, "{agent:?}: the usual tools of a maker");
            assert_eq!(problem(agent, &[], Role::Checker, ReadOnly), None, "{agent:?}: the usual tools of a checker");
        }
    }
}
