//! `gates test LOOP`: runs a loop's commands on base, and again on a checkout that has only the gates' own inputs. A
//! gate that still passes there always passes; one that could not start never ran.

use super::{CommandContext, CommandError, CommandErrorKind, CommandExit, VerbResult, close, safe};
use crate::error::{error_chain, with_count};
use crate::output::TextStyle;
use crate::signals::CurrentRound;
use crate::view::proposal::last_lines;
use loopwright::gates::{self, CandidateFacts, GateBaseline, GateEnv, GateRunner, HeldoutChecks, ResolvedGates};
use loopwright::git::{CommitMetadata, UserRepo};
use loopwright::proc::CancelToken;
use loopwright::sandbox_view::SandboxViews;
use loopwright::setup::{self, SetupTask};
use loopwright::workspace::{CheckoutMethod, SealLimits, SealedTree, Workspace, Workspaces};
use loopwright::{Engine, boundary};
use loopwright_core::gate::{GateResult, GateStatus, missing_dependency};
use loopwright_core::paths::Globs;
use loopwright_core::spec::{Gate, LoopSpec, RunGate};
use serde::Serialize;
use std::fs;
use std::path::Path;

#[derive(Debug, clap::Args)]
pub(crate) struct GatesArgs {
    #[command(subcommand)]
    what: GatesCommand,
}

#[derive(Debug, clap::Subcommand)]
enum GatesCommand {
    /// Run the gates of a loop on its base commit, and report gates that cannot fail or did not run
    Test {
        /// The name of the loop
        #[arg(value_name = "LOOP")]
        name: String,
    },
}

/// The document of `gates test --json`.
#[derive(Debug, Serialize)]
struct Document {
    schema: u32,
    #[serde(rename = "loop")]
    name: String,
    base: String,
    gates: Vec<Line>,
}

/// One gate of the document.
#[derive(Debug, Serialize)]
struct Line {
    name: String,
    /// Its status on base.
    status: GateStatus,
    exit: Option<i32>,
    duration_ms: u64,
    evidence: Vec<String>,
    /// The last part of its output on base.
    output: String,
    /// Whether it rejected a checkout without the code; `None` when it did not run.
    can_fail: Option<bool>,
    /// The problem of the gate.
    finding: Option<String>,
    /// A note about it.
    note: Option<String>,
}

pub(crate) async fn run(args: GatesArgs, cx: &CommandContext) -> VerbResult {
    let GatesCommand::Test { name } = args.what;
    let repo = cx.repo().await?;
    let loops = cx.loops(&repo)?;
    let spec = loops.find(&name)?.spec.spec().clone();
    let cancel = cx.cancel(&CurrentRound::default());
    let engine = cx.open_engine(Some(&repo), &cancel).await?;
    let document = close(&engine, try_gates(cx, &engine, &repo, &spec, &cancel).await).await?;
    cx.out.answer(&document, || page(cx, &document));
    let found = document.gates.iter().any(|line| line.finding.is_some());
    Ok(if found { CommandExit::REJECTED } else { CommandExit::DONE })
}

async fn try_gates(
    cx: &CommandContext,
    engine: &Engine,
    repo: &UserRepo,
    spec: &LoopSpec,
    cancel: &CancelToken,
) -> Result<Document, CommandError> {
    // At any level the gates run the maker's code, so they run with a round's confinement, or not at all.
    let held = boundary::decide(spec.level, spec.sandbox, engine.host().await);
    let held = held.map_err(|refused| CommandError::new(CommandErrorKind::Refused, refused.text))?;
    let spaces =
        Workspaces::open(engine.git().clone(), engine.state_dir().root(), repo.clone()).await.map_err(to_failed)?;
    let base = engine.git().head(repo, spec.base.as_deref()).await?;
    let round = format!("gates-test-{}", std::process::id());
    // Code below removes files from the workspace, so it is a copy.
    let rooms = engine.sandbox_views(&held, repo, spec)?.with_method(CheckoutMethod::Copy);
    let task = SetupTask {
        cookie: &format!("lw-{round}"),
        cancel,
        wall: setup::WALL_DEFAULT,
        transcripts: None,
        report: &|command| cx.out.note(&format!("setup      {}", safe(command))),
    };
    let rooms = setup::prepare(engine, rooms, &spaces, spec, &base.commit, &task).await.map_err(to_failed)?;
    let workspace =
        spaces.create(&spec.name, &round, &base.commit, &CheckoutMethod::Copy.into()).await.map_err(to_failed)?;
    let ways = engine.open_routes(&round, &rooms, spec)?;
    let rooms = rooms.with_routes(&ways);
    let secret = |name: &String| Some((name.into(), engine.settings().known_secrets.get(name)?.into()));
    let vars = spec.secrets.iter().filter_map(secret).collect();
    let env = GateEnv { extra_path: rooms.path().to_vec(), vars };
    let trial = GateTrial {
        spaces: &spaces,
        workspace: &workspace,
        rooms: &rooms,
        env: &env,
        engine,
        cancel,
        cookie: format!("lw-{round}"),
    };
    let lines = trial.lines(spec).await;
    spaces.discard(&round).await.map_err(to_failed)?;
    Ok(Document { schema: 1, name: spec.name.clone(), base: base.commit.to_string(), gates: lines? })
}

/// A temporary workspace in which gates are tried.
struct GateTrial<'t> {
    spaces: &'t Workspaces,
    workspace: &'t Workspace,
    rooms: &'t SandboxViews,
    env: &'t GateEnv,
    engine: &'t Engine,
    cancel: &'t CancelToken,
    cookie: String,
}

impl GateTrial<'_> {
    async fn lines(&self, spec: &LoopSpec) -> Result<Vec<Line>, CommandError> {
        let resolved = self.resolve(&tried_on_base(spec)).await?;
        let gates = self.gates();
        let baseline = gates.baseline(&resolved, GateBaseline::default()).await.map_err(to_failed)?;
        let emptied = self.emptied(&resolved).await?;
        let without = gates
            .run(&resolved, &emptied, &CandidateFacts::default(), &[], &GateBaseline::default())
            .await
            .map_err(to_failed)?;
        let mut without = without.iter();
        let heldout = self.heldout_lines(spec, &emptied).await?;
        let lines = spec.gates.iter().filter_map(|gate| match gate {
            Gate::Run(run) => {
                let on_base = &baseline.0.get(&run.name)?.result;
                Some(line(run.red_before, on_base, without.next()?))
            }
            other => Some(untried(other.name())),
        });
        Ok(lines.chain(heldout).collect())
    }

    /// Held-out checks on base, and on the checkout without the code: a check that passes there did not test the code.
    async fn heldout_lines(&self, spec: &LoopSpec, emptied: &SealedTree) -> Result<Vec<Line>, CommandError> {
        let ground = self.engine.path_roots(self.spaces.repo());
        let shown = self.engine.visible_toolchains(self.spaces.repo(), spec);
        let checks = HeldoutChecks::read(spec, &ground, self.env, &shown).map_err(|errors| {
            let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
            CommandError::invalid(texts.join("; ")).hint("see `loopwright check`")
        })?;
        let on_base = self.gates().heldout(&checks, &self.workspace.base).await.map_err(to_failed)?;
        let without = self.gates().heldout(&checks, &emptied.commit).await.map_err(to_failed)?;
        Ok(on_base.iter().zip(&without).map(|(on_base, without)| line(false, on_base, without)).collect())
    }

    async fn resolve(&self, runs: &[Gate]) -> Result<ResolvedGates, CommandError> {
        let paths = gates::base_paths(self.spaces.engine(), &self.workspace.base).await.map_err(to_failed)?;
        gates::resolve(runs, &paths, self.env).map_err(|errors| {
            let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
            CommandError::invalid(texts.join("; ")).hint("commit the script; gates run what base has")
        })
    }

    fn gates(&self) -> GateRunner<'_> {
        GateRunner {
            workspaces: self.spaces,
            workspace: self.workspace,
            proc: self.engine.proc(),
            views: self.rooms,
            env: self.env,
            cookie: &self.cookie,
            cancel: self.cancel,
        }
    }

    /// Base with only the inputs of the gates.
    async fn emptied(&self, resolved: &ResolvedGates) -> Result<SealedTree, CommandError> {
        let inputs: Vec<String> = resolved.runs().flat_map(|run| run.inputs.iter().cloned()).collect();
        let keep = Globs::new(&inputs).map_err(to_failed)?;
        empty(&self.workspace.dir, &self.workspace.dir, &keep).map_err(to_failed)?;
        let words = CommitMetadata {
            message: "without the code".to_owned(),
            name: "Loopwright".to_owned(),
            email: "loopwright@localhost".to_owned(),
            at_unix: 0,
        };
        let limits = SealLimits { files_max: usize::MAX, ..SealLimits::default() };
        self.spaces.seal(self.workspace, &words, limits).await.map_err(to_failed)
    }
}

/// Every command, marked so that the engine runs it on base, and judged by its own exit and output alone.
fn tried_on_base(spec: &LoopSpec) -> Vec<Gate> {
    let marked = spec.gates.iter().filter_map(|gate| match gate {
        Gate::Run(run) => Some(Gate::Run(RunGate { red_before: true, ..run.clone() })),
        _ => None,
    });
    marked.collect()
}

fn empty(root: &Path, folder: &Path, keep: &Globs) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        if name == ".git" {
            continue;
        }
        if entry.file_type()?.is_dir() {
            empty(root, &path, keep)?;
        } else if !keep.matches(&name) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// A gate that judges the change itself cannot be tried here.
fn untried(name: &str) -> Line {
    Line {
        name: name.to_owned(),
        status: GateStatus::Skipped,
        exit: None,
        duration_ms: 0,
        evidence: Vec::new(),
        output: String::new(),
        can_fail: None,
        finding: None,
        note: Some("it judges a change, and base has none: it only runs in a round".to_owned()),
    }
}

fn line(red_before: bool, on_base: &GateResult, without: &GateResult) -> Line {
    let ran = on_base.status != GateStatus::Failed;
    let can_fail = ran.then_some(!without.is_passed());
    let finding = match (ran, can_fail) {
        (false, _) => Some(format!("it never ran: {}", on_base.reason.as_deref().unwrap_or("unknown"))),
        (true, Some(false)) => Some("it passes on a checkout without the code: it cannot fail".to_owned()),
        (true, _) => None,
    };
    let missing = missing_dependency(&on_base.excerpt).filter(|_| !on_base.is_passed());
    let note = match (red_before, on_base.status) {
        (_, _) if missing.is_some() => missing.map(|missing| missing.text()),
        (true, GateStatus::Passed) => Some("it is green on base: a round would find nothing to do".to_owned()),
        (false, GateStatus::Rejected) => Some("it is red on base: every candidate has to fix it".to_owned()),
        _ => None,
    };
    Line {
        name: on_base.name.clone(),
        status: on_base.status,
        exit: on_base.exit,
        duration_ms: on_base.duration_ms,
        evidence: on_base.evidence.clone(),
        output: on_base.excerpt.clone(),
        can_fail,
        finding,
        note,
    }
}

fn page(cx: &CommandContext, document: &Document) -> String {
    if document.gates.is_empty() {
        return format!("{}: no gate runs a command", safe(&document.name));
    }
    let mut lines = Vec::new();
    for line in &document.gates {
        let (look, word) = match (&line.finding, line.status) {
            (Some(_), _) => (TextStyle::Red, "bad"),
            (None, GateStatus::Skipped) => (TextStyle::Dim, "-  "),
            (None, _) => (TextStyle::Green, "ok "),
        };
        lines.push(format!("{}  {}: {} on base", cx.out.style(look, word), safe(&line.name), line.status));
        lines.extend(line.finding.iter().map(|text| format!("     {}", safe(text))));
        if line.status != GateStatus::Passed {
            lines.extend(last_lines(&line.output).into_iter().map(|text| format!("     | {}", safe(text))));
        }
        lines.extend(line.note.iter().map(|text| format!("     note: {}", safe(text))));
    }
    let tried = document.gates.iter().filter(|line| line.status != GateStatus::Skipped).count();
    lines.push(format!("{} tried", with_count(tried, "gate")));
    lines.join("\n")
}

fn to_failed(error: impl std::error::Error) -> CommandError {
    CommandError::failed(error_chain(&error))
}
