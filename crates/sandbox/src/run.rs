//! One run of a program from its start to the end of its whole tree. `run` is the sequence; other files have the parts.

use crate::cancel::CancelToken;
use crate::capture::CapturedOutput;
use crate::cgroup::CgroupKeeper;
use crate::confined_tree::{ConfinedTree, HelperStart};
use crate::disk_watch::DiskWatch;
use crate::error::SpawnError;
use crate::launch::{ChildStreams, PreparedLaunch};
use crate::output_pump::{OutputPump, OutputWatch};
use crate::process_table;
use crate::process_tree::{self, ProcessTree, TreeSweep};
use crate::spawn::{COOKIE_VAR, OutputChannel, ProgramTrust, SpawnRequest, StdinSource, find_program};
use crate::stdin_feed::StdinFeeder;
use crate::tree_members::StartedProcess;
use rustix::fs::MemfdFlags;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{PidfdFlags, WaitId, WaitIdOptions, WaitIdStatus};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe::Receiver;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep_until, timeout};

/// The end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// The program exited with this code.
    Exited(i32),
    /// This signal ended the program, and this crate did not send it.
    Signaled(i32),
    /// Ended because of no output for the idle limit.
    Idle,
    /// Ended because the wall limit passed.
    Wall,
    /// Ended because of more output than `output_max`.
    Flood,
    /// Ended because it exceeded its disk limit, or continued to write when the disk was nearly full.
    Disk,
    /// Ended because the [`CancelToken`] was cancelled.
    Cancelled,
    /// Ended because the [`OutputWatch`] requested it.
    Stopped,
    /// Ended because the [`OutputWatch`] had reported that the program had finished, and it did not exit.
    Finished,
}

/// The record of a run whose tree is gone.
#[derive(Clone, Debug)]
pub struct FinishedRun {
    /// The reason for the end.
    pub how: RunEnd,
    /// The exit code, if the program exited (also after SIGTERM).
    pub code: Option<i32>,
    /// Its standard output.
    pub stdout: CapturedOutput,
    /// Its standard error.
    pub stderr: CapturedOutput,
    /// Whether another process still held the output pipes when the program had ended.
    pub leaky: bool,
    /// The duration of the run.
    pub wall: Duration,
    /// The number of killed processes, without the program itself.
    pub killed: usize,
    /// Whether a process of the tree survived the whole grace period after SIGTERM.
    pub term_ignored: bool,
    /// Processes that could not be killed: stuck in the kernel, or owned by another user. Empty unless the host has a
    /// problem.
    pub unkillable: Vec<u32>,
}

/// The interval of scans while the tree has time to end by itself.
const GRACE_LOOK: Duration = Duration::from_millis(20);

/// The shortest interval between two collections of ended orphans while the program runs.
const COLLECT_EVERY: Duration = Duration::from_millis(500);

/// The time in which a program may act on its final input before it receives a signal.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// The time that the kernel may take to end a pid namespace: only a process stuck in the kernel needs longer.
const CUT_PATIENCE: Duration = Duration::from_secs(5);

/// Runs a program and returns when it and all processes it started are gone.
///
/// `started` is called once, before any output is read. If the returned future is dropped, the tree is killed.
pub async fn run(
    spawn: SpawnRequest,
    watch: &mut dyn OutputWatch,
    cancel: &CancelToken,
    started: impl FnOnce(&StartedProcess),
) -> Result<FinishedRun, SpawnError> {
    let begun = Instant::now();
    if cancel.is_cancelled() {
        return Ok(FinishedRun::without_output(RunEnd::Cancelled));
    }
    // Declared before the child, so that it is dropped after it: groups can only be removed when they are empty.
    let mut herd = spawn.confine.as_ref().map(|confine| CgroupKeeper::new(confine.resources.clone()));
    let StartedChild { child, mut feeder, stdout, stderr } = Child::start(&spawn).await?;
    started(child.tree.root());
    let mut pump = OutputPump::new(stdout, stderr, &spawn.limits, watch);
    let cut = child.wait_for_end(&mut pump, &mut feeder, &spawn, herd.as_mut(), cancel, begun).await;
    if cut.is_some() {
        child.send_final_input(&mut pump, &mut feeder).await;
    }
    drop(feeder);
    let mut leaky = false;
    let mut term_ignored = false;
    match cut {
        Some(_) => term_ignored = child.terminate(&mut pump, spawn.limits.grace).await,
        None => leaky = child.drain(&mut pump, spawn.limits.drain, cancel).await,
    }
    let gone = cut.is_none() && !leaky && child.left_nobody(&mut pump, spawn.trust).await;
    let swept = if gone { TreeSweep::default() } else { child.kill(&mut pump).await };
    leaky |= timeout(spawn.limits.drain, pump.until_closed()).await.is_err();
    let (how, code) = child.outcome(cut).map_err(|error| SpawnError::other(&spawn.program, "collect", error))?;
    child.tree.collect();
    let (stdout, stderr) = pump.finish();
    let TreeSweep { killed, unkillable } = swept;
    Ok(FinishedRun { how, code, stdout, stderr, leaky, wall: begun.elapsed(), killed, term_ignored, unkillable })
}

impl FinishedRun {
    /// A run that ended in this way at once, without output.
    #[must_use]
    pub fn without_output(how: RunEnd) -> Self {
        Self {
            how,
            code: if let RunEnd::Exited(code) = how { Some(code) } else { None },
            stdout: CapturedOutput::default(),
            stderr: CapturedOutput::default(),
            leaky: false,
            wall: Duration::ZERO,
            killed: 0,
            term_ignored: false,
            unkillable: Vec::new(),
        }
    }
}

/// Dropped in this order: the lifeline first, then all processes that are still alive.
struct Child {
    walls: Option<ConfinedTree>,
    tree: ProcessTree,
    exit: AsyncFd<OwnedFd>,
}

/// A started program and the engine's ends of its streams.
struct StartedChild {
    child: Child,
    feeder: StdinFeeder,
    stdout: Receiver,
    stderr: Receiver,
}

impl Child {
    async fn start(spawn: &SpawnRequest) -> Result<StartedChild, SpawnError> {
        let failed = |doing: &'static str| move |error| SpawnError::other(&spawn.program, doing, error);
        let (prepared, further, walls) = prepare(spawn)?;
        let (feeder, fed) = StdinFeeder::new(&spawn.stdin).map_err(failed("prepare its input"))?;
        let stdin =
            fed.map_or_else(|| stdin(&spawn.stdin), |fed| Ok(Some(fed))).map_err(failed("prepare its input"))?;
        let stream = match spawn.output {
            OutputChannel::Pipes => pipe,
            OutputChannel::Private => socket,
        };
        let (stdout, child_stdout) = stream().map_err(failed("make its pipes"))?;
        let (stderr, child_stderr) = stream().map_err(failed("make its pipes"))?;
        let streams = ChildStreams { stdin, stdout: child_stdout, stderr: child_stderr, further };
        let tree = plant(&prepared, &streams, spawn).await?;
        // The engine's copies of the helper's ends would hide the helper's death.
        drop(streams);
        let exit = exit_of(tree.root()).map_err(failed("watch it"))?;
        if let (Some(walls), Some(confine)) = (&walls, &spawn.confine) {
            walls.wait_until_started(spawn, confine).await?;
        }
        Ok(StartedChild { child: Self { walls, tree, exit }, feeder, stdout, stderr })
    }

    /// Waits until the program ends (`None`) or must be ended.
    async fn wait_for_end(
        &self,
        pump: &mut OutputPump<'_>,
        feeder: &mut StdinFeeder,
        spawn: &SpawnRequest,
        mut herd: Option<&mut CgroupKeeper>,
        cancel: &CancelToken,
        begun: Instant,
    ) -> Option<RunEnd> {
        let limits = &spawn.limits;
        let mut orphans = Orphans::new(self.tree.root());
        let mut disk = spawn.confine.as_ref().map(|confine| DiskWatch::new(confine, self.tree.root()));
        let wall = limits.wall.map(|wall| begun + wall);
        loop {
            let idle = limits.idle.map(|idle| pump.last + idle);
            let finish = pump.finished.map(|done| done + limits.finish);
            tokio::select! {
                () = pump.step() => (),
                () = feeder.step() => (),
                () = self.ended() => return None,
                () = if_any(wall.map(sleep_until)) => return Some(RunEnd::Wall),
                () = if_any(finish.map(sleep_until)) => return Some(RunEnd::Finished),
                () = if_any(idle.map(sleep_until)) => return Some(RunEnd::Idle),
                () = cancel.cancelled() => return Some(RunEnd::Cancelled),
                () = if_any(disk.as_mut().map(DiskWatch::wait_until_full)) => return Some(RunEnd::Disk),
                () = if_any(herd.as_deref_mut().map(|herd| herd.keep_in_groups(self.tree.root()))) => (),
                () = orphans.one_ended(), if self.walls.is_none() => orphans.collect(),
            }
            if pump.stopped {
                return Some(RunEnd::Stopped);
            }
            if pump.is_flooded() {
                return Some(RunEnd::Flood);
            }
        }
    }

    /// Returns when the program has ended.
    async fn ended(&self) {
        match &self.walls {
            None => self.first_ended().await,
            Some(walls) => tokio::select! {
                () = self.first_ended() => (),
                () = walls.program_ended() => (),
            },
        }
    }

    /// Returns when the first process has ended: the program, or the helper around it.
    async fn first_ended(&self) {
        // An error here would mean that the runtime is shutting down; then dropping this value kills the tree.
        drop(self.exit.readable().await);
    }

    /// Whether it is proved that the program, which ended by itself, left no process behind.
    async fn left_nobody(&self, pump: &mut OutputPump<'_>, trust: ProgramTrust) -> bool {
        match &self.walls {
            None => trust == ProgramTrust::Ours && process_tree::left_no_orphan(),
            // The kernel lets the helper reap a pid namespace only when it is empty.
            Some(walls) => {
                walls.left_nobody() && pump.pump_while(timeout(CUT_PATIENCE, self.first_ended())).await.is_ok()
            }
        }
    }

    /// Sends the final input and gives the program a short time to act on it.
    async fn send_final_input(&self, pump: &mut OutputPump<'_>, feeder: &mut StdinFeeder) {
        if !feeder.queue_final_input() {
            return;
        }
        let said = async {
            loop {
                tokio::select! {
                    () = self.ended() => return,
                    () = feeder.step() => (),
                }
            }
        };
        // The caller sees from the running processes whether the program acted on it.
        drop(pump.pump_while(timeout(LAST_WORDS, said)).await);
    }

    /// Sends SIGTERM, then waits. Returns whether a process was still running at the end of the grace period.
    async fn terminate(&self, pump: &mut OutputPump<'_>, grace: Duration) -> bool {
        let all_gone = async {
            if self.walls.is_some() {
                blocking(self.tree.root(), process_tree::terminate_confined).await;
                // The helper ends when its namespace is empty.
                return self.first_ended().await;
            }
            blocking(self.tree.root(), process_tree::terminate).await;
            while blocking(self.tree.root(), process_tree::is_alive).await.unwrap_or(false) {
                sleep_until(Instant::now() + GRACE_LOOK).await;
            }
        };
        pump.pump_while(timeout(grace, all_gone)).await.is_err()
    }

    /// Reads the rest of the pipes after the program ended; returns whether another process kept them open.
    async fn drain(&self, pump: &mut OutputPump<'_>, patience: Duration, cancel: &CancelToken) -> bool {
        tokio::select! {
            closed = timeout(patience, pump.until_closed()) => closed.is_err(),
            () = cancel.cancelled() => !pump.is_closed(),
        }
    }

    async fn kill(&self, pump: &mut OutputPump<'_>) -> TreeSweep {
        if let Some(walls) = &self.walls
            && let Some(swept) = self.cut(walls, pump).await
        {
            return swept;
        }
        pump.pump_while(blocking(self.tree.root(), process_tree::kill)).await.unwrap_or_default()
    }

    /// Ends the whole namespace in one step of the kernel, which no fork can escape. `None` if a process survives.
    async fn cut(&self, walls: &ConfinedTree, pump: &mut OutputPump<'_>) -> Option<TreeSweep> {
        let alive = pump.pump_while(blocking(self.tree.root(), process_tree::confined)).await.unwrap_or_default().len();
        walls.kill_namespace();
        pump.pump_while(timeout(CUT_PATIENCE, self.first_ended())).await.ok()?;
        // The helper's two processes and the program itself do not count.
        let ours = if walls.has_ended() { 2 } else { 3 };
        Some(TreeSweep { killed: alive.saturating_sub(ours), unkillable: Vec::new() })
    }

    fn outcome(&self, cut: Option<RunEnd>) -> io::Result<(RunEnd, Option<i32>)> {
        let status = peek(self.tree.root())?;
        let code = status.as_ref().and_then(WaitIdStatus::exit_status);
        let natural = match (code, status.as_ref().and_then(WaitIdStatus::terminating_signal)) {
            (Some(code), _) => Some(RunEnd::Exited(code)),
            (None, Some(signal)) => Some(RunEnd::Signaled(signal)),
            (None, None) => None,
        };
        let how = cut.or(natural).ok_or_else(|| io::Error::other("the program ended without a status"))?;
        Ok((how, code))
    }
}

/// Wakes when a child other than the program itself ends: orphans of the tree.
struct Orphans<'r> {
    root: &'r StartedProcess,
    ended: Option<Signal>,
    last: Instant,
}

impl<'r> Orphans<'r> {
    fn new(root: &'r StartedProcess) -> Self {
        // Without the signal, orphans are reaped when the run ends.
        Self { root, ended: signal(SignalKind::child()).ok(), last: Instant::now() }
    }

    async fn one_ended(&mut self) {
        if_any(self.ended.as_mut().map(Signal::recv)).await;
    }

    fn collect(&mut self) {
        if self.last.elapsed() >= COLLECT_EVERY {
            self.last = Instant::now();
            let root = self.root.clone();
            tokio::task::spawn_blocking(move || process_tree::collect_orphans(&root));
        }
    }
}

type Further = Vec<(OwnedFd, RawFd)>;

fn prepare(spawn: &SpawnRequest) -> Result<(PreparedLaunch, Further, Option<ConfinedTree>), SpawnError> {
    match &spawn.confine {
        None => Ok((prepare_plainly(spawn)?, Vec::new(), None)),
        Some(confine) => {
            let HelperStart { prepared, further, status, lifeline } = HelperStart::new(spawn, confine)?;
            let walls = ConfinedTree::new(status, lifeline)
                .map_err(|error| SpawnError::other(&spawn.program, "read from its helper", error))?;
            Ok((prepared, further, Some(walls)))
        }
    }
}

fn prepare_plainly(spawn: &SpawnRequest) -> Result<PreparedLaunch, SpawnError> {
    let Some(program) = program_path(spawn) else {
        return Err(SpawnError::not_found(&spawn.program, io::ErrorKind::NotFound.into()));
    };
    let mut env = spawn.env.clone();
    env.insert(OsString::from(COOKIE_VAR), OsString::from(spawn.cookie.as_str()));
    let pairs = env.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()));
    PreparedLaunch::new(&program, &spawn.args, pairs, &spawn.cwd)
        .map_err(|error| SpawnError::other(&spawn.program, "prepare", error))
}

fn program_path(spawn: &SpawnRequest) -> Option<PathBuf> {
    let name = spawn.program.as_os_str();
    if spawn.program.components().count() > 1 || spawn.program.is_absolute() {
        return Some(spawn.cwd.join(&spawn.program));
    }
    let path = spawn.env.get(OsStr::new("PATH")).map(OsString::as_os_str).unwrap_or_default();
    find_program(name, path, &spawn.cwd)
}

/// Starts the first process. A program file that another thread's child still holds open for writing is "busy" for a
/// moment, so this retries a few times.
async fn plant(
    prepared: &PreparedLaunch,
    streams: &ChildStreams,
    spawn: &SpawnRequest,
) -> Result<ProcessTree, SpawnError> {
    let mut tries = 0;
    loop {
        match ProcessTree::start(prepared, streams, spawn.cookie.as_str()) {
            Err(error) if error.raw_os_error() == Some(libc::ETXTBSY) && tries < 20 => tries += 1,
            planted => return planted.map_err(|error| SpawnError::from_launch(&spawn.program, &spawn.cwd, error)),
        }
        sleep_until(Instant::now() + Duration::from_millis(10)).await;
    }
}

/// The input is in an anonymous file and not in a pipe: a child that never reads it blocks no other process.
fn stdin(stdin: &StdinSource) -> io::Result<Option<OwnedFd>> {
    let StdinSource::Bytes(bytes) = stdin else { return Ok(None) };
    let mut file = File::from(rustix::fs::memfd_create("stdin", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(Some(file.into()))
}

fn pipe() -> io::Result<(Receiver, OwnedFd)> {
    let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
    Ok((Receiver::from_owned_fd(ours)?, theirs))
}

/// The same as a socket, which is read like a pipe.
fn socket() -> io::Result<(Receiver, OwnedFd)> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    Ok((Receiver::from_owned_fd_unchecked(ours.into())?, theirs.into()))
}

fn exit_of(root: &StartedProcess) -> io::Result<AsyncFd<OwnedFd>> {
    let pidfd = rustix::process::pidfd_open(process_table::raw_pid(root.pid)?, PidfdFlags::empty())?;
    // SAFETY: an OwnedFd stays open and the same for as long as it lives, which is inside the AsyncFd.
    Ok(unsafe { AsyncFd::register_with_interest(pidfd, Interest::READABLE) }?)
}

/// The status of the first process, without reaping it: reaping would release its pid.
fn peek(root: &StartedProcess) -> io::Result<Option<WaitIdStatus>> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Ok(rustix::process::waitid(WaitId::Pid(process_table::raw_pid(root.pid)?), options)?)
}

/// Waits forever if there is no future.
pub(crate) async fn if_any<T>(future: Option<impl Future<Output = T>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// Scanning `/proc` takes milliseconds, too long for a thread of the runtime.
async fn blocking<T: Send + 'static>(root: &StartedProcess, work: fn(&StartedProcess) -> T) -> Option<T> {
    let root = root.clone();
    tokio::task::spawn_blocking(move || work(&root)).await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_send(_: &impl Send) {}

    #[test]
    fn run_can_be_moved_to_another_thread() {
        let spawn = SpawnRequest::new("x", "/", crate::TreeCookie::new("t"));
        let cancel = CancelToken::new();
        let mut watch = ();
        assert_send(&run(spawn, &mut watch, &cancel, |_| ()));
    }
}
