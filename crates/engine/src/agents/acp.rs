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

use super::driver::{ProgramLaunch, ProgramListener, hidden_view};
use super::installed::{self, InstalledAgent};
use super::stream_observer::StreamObserver;
use super::tools::unsupported_error;
use super::{Agent, AgentCapabilities, AgentError, AgentInvocation, AgentLog, AgentOutcome, env, home};
use crate::proc::{CancelToken, OutputChannel, ProcessRunner, SpawnRequest, StartedProcess, StdinFeed, StdinSource};
use crate::sandbox_view::SandboxView;
use conversation::AcpConversation;
use loopwright_core::BoxFuture;
use policy::AcpPolicy;
use profile::AcpAgentProfile;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that may be queued until the program reads them, besides its brief.
const UNREAD_MAX: usize = 1 << 20;

/// An agent that uses the Agent Client Protocol.
#[derive(Debug, Clone)]
pub struct AcpAgent {
    program: Program,
    args: Vec<String>,
    known: AcpAgentProfile,
}

#[derive(Debug, Clone)]
enum Program {
    /// A program of this machine.
    Installed(InstalledAgent),
    /// A path of the workspace, or of the host.
    At(PathBuf),
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
        let program = if name.contains('/') {
            Program::At(PathBuf::from(name))
        } else {
            let hint = || format!("install `{name}` and make sure that it is on PATH");
            let not_found = || AgentError::NotFound { program: name.clone(), hint: hint() };
            Program::Installed(installed::find_named(name, path, repo).ok_or_else(not_found)?)
        };
        Ok(Self { program, args: args.to_vec(), known: AcpAgentProfile::from_path(Path::new(name)) })
    }

    fn spawn(&self, room: &SandboxView, invocation: &AgentInvocation, feed: &StdinFeed) -> SpawnRequest {
        let (starts, script) = match &self.program {
            Program::Installed(installed) => (installed.executable(), installed.script_argument()),
            Program::At(path) => (path.as_path(), None),
        };
        let mut spawn = env::spawn_in(room, invocation, starts.to_owned());
        spawn.args = script.map(|script| OsString::from(room.inside_path(script))).into_iter().collect();
        spawn.args.extend(self.args.iter().map(OsString::from));
        spawn.env.extend(self.known.env(invocation));
        spawn.stdin = StdinSource::Feed(feed.clone());
        spawn.output = OutputChannel::Private;
        spawn
    }

    fn version(&self) -> Option<&str> {
        match &self.program {
            Program::Installed(installed) => installed.version.as_deref(),
            Program::At(_) => None,
        }
    }

    async fn run(
        &self,
        invocation: &AgentInvocation,
        proc: &ProcessRunner,
        log: &mut dyn AgentLog,
        cancel: &CancelToken,
        started: &mut (dyn FnMut(&StartedProcess) + Send),
    ) -> Result<AgentOutcome, AgentError> {
        let policy = AcpPolicy::from_invocation(invocation, self.known.default_asks())?;
        let (hidden, needs_hidden) = (self.known.instructions(), self.known.settings());
        let hidden_below = self.known.instructions_below();
        let launch = ProgramLaunch { hidden, hidden_below, needs_hidden, ..ProgramLaunch::default() };
        let room = hidden_view(&launch, invocation)?;
        let mut hearing = StreamObserver::new(log, invocation);
        // Instruction files influence the agent, but run nothing.
        for name in room.visible_names(&launch.hidden, &invocation.workspace) {
            hearing.note(&format!("without a sandbox, the agent reads the repository's `{name}`"));
        }
        if let Some(path) = room.visible_below(&launch.hidden_below, &invocation.workspace) {
            hearing.note(&format!(
                "without a sandbox, the agent may read files such as the repository's `{}`",
                path.display()
            ));
        }
        for (path, bytes) in self.known.files(invocation) {
            home::write_private_file(&invocation.home, &path, &bytes)
                .map_err(|error| AgentError::failed(format!("write `{}`: {error}", path.display()), ""))?;
        }
        // Escaped for JSON, one byte of the brief becomes at most six.
        let feed = StdinFeed::new(invocation.prompt.len().saturating_mul(6).saturating_add(UNREAD_MAX));
        let spawn = self.spawn(&room, invocation, &feed);
        let refusal = Arc::new(Mutex::new(None));
        let talk = AcpConversation::begin(feed, policy, self.known, invocation, Arc::clone(&refusal));
        let mut listener = ProgramListener::new(Box::new(talk), hearing);
        let ended = proc.run(spawn, &mut listener, cancel, started).await?;
        let mut outcome = listener.finish(ended);
        let refused = refusal.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((what, hint)) = refused {
            return Err(unsupported_error(what, hint));
        }
        outcome.self_report.version = outcome.self_report.version.or_else(|| self.version().map(str::to_owned));
        Ok(outcome)
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
        self.version()
    }

    fn invoke<'a>(
        &'a self,
        invocation: &'a AgentInvocation,
        proc: &'a ProcessRunner,
        log: &'a mut dyn AgentLog,
        cancel: &'a CancelToken,
        started: &'a mut (dyn FnMut(&StartedProcess) + Send),
    ) -> BoxFuture<'a, Result<AgentOutcome, AgentError>> {
        Box::pin(self.run(invocation, proc, log, cancel, started))
    }
}

#[cfg(test)]
mod tests;
