//! Runs the proposed gates of a repository once, as `gates test` does, and chooses for each the first command that passes
//! on base. A gate without such a command keeps its first one, and the result says why it is red.

use crate::context::CommandContext;
use crate::error::CommandError;
use crate::signals::CurrentRound;
use crate::verbs::gates::{CanaryTrials, GateTrialLine, try_gates};
use crate::verbs::{close, safe};
use loopwright::Engine;
use loopwright::git::UserRepo;
use loopwright::proc::CancelToken;
use loopwright_core::gate::GateStatus;
use loopwright_core::level::LoopLevel;
use loopwright_core::project::{GateNeed, PlannedGate, ProjectPlan};
use loopwright_core::spec::{Argv, Gate, LoopSpec, RunGate};

/// The most commands of one gate that are tried.
const TRIES_MAX: usize = 4;
/// Alternatives are tried only while the commands of a gate took less than this: a person waits for `init`.
const TRIES_WITHIN_MS: u64 = 90_000;

/// A gate with the command that was chosen for it.
#[derive(Debug)]
pub(super) struct ChosenGate {
    pub(super) name: String,
    pub(super) run: Argv,
    /// Its result on base; `None` if it was not run.
    pub(super) tried: Option<GateTrialLine>,
    /// Whether its tests write into their own folders, which are read-only otherwise.
    pub(super) inputs_writable: bool,
}

impl ChosenGate {
    /// Whether it ran on base and passed.
    pub(super) fn is_green(&self) -> bool {
        self.tried.as_ref().is_some_and(|tried| tried.status == GateStatus::Passed)
    }

    /// Whether it ran on base and found a fault in the repository itself.
    pub(super) fn is_red(&self) -> bool {
        let is_own_fault = |tried: &GateTrialLine| !tried.misses_dependency && !tried.writes_inputs;
        let red = |tried: &GateTrialLine| tried.status == GateStatus::Rejected && is_own_fault(tried);
        self.tried.as_ref().is_some_and(red)
    }
}

/// The gates of a repository, tried or not.
#[derive(Debug, Default)]
pub(super) struct ChosenGates {
    pub(super) gates: Vec<ChosenGate>,
    /// Gates that are left out, with the reason.
    pub(super) left_out: Vec<String>,
    /// Gates whose first command does not pass on base as it is, with what took its place.
    pub(super) replaced: Vec<String>,
    /// The reason why nothing could be tried: the set-up failed, or this host cannot confine gates.
    pub(super) problem: Option<CommandError>,
}

impl ChosenGates {
    /// The proposals as they are.
    pub(super) fn untried(plan: &ProjectPlan) -> Self {
        let kept = plan.gates.iter().filter(|gate| gate.need == GateNeed::Kept);
        let gates =
            kept.filter_map(|gate| Some(chosen(&RunGate::new(&gate.name, gate.runs.first()?.clone()), None))).collect();
        Self { gates, ..Self::default() }
    }

    /// Runs the proposals on base.
    pub(super) async fn try_plan(
        cx: &CommandContext,
        repo: &UserRepo,
        plan: &ProjectPlan,
    ) -> Result<Self, CommandError> {
        let cancel = cx.cancel(&CurrentRound::default());
        let engine = cx.open_engine(Some(repo), &cancel).await?;
        let trial = PlanTrial { cx, repo, plan, engine: &engine, cancel: &cancel };
        let tried = trial.run().await;
        let tried = tried.or_else(|error| {
            if cancel.is_cancelled() {
                return Err(error);
            }
            Ok(Self { problem: Some(error), ..Self::untried(plan) })
        });
        close(&engine, tried).await
    }
}

struct PlanTrial<'t> {
    cx: &'t CommandContext,
    repo: &'t UserRepo,
    plan: &'t ProjectPlan,
    engine: &'t Engine,
    cancel: &'t CancelToken,
}

impl PlanTrial<'_> {
    async fn run(&self) -> Result<ChosenGates, CommandError> {
        let mut found = ChosenGates::default();
        for gate in &self.plan.gates {
            let (mut first, mut took_ms) = (None, 0);
            for run in gate.runs.iter().take(TRIES_MAX) {
                if first.is_some() && took_ms > TRIES_WITHIN_MS {
                    break;
                }
                let chosen = self.try_command(gate, run).await?;
                took_ms += chosen.tried.as_ref().map_or(0, |tried| tried.duration_ms);
                if chosen.is_green() || first.is_none() {
                    let is_done = chosen.is_green();
                    found.replaced.extend(first.is_some().then(|| replaced_note(gate, run)));
                    first = Some(chosen);
                    if is_done {
                        break;
                    }
                } else {
                    self.cx.out.note(&format!("         {} does not pass on base either", safe(&run.join(" "))));
                }
            }
            match first {
                Some(chosen) if chosen.is_green() || gate.need == GateNeed::Kept => {
                    found.replaced.extend(chosen.inputs_writable.then(|| writable_note(&chosen)));
                    found.gates.push(chosen);
                }
                Some(chosen) => found.left_out.push(left_out_note(&chosen)),
                None => {}
            }
        }
        Ok(found)
    }

    async fn try_command(&self, gate: &PlannedGate, run: &Argv) -> Result<ChosenGate, CommandError> {
        let plain = RunGate::new(&gate.name, run.clone());
        let chosen = self.try_gate(&plain).await?;
        if !chosen.tried.as_ref().is_some_and(|tried| tried.writes_inputs) {
            return Ok(chosen);
        }
        self.cx.out.note("         its tests write into their own folder; tried again with `inputs_writable: true`");
        let writable = self.try_gate(&RunGate { inputs_writable: true, ..plain }).await?;
        Ok(if writable.is_green() { writable } else { chosen })
    }

    async fn try_gate(&self, gate: &RunGate) -> Result<ChosenGate, CommandError> {
        let mut spec = LoopSpec::new("init", "Try the gates.", LoopLevel::L1Report);
        spec.setup.clone_from(&self.plan.setup);
        spec.gates = vec![Gate::Run(gate.clone())];
        let tried = try_gates(self.cx, self.engine, self.repo, &spec, self.cancel, CanaryTrials::Skipped).await?;
        Ok(chosen(gate, tried.gates.into_iter().next()))
    }
}

/// The first command that did not pass is named: the one in its place may test less.
fn replaced_note(gate: &PlannedGate, run: &Argv) -> String {
    let (name, first) = (&gate.name, gate.runs.first().map(|run| run.join(" ")).unwrap_or_default());
    format!(
        "gate `{name}`: `{first}` does not pass on base, so the gate runs `{}`; see that it tests enough",
        run.join(" ")
    )
}

fn writable_note(gate: &ChosenGate) -> String {
    let name = &gate.name;
    format!(
        "gate `{name}`: its tests write into their own folder, so it has `inputs_writable: true`; other loops need that too"
    )
}

fn left_out_note(gate: &ChosenGate) -> String {
    let why = match gate.tried.as_ref() {
        Some(GateTrialLine { status: GateStatus::Failed, finding: Some(finding), .. }) => finding.clone(),
        _ => "it does not pass on base".to_owned(),
    };
    format!("gate `{}` is left out: {why}", gate.name)
}

fn chosen(gate: &RunGate, tried: Option<GateTrialLine>) -> ChosenGate {
    ChosenGate { name: gate.name.clone(), run: gate.run.clone(), tried, inputs_writable: gate.inputs_writable }
}
