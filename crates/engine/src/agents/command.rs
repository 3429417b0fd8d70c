//! Any program as an agent: an argv, the brief in place of `{prompt}` or on standard input. Its usage is not known.

use super::listen::{Listener, Notes};
use super::{Agent, AgentError, AgentLog, AgentOutcome, Capabilities, Invocation, env};
use crate::proc::{Cancel, Proc, Spawn, Started, Stdin};
use loopwright_core::BoxFuture;
use std::ffi::OsString;
use std::path::PathBuf;

/// What stands for the brief in an argv.
const PROMPT: &str = "{prompt}";

/// The longest brief that goes by argv: the kernel takes 128 KiB for one word.
const ARGUMENT_MAX: usize = 100 << 10;

/// An agent that is a command.
#[derive(Debug, Clone)]
pub struct Command {
    program: String,
    args: Vec<String>,
}

impl Command {
    /// A command by its words, as a loop file's `run:` has them. A relative program is looked up in the workspace.
    pub fn new(argv: &[String]) -> Result<Self, AgentError> {
        let Some((program, args)) = argv.split_first().filter(|(program, _)| !program.is_empty()) else {
            return Err(AgentError::failed("the command agent has no program", "write `run: [\"./my-agent\"]`"));
        };
        let prompts: usize = argv.iter().map(|word| word.matches(PROMPT).count()).sum();
        if prompts > 1 || program.contains(PROMPT) {
            let hint = "write `{prompt}` at most once, in an argument; without it the brief comes on standard input";
            return Err(AgentError::failed("`{prompt}` cannot stand there", hint));
        }
        Ok(Self { program: program.clone(), args: args.to_vec() })
    }

    fn spawn(&self, invocation: &Invocation) -> Result<Spawn, AgentError> {
        let mut spawn = env::spawn(invocation, PathBuf::from(&self.program));
        if self.args.iter().any(|word| word.contains(PROMPT)) {
            fits(&invocation.prompt)?;
        } else {
            spawn.stdin = Stdin::Bytes(invocation.prompt.clone().into_bytes());
        }
        let filled = self.args.iter().map(|word| word.replacen(PROMPT, &invocation.prompt, 1));
        spawn.args = filled.map(OsString::from).collect();
        Ok(spawn)
    }

    async fn run(
        &self,
        invocation: &Invocation,
        proc: &Proc,
        log: &mut dyn AgentLog,
        cancel: &Cancel,
        started: &mut (dyn FnMut(&Started) + Send),
    ) -> Result<AgentOutcome, AgentError> {
        let spawn = self.spawn(invocation)?;
        run(spawn, invocation, proc, log, cancel, started, Notes::None).await
    }
}

fn fits(prompt: &str) -> Result<(), AgentError> {
    if prompt.len() > ARGUMENT_MAX || prompt.contains('\0') {
        let what = format!("the brief ({} bytes) does not fit into an argument", prompt.len());
        return Err(AgentError::failed(what, "leave `{prompt}` out of `run:`; the brief then comes on standard input"));
    }
    Ok(())
}

/// Runs a prepared program under a listener: what every adapter does in the end.
pub(super) async fn run(
    spawn: Spawn,
    invocation: &Invocation,
    proc: &Proc,
    log: &mut dyn AgentLog,
    cancel: &Cancel,
    started: &mut (dyn FnMut(&Started) + Send),
    notes: Notes,
) -> Result<AgentOutcome, AgentError> {
    let mut listener = Listener::new(log, invocation, notes);
    let ended = proc.run(spawn, &mut listener, cancel, started).await?;
    Ok(listener.finish(ended))
}

impl Agent for Command {
    fn name(&self) -> &str {
        "command"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { session_isolation: true, confined: true, ..Capabilities::default() }
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
