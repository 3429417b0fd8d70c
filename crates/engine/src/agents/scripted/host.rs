//! The entry point at which this program becomes a process that performs a script. The performing code runs only in a
//! child.

use super::host_protocol::HostPayload;
use super::perform;
use crate::agents::{AgentError, AgentInvocation, env};
use crate::proc::{SpawnRequest, StdinSource};
use crate::proof::{ProofTask, app_host};
use crate::sandbox_view::{SandboxView, inside};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// The first argument that requests it.
pub(super) const ARGUMENT: &str = "__scripted";

/// The first argument that requests the part of a proof inside the sandbox.
const PROOF_ARGUMENT: &str = "__proof";

/// This program's own file, even if it was replaced on disk.
pub(super) const PROGRAM: &str = "/proc/self/exe";

static ABLE: AtomicBool = AtomicBool::new(false);

/// Whether this program called [`main_if_asked`].
pub(super) fn can_host() -> bool {
    ABLE.load(Ordering::Relaxed)
}

/// Call this first in `main()` of a program that uses [`super::ScriptedAgent`].
///
/// When the program was started to perform a script, it does that and exits; otherwise this records that it can, and
/// returns.
pub fn main_if_asked() {
    if std::env::args_os().nth(1).is_some_and(|first| first == ARGUMENT) {
        std::process::exit(host());
    }
    if std::env::args_os().nth(1).is_some_and(|first| first == PROOF_ARGUMENT) {
        std::process::exit(prove());
    }
    ABLE.store(true, Ordering::Relaxed);
}

/// This program as the agent of an invocation. In a sandbox its file is shown under a name of its own: its real folder
/// stays hidden there, and `/proc/self/exe` would be the launcher.
pub(super) fn spawn(invocation: &AgentInvocation) -> Result<SpawnRequest, AgentError> {
    if invocation.view.confine().is_none() {
        return Ok(env::spawn_in(&invocation.view, invocation, PROGRAM.into()));
    }
    let program = own_file()?;
    let view = invocation.view.clone().with_path_shown(&program, inside::AGENT);
    Ok(env::spawn_in(&view, invocation, program))
}

/// This program as the part of a proof that runs inside the sandbox.
pub(crate) struct HostProgram {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    pub(crate) stdin: StdinSource,
    pub(crate) view: SandboxView,
}

impl HostProgram {
    /// Prepares a proof in a view.
    pub(crate) fn prove(view: SandboxView, task: &ProofTask) -> Result<Self, AgentError> {
        if !can_host() {
            let hint = "call `loopwright::agents::main_if_asked()` first thing in `main()`";
            return Err(AgentError::failed("this program cannot run proofs in a sandbox", hint));
        }
        let stdin = StdinSource::Bytes(serde_json::to_vec(task).expect("a task is plain data and serialises"));
        let args = vec![PROOF_ARGUMENT.into()];
        if view.confine().is_none() {
            return Ok(Self { program: PROGRAM.into(), args, stdin, view });
        }
        let program = own_file()?;
        let view = view.with_path_shown(&program, inside::AGENT);
        Ok(Self { program, args, stdin, view })
    }
}

fn own_file() -> Result<PathBuf, AgentError> {
    std::env::current_exe().map_err(|error| {
        AgentError::failed(format!("find this program's own file: {error}"), "start it again: its file was replaced")
    })
}

/// The part of a proof that runs inside the sandbox.
fn prove() -> i32 {
    match serde_json::from_reader::<_, ProofTask>(std::io::stdin().lock()) {
        Ok(task) => app_host::perform(&task),
        Err(error) => {
            perform::complain(&format!("no task on standard input: {error}"));
            2
        }
    }
}

fn host() -> i32 {
    let payload: HostPayload = match serde_json::from_reader(std::io::stdin().lock()) {
        Ok(payload) => payload,
        Err(error) => {
            perform::complain(&format!("no task on standard input: {error}"));
            return 2;
        }
    };
    perform::task(payload)
}
