//! The daemon without a terminal: its own process and session, with a log in the state directory: the current file and
//! the one before it, both bounded. The command that starts it waits until it is ready or has reported an error.

use crate::context::CommandContext;
use crate::error::{CommandError, CommandErrorKind, VerbResult};
use crate::output::safe;
use rustix::fs::{Mode, OFlags};
use serde::Deserialize;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;

/// How long the daemon may take to get ready before the command stops waiting for it.
const GETS_READY: Duration = Duration::from_secs(120);

/// The longest startup message, in bytes.
const WORD_MAX: u64 = 1 << 20;

/// The error in the first message of the new process.
#[derive(Debug, Deserialize)]
struct Failed {
    kind: CommandErrorKind,
    text: String,
    hints: Vec<String>,
}

/// Starts the daemon and waits until it is ready.
pub(crate) async fn run(cx: &CommandContext) -> VerbResult {
    let (state, _) = cx.state_dir()?;
    let log = log_path(&state);
    let mut child = start(&state, &log).map_err(|error| CommandError::failed(format!("start the daemon: {error}")))?;
    let pid = child.id();
    let pipe = child.stdout.take();
    let Ok(first) = tokio::time::timeout(GETS_READY, read_startup_message(pipe)).await else {
        return Err(CommandError::failed(format!("the daemon, process {pid}, is not ready yet"))
            .hint(format!("see what it does: {}", log.display())));
    };
    let message = first.ok().and_then(|first| serde_json::from_slice::<Value>(&first).ok()).unwrap_or_default();
    match (message["daemon"]["pid"].as_u64(), Failed::deserialize(&message["error"])) {
        (Some(pid), _) => report_started(cx, pid, &log),
        (None, Ok(failed)) => Err(CommandError { hints: failed.hints, ..CommandError::new(failed.kind, failed.text) }),
        (None, Err(_)) => {
            Err(CommandError::failed("the daemon ended before it was ready").hint(format!("see {}", log.display())))
        }
    }
}

/// Reads everything before the new process switches to its log.
async fn read_startup_message(pipe: Option<ChildStdout>) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    if let Some(pipe) = pipe {
        Receiver::from_owned_fd(pipe.into())?.take(WORD_MAX).read_to_end(&mut text).await?;
    }
    Ok(text)
}

fn report_started(cx: &CommandContext, pid: u64, log: &Path) -> VerbResult {
    let document = json!({"schema": 1, "daemon": {"pid": pid, "log": log}});
    Ok(cx.out.answer(&document, || {
        let log = safe(&log.to_string_lossy());
        format!("the daemon runs: process {pid}\nlog: {log}\nsee: loopwright status; stop it: loopwright stop")
    }))
}

#[expect(clippy::disallowed_methods, reason = "the daemon is no process of a round: it outlives this one")]
fn start(state: &Path, log: &Path) -> io::Result<Child> {
    DirBuilder::new().recursive(true).mode(0o700).create(state)?;
    let words = std::env::args_os().skip(1).filter(|word| word != "--detach" && word != "--json");
    let words = words.chain(["--detached", "--json"].map(OsString::from));
    std::process::Command::new(std::env::current_exe()?)
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(open_log(log)?)
        .spawn()
}

/// In the new process, before anything else: leaves the terminal and the folder it was started in.
pub(crate) fn detach_from_terminal() {
    // Neither can fail for a process that was just started, and neither failure is serious.
    let _ = rustix::process::setsid();
    let _ = std::env::set_current_dir("/");
}

/// The size at which a new file begins.
const BYTES_MAX: u64 = 8 << 20;

/// The path of the log.
pub(crate) fn log_path(state: &Path) -> PathBuf {
    state.join("daemon.log")
}

/// Opens the log for appending; begins a new file if it is too long.
fn open_log(log: &Path) -> io::Result<File> {
    if std::fs::metadata(log).is_ok_and(|meta| meta.len() > BYTES_MAX) {
        std::fs::rename(log, log.with_extension("log.1"))?;
    }
    // A pipe in the place of the log would wait for a reader forever.
    let flags =
        OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    Ok(rustix::fs::open(log, flags, Mode::RUSR | Mode::WUSR)?.into())
}

/// The log file behind the streams of a daemon without a terminal.
#[derive(Debug)]
pub(crate) struct DaemonLogFile(PathBuf);

impl DaemonLogFile {
    /// Redirects standard output to the log; standard error goes there from the start.
    pub(crate) fn redirect_stdout(state: &Path) -> Self {
        let streams = Self(log_path(state));
        if let Ok(file) = open_log(&streams.0) {
            let _ = rustix::stdio::dup2_stdout(&file);
        }
        streams
    }

    /// Begins a new file if the current one is too long. If that fails, the old one stays in use.
    pub(crate) fn rotate(&self) {
        if !std::fs::metadata(&self.0).is_ok_and(|meta| meta.len() > BYTES_MAX) {
            return;
        }
        if let Ok(file) = open_log(&self.0) {
            let _ = rustix::stdio::dup2_stdout(&file);
            let _ = rustix::stdio::dup2_stderr(&file);
        }
    }
}
