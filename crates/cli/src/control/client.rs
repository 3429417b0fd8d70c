//! A command that the daemon performs for this process: the command line goes there, its output returns, and this
//! process ends with the same exit code. The first Ctrl-C is passed on; the second one leaves the work to the daemon
//! and prints how to follow it.

use super::socket;
use super::wire::{self, ControlMessage, ControlReply, ControlRequest, VERSION};
use crate::context::CommandContext;
use crate::error::{CommandError, CommandErrorKind, CommandExit, VerbResult};
use crate::output::OutputChunk;
use crate::signals;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::signal::unix::SignalKind;
use tokio::sync::mpsc;

/// How long the daemon may take to begin; it begins at once unless it is frozen.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection to a daemon that listens.
pub(crate) struct DaemonConnection {
    stream: UnixStream,
    /// Its process id, as the kernel reports it.
    pub(crate) pid: Option<i32>,
}

impl DaemonConnection {
    /// Connects to the daemon of a state directory; `None` if none listens.
    pub(crate) async fn connect(state: &Path) -> Result<Option<Self>, CommandError> {
        if !socket::exists(state) {
            return Ok(None);
        }
        let failed = |error: io::Error| CommandError::failed(format!("reach the daemon: {error}"));
        let Some(stream) = socket::connect(state).await.map_err(failed)? else { return Ok(None) };
        let peer = stream.peer_cred().map_err(failed)?;
        if !socket::is_trusted_peer(peer.uid()) {
            let text = format!("the control socket in {} belongs to user {}", state.display(), peer.uid());
            return Err(CommandError::refused(text).hint("remove it, or use another state directory"));
        }
        Ok(Some(Self { stream, pid: peer.pid() }))
    }

    /// Runs this command line in the daemon.
    pub(crate) async fn forward(self, argv: impl Iterator<Item = OsString>, cx: &CommandContext) -> VerbResult {
        let who = self.pid.map_or("the daemon".to_owned(), |pid| format!("the daemon, process {pid},"));
        if self.pid.is_some_and(is_frozen) {
            return Err(no_reply_error(&who, self.pid));
        }
        let lost = |error: io::Error| lost_connection_error(&who, &error);
        let (from, mut to) = self.stream.into_split();
        let mut request = ControlRequest::new(argv, &cx.env, &cx.out);
        request.token = cx.token().map(str::to_owned);
        wire::send(&mut to, &request).await.map_err(lost)?;
        let mut replies = spawn_reply_reader(from);
        let first = tokio::time::timeout(BEGIN_TIMEOUT, replies.recv()).await;
        match first.map_err(|_| no_reply_error(&who, self.pid))? {
            Some(Ok(ControlReply::Begun { version })) if version == VERSION => {}
            Some(Ok(ControlReply::No { kind, text, hints })) => {
                return Err(CommandError { hints, ..CommandError::new(kind, text) });
            }
            Some(Ok(_)) => return Err(version_mismatch_error(&who, self.pid)),
            Some(Err(error)) => return Err(lost(error)),
            None => return Err(lost(io::ErrorKind::UnexpectedEof.into())),
        }
        ForwardedCommand { cx, who: &who, to }.relay_replies(replies).await
    }
}

/// Whether a signal or a debugger holds a process.
pub(crate) fn is_frozen(pid: i32) -> bool {
    matches!(socket::process_state(pid), Some('T' | 't'))
}

/// Reads frames as they arrive; in its own task, because a read of half a frame must not be cancelled.
fn spawn_reply_reader(mut from: OwnedReadHalf) -> mpsc::Receiver<io::Result<ControlReply>> {
    let (sender, receiver) = mpsc::channel(64);
    tokio::spawn(async move {
        while let Some(frame) = wire::receive(&mut from).await.transpose() {
            let is_last = frame.is_err();
            if sender.send(frame).await.is_err() || is_last {
                return;
            }
        }
    });
    receiver
}

struct ForwardedCommand<'c> {
    cx: &'c CommandContext,
    who: &'c str,
    to: OwnedWriteHalf,
}

impl ForwardedCommand<'_> {
    async fn relay_replies(mut self, mut replies: mpsc::Receiver<io::Result<ControlReply>>) -> VerbResult {
        let mut signals = signals::SignalListener::for_kinds([SignalKind::interrupt(), SignalKind::terminate()]);
        let mut hangup = signals::SignalListener::for_kinds([SignalKind::hangup()]);
        let mut asked = false;
        loop {
            tokio::select! {
                reply = replies.recv() => match reply {
                    Some(Ok(ControlReply::Out(text))) => self.cx.out.relay(OutputChunk::Out(text)),
                    Some(Ok(ControlReply::Err(text))) => self.cx.out.relay(OutputChunk::Err(text)),
                    Some(Ok(ControlReply::Exit(code))) => return Ok(CommandExit(code)),
                    Some(Ok(ControlReply::No { kind, text, hints })) => {
                        return Err(CommandError { hints, ..CommandError::new(kind, text) });
                    }
                    Some(Ok(ControlReply::Begun { .. })) => {}
                    Some(Err(error)) => return Err(lost_connection_error(self.who, &error)),
                    None => return Err(lost_connection_error(self.who, &io::ErrorKind::UnexpectedEof.into())),
                },
                () = signals.next() => {
                    if asked {
                        return Err(left_running_error());
                    }
                    asked = true;
                    self.cx.out.note("interrupted: the daemon is ending it; interrupt again to leave now");
                    // The other branch reports a daemon that has gone.
                    let _ = wire::send(&mut self.to, &ControlMessage::Cancel).await;
                }
                // A terminal that closes is not a request to stop: the daemon finishes the work.
                () = hangup.next() => return Err(left_running_error()),
            }
        }
    }
}

fn left_running_error() -> CommandError {
    CommandError::new(CommandErrorKind::Interrupted, "left before the daemon finished the command")
        .hint("it continues there: loopwright status, loopwright rounds")
}

fn lost_connection_error(who: &str, error: &io::Error) -> CommandError {
    CommandError::failed(format!("{who} ended before the command finished: {error}"))
        .hint("see what was recorded: loopwright rounds; start the daemon again: loopwright up")
}

fn no_reply_error(who: &str, pid: Option<i32>) -> CommandError {
    let error = CommandError::failed(format!("{who} does not answer"));
    match pid {
        Some(pid) => error.hint(format!("see what it does: ps -o pid,stat,cmd -p {pid}; wake it: kill -CONT {pid}")),
        None => error,
    }
}

fn version_mismatch_error(who: &str, pid: Option<i32>) -> CommandError {
    let error = CommandError::failed(format!("{who} has another version than this command ({VERSION})"));
    let stop = pid.map_or("loopwright stop".to_owned(), |pid| format!("kill {pid}"));
    error.hint(format!("end it and start it again: {stop}, then loopwright up"))
}
