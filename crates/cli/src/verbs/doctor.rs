//! `doctor`: what this machine has and lacks, with a fix for each gap.

mod agents;
mod forges;
mod models;

use super::programs::gate_programs;
use super::{CommandContext, CommandExit, VerbResult, safe};
use crate::error::error_chain;
use crate::output::TextStyle;
use loopwright::Engine;
use loopwright::boundary::{self, FeatureFinding, FeatureSupport, HostSupport};
use loopwright::git::GitErrorKind;
use loopwright::proc::{CancelToken, ProcessRunner, RunEnd, SpawnRequest, TreeCookie, base_env};
use loopwright::seam::Seam;
use loopwright_core::level::LoopLevel;
use loopwright_core::round::BoundaryLevel;
use loopwright_core::spec::SandboxMode;
use serde::Serialize;
use serde_json::json;
use std::path::Path;
use std::time::Duration;

/// How long a program may take to print its version.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// Exit with 1 when something is missing that loops at L2 and L3 need
    #[arg(long)]
    strict: bool,
}

/// The result of one check.
#[derive(Debug, Serialize)]
struct DoctorCheck {
    name: String,
    status: DoctorStatus,
    text: String,
    /// The fix of a gap.
    fix: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum DoctorStatus {
    /// As it should be.
    Ok,
    /// Weaker than it should be; loops run anyway.
    Gap,
    /// Missing: without it loops do not run, or not above L1.
    Missing,
    /// Information only.
    Info,
}

impl DoctorCheck {
    fn ok(name: &str, text: impl Into<String>) -> Self {
        Self { name: name.to_owned(), status: DoctorStatus::Ok, text: text.into(), fix: None }
    }

    fn info(name: &str, text: impl Into<String>) -> Self {
        Self { status: DoctorStatus::Info, ..Self::ok(name, text) }
    }

    fn missing(name: &str, text: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { status: DoctorStatus::Missing, fix: Some(fix.into()), ..Self::ok(name, text) }
    }
}

impl From<&FeatureFinding> for DoctorCheck {
    fn from(found: &FeatureFinding) -> Self {
        let status = match (found.support, boundary::is_needed(found.feature)) {
            (FeatureSupport::Yes, _) => DoctorStatus::Ok,
            (FeatureSupport::No | FeatureSupport::Partly, true) => DoctorStatus::Missing,
            (FeatureSupport::No | FeatureSupport::Partly, false) => DoctorStatus::Gap,
        };
        Self {
            name: format!("wall {}", found.feature.name()),
            status,
            text: found.detail.clone(),
            fix: found.fix.clone(),
        }
    }
}

pub(crate) async fn run(args: DoctorArgs, cx: &CommandContext) -> VerbResult {
    let mut checks = vec![git(cx).await, shell(cx).await, state(cx), store(cx).await];
    let host = cx.probe_host().await;
    checks.push(held(&host));
    checks.extend(host.findings.iter().map(DoctorCheck::from));
    let (agents, agent_checks): (Vec<_>, Vec<_>) = agents::check_agents(cx).await.into_iter().unzip();
    checks.extend(agent_checks);
    checks.extend(models::check_models(cx).await);
    checks.extend(forges::check_forges(cx).await);
    checks.extend(gate_checks(cx).await);
    let missing = checks.iter().any(|check| check.status == DoctorStatus::Missing);
    let level = if host.enforces() { BoundaryLevel::Kernel } else { BoundaryLevel::Process };
    let document = json!({"schema": 1, "boundary": level, "checks": checks, "agents": agents});
    cx.out.answer(&document, || page(cx, &checks));
    Ok(if missing && args.strict { CommandExit::FAILED } else { CommandExit::DONE })
}

/// The programs that the gates of this repository run; nothing outside a repository. `check` reports broken loop files.
async fn gate_checks(cx: &CommandContext) -> Vec<DoctorCheck> {
    let Ok(repo) = cx.repo().await else { return Vec::new() };
    let Ok(loops) = cx.loops(&repo) else { return Vec::new() };
    let mut seen = std::collections::BTreeSet::new();
    let mut checks = Vec::new();
    for file in &loops.loops {
        for line in gate_programs(cx, &repo, &file.spec).await {
            if seen.insert(line.program.clone()) {
                checks.push(DoctorCheck::info(&format!("program of {}", file.spec.name), line.text()));
            }
        }
    }
    checks
}

async fn git(cx: &CommandContext) -> DoctorCheck {
    match cx.git().version().await {
        Ok(version) => DoctorCheck::ok("git", version),
        Err(error) if matches!(error.kind, GitErrorKind::Missing) => {
            DoctorCheck::missing("git", "git is not installed", "install git 2.38 or newer")
        }
        Err(error) => DoctorCheck::missing("git", error.to_string(), "install git 2.38 or newer"),
    }
}

async fn shell(cx: &CommandContext) -> DoctorCheck {
    match first_line(cx, "sh", &["-c", "echo works"]).await {
        Some(line) => DoctorCheck::ok("sh", line),
        None => DoctorCheck::missing("sh", "a shell does not start", "install a POSIX shell as `sh`"),
    }
}

/// Checks whether state can be written, without creating the folder.
fn state(cx: &CommandContext) -> DoctorCheck {
    const NAME: &str = "state directory";
    let (dir, origin) = match cx.state_dir() {
        Ok(found) => found,
        Err(error) => return DoctorCheck::missing(NAME, error.text, "set LOOPWRIGHT_STATE_DIR"),
    };
    let shown = format!("{} ({origin})", dir.display());
    if !dir.exists() {
        return DoctorCheck::ok(NAME, format!("{shown}, created on first use"));
    }
    let probe = dir.join(format!(".doctor-{}", std::process::id()));
    let written = std::fs::write(&probe, b"").and_then(|()| std::fs::remove_file(&probe));
    match written {
        Ok(()) => DoctorCheck::ok(NAME, shown),
        Err(error) => {
            DoctorCheck::missing(NAME, format!("{shown}: {error}"), "make it writable, or set LOOPWRIGHT_STATE_DIR")
        }
    }
}

async fn store(cx: &CommandContext) -> DoctorCheck {
    const NAME: &str = "store";
    let settings = match cx.settings(None) {
        Ok(settings) => settings,
        Err(error) => return DoctorCheck::missing(NAME, error.text, "fix the configuration: loopwright config"),
    };
    if settings.store.is_none() && !settings.state.join("store.db").exists() {
        return DoctorCheck::ok(NAME, "SQLite, created on first use; PostgreSQL is not needed");
    }
    let others = match Engine::read(&settings).await {
        Ok(store) => store.others().await.map_err(|error| error_chain(&error)),
        Err(error) => Err(error_chain(&error)),
    };
    match others {
        Ok(others) if others.is_empty() => DoctorCheck::ok(NAME, "readable; no process has it open for writing"),
        Ok(others) => {
            let names: Vec<_> = others.iter().map(ToString::to_string).collect();
            DoctorCheck::ok(NAME, format!("readable; in use by {}", names.join(", ")))
        }
        Err(error) => DoctorCheck::missing(NAME, error, "loopwright verify"),
    }
}

/// The levels that run here, as the kernel can enforce them.
fn held(host: &HostSupport) -> DoctorCheck {
    match boundary::decide(LoopLevel::L2Assisted, SandboxMode::On, host) {
        Ok(held) => {
            DoctorCheck::ok("boundary", format!("kernel: loops run here at every level; files: {}", held.filesystem))
        }
        Err(refused) => DoctorCheck::missing(
            "boundary",
            "process: loops at L1 run here with a warning, L2 and L3 are refused; agents can access all that you can",
            refused.fix.unwrap_or_else(|| "see the walls below".to_owned()),
        ),
    }
}

/// The first line that a program prints; `None` if it is missing, fails, or takes too long.
async fn first_line(cx: &CommandContext, program: &str, args: &[&str]) -> Option<String> {
    let extra = cx.settings(None).map(|settings| settings.extra_path).unwrap_or_default();
    // The program only prints its version: it gets no home folder.
    let nowhere = Path::new("/nonexistent");
    let mut spawn = SpawnRequest::new(program, "/", TreeCookie::new("lw-doctor"));
    spawn.args = args.iter().map(Into::into).collect();
    spawn.env = base_env(nowhere, nowhere, &extra);
    spawn.limits.wall = Some(PATIENCE);
    let ended = ProcessRunner::new(Seam::none()).run(spawn, &mut (), &CancelToken::new(), |_| ()).await.ok()?;
    if !matches!(ended.how, RunEnd::Exited(0)) {
        return None;
    }
    let text = ended.stdout.to_lossy_string();
    text.lines().next().map(|line| line.trim().chars().take(100).collect())
}

fn page(cx: &CommandContext, checks: &[DoctorCheck]) -> String {
    let mut lines = Vec::new();
    for check in checks {
        let (look, word) = match check.status {
            DoctorStatus::Ok => (TextStyle::Green, "ok  "),
            DoctorStatus::Gap => (TextStyle::Yellow, "gap "),
            DoctorStatus::Missing => (TextStyle::Red, "MISS"),
            DoctorStatus::Info => (TextStyle::Dim, "info"),
        };
        lines.push(format!("{}  {}: {}", cx.out.style(look, word), check.name, safe(&check.text)));
        lines.extend(check.fix.iter().map(|fix| format!("      fix: {}", safe(fix))));
    }
    lines.join("\n")
}
