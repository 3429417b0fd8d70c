//! Any agent that uses the Agent Client Protocol on its standard streams, such as `goose acp` or `gemini --acp`:
//! JSON-RPC, one message per line. This file starts it; `conversation` handles the messages, `policy` the permissions,
//! and `profile` the differences between programs.
//!
//! The protocol has no settings, no cost and no schema. The files that a program would load from the repository are
//! hidden from it, the role's tools decide its permission requests, and it works on files directly inside its sandbox,
//! because the files exist only there.

mod conversation;
mod policy;
mod profile;
mod protocol;

use super::driver::{ProgramLaunch, StartContext, run_program};
use super::installed::{self, InstalledAgent};
use super::steering_files::{self, INSTRUCTION_FILES};
use super::tools::unsupported_error;
use super::{Agent, AgentCapabilities, AgentError, AgentInvocation, AgentLog, AgentOutcome};
use crate::proc::{CancelToken, ProcessRunner, StartedProcess, StdinFeed, StdinSource};
use conversation::AcpConversation;
use loopwright_core::BoxFuture;
use loopwright_core::spec::{AgentSpec, AgentUse};
use policy::AcpPolicy;
use profile::AcpAgentProfile;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Bytes that may be queued until the program reads them, besides its brief.
const UNREAD_MAX: usize = 1 << 20;

/// Checks that the loop file names a model for a program that has none of its own.
pub(super) fn ensure_model(agent: &AgentSpec) -> Result<(), AgentError> {
    let program = agent.run.first().filter(|_| agent.agent == AgentUse::Acp && agent.model.is_none());
    match program.filter(|program| AcpAgentProfile::from_path(Path::new(program)).needs_model()) {
        Some(program) => {
            Err(unsupported_error(format!("`{program}` has no model of its own"), "name one with `model:`"))
        }
        None => Ok(()),
    }
}

/// An agent that uses the Agent Client Protocol.
#[derive(Debug, Clone)]
pub struct AcpAgent {
    installed: InstalledAgent,
    args: Vec<String>,
    known: AcpAgentProfile,
}

impl AcpAgent {
    /// An agent by its command line, from a loop file's `run:`. A bare name is searched on `path` and never in `repo`;
    /// a relative path starts in the workspace.
    ///
    /// # Errors
    /// [`AgentError::NotFound`] when no program has that name, and [`AgentError::Failed`] when the command line is
    /// empty.
    pub fn find(argv: &[String], path: &[PathBuf], repo: Option<&Path>) -> Result<Self, AgentError> {
        let Some((name, args)) = argv.split_first().filter(|(program, _)| !program.is_empty()) else {
            return Err(AgentError::failed("the acp agent has no program", "write `run: [goose, acp]`"));
        };
        let installed = if name.contains('/') {
            InstalledAgent::in_workspace(AgentUse::Acp, PathBuf::from(name))
        } else {
            let hint = || format!("install `{name}` and make sure that it is on PATH");
            let not_found = || AgentError::NotFound { program: name.clone(), hint: hint() };
            installed::find_as(AgentUse::Acp, name, path, repo).ok_or_else(not_found)?
        };
        Ok(Self { installed, args: args.to_vec(), known: AcpAgentProfile::from_path(Path::new(name)) })
    }

    fn launch(&self, invocation: &AgentInvocation, feed: &StdinFeed) -> Result<ProgramLaunch, AgentError> {
        Ok(ProgramLaunch {
            args: self.args.iter().cloned().chain(self.known.server_args(invocation)).map(OsString::from).collect(),
            env: self.known.env(invocation)?,
            stdin: StdinSource::Feed(feed.clone()),
            files: self.known.files(invocation),
            hidden: steering_files::at_top(),
            hidden_below: INSTRUCTION_FILES.to_vec(),
            needs_hidden: self.known.settings(),
        })
    }

    async fn run(&self, start: StartContext<'_>) -> Result<AgentOutcome, AgentError> {
        let invocation = start.invocation;
        let policy = AcpPolicy::from_invocation(invocation, self.known.default_asks())?;
        // Escaped for JSON, one byte of the brief becomes at most six.
        let feed = StdinFeed::new(invocation.prompt.len().saturating_mul(6).saturating_add(UNREAD_MAX));
        let launch = self.launch(invocation, &feed)?;
        let talk = AcpConversation::begin(feed, policy, self.known, invocation);
        run_program(&self.installed, ("the agent", None), launch, Box::new(talk), start).await
    }
}

impl Agent for AcpAgent {
    fn name(&self) -> &str {
        "acp"
    }

    fn capabilities(&self) -> AgentCapabilities {
        AgentCapabilities {
            usage: self.known.reports_usage(),
            structured_output: false,
            tool_allowlist: false,
            ..AgentCapabilities::DRIVEN
        }
    }

    fn version(&self) -> Option<&str> {
        self.installed.version.as_deref()
    }

    fn invoke<'a>(
        &'a self,
        invocation: &'a AgentInvocation,
        proc: &'a ProcessRunner,
        log: &'a mut dyn AgentLog,
        cancel: &'a CancelToken,
        started: &'a mut (dyn FnMut(&StartedProcess) + Send),
    ) -> BoxFuture<'a, Result<AgentOutcome, AgentError>> {
        Box::pin(self.run(StartContext { invocation, proc, log, cancel, started }))
    }
}

#[cfg(test)]
mod tests;
