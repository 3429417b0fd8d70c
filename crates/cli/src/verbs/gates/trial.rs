//! One trial of a loop's gates: on base, and on base without the code. It prepares what a round prepares, in the same
//! way, so a round that follows finds the set-up done.

use super::{CanaryTrials, GateTrialDocument, GateTrialLine, line, untried};
use crate::context::CommandContext;
use crate::error::{CommandError, CommandErrorKind, error_chain};
use crate::output::{TextStyle, safe};
use crate::progress::{LiveRow, gate_mark, gate_text};
use loopwright::gates::{
    self, CandidateFacts, GateBaseline, GateEnv, GateProof, GateRunner, HeldoutChecks, ResolvedGates, WithholdRequest,
};
use loopwright::git::UserRepo;
use loopwright::live_line::ProgramReport;
use loopwright::proc::CancelToken;
use loopwright::sandbox_view::SandboxViews;
use loopwright::setup::{self, SetupError, SetupTask};
use loopwright::workspace::{CheckoutMethod, SealedTree, Workspace, Workspaces};
use loopwright::{Engine, boundary};
use loopwright_core::gate::{GateResult, runner};
use loopwright_core::hash::hash_fields;
use loopwright_core::paths::Globs;
use loopwright_core::round::BoundaryLevel;
use loopwright_core::secrets::SecretScanner;
use loopwright_core::spec::{CanaryMode, Gate, LoopSpec, RunGate};
use std::path::PathBuf;

/// Runs the gates of a loop once.
pub(in crate::verbs) async fn try_gates(
    cx: &CommandContext,
    engine: &Engine,
    repo: &UserRepo,
    spec: &LoopSpec,
    cancel: &CancelToken,
    canaries: CanaryTrials,
) -> Result<GateTrialDocument, CommandError> {
    // At any level the gates run the maker's code, so they run with a round's confinement, or not at all.
    let held = boundary::decide(spec.level, spec.sandbox, engine.host().await);
    let held = held.map_err(|refused| CommandError::new(CommandErrorKind::Refused, refused.text))?;
    let layers = held.level == BoundaryLevel::Kernel && engine.host().await.supports_overlay();
    let method = if layers { CheckoutMethod::Overlay } else { CheckoutMethod::Copy };
    let spaces =
        Workspaces::open(engine.git().clone(), engine.state_dir().root(), repo.clone()).await.map_err(to_failed)?;
    let base = engine.git().head(repo, spec.base.as_deref()).await?;
    let round = format!("gates-test-{}", std::process::id());
    let (logs, row) = (TrialLogs::new(engine, repo, spec), LiveRow::new(&cx.out));
    let show = |program: &str, line: &str| row.program(program, line);
    let progress = ProgramReport(&show);
    let task = SetupTask {
        progress,
        cookie: &format!("lw-{round}"),
        cancel,
        wall: setup::WALL_DEFAULT,
        transcripts: Some(&logs.folder),
        report: &|command| {
            row.end();
            cx.out.note(&format!("{} {}", label(cx, "setup"), safe(command)));
        },
    };
    let rooms = engine.sandbox_views(&held, repo, spec)?.with_method(method);
    let prepared = setup::prepare(engine, rooms, &spaces, spec, &base.commit, &task).await;
    row.end();
    let rooms = prepared.map_err(|error| logs.setup_error(&error))?;
    let making = rooms.workspace_options();
    let workspace = spaces.create(&spec.name, &round, &base.commit, &making).await.map_err(to_failed)?;
    let ways = engine.open_routes(&round, &rooms, spec)?;
    let rooms = rooms.with_routes(&ways);
    let secret = |name: &String| Some((name.into(), engine.settings().known_secrets.get(name)?.into()));
    let vars = spec.secrets.iter().filter_map(secret).collect();
    let env = GateEnv { extra_path: rooms.path().to_vec(), vars };
    let cookie = format!("lw-{round}");
    let trial = GateTrial {
        cx,
        spaces: &spaces,
        workspace: &workspace,
        rooms: &rooms,
        env: &env,
        engine,
        cancel,
        cookie,
        row: &row,
        progress,
        logs: &logs,
    };
    let lines = trial.lines(spec, canaries).await;
    spaces.discard(&round).await.map_err(to_failed)?;
    Ok(GateTrialDocument { schema: 1, name: spec.name.clone(), base: base.commit.to_string(), gates: lines? })
}

/// A temporary workspace in which gates are tried.
struct GateTrial<'t> {
    cx: &'t CommandContext,
    spaces: &'t Workspaces,
    workspace: &'t Workspace,
    rooms: &'t SandboxViews,
    env: &'t GateEnv,
    engine: &'t Engine,
    cancel: &'t CancelToken,
    cookie: String,
    row: &'t LiveRow,
    progress: ProgramReport<'t>,
    logs: &'t TrialLogs<'t>,
}

/// The files with the output of the last trial of a loop, for a person who needs more than its last lines.
struct TrialLogs<'t> {
    engine: &'t Engine,
    folder: PathBuf,
    scanner: SecretScanner,
}

impl<'t> TrialLogs<'t> {
    fn new(engine: &'t Engine, repo: &UserRepo, spec: &LoopSpec) -> Self {
        let name = format!("gates-test-{}-{}", repo.id, spec.name);
        let scanner = engine.settings().known_secrets.scanner(&spec.secrets);
        Self { engine, folder: engine.state_dir().transcripts(&name), scanner }
    }

    /// Writes the kept output of a gate, and returns the file. Without the file the trial still has its result.
    fn keep(&self, run: &[String], result: &GateResult) -> Option<PathBuf> {
        let hash = hash_fields(&run.iter().map(String::as_bytes).collect::<Vec<_>>());
        let path = self.folder.join(format!("{}-{}.log", result.name, &hash[..8]));
        let text = format!("$ {}\n{}\n", run.join(" "), result.excerpt);
        self.engine.state_dir().write_ephemeral(&path, self.scanner.clean(&text).as_bytes()).ok().map(|()| path)
    }

    /// The error of a set-up, with the file that has its whole output if a command failed.
    fn setup_error(&self, error: &SetupError) -> CommandError {
        let shown = to_failed(error);
        match error {
            SetupError::Command { .. } => {
                shown.hint(format!("its whole output: {}", self.folder.join("setup.log").display()))
            }
            SetupError::Start { .. } => shown.hint("install the program, or put its folder into your PATH"),
            _ => shown,
        }
    }
}

impl GateTrial<'_> {
    async fn lines(&self, spec: &LoopSpec, canaries: CanaryTrials) -> Result<Vec<GateTrialLine>, CommandError> {
        let runs = tried_on_base(spec);
        let resolved = self.resolve(&runs).await?;
        let gates = self.gates();
        let mut baseline = GateBaseline::default();
        // One gate at a time, so that a person sees which one runs.
        for run in &runs {
            let one = self.resolve(std::slice::from_ref(run)).await?;
            self.announce(run);
            baseline = gates.baseline(&one, baseline).await.map_err(to_failed)?;
            self.report(baseline.0.get(run.name()).map(|base| &base.result));
        }
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
                let log = self.logs.keep(&run.run, on_base);
                Some(GateTrialLine { log, ..line(Some(run), on_base, without.next()?) })
            }
            other => Some(untried(other.name())),
        });
        let mut lines: Vec<GateTrialLine> = lines.chain(heldout).collect();
        self.note_withheld(spec, &resolved, &baseline, &mut lines).await?;
        if canaries == CanaryTrials::Tried {
            self.try_canaries(&resolved, &baseline, &mut lines).await?;
        }
        self.row.end();
        Ok(lines)
    }

    /// Notes how many tests a round would withhold from its maker.
    async fn note_withheld(
        &self,
        spec: &LoopSpec,
        resolved: &ResolvedGates,
        baseline: &GateBaseline,
        lines: &mut [GateTrialLine],
    ) -> Result<(), CommandError> {
        let request = WithholdRequest {
            rule: spec.withhold.as_ref(),
            level: spec.level,
            task: &gates::loop_text(spec),
            roll: gates::withhold_roll(self.engine.state_dir(), &self.workspace.base, &spec.name)?,
        };
        let chosen = self.gates().choose_withheld(resolved, baseline, request).await.map_err(to_failed)?;
        for line in lines.iter_mut().filter(|line| runs_tests(spec, &line.name)) {
            line.withheld = chosen.tests;
            if chosen.tests > 0 {
                let (tests, files) = (chosen.tests, chosen.paths.len());
                line.evidence.push(format!("withheld: a round hides {tests} tests in {files} files from its maker"));
            }
        }
        Ok(())
    }

    /// Falsifies the tests of each gate on base, and notes how many it notices.
    async fn try_canaries(
        &self,
        resolved: &ResolvedGates,
        baseline: &GateBaseline,
        lines: &mut [GateTrialLine],
    ) -> Result<(), CommandError> {
        for run in resolved.runs() {
            let base = baseline.0.get(&run.gate.name);
            let Some(line) = lines.iter_mut().find(|line| line.name == run.gate.name) else { continue };
            let shows_tests = base.is_some_and(|base| base.shown.ran() > 0 || base.shown.failed() > 0);
            let has_tests = shows_tests || runner::runs_tests(&run.gate.run) || !run.test_folders.is_empty();
            if run.gate.canary == CanaryMode::Off || !has_tests {
                continue;
            }
            let pool = self.gates().canary_pool(run, base).await.map_err(to_failed)?;
            line.canaries = Some(pool.len());
            line.evidence.push(match &pool.why_none {
                Some(why) => format!("canaries: none, {why}"),
                None => {
                    format!("canaries: {} tried on base, {} red there", pool.calibrated.len(), pool.uncalibrated.len())
                }
            });
        }
        Ok(())
    }

    fn announce(&self, gate: &Gate) {
        let Gate::Run(run) = gate else { return };
        self.row.end();
        self.cx.out.note(&format!("{} {}: {}", label(self.cx, "gate"), safe(&run.name), safe(&run.run.join(" "))));
    }

    fn report(&self, result: Option<&GateResult>) {
        self.row.end();
        let Some(result) = result else { return };
        let (look, mark) = gate_mark(result);
        self.cx.out.note(&format!("         {} {}", self.cx.out.style_note(look, &mark), gate_text(result)));
    }

    /// Held-out checks on base, and on the checkout without the code: a check that passes there did not test the code.
    async fn heldout_lines(&self, spec: &LoopSpec, emptied: &SealedTree) -> Result<Vec<GateTrialLine>, CommandError> {
        let ground = self.engine.path_roots(self.spaces.repo());
        let shown = self.engine.visible_toolchains(self.spaces.repo(), spec);
        let checks = HeldoutChecks::read(spec, &ground, self.env, &shown).map_err(|errors| {
            let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
            CommandError::invalid(texts.join("; ")).hint("see `loopwright check`")
        })?;
        let on_base = self.gates().heldout(&checks, &self.workspace.base).await.map_err(to_failed)?;
        let without = self.gates().heldout(&checks, &emptied.commit).await.map_err(to_failed)?;
        Ok(on_base.iter().zip(&without).map(|(on_base, without)| line(None, on_base, without)).collect())
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
            progress: self.progress,
            workspaces: self.spaces,
            workspace: self.workspace,
            proc: self.engine.proc(),
            views: self.rooms,
            env: self.env,
            cookie: &self.cookie,
            cancel: self.cancel,
            proof: GateProof::Off,
            pools: None,
        }
    }

    /// Base with only the inputs of the gates: a commit of the engine, made from base's index without a checkout.
    async fn emptied(&self, resolved: &ResolvedGates) -> Result<SealedTree, CommandError> {
        let inputs: Vec<String> = resolved.runs().flat_map(|run| run.inputs.iter().cloned()).collect();
        let keep = Globs::new(&inputs).map_err(to_failed)?;
        let paths = gates::base_paths(self.spaces.engine(), &self.workspace.base).await.map_err(to_failed)?;
        let code: Vec<String> = paths.iter().filter(|path| !keep.matches(path)).cloned().collect();
        let commit =
            self.spaces.commit_without(self.workspace, &self.workspace.base, &code).await.map_err(to_failed)?;
        self.spaces.read_sealed(self.workspace, &commit).await.map_err(to_failed)
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

fn runs_tests(spec: &LoopSpec, name: &str) -> bool {
    let runs = |gate: &Gate| matches!(gate, Gate::Run(run) if run.name == name && runner::runs_tests(&run.run));
    spec.gates.iter().any(runs)
}

fn label(cx: &CommandContext, word: &str) -> String {
    cx.out.style_note(TextStyle::Bold, &format!("{word:<8}"))
}

fn to_failed(error: impl std::error::Error) -> CommandError {
    CommandError::failed(error_chain(&error))
}
