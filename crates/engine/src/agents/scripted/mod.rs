//! The scripted agent: deterministic, needs no model. Demos, simulations, dry runs and the tests of every fault use it.
//!
//! A script is a text of blocks. `@ role` starts a block that is used whenever it matches; `attempt=N`, `phase=N` of a
//! maker and `role=NAME` of an attacker narrow it, and the narrowest block is used. A block without a header ends at an empty line (or starts with a bare `@`) and is used
//! once, in order. A step is a verb with words separated by spaces or in `"double quotes"` (`\n \t \" \\`). Text is the
//! rest of the line, quoted text, or `<<END` and the lines down to `END`; bare text gets a newline at its end. A step
//! that fails ends the agent with exit 1, unless it is written `try VERB …`. `# …` is a comment.
//!
//! | verb | does |
//! |---|---|
//! | `say TEXT` | prints a line; one turn |
//! | `flood N`, `flood N line`, `flood N lines` | prints N bytes in lines, in one endless line, or N tiny lines |
//! | `bytes HEX` | prints these bytes |
//! | `write PATH TEXT`, `append PATH TEXT`, `delete PATH` | creates folders as needed; deletes files and folders |
//! | `replace PATH "old" "new"` | every occurrence; fails when there is none |
//! | `symlink PATH TARGET`, `hardlink PATH TARGET`, `fifo PATH` | |
//! | `commit MSG`, `git ARGS…`, `run ARGV…` | a status other than 0 is printed and does not end the script |
//! | `stage NAME TEXT`, `cannot TEXT` | into the outbox folder |
//! | `brief TEXT`, `plan TEXT` | a planner's two files |
//! | `finding severity=WORD place=PATH:LINE trigger=TEXT title=TEXT`, the reproduction below it | adds a finding of an attacker |
//! | `findings none`, `findings raw JSON` | an attacker's file without a finding, or exactly that |
//! | `verdict WORD dim=score@place… "summary"` | place: `path:line`, `gate:name`, `item:name:line`; the rest is filled in |
//! | `verdict raw JSON` | exactly that |
//! | `usage input=N output=N cache_read=N cache_write=N` | total tokens used so far; `none`, `nan`, `negative`, `overflow` make it unknown |
//! | `trouble KIND [status=N] [retry-after=SECONDS] [TEXT]` | reports trouble of its provider; the script continues |
//! | `exit N`, `die SIGNAL`, `hang`, `stop-self`, `ignore-term` | |
//! | `sleep-until FILE` | waits until the file is there, ten minutes at most |
//! | `setsid-child ARGV…`, `leak-pipe`, `write-later MS PATH TEXT` | children in sessions of their own that stay behind |
//! | `fork-bomb` | 62 processes that stay |
//! | `eat-memory [SIZE]`, `fill-disk [SIZE]` | 256M and 64M by default |
//! | `read PATH`, `env`, `connect HOST:PORT`, `resolve NAME` | prints the result |
//! | `kill-parent [SIGNAL]`, `ptrace PID` | tries it and prints the result (`ptrace parent` too) |
//!
//! The steps run in a process of their own, so that the tree can be killed like any agent's: this program, executed
//! again. [`main_if_asked`] is the entry point; a program that never called it is never executed again.

mod host;
mod host_protocol;
#[cfg(feature = "hostile")]
mod hostile;
mod parse;
mod perform;
pub mod script_text;
#[cfg(test)]
mod tests;
mod verb;
mod verbs;

pub(crate) use host::HostProgram;
pub use host::main_if_asked;
pub(super) use host_protocol::read_note;

use super::command::run_text_program;
use super::driver::StartContext;
use super::{Agent, AgentCapabilities, AgentError, AgentInvocation, AgentLog, AgentOutcome};
use crate::proc::{CancelToken, ProcessRunner, SpawnRequest, StartedProcess, StdinSource, TreeCookie};
use host_protocol::{HostPayload, HostTask};
use loopwright_core::BoxFuture;
use parse::{AgentScript, BlockChooser, ScriptBlockHeader};
use std::io::Read;
use std::path::Path;

/// An agent that follows a script.
#[derive(Debug)]
pub struct ScriptedAgent {
    chooser: BlockChooser,
}

impl ScriptedAgent {
    /// Reads a script file. Refuses when this program cannot host scripts, see [`main_if_asked`].
    pub fn read(path: &Path) -> Result<Self, AgentError> {
        let failed = |error| AgentError::failed(format!("read script `{}`: {error}", path.display()), SCRIPT_HINT);
        let mut bytes = Vec::new();
        let file = std::fs::File::open(path).map_err(failed)?;
        file.take(script_text::SCRIPT_MAX as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
        let text = String::from_utf8(bytes).map_err(|error| failed(std::io::Error::other(error)))?;
        Self::from_text(&text)
    }

    /// Parses a script's text. Refuses when this program cannot host scripts, see [`main_if_asked`].
    pub fn from_text(text: &str) -> Result<Self, AgentError> {
        let script = AgentScript::parse(text)?;
        if !host::can_host() {
            let hint = "call `loopwright::agents::main_if_asked()` first thing in `main()`: scripts run in a child \
                process, which is this program executed again";
            return Err(AgentError::failed("this program cannot host the scripted agent", hint));
        }
        Ok(Self { chooser: BlockChooser::new(script) })
    }

    /// Whether a text is a valid script; this needs no host program.
    pub fn check(text: &str) -> Result<(), AgentError> {
        AgentScript::parse(text).map(drop)
    }

    fn prepare(&self, invocation: &AgentInvocation) -> Result<(SpawnRequest, String), AgentError> {
        let start = ScriptBlockHeader {
            role: invocation.role,
            attempt: Some(invocation.attempt),
            phase: invocation.phase,
            attack_role: invocation.attack_role.clone(),
        };
        let steps = self.chooser.choose(&start).ok_or_else(|| {
            let who = format!("{}, attempt {}", invocation.role.word(), invocation.attempt);
            AgentError::Exhausted { who, hint: EXHAUSTED_HINT.to_owned() }
        })?;
        // The cookie's randomness, between bytes that ordinary text does not contain.
        let marker = format!("\u{1e}{}\u{1e}", TreeCookie::new("note").as_str());
        let payload = HostPayload { marker: marker.clone(), task: HostTask::Steps(steps) };
        let mut spawn = host::spawn(invocation)?;
        spawn.args = vec![host::ARGUMENT.into()];
        spawn.stdin = StdinSource::Bytes(payload.to_bytes());
        Ok((spawn, marker))
    }

    async fn run(&self, start: StartContext<'_>) -> Result<AgentOutcome, AgentError> {
        let (spawn, marker) = self.prepare(start.invocation)?;
        run_text_program(spawn, Some(marker.into_bytes()), start).await
    }
}

const SCRIPT_HINT: &str = "`script:` is relative to `.loopwright/`";
const EXHAUSTED_HINT: &str = "add a block `@ role` (used for every attempt) to the script";

impl Agent for ScriptedAgent {
    fn name(&self) -> &str {
        "scripted"
    }

    fn capabilities(&self) -> AgentCapabilities {
        AgentCapabilities {
            usage: true,
            structured_output: true,
            session_isolation: true,
            confined: true,
            ..AgentCapabilities::default()
        }
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
