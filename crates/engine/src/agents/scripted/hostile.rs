//! The verbs of a hostile agent: they stay, exhaust the host, or attack other processes. Harm is bounded: each resource
//! that a verb takes from the host has a limit. Only builds with the feature `hostile` have them; tests use it,
//! releases do not.

use super::host_protocol::{HostPayload, HostTask};
use super::perform::{Done, complain, files, hang, print, print_result};
use super::script_text::{ScriptLine, number};
use super::verb::ScriptVerb;
use super::verbs::{bytes, signal};
use super::{host, script_text};
use rustix::process::{Pid, Signal, getpid, getppid, kill_process};
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

const MEMORY: u64 = 256 << 20;
const DISK: u64 = 64 << 20;
/// The most that `eat-memory` and `fill-disk` take, whatever the script states: a script must not harm its own host.
const BYTES_MAX: u64 = 4 << 30;
/// Generations of the fork bomb: two in the first, 62 processes in all.
const GENERATIONS: u32 = 5;

/// The action of a hostile step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum HostileVerb {
    IgnoreTerm,
    StopSelf,
    /// Starts another host that leaves the session and then does this.
    Detach(HostileTask),
    ForkBomb,
    EatMemory(u64),
    FillDisk(u64),
    KillParent(String),
    Ptrace(String),
}

/// The task of a host process that a hostile step starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum HostileTask {
    /// Become this program.
    Become(Vec<String>),
    /// Hold the inherited stderr forever.
    Hold,
    /// After this many milliseconds, write this path with this text.
    WriteLater(u64, String, String),
    /// Multiply this many times, then stay.
    Bomb(u32),
}

/// Parses the words of a hostile verb.
pub(super) fn read(line: &mut ScriptLine<'_>) -> Result<ScriptVerb, String> {
    Ok(ScriptVerb::Hostile(match line.name {
        "ignore-term" => line.alone(HostileVerb::IgnoreTerm)?,
        "stop-self" => line.alone(HostileVerb::StopSelf)?,
        "setsid-child" => HostileVerb::Detach(HostileTask::Become(line.some("ARGV…")?)),
        "fork-bomb" => line.alone(HostileVerb::ForkBomb)?,
        "eat-memory" => HostileVerb::EatMemory(bounded(line, MEMORY)?),
        "fill-disk" => HostileVerb::FillDisk(bounded(line, DISK)?),
        "leak-pipe" => line.alone(HostileVerb::Detach(HostileTask::Hold))?,
        "write-later" => HostileVerb::Detach(write_later(line)?),
        "kill-parent" => HostileVerb::KillParent(signal_or(line, "KILL")?),
        "ptrace" => HostileVerb::Ptrace(line.one("PID")?),
        other => return Err(format!("unknown verb `{other}`")),
    }))
}

fn bounded(line: &ScriptLine<'_>, default: u64) -> Result<u64, String> {
    match line.words()?.as_slice() {
        [] => Ok(default),
        [size] => bytes(size).map(|size| size.min(BYTES_MAX)),
        _ => line.usage_line("[SIZE]"),
    }
}

fn signal_or(line: &ScriptLine<'_>, default: &str) -> Result<String, String> {
    match line.words()?.as_slice() {
        [] => Ok(default.to_owned()),
        [name] => signal(name),
        _ => line.usage_line("[SIGNAL]"),
    }
}

fn write_later(line: &mut ScriptLine<'_>) -> Result<HostileTask, String> {
    let (millis, rest) = line.rest.split_once(' ').unwrap_or((line.rest, ""));
    let millis = number(millis)?;
    let rest = rest.trim_start();
    if rest.is_empty() {
        return line.usage_line("MS PATH TEXT");
    }
    let (path, text) = script_text::next(rest)?;
    Ok(HostileTask::WriteLater(millis, path, line.text_in(text.trim_start())?))
}

/// Performs a hostile step; `eaten` holds the memory that the script allocated.
pub(super) fn step(verb: HostileVerb, eaten: &mut Vec<Vec<u8>>) -> Done {
    match verb {
        HostileVerb::IgnoreTerm => ignore_term(),
        HostileVerb::StopSelf => kill_process(getpid(), Signal::STOP).map_err(|error| format!("stop-self: {error}")),
        HostileVerb::Detach(task) => detach(task),
        HostileVerb::ForkBomb => multiply(GENERATIONS),
        HostileVerb::EatMemory(bytes) => {
            // Every page is written, because the kernel allocates memory only then.
            eaten.extend((0..bytes >> 20).map(|_| vec![0xA5; 1 << 20]));
            Ok(())
        }
        HostileVerb::FillDisk(bytes) => files::fill(bytes),
        HostileVerb::KillParent(signal) => kill_parent(&signal),
        HostileVerb::Ptrace(pid) => ptrace(&pid),
    }
}

/// Performs the task of a host process that a hostile step started, and returns its exit code.
#[expect(clippy::disallowed_methods, reason = "a performer is an agent: it waits, and becomes another program")]
pub(super) fn task(task: HostileTask) -> i32 {
    match task {
        HostileTask::Bomb(depth) => {
            // The bomb aims to fill the process table; the existing processes stay.
            let _ = multiply(depth);
            hang()
        }
        HostileTask::Hold => {
            leave();
            hang()
        }
        HostileTask::Become(argv) => {
            leave();
            let Some((program, args)) = argv.split_first() else { return 0 };
            let error = Command::new(program).args(args).stdin(Stdio::null()).stdout(Stdio::null()).exec();
            complain(&format!("setsid-child {program}: {error}"));
            1
        }
        HostileTask::WriteLater(millis, path, text) => {
            leave();
            std::thread::sleep(Duration::from_millis(millis));
            files::write(&path, &text).map_or(1, |()| 0)
        }
    }
}

/// Handles SIGTERM from now on and ignores it.
fn ignore_term() -> Done {
    let failed = |error: std::io::Error| format!("ignore-term: {error}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let guard = runtime.enter();
    drop(tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).map_err(failed)?);
    drop(guard);
    // The handler exists for the life of the process, so the runtime must too.
    std::mem::forget(runtime);
    Ok(())
}

fn multiply(generations: u32) -> Done {
    let Some(depth) = generations.checked_sub(1) else { return Ok(()) };
    for _ in 0..2 {
        start(HostileTask::Bomb(depth), Stdio::null(), Stdio::null())?;
    }
    Ok(())
}

/// Starts another host for `task` and returns once it has left this session. Its output is discarded, except that a
/// task that holds the pipes keeps this process's standard error.
fn detach(task: HostileTask) -> Done {
    let stderr = if task == HostileTask::Hold { Stdio::inherit() } else { Stdio::null() };
    let mut child = start(task, Stdio::piped(), stderr)?;
    let mut ready = [0_u8; 1];
    let out = child.stdout.as_mut().ok_or("the child has no stdout")?;
    out.read_exact(&mut ready).map_err(|error| format!("detach: {error}"))
}

#[expect(clippy::disallowed_methods, reason = "a performer is an agent: the engine ends the tree of its children")]
fn start(task: HostileTask, stdout: Stdio, stderr: Stdio) -> Result<std::process::Child, String> {
    let payload = HostPayload { marker: String::new(), task: HostTask::Hostile(task) }.to_bytes();
    let mut command = Command::new(host::PROGRAM);
    command.arg(host::ARGUMENT).stdin(Stdio::piped()).stdout(stdout).stderr(stderr);
    let mut child = command.spawn().map_err(|error| format!("start a child: {error}"))?;
    let stdin = child.stdin.take().ok_or("the child has no stdin")?;
    { stdin }.write_all(&payload).map_err(|error| format!("write to a child: {error}"))?;
    Ok(child)
}

/// Leaves the session and notifies the waiting parent.
fn leave() {
    if let Err(error) = rustix::process::setsid() {
        complain(&format!("setsid: {error}"));
    }
    // The parent may have exited already, which is intended.
    let _ = print(b".");
}

fn kill_parent(name: &str) -> Done {
    const SIGNALS: [(&str, Signal); 13] = [
        ("HUP", Signal::HUP),
        ("INT", Signal::INT),
        ("QUIT", Signal::QUIT),
        ("ILL", Signal::ILL),
        ("ABRT", Signal::ABORT),
        ("FPE", Signal::FPE),
        ("SEGV", Signal::SEGV),
        ("PIPE", Signal::PIPE),
        ("ALRM", Signal::ALARM),
        ("TERM", Signal::TERM),
        ("BUS", Signal::BUS),
        ("USR1", Signal::USR1),
        ("USR2", Signal::USR2),
    ];
    let Some(parent) = getppid() else { return print_result("kill-parent", Err("no parent is visible")) };
    let signal = SIGNALS.into_iter().find(|(known, _)| *known == name).map_or(Signal::KILL, |(_, signal)| signal);
    print_result("kill-parent", kill_process(parent, signal).map(|()| format!("sent {name}")))
}

/// Opens another process's memory and reads its first map: the kernel does the same permission check as for attaching
/// to it.
fn ptrace(pid: &str) -> Done {
    let pid = match pid {
        "parent" => Pid::as_raw(getppid()).to_string(),
        other => other.to_owned(),
    };
    let opened = std::fs::File::open(format!("/proc/{pid}/mem"));
    let maps = || std::fs::File::open(format!("/proc/{pid}/maps")).and_then(|mut file| file.read(&mut [0; 64]));
    let found = opened.and_then(|_| maps()).map(|_| "allowed".to_owned());
    print_result(&format!("ptrace {pid}"), found)
}
