//! Any agent that speaks the Agent Client Protocol on its standard streams, such as `goose acp` or `gemini --acp`: JSON-RPC,
//! a message a line. Starting it is here; what is said is in `talk`, what it may do in `policy`, what is known of single
//! programs in `known`.
//!
//! The protocol has no settings, no cost and no schema. What a program loads of the repository is hidden from it, what it
//! asks for is answered by the role's tools, and it works on files by itself inside its walls: the files are nowhere else.

mod known;
mod policy;
mod talk;
mod wire;

use super::driver::{Launch, Listener, hide};
use super::hearing::Hearing;
use super::installed::{self, Installed};
use super::tools::unsupported;
use super::{Agent, AgentError, AgentLog, AgentOutcome, Capabilities, Invocation, env, home};
use crate::proc::{Cancel, Feed, Output, Proc, Spawn, Started, Stdin};
use crate::room::Room;
use known::Known;
use loopwright_core::BoxFuture;
use policy::Policy;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use talk::Talk;

/// Bytes that may wait for the program to read them, beside its brief.
const UNREAD_MAX: usize = 1 << 20;

/// An agent that is spoken to in the Agent Client Protocol.
#[derive(Debug, Clone)]
pub struct Acp {
    program: Program,
    args: Vec<String>,
    known: Known,
}

#[derive(Debug, Clone)]
enum Program {
    /// One of this machine.
    Installed(Installed),
    /// A path of the workspace, or of the host.
    At(PathBuf),
}

impl Acp {
    /// An agent by the words of its command line, as a loop file's `run:` has them. A bare name is looked for on `path` and
    /// never in `repo`; a relative path is one in the workspace.
    ///
    /// # Errors
    /// [`AgentError::NotFound`] when nothing of that name is there, and [`AgentError::Failed`] when no program is named.
    pub fn find(argv: &[String], path: &[PathBuf], repo: Option<&Path>) -> Result<Self, AgentError> {
        let Some((name, args)) = argv.split_first().filter(|(program, _)| !program.is_empty()) else {
            return Err(AgentError::failed("the acp agent has no program", "write `run: [goose, acp]`"));
        };
        let program = if name.contains('/') {
            Program::At(PathBuf::from(name))
        } else {
            let hint = || format!("install `{name}` and see that it is on PATH");
            let not_found = || AgentError::NotFound { program: name.clone(), hint: hint() };
            Program::Installed(installed::find_named(name, path, repo).ok_or_else(not_found)?)
        };
        Ok(Self { program, args: args.to_vec(), known: Known::of(Path::new(name)) })
    }

    fn spawn(&self, room: &Room, invocation: &Invocation, feed: &Feed) -> Spawn {
        let (starts, script) = match &self.program {
            Program::Installed(installed) => (installed.starts(), installed.script()),
            Program::At(path) => (path.as_path(), None),
        };
        let mut spawn = env::spawn_in(room, invocation, starts.to_owned());
        spawn.args = script.map(|script| OsString::from(room.see(script))).into_iter().collect();
        spawn.args.extend(self.args.iter().map(OsString::from));
        spawn.env.extend(self.known.env(invocation));
        spawn.stdin = Stdin::Feed(feed.clone());
        spawn.output = Output::Private;
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
        invocation: &Invocation,
        proc: &Proc,
        log: &mut dyn AgentLog,
        cancel: &Cancel,
        started: &mut (dyn FnMut(&Started) + Send),
    ) -> Result<AgentOutcome, AgentError> {
        let policy = Policy::of(invocation, self.known.default_asks())?;
        let (hidden, needs_hidden) = (self.known.instructions(), self.known.settings());
        let hidden_below = self.known.instructions_below();
        let launch = Launch { hidden, hidden_below, needs_hidden, ..Launch::default() };
        let room = hide(&launch, invocation)?;
        let mut hearing = Hearing::new(log, invocation);
        // Instruction files steer, but run nothing.
        for name in room.shows(&launch.hidden, &invocation.workspace) {
            hearing.note(&format!("without walls, the agent reads the repository's `{name}`"));
        }
        if let Some(path) = room.shows_below(&launch.hidden_below, &invocation.workspace) {
            hearing
                .note(&format!("without walls, the agent may read the repository's `{}` and its like", path.display()));
        }
        for (path, bytes) in self.known.files(invocation) {
            home::lay(&invocation.home, &path, &bytes)
                .map_err(|error| AgentError::failed(format!("write `{}`: {error}", path.display()), ""))?;
        }
        // Escaped for JSON, a byte of the brief becomes six at most.
        let feed = Feed::new(invocation.prompt.len().saturating_mul(6).saturating_add(UNREAD_MAX));
        let spawn = self.spawn(&room, invocation, &feed);
        let refusal = Arc::new(Mutex::new(None));
        let talk = Talk::begin(feed, policy, self.known, invocation, Arc::clone(&refusal));
        let mut listener = Listener::new(Box::new(talk), hearing);
        let ended = proc.run(spawn, &mut listener, cancel, started).await?;
        let mut outcome = listener.finish(ended);
        let refused = refusal.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((what, hint)) = refused {
            return Err(unsupported(what, hint));
        }
        outcome.told.version = outcome.told.version.or_else(|| self.version().map(str::to_owned));
        Ok(outcome)
    }
}

impl Agent for Acp {
    fn name(&self) -> &str {
        "acp"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            usage: self.known.tells_usage(),
            structured_output: false,
            tool_allowlist: false,
            ..Capabilities::DRIVEN
        }
    }

    fn version(&self) -> Option<&str> {
        self.version()
    }

    fn invoke<'a>(
        &'a self,
        invocation: &'a Invocation,
        proc: &'a Proc,
        log: &'a mut dyn AgentLog,
        cancel: &'a Cancel,
        started: &'a mut (dyn FnMut(&Started) + Send),
    ) -> BoxFuture<'a, Result<AgentOutcome, AgentError>> {
        Box::pin(self.run(invocation, proc, log, cancel, started))
    }
}

#[cfg(test)]
mod tests;
