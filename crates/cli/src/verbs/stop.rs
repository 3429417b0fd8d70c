//! `stop`: asks the daemon to let its rounds end and to exit, and waits for that; `stop ROUND` cancels one round; `stop
//! --all` stops everything until `thaw`, also across restarts.
//!
//! A signal asks the daemon to end, which every version understands. A file in the state directory is enough to stop
//! everything; it works even if another process holds the store.

use super::{CommandContext, CommandError, CommandErrorKind, CommandExit, VerbResult, close, safe};
use crate::control::DaemonConnection;
use crate::view::find;
use loopwright::Engine;
use loopwright::daemon::STOP_FILE;
use loopwright::store::{LeaseHolder, RoundLease};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::json;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;

#[derive(Debug, clap::Args)]
pub(crate) struct StopArgs {
    /// Cancel this round of the daemon: its id, or its first characters
    #[arg(value_name = "ROUND", conflicts_with_all = ["all", "now"])]
    round: Option<String>,
    /// Stop everything: cancel all rounds and start none until `thaw`, also after a restart
    #[arg(long, conflicts_with = "now")]
    all: bool,
    /// Interrupt running rounds instead of waiting for them
    #[arg(long)]
    now: bool,
    /// The reason, for the record
    #[arg(long, value_name = "TEXT", default_value = "stopped manually")]
    pub(super) why: String,
}

impl StopArgs {
    /// Whether the owner of the store has to do it.
    pub(crate) fn needs_store_owner(&self) -> bool {
        self.all || self.round.is_some()
    }

    /// Whether it has to work even if everything else fails.
    pub(crate) fn stops_everything(&self) -> bool {
        self.all
    }
}

pub(crate) async fn run(args: StopArgs, cx: &CommandContext) -> VerbResult {
    match &args.round {
        Some(round) => cancel_round(cx, round, &args.why).await,
        None if args.all => stop_everything(cx, &args.why).await,
        None => stop_daemon(cx, args.now).await,
    }
}

async fn stop_daemon(cx: &CommandContext, now: bool) -> VerbResult {
    let state = cx.state_dir_with_broken_config()?;
    let Some(peer) = DaemonConnection::connect(&state).await? else {
        cx.out.answer(&json!({"schema": 1, "stopped": null}), || "no daemon runs here".to_owned());
        return Ok(CommandExit::DONE);
    };
    let unknown = || CommandError::failed("the daemon is not a process of this machine");
    let pid = peer.pid.and_then(Pid::from_raw).ok_or_else(unknown)?;
    let process = pidfd_open(pid, PidfdFlags::NONBLOCK).map_err(|error| gone(pid, error))?;
    drop(peer);
    // The kernel may merge two signals of one kind.
    let signals = if now { &[Signal::TERM, Signal::INT][..] } else { &[Signal::TERM] };
    for signal in signals {
        pidfd_send_signal(&process, *signal).map_err(|error| gone(pid, error))?;
    }
    cx.out.note(&format!("asked the daemon, process {}, to end; waiting for its rounds", pid.as_raw_nonzero()));
    wait_for_exit(&process).map_err(|error| CommandError::failed(format!("wait for the daemon: {error}")))?;
    let document = json!({"schema": 1, "stopped": pid.as_raw_nonzero()});
    Ok(cx.out.answer(&document, || format!("the daemon, process {}, has ended", pid.as_raw_nonzero())))
}

/// The descriptor of a process becomes readable when it exits. This process only waits; Ctrl-C ends it.
fn wait_for_exit(process: &OwnedFd) -> rustix::io::Result<()> {
    loop {
        match poll(&mut [PollFd::new(process, PollFlags::IN)], None) {
            Err(Errno::INTR) => {}
            polled => return polled.map(drop),
        }
    }
}

fn gone(pid: Pid, error: Errno) -> CommandError {
    CommandError::failed(format!("signal process {}: {error}", pid.as_raw_nonzero()))
}

async fn cancel_round(cx: &CommandContext, text: &str, why: &str) -> VerbResult {
    let row = find::find_round(cx.open_store_read_only().await?.as_ref(), text).await?;
    if let Some(lease) = elsewhere(cx, &row.id).await? {
        let pid = lease.process.as_ref().map_or(0, |process| process.pid);
        return Err(CommandError::new(CommandErrorKind::Failed, lease.to_string())
            .hint(format!("interrupt it there: kill {pid}")));
    }
    let is_cancelled = match cx.daemon() {
        Some(daemon) => daemon.cancel(&row.id, &format!("{} by {}", why, cx.actor_name())).await?,
        None => {
            return Err(CommandError::refused(format!("no round is running, so round {} cannot be cancelled", row.id))
                .hint(format!("see `loopwright show {}`", row.id)));
        }
    };
    if !is_cancelled {
        return Err(CommandError::refused(format!("round {} is not running: it is {}", row.id, row.phase))
            .hint(format!("see `loopwright show {}`", row.id)));
    }
    let document = json!({"schema": 1, "loop": row.loop_name, "round": row.id, "cancelled": true});
    Ok(cx.out.answer(&document, || format!("cancelled: round {} of {}", safe(&row.id), safe(&row.loop_name))))
}

/// The lease of a round that another process runs, such as a manual `run`.
async fn elsewhere(cx: &CommandContext, round: &str) -> Result<Option<RoundLease>, CommandError> {
    let leases = cx.open_store_read_only().await?.leases().await?;
    let own = i64::from(std::process::id());
    let is_meant = |lease: &RoundLease| {
        let is_own = lease.process.as_ref().is_some_and(|process| process.pid == own);
        lease.name == round && lease.holder == LeaseHolder::Other && !is_own
    };
    Ok(leases.into_iter().find(is_meant))
}

async fn stop_everything(cx: &CommandContext, why: &str) -> VerbResult {
    let by = cx.actor_name();
    let stopped = match cx.daemon() {
        Some(daemon) => daemon.freeze(&by, why).await.map_err(CommandError::from),
        None => write_stop_file(cx, &by, why).await,
    };
    match stopped {
        Ok(()) => Ok(report_stopped(cx, "nothing runs and nothing starts")),
        Err(error) => stop_by_file(cx, why, &error).map_err(|error| match cx.daemon() {
            Some(_) => {
                error.hint("the daemon starts nothing until it exits; free some disk space and repeat the command")
            }
            None => error,
        }),
    }
}

async fn write_stop_file(cx: &CommandContext, by: &str, why: &str) -> Result<(), CommandError> {
    // Without recovering rounds: an emergency stop must not first continue the work of a dead process.
    let engine = Engine::open(cx.settings(None)?).await?;
    close(&engine, engine.stop_all(by, why).await).await
}

/// The fallback if the owner of the store cannot be reached: the file, which the owner and its successors check.
pub(crate) fn stop_by_file(cx: &CommandContext, why: &str, error: &CommandError) -> VerbResult {
    let file = cx.state_dir_with_broken_config()?.join(STOP_FILE);
    let open = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&file);
    let mut open = open.map_err(|failed| CommandError::failed(format!("write {}: {failed}", file.display())))?;
    // The file stops everything by existing, even if the disk has no space for the reason.
    let _ = open.write_all(format!("{why}\n").as_bytes());
    cx.out.note(&format!("not recorded: {}", safe(&error.text)));
    Ok(report_stopped(cx, &format!("by the file {}", safe(&file.to_string_lossy()))))
}

fn report_stopped(cx: &CommandContext, how: &str) -> CommandExit {
    let document = json!({"schema": 1, "frozen": true});
    cx.out.answer(&document, || format!("everything is stopped: {how}\nto let loops start again: loopwright thaw"));
    CommandExit::DONE
}
