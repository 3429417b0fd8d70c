//! Gate: runs the mechanical checks on a clean checkout of the sealed commit, with the files that decide them from
//! base.

use super::{RoundDriver, StageError, bounds, isolate, start, workspace_trouble};
use crate::events::EventKind;
use crate::gates::{
    self, BaselineCache, CandidateFacts, GateBaseline, GateEnv, GateRunner, GatesError, HeldoutChecks, ResolvedGates,
};
use crate::workspace::SealedTree;
use loopwright_core::gate::GateResult;
use loopwright_core::round::{Event, GatesFinished, Stage, StageFailed};

impl RoundDriver<'_> {
    pub(super) async fn gate(&mut self) -> Result<Event, StageError> {
        let attempt = self.round.facts().attempt_number();
        let count = self.spec().gates.len() + self.spec().heldout.len();
        self.stage(Stage::Gate, format!("{count} gates on the sealed tree"));
        let (results, inputs_edited) = self.run_gates().await?;
        let event = self.redact_event(Event::Gated(GatesFinished { attempt, results, inputs_edited }))?;
        if let Event::Gated(GatesFinished { results, .. }) = &event {
            results.iter().for_each(|result| self.publish(EventKind::Gate(result.clone())));
        }
        Ok(event)
    }

    /// The results, and the gate inputs that the maker edited.
    async fn run_gates(&mut self) -> Result<(Vec<GateResult>, Vec<String>), StageError> {
        if self.spec().gates.is_empty() && self.spec().heldout.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        self.prepare_base(&isolate::parse(self.round.facts().base.as_deref().unwrap_or_default())?, Stage::Gate)
            .await?;
        let heldout = self.heldout()?;
        let resolved = self.resolved().await?;
        let baseline = self.measured_base(&resolved).await?;
        let (sealed, facts) = self.sealed_facts().await?;
        let workspace = self.workspace(Stage::Gate)?;
        let env = self.gate_env();
        let cookie = format!("lw-{}", self.id());
        let gates = GateRunner {
            workspaces: &self.workspaces,
            workspace,
            proc: &self.engine.proc,
            views: &self.views,
            env: &env,
            cookie: &cookie,
            cancel: self.cancel,
        };
        let edited = gates::edited_inputs(&resolved, &sealed).map_err(gates_trouble(Stage::Gate))?;
        let results = gates.run(&resolved, &sealed, &facts, &[], &baseline).await;
        let mut results = results.map_err(gates_trouble(Stage::Gate))?;
        results.extend(gates.heldout(&heldout, &sealed.commit).await.map_err(gates_trouble(Stage::Gate))?);
        Ok((bounds::results(results), bounds::list(edited)))
    }

    /// The held-out checks as they were when the round began; checks that have changed since cannot judge it.
    fn heldout(&self) -> Result<HeldoutChecks, StageError> {
        let broke = |text| StageError::Broke(StageFailed { stage: Stage::Gate, code: "heldout".to_owned(), text });
        let now =
            start::read_heldout(self.engine, &self.repo, self.spec()).map_err(|error| broke(error.to_string()))?;
        let recorded = &self.round.facts().started.inputs;
        match now.inputs().iter().find(|input| !recorded.contains(input)) {
            Some((path, _)) => Err(broke(format!("held-out `{path}` changed while the round ran"))),
            None => Ok(self.heldout.clone().unwrap_or(now)),
        }
    }

    /// The sealed tree and its facts, as this process read them at the seal, or reads them again after a restart.
    async fn sealed_facts(&mut self) -> Result<(SealedTree, CandidateFacts), StageError> {
        let commit = isolate::parse(self.sealed_attempt()?.commit.as_deref().unwrap_or_default())?;
        if let Some(known) = self.sealed.take().filter(|(sealed, _)| sealed.commit == commit) {
            return Ok(known);
        }
        let workspace = self.workspace(Stage::Gate)?;
        let sealed = self.workspaces.read_sealed(workspace, &commit).await.map_err(workspace_trouble(Stage::Gate))?;
        let facts = CandidateFacts::gather(self.workspaces.engine(), &workspace.base, &sealed).await;
        Ok((sealed, facts.map_err(gates_trouble(Stage::Gate))?))
    }

    /// Finds the gate programs now, for later use.
    pub(super) async fn resolve_gates(&mut self) -> Result<(), StageError> {
        if !self.spec().gates.is_empty() {
            self.resolved().await?;
        }
        Ok(())
    }

    /// Gate programs and scripts, found before the maker could replace them.
    async fn resolved(&mut self) -> Result<ResolvedGates, StageError> {
        if let Some(resolved) = &self.resolved {
            return Ok(resolved.clone());
        }
        let base = isolate::parse(self.round.facts().base.as_deref().unwrap_or_default())?;
        let paths = gates::base_paths(self.workspaces.engine(), &base).await.map_err(gates_trouble(Stage::Gate))?;
        let resolved = gates::resolve(&self.spec().gates, &paths, &self.gate_env()).map_err(|errors| {
            let text = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            StageError::Broke(StageFailed { stage: Stage::Gate, code: "gate-script".to_owned(), text })
        })?;
        self.resolved = Some(resolved.clone());
        Ok(resolved)
    }

    fn gate_env(&self) -> GateEnv {
        let value = |name: &String| Some((name.into(), self.engine.settings.known_secrets.get(name)?.into()));
        let vars = self.spec().secrets.iter().filter_map(value).collect();
        GateEnv { extra_path: self.views.path().to_vec(), vars }
    }

    pub(super) async fn run_baseline(&mut self) -> Result<Vec<GateResult>, StageError> {
        let resolved = self.resolved().await?;
        let baseline = self.measured_base(&resolved).await?;
        Ok(bounds::results(baseline.results()))
    }

    /// The results of the comparing gates on base; measured again after a restart, because that costs no agent.
    async fn measured_base(&mut self, resolved: &ResolvedGates) -> Result<GateBaseline, StageError> {
        if let Some(baseline) = &self.baseline {
            return Ok(baseline.clone());
        }
        self.prepare_base(&isolate::parse(self.round.facts().base.as_deref().unwrap_or_default())?, Stage::Isolate)
            .await?;
        let env = self.gate_env();
        let cookie = format!("lw-{}", self.id());
        let gates = GateRunner {
            workspaces: &self.workspaces,
            workspace: self.workspace(Stage::Isolate)?,
            proc: &self.engine.proc,
            views: &self.views,
            env: &env,
            cookie: &cookie,
            cancel: self.cancel,
        };
        let kept = BaselineCache::new(&self.engine.state_dir, &self.scanner, &gates.workspace.base, &self.views, &env);
        let (known, damaged) = kept.load(resolved);
        for note in damaged {
            self.stage(Stage::Isolate, note.to_string());
        }
        let baseline = gates.baseline(resolved, known).await.map_err(gates_trouble(Stage::Isolate))?;
        kept.save(resolved, &baseline);
        self.baseline = Some(baseline.clone());
        Ok(baseline)
    }
}

pub(super) fn gates_trouble(stage: Stage) -> impl Fn(GatesError) -> StageError {
    move |error| match error {
        GatesError::Cancelled(_) => StageError::Stopped,
        error => StageError::broke(stage, "gates", &error),
    }
}
