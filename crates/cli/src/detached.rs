//! Rounds without a terminal: `--detach` starts this program again in its own session and waits until its round is on
//! record. The round's id is chosen before, so that the first process can name it. An open workflow keeps its id, so its
//! lease names it. A daemon is not needed.

use crate::context::CommandContext;
use crate::error::{CommandError, CommandErrorKind, CommandExit, VerbResult};
use crate::output::safe;
use loopwright::round::new_round_id;
use loopwright::store::ProcessRow;
use loopwright::workflow::leased_workflow;
use loopwright_core::name::RoundId;
use rustix::fs::{Mode, OFlags};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs::{DirBuilder, File};
use std::io::{self, Read as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

/// How long the round may take to begin: its set-up and its probe come later.
const BEGINS: Duration = Duration::from_secs(120);
/// How often the record is read until then.
const LOOKS: Duration = Duration::from_millis(50);
/// How long the program that keeps the machine awake may take to begin.
const INHIBITS: Duration = Duration::from_secs(3);
/// The most bytes of a log that are shown as an error.
const TAIL_MAX: u64 = 4 << 10;

/// The flags of a command that can leave its terminal.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct DetachArgs {
    /// Run without this terminal: print the round's id and return
    #[arg(long, conflicts_with = "dry_run")]
    detach: bool,
    /// Let the machine sleep while a round runs without a terminal
    #[arg(long)]
    allow_sleep: bool,
    /// Set for the process that `--detach` starts: the id of its round
    #[arg(long, hide = true, value_name = "ID", conflicts_with = "detach")]
    detached_round: Option<String>,
}

impl DetachArgs {
    /// Whether another process does the work.
    pub(crate) fn starts_another_process(&self) -> bool {
        self.detach
    }

    /// Whether this is that process.
    pub(crate) fn is_detached(&self) -> bool {
        self.detached_round.is_some()
    }

    /// The id that was chosen for the round.
    pub(crate) fn round_id(&self) -> Result<Option<RoundId>, CommandError> {
        let parsed = self.detached_round.as_deref().map(RoundId::parse).transpose();
        parsed.map_err(|error| CommandError::new(CommandErrorKind::Usage, error.to_string()))
    }

    /// Keeps the machine awake until the result is dropped, where the system can do that.
    pub(crate) async fn keep_awake(&self, cx: &CommandContext) -> Option<SleepInhibitor> {
        let round = self.detached_round.as_deref().filter(|_| cx.daemon().is_none() && !self.allow_sleep)?;
        let started = SleepInhibitor::start(cx, round).await;
        cx.out.note(match &started {
            Ok(Some(_)) => "awake      the machine does not sleep while this round runs",
            Ok(None) => "awake      this system has no program that keeps it awake; it may sleep",
            Err(_) => "awake      the system refused to stay awake; it may sleep",
        });
        started.ok().flatten()
    }
}

/// Starts this command again without a terminal, and waits until its round is on record. Without a chosen id, the round
/// gets a new one.
pub(crate) async fn start(cx: &CommandContext, loop_name: &str, chosen: Option<RoundId>) -> VerbResult {
    let own = ["--detach", "--json"];
    let words = std::env::args_os().skip(1).filter(|word| !own.iter().any(|own| word == own)).collect();
    let started = start_process(cx, words, chosen).await?;
    Ok(report(cx, loop_name, &started))
}

/// As [`start`], for the command line of a face; returns the document.
pub(crate) async fn start_round(cx: &CommandContext, words: Vec<String>) -> Result<Value, CommandError> {
    let started = start_process(cx, words.into_iter().map(OsString::from).collect(), None).await?;
    Ok(started.document(None))
}

/// The work of a detached process.
enum DetachedWork {
    Round(String),
    Workflow(String),
}

/// A round or workflow that another process runs.
struct DetachedRun {
    work: DetachedWork,
    pid: u32,
    log: PathBuf,
}

impl DetachedRun {
    /// Whether it is a round or a workflow, and its id.
    fn work(&self) -> (&'static str, &str) {
        match &self.work {
            DetachedWork::Round(id) => ("round", id),
            DetachedWork::Workflow(id) => ("workflow", id),
        }
    }

    fn document(&self, loop_name: Option<&str>) -> Value {
        let (kind, id) = self.work();
        let mut document = json!({"schema": 1, kind: id, "detached": {"pid": self.pid, "log": self.log}});
        if let Some(name) = loop_name {
            document["loop"] = json!(name);
        }
        document
    }
}

async fn start_process(
    cx: &CommandContext,
    words: Vec<OsString>,
    chosen: Option<RoundId>,
) -> Result<DetachedRun, CommandError> {
    let round = match chosen {
        Some(chosen) => chosen,
        None => new_round_id()?,
    };
    let (state, _) = cx.state_dir()?;
    let log = state.join("detached").join(format!("{}.log", round.as_str()));
    let failed = |error: io::Error| CommandError::failed(format!("start the round: {error}"));
    let mut child = spawn(&log, &round, words).map_err(failed)?;
    let mut looks = interval(LOOKS);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let begun = Instant::now();
    loop {
        looks.tick().await;
        let ended = child.try_wait().map_err(failed)?;
        if let Some(work) = find_work(cx, round.as_str(), child.id()).await {
            return Ok(DetachedRun { pid: child.id(), work, log });
        }
        if let Some(ended) = ended {
            return Err(not_begun(&log, ended.code()));
        }
        if begun.elapsed() > BEGINS {
            return Err(CommandError::failed(format!("the round did not begin yet; process {} runs", child.id()))
                .hint(format!("see what it does: {}", log.display())));
        }
    }
}

/// The work that a new process has begun: its round or workflow has the chosen id, or it continues an open workflow,
/// whose lease it holds. A store that does not exist yet has no work.
async fn find_work(cx: &CommandContext, chosen: &str, pid: u32) -> Option<DetachedWork> {
    let store = cx.open_store_read_only().await.ok()?;
    if store.round(chosen).await.ok()?.is_some() {
        return Some(DetachedWork::Round(chosen.to_owned()));
    }
    if store.workflow(chosen).await.ok()?.is_some() {
        return Some(DetachedWork::Workflow(chosen.to_owned()));
    }
    let is_of = |process: &ProcessRow| process.pid == i64::from(pid) && process.is_of_this_machine();
    let leases = store.leases().await.ok()?;
    let mut held = leases.iter().filter(|lease| lease.process.as_ref().is_some_and(is_of));
    held.find_map(|lease| leased_workflow(&lease.name)).map(|id| DetachedWork::Workflow(id.to_owned()))
}

fn report(cx: &CommandContext, loop_name: &str, started: &DetachedRun) -> CommandExit {
    let (kind, id) = started.work();
    let (pid, log) = (started.pid, safe(&started.log.to_string_lossy()));
    cx.out.answer(&started.document(Some(loop_name)), || {
        format!(
            "{kind} {id} of {} runs without this terminal: process {pid}\nlog: {log}\n\
             follow it: loopwright attach {id}\nguide it: loopwright steer {id} \"TEXT\"\n\
             pause it: loopwright pause {id}; stop it: loopwright stop {id}",
            safe(loop_name)
        )
    })
}

/// The process ended without a round: its log has the reason.
fn not_begun(log: &Path, code: Option<i32>) -> CommandError {
    let kind = match code {
        Some(2) => CommandErrorKind::Invalid,
        Some(15) => CommandErrorKind::Refused,
        Some(130) => CommandErrorKind::Interrupted,
        _ => CommandErrorKind::Failed,
    };
    let text = log_text(log).unwrap_or_default();
    let reason = text.lines().filter_map(|line| line.strip_prefix("error: ")).next_back();
    let reason = reason.unwrap_or("the process ended before its round began").to_owned();
    CommandError::new(kind, reason).hint(format!("its log: {}", log.display()))
}

fn log_text(log: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(log)?.take(TAIL_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[expect(
    clippy::disallowed_methods,
    reason = "this process outlives the one that starts it, and is no part of a round"
)]
fn spawn(log: &Path, round: &RoundId, mut words: Vec<OsString>) -> io::Result<Child> {
    if let Some(folder) = log.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    // A task whose round did not begin is started again under its id, and its log continues.
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file: File = rustix::fs::open(log, flags, Mode::RUSR | Mode::WUSR)?.into();
    // Before the words, so that it comes before any `--`.
    let at = words.iter().position(|word| word == "--").unwrap_or(words.len());
    words.insert(at, OsString::from(format!("--detached-round={}", round.as_str())));
    std::process::Command::new(std::env::current_exe()?)
        .args(words)
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .spawn()
}

/// In the new process, before anything else: leaves the session of the terminal.
pub(crate) fn leave_terminal() {
    // This cannot fail for a process that was just started and leads no group.
    let _ = rustix::process::setsid();
}

/// A program of the system that keeps the machine awake while its standard input is open. It ends with this process,
/// however that ends.
#[derive(Debug)]
pub(crate) struct SleepInhibitor {
    _program: Child,
}

impl SleepInhibitor {
    /// Starts the program and waits until it confirms; `None` if the system has none.
    async fn start(cx: &CommandContext, round: &str) -> io::Result<Option<Self>> {
        let Some((program, words)) = inhibitor(cx) else { return Ok(None) };
        let mut child = spawn_inhibitor(&program, words, round)?;
        let pipe = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut first = [0_u8; 1];
        let confirmed = timeout(INHIBITS, Receiver::from_owned_fd(pipe.into())?.read_exact(&mut first)).await;
        match confirmed {
            Ok(Ok(_)) => Ok(Some(Self { _program: child })),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

/// The program of this system, with its arguments.
fn inhibitor(cx: &CommandContext) -> Option<(PathBuf, &'static [&'static str])> {
    const KNOWN: [(&str, &[&str]); 2] = [
        ("systemd-inhibit", &["--what=idle:sleep", "--mode=block", "--who=loopwright"]),
        ("caffeinate", &["-i", "-s"]),
    ];
    let folders: Vec<PathBuf> = std::env::split_paths(&cx.env.path).filter(|folder| folder.is_absolute()).collect();
    KNOWN.into_iter().find_map(|(name, words)| {
        let found = folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file())?;
        Some((found, words))
    })
}

#[expect(clippy::disallowed_methods, reason = "it is no part of a round, and ends when this process ends")]
fn spawn_inhibitor(program: &Path, words: &[&str], round: &str) -> io::Result<Child> {
    let mut command = std::process::Command::new(program);
    command.args(words);
    if program.ends_with("systemd-inhibit") {
        command.arg(format!("--why=round {round}"));
    }
    command.args(["sh", "-c", "echo held; exec cat"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
}
