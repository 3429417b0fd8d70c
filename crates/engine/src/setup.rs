//! Set-up: runs a loop's preparation once for a base, with the host's network and no file of a maker, and keeps its
//! output as layers that makers, gates and probes start from. They build on base's outputs, never on a maker's.
//!
//! The layers are in a separate workspace, `setup-<key>`. The last step of a set-up writes a marker file; a folder
//! without it, such as one left by a crash, is built again. The key covers everything that the output depends on:
//! base's tree, the commands, the toolchains and the caches.

mod prune;

use crate::engine::Engine;
use crate::error::EngineError;
use crate::git::Oid;
use crate::live_line::{LiveLine, ProgramReport};
use crate::proc::{CancelToken, FinishedRun, RunEnd, RunLimits, SpawnError, SpawnRequest, TreeCookie};
use crate::sandbox_view::{self, ProgramFolders, SandboxViews, SetupLayer};
use crate::shared_lock::SharedGuard;
use crate::workspace::{CheckoutMethod, Workspace, WorkspaceError, Workspaces};
use crate::{caches, gates, state_dir};
use loopwright_core::gate::{excerpt, failure_cause};
use loopwright_core::spec::{Argv, LoopSpec};
use loopwright_core::{hash, secrets};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The default time limit of all commands together.
pub const WALL_DEFAULT: Duration = Duration::from_secs(1800);
/// The number of prepared bases kept for each repository.
const KEPT_MAX: usize = 4;
/// The marker file, written last into a set-up's folder.
const COMPLETE: &str = "setup-complete";
/// Bytes kept of the start and of the end of each stream.
const KEEP: usize = 512 << 10;

/// The caller's side of a set-up run.
pub struct SetupTask<'a> {
    /// The marker of its process trees.
    pub cookie: &'a str,
    /// Cancels the set-up.
    pub cancel: &'a CancelToken,
    /// The time limit of all commands together.
    pub wall: Duration,
    /// The folder of the round's transcripts.
    pub transcripts: Option<&'a Path>,
    /// Called with each command that starts, and with the set-up that this one waits for.
    pub report: &'a (dyn Fn(&str) + Sync),
    /// Reports the running command and its last line.
    pub progress: ProgramReport<'a>,
}

/// The reason why a base could not be prepared: the round fails.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// A command failed.
    #[error("`{command}` {how}{}{cause}", if cause.is_empty() { "" } else { ": " })]
    Command {
        /// The command.
        command: String,
        /// How it ended.
        how: String,
        /// The lines of its output that state the cause.
        cause: String,
    },
    /// A command could not be started.
    #[error("start `{command}`")]
    Start {
        /// The command.
        command: String,
        /// The reason.
        source: SpawnError,
    },
    /// Its workspace could not be made.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// The caches of the loop cannot be shared, or the loop cannot run for another reason.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A file operation failed.
    #[error("{what} `{}`", path.display())]
    Io {
        /// The step that failed.
        what: &'static str,
        /// The path concerned.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The set-up was cancelled.
    #[error("stopped while it was prepared")]
    Stopped,
}

/// Views for a base: with the shared caches and the output of the loop's set-up, which runs now unless it already
/// ran.
///
/// # Errors
/// When a command fails, or the base cannot be prepared.
pub async fn prepare(
    engine: &Engine,
    rooms: SandboxViews,
    spaces: &Workspaces,
    spec: &LoopSpec,
    base: &Oid,
    task: &SetupTask<'_>,
) -> Result<SandboxViews, SetupError> {
    spaces.import(base).await?;
    let paths = gates::base_paths(spaces.engine(), base).await.map_err(EngineError::from)?;
    let rooms = rooms.with_caches(find_caches(engine, spaces, spec, &paths)?);
    if spec.setup.is_empty() {
        return Ok(rooms);
    }
    let tree = spaces.engine().tree_of(base).await.map_err(WorkspaceError::from)?;
    let name = format!("setup-{}", &key(&rooms, spec, tree.as_str())[..24]);
    let _one = lock_setup(spaces, spec, task).await?;
    if let Some(space) = spaces.reopen(&name)?.filter(|space| space.root.join(COMPLETE).is_file()) {
        // Written again, so that the set-ups in use have the latest time.
        let _ = fs::write(space.root.join(COMPLETE), b"");
        return Ok(layered(rooms, &space));
    }
    let making = rooms.workspace_options();
    let space = spaces.create("setup", &name, base, &making).await?;
    let made = SetupRun { engine, rooms: &rooms, space: &space, task }.run(&spec.setup, &paths).await;
    if let Err(error) = made {
        // A partial set-up is useless. If it cannot be removed, the next start rebuilds it anyway.
        let _ = spaces.discard(&name).await;
        return Err(error);
    }
    forget_old(spaces, &name).await;
    Ok(layered(rooms, &space))
}

/// Waits for the other set-ups of the repository: two loops of one repository would write the same folder.
async fn lock_setup(spaces: &Workspaces, spec: &LoopSpec, task: &SetupTask<'_>) -> Result<SharedGuard, SetupError> {
    let lock = spaces.setup_lock();
    let holder = format!("the set-up of loop `{}` in process {}", spec.name, std::process::id());
    let waits = |holder: &str| (task.report)(&format!("waiting for {holder}"));
    tokio::select! {
        biased;
        () = task.cancel.cancelled() => Err(SetupError::Stopped),
        taken = lock.lock_as(&holder, &waits) => {
            taken.map_err(|source| SetupError::Io { what: "lock", path: lock.path().to_owned(), source })
        }
    }
}

/// The caches of a loop on a base with these paths.
fn find_caches(
    engine: &Engine,
    spaces: &Workspaces,
    spec: &LoopSpec,
    base: &BTreeSet<String>,
) -> Result<Vec<caches::PackageCache>, EngineError> {
    let (ground, keep_out) = (engine.path_roots(spaces.repo()), engine.hidden_paths(spaces.repo()));
    caches::find(&ground, &spec.caches, base, &keep_out)
        .map_err(|errors| EngineError::not_runnable(&spec.name, &errors))
}

/// Everything that the output of a set-up depends on, hashed.
fn key(rooms: &SandboxViews, spec: &LoopSpec, tree: &str) -> String {
    let mut fields = vec!["loopwright setup 1".to_owned(), tree.to_owned(), format!("{:?}", rooms.method())];
    fields.push(format!("{:?}", rooms.isolation()));
    for command in &spec.setup {
        fields.push(command.len().to_string());
        fields.extend(command.iter().cloned());
    }
    fields.extend(rooms.fingerprint_lines());
    let fields: Vec<&[u8]> = fields.iter().map(String::as_bytes).collect();
    hash::hash_fields(&fields)
}

/// The views with the output of a set-up as a layer.
fn layered(rooms: SandboxViews, space: &Workspace) -> SandboxViews {
    rooms.with_setup_layer(SetupLayer { work: space.dir.clone(), home: space.home.clone() })
}

/// Removes old set-ups that no round uses, except the youngest.
async fn forget_old(spaces: &Workspaces, new: &str) {
    let mut old: Vec<_> =
        spaces.folders().into_iter().filter(|(name, _)| name.starts_with("setup-") && name != new).collect();
    let age = |path: &Path| fs::metadata(path.join(COMPLETE)).and_then(|about| about.modified()).ok();
    old.sort_by_key(|(_, path)| std::cmp::Reverse(age(path)));
    for (name, path) in old.into_iter().skip(KEPT_MAX - 1) {
        if !spaces.is_in_use(&path) {
            // A leftover costs only disk space, and the next set-up tries again.
            let _ = spaces.discard(&name).await;
        }
    }
}

/// One set-up in progress.
struct SetupRun<'a> {
    engine: &'a Engine,
    rooms: &'a SandboxViews,
    space: &'a Workspace,
    task: &'a SetupTask<'a>,
}

impl SetupRun<'_> {
    async fn run(&self, commands: &[Argv], tracked: &BTreeSet<String>) -> Result<(), SetupError> {
        let begun = tokio::time::Instant::now();
        let mut log = String::new();
        for command in commands {
            let left = self.task.wall.saturating_sub(begun.elapsed()).max(Duration::from_millis(1));
            let ended = self.command(command, left, &mut log).await;
            self.keep(&log);
            ended?;
        }
        let (dir, tracked) = (self.space.dir.clone(), tracked.clone());
        let pruned = tokio::task::spawn_blocking(move || prune::keep_untracked(&dir, &tracked)).await;
        let io = |what, path: &Path| {
            let path = path.to_owned();
            move |source| SetupError::Io { what, path, source }
        };
        let put_back = pruned.unwrap_or_else(|_| Err(std::io::Error::other("a file-system task ended early")));
        let put_back = put_back.map_err(io("prune", &self.space.dir))?;
        if !put_back.is_empty() && self.rooms.method() == CheckoutMethod::Overlay {
            let shown: Vec<_> = put_back.iter().take(10).map(String::as_str).collect();
            log.push_str(&format!("restored tracked files of base: {}\n", shown.join(", ")));
            self.keep(&log);
        }
        let complete = self.space.root.join(COMPLETE);
        // The layers are flushed before they are marked complete: nothing was flushed while they were written.
        let flush = |folder: fs::File| Ok(rustix::fs::syncfs(folder)?);
        let flushed = fs::File::open(&self.space.root).and_then(flush);
        flushed.and_then(|()| fs::write(&complete, b"")).map_err(io("write", &complete))
    }

    async fn command(&self, command: &[String], wall: Duration, log: &mut String) -> Result<(), SetupError> {
        let shown = command.join(" ");
        (self.task.report)(&shown);
        let Some((program, args)) = command.split_first() else { return Ok(()) };
        let seat = ProgramFolders { files: &self.space.files, home: &self.space.home, tmp: &self.space.tmp };
        let room = self.rooms.setup(seat);
        let mut spawn =
            SpawnRequest::new(program, sandbox_view::host_folder(seat.files), TreeCookie::new(self.task.cookie));
        spawn.args = args.iter().map(Into::into).collect();
        spawn.env = room.env(seat.home, seat.tmp);
        spawn.limits = RunLimits { wall: Some(wall), keep_head: KEEP, keep_tail: KEEP, ..RunLimits::default() };
        let mut watch = LiveLine::start("setup", self.task.progress);
        let ended = self.engine.proc.run(room.confine_spawn(spawn), &mut watch, self.task.cancel, |_| ()).await;
        let ended = ended.map_err(|source| SetupError::Start { command: excerpt::one_line(&shown), source })?;
        let (out, err) = (ended.stdout.to_lossy_string(), ended.stderr.to_lossy_string());
        log.push_str(&format!("$ {shown}\n{out}{err}"));
        outcome(&shown, &ended)
    }

    /// Stores the output of the commands. If the transcript cannot be written, the round continues.
    fn keep(&self, log: &str) {
        let Some(folder) = self.task.transcripts else { return };
        let _ = state_dir::make_dir(folder);
        let _ = self.engine.state_dir.write_ephemeral(&folder.join("setup.log"), secrets::redact(log).as_bytes());
    }
}

fn outcome(command: &str, ended: &FinishedRun) -> Result<(), SetupError> {
    let how = match ended.how {
        RunEnd::Exited(0) => return Ok(()),
        RunEnd::Cancelled => return Err(SetupError::Stopped),
        RunEnd::Exited(code) => format!("ended with exit code {code}"),
        RunEnd::Signaled(signal) => format!("was killed by signal {signal}"),
        RunEnd::Wall | RunEnd::Idle => "took too long".to_owned(),
        RunEnd::Flood | RunEnd::Stopped | RunEnd::Finished => "wrote more than the limit".to_owned(),
        RunEnd::Disk => "exceeded its disk limit".to_owned(),
    };
    // Errors are usually on the second stream; the first one often says only how far the command came.
    let output = [ended.stderr.to_lossy_string(), ended.stdout.to_lossy_string()].join("\n");
    let cause: Vec<_> = failure_cause(&output).into_iter().map(excerpt::one_line).collect();
    let cause = secrets::redact(&cause.join(" | ")).into_owned();
    Err(SetupError::Command { command: excerpt::one_line(command), how, cause })
}
