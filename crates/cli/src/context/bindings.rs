//! Turns a loop's declarations into what it runs with: agents, human gate, outlet. An agent that is unavailable makes
//! the round fail, and the record says so.

use super::read_repo_file;
use crate::error::CommandError;
use loopwright::agents::{self, AbsentAgent, Agent, AgentError, CommandAgent, DRIVEN_AGENTS, ScriptedAgent};
use loopwright::repo_file::RepoFileError;
use loopwright::round::{DeliveryOutlet, LoopBindings, RoleAgents};
use loopwright::{AllowlistGate, AlwaysEscalate, HumanGate, LoopLevel};
use loopwright_core::spec::{ActionKind, AgentSpec, AgentUse, CheckMode, LoopSpec, Role};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The bindings of a loop, read from its working copy. Searches the programs of agents on `path`.
pub(super) fn bind_loop(spec: &LoopSpec, work_tree: &Path, path: &[PathBuf]) -> Result<LoopBindings, CommandError> {
    let mut makers = chain(spec, Role::Maker, work_tree, path)?;
    if makers.is_empty() {
        makers.push(first_installed(work_tree, path));
    }
    let checkers = match spec.check {
        CheckMode::None => Vec::new(),
        CheckMode::Required => match chain(spec, Role::Checker, work_tree, path)? {
            // The one default across roles: a loop that names no checker uses the maker's agents, started fresh. Each
            // start is its own process, and a script continues where the maker stopped.
            checkers
                if checkers.is_empty()
                    || !spec.agents.contains_key(&Role::Checker)
                    || spec.chain(Role::Checker) == spec.chain(Role::Maker) =>
            {
                makers.clone()
            }
            checkers => checkers,
        },
    };
    let mut agents = RoleAgents::default().with_chain(Role::Checker, checkers);
    for role in [Role::Planner, Role::Attacker].into_iter().filter(|role| spec.plays(*role)) {
        let named = if spec.agents.contains_key(&role) { chain(spec, role, work_tree, path)? } else { makers.clone() };
        agents = agents.with_chain(role, named);
    }
    let agents = agents.with_chain(Role::Maker, makers);
    Ok(LoopBindings { agents, gate: gate(spec), outlet: outlet(spec) })
}

/// The agents of a role in the order in which they are tried.
fn chain(spec: &LoopSpec, role: Role, work_tree: &Path, path: &[PathBuf]) -> Result<AgentChain, CommandError> {
    spec.chain(role).iter().map(|one| agent(one, work_tree, path)).collect()
}

/// Agents in the order in which they are tried.
type AgentChain = Vec<Arc<dyn Agent>>;

/// The bindings of a recorded round whose agents have been removed since.
pub(super) fn bind_without_agents(spec: &LoopSpec, error: &CommandError) -> LoopBindings {
    let hint = error.hints.first().map_or("", String::as_str);
    let agent: Arc<dyn Agent> = Arc::new(AbsentAgent::new("vanished", &error.text, hint));
    let mut agents = RoleAgents::default();
    for role in Role::ALL.into_iter().filter(|role| spec.plays(*role)) {
        agents.add(role, Arc::clone(&agent));
    }
    LoopBindings { agents, gate: gate(spec), outlet: outlet(spec) }
}

fn agent(spec: &AgentSpec, work_tree: &Path, path: &[PathBuf]) -> Result<Arc<dyn Agent>, CommandError> {
    match spec.agent {
        AgentUse::Command => Ok(Arc::new(CommandAgent::new(&spec.run).map_err(wrong)?)),
        AgentUse::Scripted => scripted(spec, work_tree),
        AgentUse::Claude | AgentUse::Codex | AgentUse::Opencode | AgentUse::Gemini | AgentUse::Acp => {
            let found = agents::driven_agent(spec, path, Some(work_tree));
            let missing = |error: AgentError| {
                AbsentAgent::new(spec.agent.word(), &error.to_string(), error.hint().unwrap_or_default())
            };
            Ok(found.unwrap_or_else(|error| Arc::new(missing(error))))
        }
    }
}

/// The agent for a role that names none: the first one installed on this machine.
fn first_installed(work_tree: &Path, path: &[PathBuf]) -> Arc<dyn Agent> {
    let found = DRIVEN_AGENTS
        .iter()
        .find_map(|agent| agents::driven_agent(&AgentSpec::new(*agent), path, Some(work_tree)).ok());
    found.unwrap_or_else(|| Arc::new(unnamed()))
}

fn scripted(spec: &AgentSpec, work_tree: &Path) -> Result<Arc<dyn Agent>, CommandError> {
    let Some(path) = script_path(spec) else {
        return Err(CommandError::invalid("the scripted agent has no script").hint("write `script: NAME` beside `use`"));
    };
    let bytes = read_repo_file(work_tree, &path).map_err(|error| unreadable_script(&path, &error))?;
    Ok(Arc::new(ScriptedAgent::from_text(&String::from_utf8_lossy(&bytes)).map_err(wrong)?))
}

fn unreadable_script(path: &Path, error: &RepoFileError) -> CommandError {
    let problem = CommandError::invalid(format!("read script `{}`: {error}", path.display()));
    problem.hint(error.hint().unwrap_or("`script:` is relative to `.loopwright/`"))
}

/// The path of an agent's script from the root of the working copy: below `.loopwright/`.
pub(crate) fn script_path(spec: &AgentSpec) -> Option<PathBuf> {
    Some(Path::new(".loopwright").join(spec.script.as_ref()?))
}

fn wrong(error: AgentError) -> CommandError {
    let hints = error.hint().map(str::to_owned).into_iter().collect();
    CommandError { hints, ..CommandError::invalid(error.to_string()) }
}

fn gate(spec: &LoopSpec) -> Arc<dyn HumanGate> {
    match spec.level {
        LoopLevel::L3Unattended => Arc::new(AllowlistGate::new(spec.allow.iter().map(|kind| ActionKind::word(*kind)))),
        LoopLevel::L1Report | LoopLevel::L2Assisted => Arc::new(AlwaysEscalate),
    }
}

fn outlet(spec: &LoopSpec) -> DeliveryOutlet {
    if spec.forge == "local" { DeliveryOutlet::LocalForge } else { DeliveryOutlet::NamedForge }
}

fn unnamed() -> AbsentAgent {
    let words = DRIVEN_AGENTS.map(AgentUse::word).join(", ");
    let what = format!("the loop names no maker, and PATH has none of these agents: {words}");
    AbsentAgent::new("none", &what, "install one of them, or write `agents: { maker: { use: command, run: [...] } }`")
}
