//! Processes that a script starts: ordinary ones, and ones that try to be forgotten.
#![expect(
    clippy::disallowed_methods,
    reason = "a performer is an agent and no engine: its children belong to the tree that the engine's door ends"
)]

use super::super::host;
use super::super::wire::{Payload, Task};
use super::{Done, complain, hang, print};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Runs a program with the streams of the script and waits; a bad end is told, and is no failure of the script.
pub(super) fn run(argv: &[String]) -> Done {
    let Some((program, args)) = argv.split_first() else { return Ok(()) };
    let status = Command::new(program).args(args).stdin(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => print(format!("run {program}: {status}\n").as_bytes()),
        Err(error) => print(format!("run {program}: could not start: {error}\n").as_bytes()),
    }
}

pub(super) fn git(args: &[String]) -> Done {
    let identity = ["git", "-c", "user.name=scripted", "-c", "user.email=scripted@example.invalid"];
    let argv: Vec<String> = identity.into_iter().map(str::to_owned).chain(args.iter().cloned()).collect();
    run(&argv)
}

pub(super) fn commit(message: &str) -> Done {
    git(&["add".to_owned(), "--all".to_owned()])?;
    git(&["commit".to_owned(), "--quiet".to_owned(), format!("--message={message}")])
}

/// Starts another host for `task` and returns once it has left our session. Its output goes nowhere, except that a
/// task which holds on to our pipes keeps our standard error.
pub(super) fn detach(task: Task) -> Done {
    let stderr = if matches!(task, Task::Hold) { Stdio::inherit() } else { Stdio::null() };
    let mut child = start(task, Stdio::piped(), stderr)?;
    let mut ready = [0_u8; 1];
    let out = child.stdout.as_mut().ok_or("the child has no stdout")?;
    out.read_exact(&mut ready).map_err(|error| format!("detach: {error}"))
}

pub(super) fn start(task: Task, stdout: Stdio, stderr: Stdio) -> Result<std::process::Child, String> {
    let payload = Payload { marker: String::new(), task }.to_bytes();
    let mut command = Command::new(host::PROGRAM);
    command.arg(host::ARGUMENT).stdin(Stdio::piped()).stdout(stdout).stderr(stderr);
    let mut child = command.spawn().map_err(|error| format!("start a child: {error}"))?;
    let stdin = child.stdin.take().ok_or("the child has no stdin")?;
    { stdin }.write_all(&payload).map_err(|error| format!("tell a child: {error}"))?;
    Ok(child)
}

/// Leaves the session and says so to the one who waits.
fn leave() {
    if let Err(error) = rustix::process::setsid() {
        complain(&format!("setsid: {error}"));
    }
    // The parent may be gone already, which is the point of the exercise.
    let _ = print(b".");
}

pub(super) fn become_detached(argv: &[String]) -> i32 {
    leave();
    let Some((program, args)) = argv.split_first() else { return 0 };
    let error = Command::new(program).args(args).stdin(Stdio::null()).stdout(Stdio::null()).exec();
    complain(&format!("setsid-child {program}: {error}"));
    1
}

pub(super) fn hold() -> i32 {
    leave();
    hang()
}

pub(super) fn write_later(millis: u64, path: &str, text: &str) -> i32 {
    leave();
    std::thread::sleep(Duration::from_millis(millis));
    super::files::write(path, text).map_or(1, |()| 0)
}
