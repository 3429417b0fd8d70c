//! `doctor`: what this machine has and lacks, said honestly, with what to do about each gap.

mod agents;

use super::Ended;
use crate::context::Context;
use crate::error::chain;
use crate::exit::Exit;
use crate::output::{Look, safe};
use loopwright::Engine;
use loopwright::boundary::{self, Finding, Held, Host};
use loopwright::git::GitErrorKind;
use loopwright::proc::{Cancel, Cookie, How, Proc, Spawn, base_env};
use loopwright::seam::Seam;
use loopwright_core::level::LoopLevel;
use loopwright_core::round::BoundaryLevel;
use loopwright_core::spec::SandboxMode;
use serde::Serialize;
use std::path::Path;
use std::time::Duration;

/// How long a program may take to say its version.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Exit with 1 when something is missing that loops at L2 and L3 need
    #[arg(long)]
    strict: bool,
}

/// The document of `doctor --json`.
#[derive(Debug, Serialize)]
struct Document {
    schema: u32,
    /// What holds agents and gates here: `kernel`, or `process` where L2 and L3 are refused.
    boundary: BoundaryLevel,
    checks: Vec<Check>,
    agents: Vec<agents::Agent>,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Check {
    name: String,
    status: Status,
    text: String,
    /// What to do about a gap.
    fix: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Status {
    /// As it should be.
    Ok,
    /// Something is weaker than it should be; loops run all the same.
    Gap,
    /// Something is not there without which loops do not run, or not above L1.
    Missing,
    /// Worth knowing.
    Info,
}

impl Check {
    fn ok(name: &str, text: impl Into<String>) -> Self {
        Self { name: name.to_owned(), status: Status::Ok, text: text.into(), fix: None }
    }

    fn info(name: &str, text: impl Into<String>) -> Self {
        Self { status: Status::Info, ..Self::ok(name, text) }
    }

    fn missing(name: &str, text: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { status: Status::Missing, fix: Some(fix.into()), ..Self::ok(name, text) }
    }
}

impl From<&Finding> for Check {
    fn from(found: &Finding) -> Self {
        let status = match (found.held, boundary::is_needed(found.wall)) {
            (Held::Yes, _) => Status::Ok,
            (Held::No | Held::Partly, true) => Status::Missing,
            (Held::No | Held::Partly, false) => Status::Gap,
        };
        Self { name: format!("wall {}", found.wall.name()), status, text: found.detail.clone(), fix: found.fix.clone() }
    }
}

pub(crate) async fn run(args: Args, cx: &Context) -> Ended {
    let mut checks = vec![git(cx).await, shell(cx).await, state(cx), store(cx).await];
    let host = cx.host().await;
    checks.push(held(&host));
    checks.extend(host.findings.iter().map(Check::from));
    let (agents, told): (Vec<_>, Vec<_>) = agents::look(cx).await.into_iter().unzip();
    checks.extend(told);
    let missing = checks.iter().any(|check| check.status == Status::Missing);
    let level = if host.enforces() { BoundaryLevel::Kernel } else { BoundaryLevel::Process };
    let document = Document { schema: 1, boundary: level, checks, agents };
    cx.out.answer(&document, || page(cx, &document));
    Ok(if missing && args.strict { Exit::FAILED } else { Exit::DONE })
}

async fn git(cx: &Context) -> Check {
    match cx.git().version().await {
        Ok(version) => Check::ok("git", version),
        Err(error) if matches!(error.kind, GitErrorKind::Missing) => {
            Check::missing("git", "git is not installed", "install git 2.38 or newer")
        }
        Err(error) => Check::missing("git", error.to_string(), "install git 2.38 or newer"),
    }
}

async fn shell(cx: &Context) -> Check {
    match first_line(cx, "sh", &["-c", "echo works"]).await {
        Some(line) => Check::ok("sh", line),
        None => Check::missing("sh", "a shell does not start", "install a POSIX shell as `sh`"),
    }
}

/// Looks whether state can be written, without making the folder for somebody who only asks.
fn state(cx: &Context) -> Check {
    const NAME: &str = "state directory";
    let (dir, origin) = match cx.state_dir() {
        Ok(found) => found,
        Err(error) => return Check::missing(NAME, error.text, "set LOOPWRIGHT_STATE_DIR"),
    };
    let shown = format!("{} ({origin})", dir.display());
    if !dir.exists() {
        return Check::ok(NAME, format!("{shown}, made on first use"));
    }
    let probe = dir.join(format!(".doctor-{}", std::process::id()));
    let written = std::fs::write(&probe, b"").and_then(|()| std::fs::remove_file(&probe));
    match written {
        Ok(()) => Check::ok(NAME, shown),
        Err(error) => {
            Check::missing(NAME, format!("{shown}: {error}"), "make it writable, or set LOOPWRIGHT_STATE_DIR")
        }
    }
}

async fn store(cx: &Context) -> Check {
    const NAME: &str = "store";
    let settings = match cx.settings(None) {
        Ok(settings) => settings,
        Err(error) => return Check::missing(NAME, error.text, "repair the configuration: loopwright config"),
    };
    if settings.store.is_none() && !settings.state.join("store.db").exists() {
        return Check::ok(NAME, "SQLite, made on first use; PostgreSQL is not needed");
    }
    let others = match Engine::read(&settings).await {
        Ok(store) => store.others().await.map_err(|error| chain(&error)),
        Err(error) => Err(chain(&error)),
    };
    match others {
        Ok(others) if others.is_empty() => Check::ok(NAME, "readable; no process has it open for writing"),
        Ok(others) => {
            let names: Vec<_> = others.iter().map(ToString::to_string).collect();
            Check::ok(NAME, format!("readable; in use by {}", names.join(", ")))
        }
        Err(error) => Check::missing(NAME, error, "loopwright verify"),
    }
}

/// Which levels run here; nothing is promised that the kernel does not keep.
fn held(host: &Host) -> Check {
    match boundary::decide(LoopLevel::L2Assisted, SandboxMode::On, host) {
        Ok(held) => Check::ok("boundary", format!("kernel: loops run here at every level; files: {}", held.filesystem)),
        Err(refused) => Check::missing(
            "boundary",
            "process: loops at L1 run here with a warning, L2 and L3 are refused; an agent has your own reach",
            refused.fix.unwrap_or_else(|| "see the walls below".to_owned()),
        ),
    }
}

/// The first line a program prints; none when it is not there, fails, or takes too long.
async fn first_line(cx: &Context, program: &str, args: &[&str]) -> Option<String> {
    let extra = cx.settings(None).map(|settings| settings.extra_path).unwrap_or_default();
    // The program is only asked who it is: it gets no home to read or write.
    let nowhere = Path::new("/nonexistent");
    let mut spawn = Spawn::new(program, "/", Cookie::new("lw-doctor"));
    spawn.args = args.iter().map(Into::into).collect();
    spawn.env = base_env(nowhere, nowhere, &extra);
    spawn.limits.wall = Some(PATIENCE);
    let ended = Proc::new(Seam::none()).run(spawn, &mut (), &Cancel::new(), |_| ()).await.ok()?;
    if !matches!(ended.how, How::Exited(0)) {
        return None;
    }
    let text = ended.stdout.to_lossy_string();
    text.lines().next().map(|line| line.trim().chars().take(100).collect())
}

fn page(cx: &Context, document: &Document) -> String {
    let mut lines = Vec::new();
    for check in &document.checks {
        let (look, word) = match check.status {
            Status::Ok => (Look::Green, "ok  "),
            Status::Gap => (Look::Yellow, "gap "),
            Status::Missing => (Look::Red, "MISS"),
            Status::Info => (Look::Dim, "info"),
        };
        lines.push(format!("{}  {}: {}", cx.out.look(look, word), check.name, safe(&check.text)));
        lines.extend(check.fix.iter().map(|fix| format!("      fix: {}", safe(fix))));
    }
    lines.join("\n")
}
