//! Gate: runs the mechanical checks on a clean checkout of the sealed commit, with the files that decide them from
//! base.

use super::context::{RoundContext, object_name, pinned_base};
use super::isolate::RoundSandbox;
use super::money::RoundBudget;
use super::{StageError, bounds, journal, start, workspace_trouble};
use crate::events::EventKind;
use crate::gates::{
    self, BaselineCache, CandidateFacts, GateBaseline, GateEnv, GateProof, GateRunner, GatesError, HeldoutChecks,
    ResolvedGates, WithholdRequest,
};
use crate::live_line::ProgramReport;
use crate::sandbox_view::SandboxViews;
use crate::workspace::SealedTree;
use loopwright_core::gate::{GateResult, runner};
use loopwright_core::level::LoopLevel;
use loopwright_core::round::{
    Attempt, BaselineFinished, Event, GatesFinished, ReproductionEnd, Round, RoundFacts, Stage,
};
use loopwright_core::spec::{Gate, WithholdRule};

/// The gates of one round, with what they need from base and from the last seal. A restarted engine reads it again.
#[derive(Default)]
pub(super) struct CandidateGates {
    /// Held-out checks, read before the maker ran.
    heldout: Option<HeldoutChecks>,
    /// Gate programs, found before the maker ran.
    resolved: Option<ResolvedGates>,
    baseline: Option<GateBaseline>,
    /// The last seal and its facts.
    pub(super) sealed: Option<(SealedTree, CandidateFacts)>,
}

impl CandidateGates {
    pub(super) fn new(heldout: HeldoutChecks) -> Self {
        Self { heldout: Some(heldout), ..Self::default() }
    }

    /// Whether the round has not decided yet which tests its roles do not get. A role that ran already saw all of them.
    pub(super) fn is_withholding_due(&self, facts: &RoundFacts, sandbox: &RoundSandbox) -> bool {
        let spec = &facts.started.spec;
        let is_possible = spec.level != LoopLevel::L1Report
            && !matches!(spec.withhold, Some(WithholdRule::Off(_)))
            && (spec.withhold.is_some() || spec.level == LoopLevel::L3Unattended)
            && spec.gates.iter().any(|gate| matches!(gate, Gate::Run(run) if runner::runs_tests(&run.run)));
        let is_new = facts.attempts.is_empty() && facts.planner_starts == 0 && facts.plan.is_none();
        let is_open = || sandbox.workspace(Stage::Make).is_ok_and(|workspace| workspace.withheld.is_none());
        is_possible && is_new && is_open()
    }

    /// Chooses the tests that the round's roles do not get, by a number that only this machine knows.
    pub(super) async fn withhold(
        &mut self,
        cx: &RoundContext<'_>,
        facts: &RoundFacts,
        sandbox: &mut RoundSandbox,
        budget: &RoundBudget,
    ) -> Result<(), StageError> {
        let resolved = self.resolve(cx, facts, &sandbox.views).await?;
        let baseline = self.measured_base(cx, facts, sandbox, budget, &resolved).await?;
        let (env, cookie) = (gate_env(cx, facts, &sandbox.views), cx.cookie());
        let gates = gate_runner(cx, sandbox, Stage::Isolate, &env, &cookie, ProgramReport::NONE)?;
        let spec = &facts.started.spec;
        let roll = gates::withhold_roll(&cx.engine.state_dir, &gates.workspace.base, &spec.name);
        let request = WithholdRequest {
            rule: spec.withhold.as_ref(),
            level: spec.level,
            task: &task_text(facts),
            roll: roll.map_err(StageError::Fatal)?,
        };
        let chosen = gates.choose_withheld(&resolved, &baseline, request).await;
        let chosen = chosen.map_err(gates_trouble(Stage::Isolate))?;
        if !chosen.paths.is_empty() {
            let text = format!("{} tests in {} files are withheld", chosen.tests, chosen.paths.len());
            cx.stage(Stage::Isolate, text);
        }
        sandbox.withhold(cx, chosen.paths).await
    }

    /// Runs the comparing gates on base.
    pub(super) async fn baseline(
        &mut self,
        cx: &RoundContext<'_>,
        facts: &RoundFacts,
        sandbox: &mut RoundSandbox,
        budget: &RoundBudget,
    ) -> Result<Event, StageError> {
        cx.stage(Stage::Isolate, "gates on base");
        let resolved = self.resolve(cx, facts, &sandbox.views).await?;
        let baseline = self.measured_base(cx, facts, sandbox, budget, &resolved).await?;
        Ok(Event::Baselined(BaselineFinished { results: bounds::results(baseline.results()) }))
    }

    /// Runs all gates on the sealed tree.
    pub(super) async fn judge(
        &mut self,
        cx: &RoundContext<'_>,
        round: &Round,
        sandbox: &mut RoundSandbox,
        budget: &RoundBudget,
    ) -> Result<Event, StageError> {
        let facts = round.facts();
        let spec = &facts.started.spec;
        let count = spec.gates.len() + spec.heldout.len() + facts.regressions.len();
        let noun = if count == 1 { "gate" } else { "gates" };
        cx.stage(Stage::Gate, format!("{count} {noun} on the sealed tree"));
        let (results, inputs_edited) =
            if count == 0 { Default::default() } else { self.run(cx, facts, sandbox, budget).await? };
        let finished = GatesFinished { attempt: facts.attempt_number(), results, inputs_edited };
        let event = journal::redact_event(&cx.scanner, round.phase().stage(), Event::Gated(finished))?;
        if let Event::Gated(GatesFinished { results, .. }) = &event {
            results.iter().for_each(|result| cx.publish(EventKind::Gate(result.clone())));
        }
        Ok(event)
    }

    /// The results, and the gate inputs that the maker edited.
    async fn run(
        &mut self,
        cx: &RoundContext<'_>,
        facts: &RoundFacts,
        sandbox: &mut RoundSandbox,
        budget: &RoundBudget,
    ) -> Result<(Vec<GateResult>, Vec<String>), StageError> {
        sandbox.prepare_base(cx, &facts.started.spec, &pinned_base(facts)?, Stage::Gate, budget).await?;
        let heldout = self.unchanged_heldout(cx, facts)?;
        let resolved = self.resolve(cx, facts, &sandbox.views).await?;
        let baseline = self.measured_base(cx, facts, sandbox, budget, &resolved).await?;
        let (sealed, candidate) = self.sealed_facts(cx, facts, sandbox).await?;
        let (env, cookie) = (gate_env(cx, facts, &sandbox.views), cx.cookie());
        let progress = |program: &str, line: &str| cx.program_line(program, line);
        let mut gates = gate_runner(cx, sandbox, Stage::Gate, &env, &cookie, ProgramReport(&progress))?;
        let pools = BaselineCache::new(&cx.engine.state_dir, &cx.scanner, &gates.workspace.base, &sandbox.views, &env);
        gates.pools = Some(&pools);
        if facts.started.spec.level != LoopLevel::L1Report {
            gates.proof = GateProof::Declared;
        }
        let trouble = gates_trouble(Stage::Gate);
        let edited = gates::edited_inputs(&resolved, &sealed).map_err(&trouble)?;
        let mut results = gates.run(&resolved, &sealed, &candidate, &[], &baseline).await.map_err(&trouble)?;
        results.extend(gates.heldout(&heldout, &sealed.commit).await.map_err(&trouble)?);
        results.extend(gates.regressions(&facts.regressions, &sealed.commit).await.map_err(&trouble)?);
        Ok((bounds::results(results), bounds::list(edited)))
    }

    /// Runs the reproduction of a finding on the sealed tree.
    pub(super) async fn reproduce(
        &mut self,
        cx: &RoundContext<'_>,
        facts: &RoundFacts,
        sandbox: &mut RoundSandbox,
        budget: &RoundBudget,
        script: &str,
    ) -> Result<(ReproductionEnd, String), StageError> {
        sandbox.prepare_base(cx, &facts.started.spec, &pinned_base(facts)?, Stage::Attack, budget).await?;
        let commit = object_name(sealed_attempt(facts)?.commit.as_deref())?;
        let (env, cookie) = (gate_env(cx, facts, &sandbox.views), cx.cookie());
        let progress = |program: &str, line: &str| cx.program_line(program, line);
        let gates = gate_runner(cx, sandbox, Stage::Attack, &env, &cookie, ProgramReport(&progress))?;
        gates.reproduce(script, &commit).await.map_err(gates_trouble(Stage::Attack))
    }

    /// The held-out checks as they were when the round began; checks that have changed since cannot judge it.
    fn unchanged_heldout(&self, cx: &RoundContext<'_>, facts: &RoundFacts) -> Result<HeldoutChecks, StageError> {
        let broke = |text: String| StageError::failed(Stage::Gate, "heldout", text);
        let now = start::read_heldout(cx.engine, &cx.repo, &facts.started.spec);
        let now = now.map_err(|error| broke(error.to_string()))?;
        match now.inputs().iter().find(|input| !facts.started.inputs.contains(input)) {
            Some((path, _)) => Err(broke(format!("held-out `{path}` changed while the round ran"))),
            None => Ok(self.heldout.clone().unwrap_or(now)),
        }
    }

    /// The sealed tree and its facts, as this process read them at the seal, or reads them again after a restart.
    pub(super) async fn sealed_facts(
        &mut self,
        cx: &RoundContext<'_>,
        facts: &RoundFacts,
        sandbox: &RoundSandbox,
    ) -> Result<(SealedTree, CandidateFacts), StageError> {
        let commit = object_name(sealed_attempt(facts)?.commit.as_deref())?;
        if let Some(known) = self.sealed.take().filter(|(sealed, _)| sealed.commit == commit) {
            return Ok(known);
        }
        let workspace = sandbox.workspace(Stage::Gate)?;
        let sealed = cx.workspaces.read_sealed(workspace, &commit).await.map_err(workspace_trouble(Stage::Gate))?;
        let candidate = CandidateFacts::gather(cx.objects(), &workspace.base, &sealed).await;
        Ok((sealed, candidate.map_err(gates_trouble(Stage::Gate))?))
    }

    /// Gate programs and scripts, found before the maker could replace them.
    pub(super) async fn resolve(
        &mut self,
        cx: &RoundContext<'_>,
        facts: &RoundFacts,
        views: &SandboxViews,
    ) -> Result<ResolvedGates, StageError> {
        if let Some(resolved) = &self.resolved {
            return Ok(resolved.clone());
        }
        let paths = gates::base_paths(cx.objects(), &pinned_base(facts)?).await.map_err(gates_trouble(Stage::Gate))?;
        let resolved = gates::resolve(&facts.started.spec.gates, &paths, &gate_env(cx, facts, views));
        let resolved = resolved.map_err(|errors| {
            let text = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            StageError::failed(Stage::Gate, "gate-script", text)
        })?;
        self.resolved = Some(resolved.clone());
        Ok(resolved)
    }

    /// The results of the comparing gates on base; measured again after a restart, because that costs no agent.
    async fn measured_base(
        &mut self,
        cx: &RoundContext<'_>,
        facts: &RoundFacts,
        sandbox: &mut RoundSandbox,
        budget: &RoundBudget,
        resolved: &ResolvedGates,
    ) -> Result<GateBaseline, StageError> {
        if let Some(baseline) = &self.baseline {
            return Ok(baseline.clone());
        }
        sandbox.prepare_base(cx, &facts.started.spec, &pinned_base(facts)?, Stage::Isolate, budget).await?;
        let (env, cookie) = (gate_env(cx, facts, &sandbox.views), cx.cookie());
        let progress = |program: &str, line: &str| cx.program_line(program, line);
        let gates = gate_runner(cx, sandbox, Stage::Isolate, &env, &cookie, ProgramReport(&progress))?;
        let kept = BaselineCache::new(&cx.engine.state_dir, &cx.scanner, &gates.workspace.base, &sandbox.views, &env);
        let (known, damaged) = kept.load(resolved);
        damaged.iter().for_each(|note| cx.stage(Stage::Isolate, note.to_string()));
        let baseline = gates.baseline(resolved, known).await.map_err(gates_trouble(Stage::Isolate))?;
        kept.save(resolved, &baseline);
        self.baseline = Some(baseline.clone());
        Ok(baseline)
    }
}

/// Everything by which a round and its loop name files.
fn task_text(facts: &RoundFacts) -> String {
    let items = facts.items.iter().flat_map(|item| [Some(item.key.clone()), item.title.clone(), item.data.clone()]);
    let items: Vec<String> = items.flatten().collect();
    format!("{}\n{}", gates::loop_text(&facts.started.spec), items.join("\n"))
}

pub(super) fn gate_env(cx: &RoundContext<'_>, facts: &RoundFacts, views: &SandboxViews) -> GateEnv {
    let value = |name: &String| Some((name.into(), cx.engine.settings.known_secrets.get(name)?.into()));
    let vars = facts.started.spec.secrets.iter().filter_map(value).collect();
    GateEnv { extra_path: views.path().to_vec(), vars }
}

fn gate_runner<'r>(
    cx: &'r RoundContext<'_>,
    sandbox: &'r RoundSandbox,
    stage: Stage,
    env: &'r GateEnv,
    cookie: &'r str,
    progress: ProgramReport<'r>,
) -> Result<GateRunner<'r>, StageError> {
    Ok(GateRunner {
        workspaces: &cx.workspaces,
        workspace: sandbox.workspace(stage)?,
        proc: &cx.engine.proc,
        views: &sandbox.views,
        env,
        cookie,
        cancel: cx.cancel,
        proof: GateProof::Off,
        pools: None,
        progress,
    })
}

pub(super) fn sealed_attempt(facts: &RoundFacts) -> Result<&Attempt, StageError> {
    let sealed = facts.attempt().filter(|attempt| attempt.candidate.is_some());
    sealed.ok_or_else(|| StageError::failed(Stage::Check, "unsealed", "there is no sealed candidate"))
}

pub(super) fn gates_trouble(stage: Stage) -> impl Fn(GatesError) -> StageError {
    move |error| match error {
        GatesError::Cancelled(_) => StageError::Stopped,
        error => StageError::broke(stage, "gates", &error),
    }
}
