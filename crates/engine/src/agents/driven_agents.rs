//! From the agent's name in a loop file to its program on this machine.

use super::driver::{AgentDialect, DrivenAgent, ProgramListener};
use super::installed::{self, InstalledAgent};
use super::stream_observer::StreamObserver;
use super::tools::unsupported_error;
use super::{AcpAgent, Agent, AgentError, AgentInvocation, AgentLog, AgentOutcome};
use crate::proc::{FinishedRun, OutputStream, OutputWatch as _, RunEnd};
use loopwright_core::spec::{AgentSpec, AgentUse};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Agents whose own program is driven, in the order in which one is chosen for a loop that names none.
pub const DRIVEN_AGENTS: [AgentUse; 4] = [AgentUse::Claude, AgentUse::Codex, AgentUse::Opencode, AgentUse::Gemini];

/// The agent of a role. Its program is searched on `path` and never in `repo`.
///
/// # Errors
/// [`AgentError::NotFound`] with an install command; [`AgentError::Unavailable`] for an agent without a program of its
/// own.
pub fn driven_agent(spec: &AgentSpec, path: &[PathBuf], repo: Option<&Path>) -> Result<Arc<dyn Agent>, AgentError> {
    if spec.agent == AgentUse::Acp {
        return Ok(Arc::new(AcpAgent::find(&spec.run, path, repo)?));
    }
    let word = spec.agent.word();
    if dialect(spec.agent).is_none() {
        let what = format!("agent `{word}` has no program of its own");
        return Err(unsupported_error(what, "use `command` with your agent's argv"));
    }
    let not_found = || AgentError::NotFound {
        program: word.to_owned(),
        hint: installed::install_hint(spec.agent).unwrap_or_default(),
    };
    driven_agent_at(installed::find(spec.agent, path, repo).ok_or_else(not_found)?)
}

/// As [`driven_agent`], for a program whose path is known.
///
/// # Errors
/// As [`driven_agent`], for an agent without a program of its own.
pub fn driven_agent_at(installed: InstalledAgent) -> Result<Arc<dyn Agent>, AgentError> {
    let none = || unsupported_error(format!("agent `{}` has no program of its own", installed.agent.word()), "");
    let dialect = dialect(installed.agent).ok_or_else(none)?;
    Ok(Arc::new(DrivenAgent { dialect, installed }))
}

/// The outcome of a recorded stream of an agent, as if its program had just written it and ended like this. `None` for
/// an agent without a program of its own.
pub fn replay_stream(
    agent: AgentUse,
    invocation: &AgentInvocation,
    stream: &[u8],
    how: RunEnd,
    log: &mut dyn AgentLog,
) -> Option<AgentOutcome> {
    /// The most that a pipe returns at once.
    const PIECE: usize = 64 << 10;
    let reader = (dialect(agent)?.reader)(invocation);
    let mut listener = ProgramListener::new(reader, StreamObserver::new(log, invocation));
    for piece in stream.chunks(PIECE) {
        listener.chunk(OutputStream::Stdout, piece);
    }
    listener.finish(FinishedRun::without_output(how)).ok()
}

/// The dialect of an agent; `None` for an agent without a program of its own.
pub(super) fn dialect(agent: AgentUse) -> Option<&'static AgentDialect> {
    match agent {
        AgentUse::Claude => Some(&super::claude::DIALECT),
        AgentUse::Codex => Some(&super::codex::DIALECT),
        AgentUse::Opencode => Some(&super::opencode::DIALECT),
        AgentUse::Gemini => Some(&super::gemini::DIALECT),
        AgentUse::Acp | AgentUse::Command | AgentUse::Scripted => None,
    }
}
