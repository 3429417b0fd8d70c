//! The daemon without a terminal: started as a process of its own in a session of its own, with a log in the state directory.
//! The command that starts it stays until it is ready or has said why not.

use super::log;
use crate::context::Context;
use crate::error::{CommandError, Kind};
use crate::exit::Exit;
use crate::output::safe;
use crate::verbs::Ended;
use serde::Deserialize;
use serde_json::json;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;

/// How long the daemon may take to get ready before the command stops waiting for it.
const GETS_READY: Duration = Duration::from_secs(120);

/// The longest first word of a daemon.
const WORD_MAX: u64 = 1 << 20;

/// What the new process says first.
#[derive(Debug, Deserialize)]
struct First {
    #[serde(default)]
    daemon: Option<Started>,
    #[serde(default)]
    error: Option<Failed>,
}

#[derive(Debug, Deserialize)]
struct Started {
    pid: u32,
}

#[derive(Debug, Deserialize)]
struct Failed {
    kind: Kind,
    text: String,
    hints: Vec<String>,
}

/// Starts it and waits until it is ready.
pub(crate) async fn run(cx: &Context) -> Ended {
    let (state, _) = cx.state_dir()?;
    let log = log::place(&state);
    let mut child = start(&state, &log).map_err(|error| CommandError::failed(format!("start the daemon: {error}")))?;
    let pid = child.id();
    let pipe = child.stdout.take();
    let Ok(first) = tokio::time::timeout(GETS_READY, first_word(pipe)).await else {
        return Err(CommandError::failed(format!("the daemon, process {pid}, is not ready yet"))
            .hint(format!("see what it does: {}", log.display())));
    };
    match first.and_then(|first| Ok(serde_json::from_slice::<First>(&first)?)) {
        Ok(First { daemon: Some(started), .. }) => told(cx, started.pid, &log),
        Ok(First { error: Some(failed), .. }) => {
            Err(CommandError { hints: failed.hints, ..CommandError::new(failed.kind, failed.text) })
        }
        _ => Err(CommandError::failed("the daemon ended before it was ready").hint(format!("see {}", log.display()))),
    }
}

/// All that comes before the new process turns to its log.
async fn first_word(pipe: Option<ChildStdout>) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    if let Some(pipe) = pipe {
        Receiver::from_owned_fd(pipe.into())?.take(WORD_MAX).read_to_end(&mut text).await?;
    }
    Ok(text)
}

fn told(cx: &Context, pid: u32, log: &Path) -> Ended {
    let document = json!({"schema": 1, "daemon": {"pid": pid, "log": log}});
    cx.out.answer(&document, || {
        let log = safe(&log.to_string_lossy());
        format!("the daemon runs: process {pid}\nlog: {log}\nsee: loopwright status; end it: loopwright stop")
    });
    Ok(Exit::DONE)
}

#[expect(clippy::disallowed_methods, reason = "the daemon is no process of a round: it outlives this one")]
fn start(state: &Path, log: &Path) -> io::Result<Child> {
    log::folder(state)?;
    let words = std::env::args_os().skip(1).filter(|word| word != "--detach" && word != "--json");
    let words = words.chain(["--detached", "--json"].map(OsString::from));
    std::process::Command::new(std::env::current_exe()?)
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log::open(log)?)
        .spawn()
}

/// In the new process, before anything else: away from the terminal and from the folder it was started in.
pub(crate) fn leave() {
    // Neither can fail for a process that was just started, and neither matters enough to stop for.
    let _ = rustix::process::setsid();
    let _ = std::env::set_current_dir("/");
}
