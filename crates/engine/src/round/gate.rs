//! Gate: runs the mechanical checks on a pristine checkout of the sealed commit, with the files that decide them from base.

use super::{Run, Trouble, bounds, isolate, start, workspace_trouble};
use crate::events::EventKind;
use crate::gates::{self, Baseline, Facts, GateEnv, Gates, GatesError, Heldouts, KeptBaselines, Resolved};
use crate::workspace::Sealed;
use loopwright_core::gate::GateResult;
use loopwright_core::round::{Broke, Event, Gated, Stage};

impl Run<'_> {
    pub(super) async fn gate(&mut self) -> Result<Event, Trouble> {
        let attempt = self.round.facts().attempt_number();
        let count = self.spec().gates.len() + self.spec().heldout.len();
        self.stage(Stage::Gate, format!("{count} gates on the sealed tree"));
        let (results, inputs_edited) = self.run_gates().await?;
        let event = self.clean(Event::Gated(Gated { attempt, results, inputs_edited }))?;
        if let Event::Gated(Gated { results, .. }) = &event {
            results.iter().for_each(|result| self.publish(EventKind::Gate(result.clone())));
        }
        Ok(event)
    }

    /// The results, and the gate inputs that the maker edited.
    async fn run_gates(&mut self) -> Result<(Vec<GateResult>, Vec<String>), Trouble> {
        if self.spec().gates.is_empty() && self.spec().heldout.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        self.warm(&isolate::parse(self.round.facts().base.as_deref().unwrap_or_default())?, Stage::Gate).await?;
        let heldout = self.heldout()?;
        let resolved = self.resolved().await?;
        let baseline = self.measured_base(&resolved).await?;
        let (sealed, facts) = self.sealed_facts().await?;
        let workspace = self.workspace(Stage::Gate)?;
        let env = self.gate_env();
        let cookie = format!("lw-{}", self.id());
        let gates = Gates {
            workspaces: &self.spaces,
            workspace,
            proc: &self.engine.proc,
            rooms: &self.rooms,
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

    /// The held-out checks as they were when the round began; ones that have changed since say nothing about it.
    fn heldout(&self) -> Result<Heldouts, Trouble> {
        let broke = |text| Trouble::Broke(Broke { stage: Stage::Gate, code: "heldout".to_owned(), text });
        let now = start::heldout(self.engine, &self.repo, self.spec()).map_err(|error| broke(error.to_string()))?;
        let recorded = &self.round.facts().started.inputs;
        match now.inputs().iter().find(|input| !recorded.contains(input)) {
            Some((path, _)) => Err(broke(format!("held-out `{path}` changed while the round ran"))),
            None => Ok(self.heldout.clone().unwrap_or(now)),
        }
    }

    /// What was sealed, as this process read it then, or read again after a restart.
    async fn sealed_facts(&mut self) -> Result<(Sealed, Facts), Trouble> {
        let commit = isolate::parse(self.sealed_attempt()?.commit.as_deref().unwrap_or_default())?;
        if let Some(known) = self.sealed.take().filter(|(sealed, _)| sealed.commit == commit) {
            return Ok(known);
        }
        let workspace = self.workspace(Stage::Gate)?;
        let sealed = self.spaces.sealed(workspace, &commit).await.map_err(workspace_trouble(Stage::Gate))?;
        let facts = Facts::gather(self.spaces.engine(), &workspace.base, &sealed).await;
        Ok((sealed, facts.map_err(gates_trouble(Stage::Gate))?))
    }

    /// Finds gate programs now, for later.
    pub(super) async fn resolve_gates(&mut self) -> Result<(), Trouble> {
        if !self.spec().gates.is_empty() {
            self.resolved().await?;
        }
        Ok(())
    }

    /// Gate programs and scripts, found before the maker could put others in their place.
    async fn resolved(&mut self) -> Result<Resolved, Trouble> {
        if let Some(resolved) = &self.resolved {
            return Ok(resolved.clone());
        }
        let base = isolate::parse(self.round.facts().base.as_deref().unwrap_or_default())?;
        let paths = gates::base_paths(self.spaces.engine(), &base).await.map_err(gates_trouble(Stage::Gate))?;
        let resolved = gates::resolve(&self.spec().gates, &paths, &self.gate_env()).map_err(|errors| {
            let text = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            Trouble::Broke(Broke { stage: Stage::Gate, code: "gate-script".to_owned(), text })
        })?;
        self.resolved = Some(resolved.clone());
        Ok(resolved)
    }

    fn gate_env(&self) -> GateEnv {
        let value = |name: &String| Some((name.into(), self.engine.settings.known_secrets.get(name)?.into()));
        let vars = self.spec().secrets.iter().filter_map(value).collect();
        GateEnv { extra_path: self.rooms.path().to_vec(), vars }
    }

    pub(super) async fn run_baseline(&mut self) -> Result<Vec<GateResult>, Trouble> {
        let resolved = self.resolved().await?;
        let baseline = self.measured_base(&resolved).await?;
        Ok(bounds::results(baseline.results()))
    }

    /// What the comparing gates say about base; measured again after a restart, because it costs no agent.
    async fn measured_base(&mut self, resolved: &Resolved) -> Result<Baseline, Trouble> {
        if let Some(baseline) = &self.baseline {
            return Ok(baseline.clone());
        }
        self.warm(&isolate::parse(self.round.facts().base.as_deref().unwrap_or_default())?, Stage::Isolate).await?;
        let env = self.gate_env();
        let cookie = format!("lw-{}", self.id());
        let gates = Gates {
            workspaces: &self.spaces,
            workspace: self.workspace(Stage::Isolate)?,
            proc: &self.engine.proc,
            rooms: &self.rooms,
            env: &env,
            cookie: &cookie,
            cancel: self.cancel,
        };
        let kept = KeptBaselines::new(&self.engine.places, &self.scanner, &gates.workspace.base, &self.rooms, &env);
        let (known, damaged) = kept.read(resolved);
        for note in damaged {
            self.stage(Stage::Isolate, note.to_string());
        }
        let baseline = gates.baseline_beyond(resolved, known).await.map_err(gates_trouble(Stage::Isolate))?;
        kept.keep(resolved, &baseline);
        self.baseline = Some(baseline.clone());
        Ok(baseline)
    }
}

pub(super) fn gates_trouble(stage: Stage) -> impl Fn(GatesError) -> Trouble {
    move |error| match error {
        GatesError::Cancelled(_) => Trouble::Stopped,
        error => Trouble::broke(stage, "gates", &error),
    }
}
