//! Any program as an agent: an argv, the brief instead of `{prompt}` or on standard input. Its usage is not known.

use super::driver::StartContext;
use super::run_listener::RunListener;
use super::{Agent, AgentCapabilities, AgentError, AgentInvocation, AgentLog, AgentOutcome, env};
use crate::proc::{CancelToken, ProcessRunner, SpawnRequest, StartedProcess, StdinSource};
use loopwright_core::BoxFuture;
use std::ffi::OsString;
use std::path::PathBuf;

/// The placeholder for the brief in an argv.
const PROMPT: &str = "{prompt}";

/// The longest brief that is passed as an argument: the kernel allows 128 KiB for one word.
const ARGUMENT_MAX: usize = 100 << 10;

/// An agent that is a command.
#[derive(Debug, Clone)]
pub struct CommandAgent {
    program: String,
    args: Vec<String>,
}

impl CommandAgent {
    /// A command line from a loop file's `run:`. A relative program is looked up in the workspace.
    pub fn new(argv: &[String]) -> Result<Self, AgentError> {
        let Some((program, args)) = argv.split_first().filter(|(program, _)| !program.is_empty()) else {
            return Err(AgentError::failed("the command agent has no program", "write `run: [\"./my-agent\"]`"));
        };
        let prompts: usize = argv.iter().map(|word| word.matches(PROMPT).count()).sum();
        if prompts > 1 || program.contains(PROMPT) {
            let hint = "write `{prompt}` at most once, in an argument; without it the brief comes on standard input";
            return Err(AgentError::failed("`{prompt}` is not allowed there", hint));
        }
        Ok(Self { program: program.clone(), args: args.to_vec() })
    }

    fn spawn(&self, invocation: &AgentInvocation) -> Result<SpawnRequest, AgentError> {
        let mut spawn = env::spawn_in(&invocation.view, invocation, PathBuf::from(&self.program));
        if self.args.iter().any(|word| word.contains(PROMPT)) {
            fits(&invocation.prompt)?;
        } else {
            spawn.stdin = StdinSource::Bytes(invocation.prompt.clone().into_bytes());
        }
        let filled = self.args.iter().map(|word| word.replacen(PROMPT, &invocation.prompt, 1));
        spawn.args = filled.map(OsString::from).collect();
        Ok(spawn)
    }
}

fn fits(prompt: &str) -> Result<(), AgentError> {
    if prompt.len() > ARGUMENT_MAX || prompt.contains('\0') {
        let what = format!("the brief ({} bytes) does not fit into an argument", prompt.len());
        return Err(AgentError::failed(what, "leave `{prompt}` out of `run:`; the brief then comes on standard input"));
    }
    Ok(())
}

/// Runs a prepared program that writes text, and notes after this marker.
pub(super) async fn run_text_program(
    spawn: SpawnRequest,
    marker: Option<Vec<u8>>,
    start: StartContext<'_>,
) -> Result<AgentOutcome, AgentError> {
    let mut listener = RunListener::new(start.log, start.invocation, marker);
    let ended = start.proc.run(spawn, &mut listener, start.cancel, start.started).await?;
    Ok(listener.finish(ended))
}

impl Agent for CommandAgent {
    fn name(&self) -> &str {
        "command"
    }

    fn capabilities(&self) -> AgentCapabilities {
        AgentCapabilities { session_isolation: true, confined: true, ..AgentCapabilities::default() }
    }

    fn invoke<'a>(
        &'a self,
        invocation: &'a AgentInvocation,
        proc: &'a ProcessRunner,
        log: &'a mut dyn AgentLog,
        cancel: &'a CancelToken,
        started: &'a mut (dyn FnMut(&StartedProcess) + Send),
    ) -> BoxFuture<'a, Result<AgentOutcome, AgentError>> {
        Box::pin(async move {
            let start = StartContext { invocation, proc, log, cancel, started };
            run_text_program(self.spawn(invocation)?, None, start).await
        })
    }
}
