//! `stop`: asks the daemon to let its rounds end and to exit, and waits for that; `stop ROUND` cancels one round, or
//! interrupts a workflow; `stop --all` stops everything until `thaw`, also across restarts.
//!
//! A signal asks the daemon to end, which every version understands. A file in the state directory is enough to stop
//! everything; it works even if another process holds the store.

use super::steer::request;
use super::{CommandContext, CommandError, CommandErrorKind, CommandExit, VerbResult, close, safe, workflow};
use crate::control::{DaemonConnection, is_frozen};
use crate::view::find::{self, RunTarget};
use loopwright::Engine;
use loopwright::daemon::STOP_FILE;
use loopwright::store::{LeaseHolder, OutboxRow, OutboxState, RoundLease, RoundRequestKind, RoundRow};
use loopwright_core::outcome::RoundOutcome;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::json;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::Duration;

/// How long `stop ROUND` waits for the end of the round.
pub(super) const REST_TIMEOUT: Duration = Duration::from_secs(60);
/// The interval between looks at the round.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

#[derive(Debug, clap::Args)]
pub(crate) struct StopArgs {
    /// Cancel this round, or interrupt this workflow: its id, or its first characters
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
    if is_frozen(pid.as_raw_nonzero().get()) {
        return Err(frozen(pid));
    }
    // The kernel may merge two signals of one kind.
    let signals = if now { &[Signal::TERM, Signal::INT][..] } else { &[Signal::TERM] };
    for signal in signals {
        pidfd_send_signal(&process, *signal).map_err(|error| gone(pid, error))?;
    }
    cx.out.note(&format!("asked the daemon, process {}, to end; waiting for its rounds", pid.as_raw_nonzero()));
    wait_for_exit(&process, pid)?;
    let document = json!({"schema": 1, "stopped": pid.as_raw_nonzero()});
    Ok(cx.out.answer(&document, || format!("the daemon, process {}, has ended", pid.as_raw_nonzero())))
}

/// The descriptor of a process becomes readable when it exits. This process only waits; Ctrl-C ends it. A daemon that
/// is frozen meanwhile would never exit.
fn wait_for_exit(process: &OwnedFd, pid: Pid) -> Result<(), CommandError> {
    let second = Timespec { tv_sec: 1, tv_nsec: 0 };
    loop {
        match poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&second)) {
            Err(Errno::INTR) => {}
            Ok(0) if is_frozen(pid.as_raw_nonzero().get()) => return Err(frozen(pid)),
            Ok(0) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(CommandError::failed(format!("wait for the daemon: {error}"))),
        }
    }
}

fn frozen(pid: Pid) -> CommandError {
    let pid = pid.as_raw_nonzero();
    CommandError::failed(format!("the daemon, process {pid}, is frozen: it gets no request until it is continued"))
        .hint(format!("let it continue, then stop it: kill -CONT {pid} && loopwright stop"))
        .hint(format!("or end it at once, and its rounds with it: kill -KILL {pid}"))
}

fn gone(pid: Pid, error: Errno) -> CommandError {
    CommandError::failed(format!("signal process {}: {error}", pid.as_raw_nonzero()))
}

async fn cancel_round(cx: &CommandContext, text: &str, why: &str) -> VerbResult {
    let row = match find::find_run(cx.open_store_read_only().await?.as_ref(), text).await? {
        RunTarget::Round(row) => row,
        RunTarget::Workflow(row) => return workflow::control::stop(cx, &row).await,
    };
    if let Some(lease) = elsewhere(cx, &row.id).await? {
        if lease.holder == LeaseHolder::Offered && end_offered(cx, &row.id, why).await? {
            let ended = wait_for_rest(cx, &row.id).await?;
            return Ok(report_cancelled(cx, &row, ended, &[]));
        }
        return interrupt_elsewhere(cx, &row, &lease, why).await;
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
    let ended = wait_for_rest(cx, &row.id).await?;
    let sent = sent_items(cx, &row.id).await?;
    Ok(report_cancelled(cx, &row, ended, &sent))
}

/// Waits until a round that was asked to stop is at rest. A round that was about to end may end in its own way.
async fn wait_for_rest(cx: &CommandContext, round: &str) -> Result<Option<RoundRow>, CommandError> {
    let store = cx.open_store_read_only().await?;
    let rested = async {
        loop {
            match store.round(round).await? {
                Some(row) if row.phase.is_at_rest() => return Ok::<_, CommandError>(row),
                _ => look_again().await,
            }
        }
    };
    tokio::time::timeout(REST_TIMEOUT, rested).await.ok().transpose()
}

/// The items of a round that were sent, or that may have been.
async fn sent_items(cx: &CommandContext, round: &str) -> Result<Vec<OutboxRow>, CommandError> {
    let mut rows = cx.open_store_read_only().await?.outbox(round).await?;
    rows.retain(|row| matches!(row.state, OutboxState::Sent | OutboxState::InDoubt));
    Ok(rows)
}

fn report_cancelled(cx: &CommandContext, row: &RoundRow, ended: Option<RoundRow>, sent: &[OutboxRow]) -> CommandExit {
    let outcome = ended.as_ref().and_then(|ended| ended.outcome);
    let is_cancelled = outcome == Some(RoundOutcome::Cancelled);
    let items: Vec<_> = sent
        .iter()
        .map(|item| json!({"kind": item.kind.word(), "state": item.state.word(), "receipt": item.receipt}))
        .collect();
    let document = json!({
        "schema": 1, "loop": row.loop_name, "round": row.id, "cancelled": is_cancelled,
        "outcome": outcome.map(RoundOutcome::word), "sent": items,
    });
    cx.out.answer(&document, || {
        let name = format!("round {} of {}", safe(&row.id), safe(&row.loop_name));
        let first = match (is_cancelled, outcome) {
            (true, _) => format!("cancelled: {name}"),
            (false, Some(RoundOutcome::Escalated)) => format!("stopped: {name} waits for a person"),
            (false, Some(RoundOutcome::Interrupted)) => format!("stopped: {name} was interrupted"),
            (false, Some(outcome)) => format!("not cancelled: {name} ended as {outcome} before the stop took effect"),
            (false, None) => {
                format!("{name} was asked to stop and has not ended yet; see `loopwright show {}`", safe(&row.id))
            }
        };
        sent.iter().fold(first, |text, item| {
            let place = item.receipt.as_deref().unwrap_or("no receipt");
            format!("{text}\n{}: {} {}", item.state, item.kind, safe(place))
        })
    });
    // A round that was stopped while it sent keeps the rest of its items for a person.
    let is_stopped = is_cancelled || matches!(outcome, Some(RoundOutcome::Escalated | RoundOutcome::Interrupted));
    if is_stopped { CommandExit::DONE } else { CommandExit::REFUSED }
}

/// Ends a round that no worker has taken yet. Returns false if one just did.
async fn end_offered(cx: &CommandContext, round: &str, why: &str) -> Result<bool, CommandError> {
    let why = format!("{why} by {}", cx.actor_name());
    let engine = match cx.daemon_engine() {
        Some(engine) => return Ok(engine.end_offered(round, cx, &why).await?),
        None => Engine::open(cx.settings(None)?).await?,
    };
    close(&engine, engine.end_offered(round, cx, &why).await).await
}

/// Interrupts a round that another process runs, such as `run --detach`. A process of this machine with several rounds is
/// not interrupted, because all of them would end. A process of another machine reads the request from the store.
async fn interrupt_elsewhere(cx: &CommandContext, row: &RoundRow, lease: &RoundLease, why: &str) -> VerbResult {
    let is_near = lease.process.as_ref().is_some_and(loopwright::store::ProcessRow::is_of_this_machine);
    if !is_near || runs_on_worker(cx, &row.id).await? {
        request(cx, &row.id, RoundRequestKind::Stop, why).await?;
        cx.out.note(&format!("asked {} to end round {}", safe(&lease.process_text()), safe(&row.id)));
    } else {
        let pid = interrupt_holder(cx, lease, &[]).await?;
        cx.out.note(&format!("asked process {pid} to end round {}", safe(&row.id)));
    }
    let ended = wait_for_rest(cx, &row.id).await?;
    let sent = sent_items(cx, &row.id).await?;
    Ok(report_cancelled(cx, row, ended, &sent))
}

/// Whether a worker runs the round. A worker reads requests, and continues its other rounds.
async fn runs_on_worker(cx: &CommandContext, round: &str) -> Result<bool, CommandError> {
    let workers = cx.open_store_read_only().await?.workers().await?;
    Ok(workers.iter().any(|worker| worker.rounds.iter().any(|own| own == round)))
}

/// Asks the process that holds a lease to end, and returns its id. It may hold only this lease and those with these names.
pub(super) async fn interrupt_holder(
    cx: &CommandContext,
    lease: &RoundLease,
    others: &[String],
) -> Result<i32, CommandError> {
    let process = lease.process.as_ref().filter(|process| process.is_of_this_machine());
    let pid = process.and_then(|process| Pid::from_raw(i32::try_from(process.pid).ok()?));
    let Some(pid) = pid.filter(|_| lease.holder == LeaseHolder::Other) else {
        return Err(CommandError::failed(lease.to_string()).hint("interrupt it on its machine"));
    };
    let handle = pidfd_open(pid, PidfdFlags::NONBLOCK).map_err(|error| gone(pid, error))?;
    // The handle was opened first, so a process that still holds the lease is the one that it refers to.
    let leases = cx.open_store_read_only().await?.leases().await?;
    let held: Vec<_> = leases.iter().filter(|held| held.process == lease.process).collect();
    if !held.iter().any(|held| held.name == lease.name) {
        return Err(CommandError::refused(format!("{} has just ended", lease.name)));
    }
    if held.iter().any(|held| held.name != lease.name && !others.contains(&held.name)) {
        return Err(CommandError::new(CommandErrorKind::Failed, format!("{lease}, which runs other rounds too"))
            .hint(format!("interrupt all of them: kill {}", pid.as_raw_nonzero())));
    }
    pidfd_send_signal(&handle, Signal::TERM).map_err(|error| gone(pid, error))?;
    Ok(pid.as_raw_nonzero().get())
}

/// Waits a moment, for a condition that no event reports.
pub(super) async fn look_again() {
    drop(tokio::time::timeout(LOOK_AGAIN, std::future::pending::<()>()).await);
}

/// The lease of a round or workflow that another process runs, such as a manual `run`.
pub(super) async fn elsewhere(cx: &CommandContext, round: &str) -> Result<Option<RoundLease>, CommandError> {
    let leases = cx.open_store_read_only().await?.leases().await?;
    let own = i64::from(std::process::id());
    let is_meant = |lease: &RoundLease| {
        let is_own = lease.process.as_ref().is_some_and(|process| process.pid == own);
        let is_held = matches!(lease.holder, LeaseHolder::Other | LeaseHolder::Offered);
        lease.name == round && is_held && !is_own
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
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let open = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).custom_flags(flags).open(&file);
    // The file stops everything by existing, even if the disk has no space for the reason, or if it is a pipe.
    match open {
        Ok(mut open) => drop(open.write_all(format!("{why}\n").as_bytes())),
        Err(_) if file.symlink_metadata().is_ok() => {}
        Err(failed) => return Err(CommandError::failed(format!("write {}: {failed}", file.display()))),
    }
    cx.out.note(&format!("not recorded: {}", safe(&error.text)));
    Ok(report_stopped(cx, &format!("by the file {}", safe(&file.to_string_lossy()))))
}

fn report_stopped(cx: &CommandContext, how: &str) -> CommandExit {
    let document = json!({"schema": 1, "frozen": true});
    cx.out.answer(&document, || format!("everything is stopped: {how}\nto let loops start again: loopwright thaw"));
    CommandExit::DONE
}
