//! Probe: runs the loop's probe before any agent starts, in the round's own sandbox views. [`crate::probe`] interprets
//! its answer.

use super::{RoundDriver, StageError, workspace_trouble};
use crate::git::RoundBase;
use crate::probe::{ProbeExit, ProbeMethod, ProbeResult, ProbeRunner, Undone};
use crate::sandbox_view::ProgramFolders;
use crate::workspace::{SnapshotKind, WorkspaceOptions};
use loopwright_core::round::{Event, ProbeAnswer, Stage};
use loopwright_core::spec::ProbeSpec;
use std::sync::Arc;

impl RoundDriver<'_> {
    pub(super) async fn probe(&mut self) -> Result<Event, StageError> {
        let name = match &self.spec().on.probe {
            Some(ProbeSpec::Named(name)) => Some(name.clone()),
            Some(ProbeSpec::Ask(ask)) => Some(ask.probe.clone()),
            Some(ProbeSpec::Run { .. }) | None => None,
        };
        if let Some(name) = name {
            self.stage(Stage::Probe, name);
        }
        if let Some(probed) = self.probe_result.take().and_then(answered) {
            return Ok(Event::Probed(probed));
        }
        let base = self.pin_base().await?;
        let asked = self.engine.probe_method(self.spec(), &self.repo, Some(&base)).await.map_err(broke)?;
        let probed = match asked {
            ProbeMethod::Answered(probed) => probed,
            ProbeMethod::Program(program) => {
                self.stage(Stage::Probe, program.description());
                program.read(self.ask_probe(&base, program.argv()).await?)
            }
        };
        self.settle_items(probed).await
    }

    async fn pin_base(&self) -> Result<RoundBase, StageError> {
        if let Some(head) = &self.head {
            return Ok(head.clone());
        }
        let head = self.engine.git.head(&self.repo, self.spec().base.as_deref()).await;
        head.map_err(|error| StageError::broke(Stage::Probe, "base", &error))
    }

    async fn ask_probe(&mut self, base: &RoundBase, argv: &[String]) -> Result<ProbeExit, StageError> {
        let (name, id, base) = (self.spec().name.clone(), self.id().to_owned(), &base.commit);
        self.prepare_base(base, Stage::Probe).await?;
        let extra = self.views.extra_lower();
        let making = WorkspaceOptions { method: self.views.method(), extra_lower: extra.clone() };
        let space = self.workspaces.create(&name, &id, base, &making).await;
        let space = space.map_err(workspace_trouble(Stage::Probe))?;
        let view = self.workspaces.snapshot(&space, "probe", base, SnapshotKind::ReadOnly, &extra).await;
        let view = view.map_err(workspace_trouble(Stage::Probe))?;
        let seat = ProgramFolders { files: &view.files, home: &space.home, tmp: &space.tmp };
        let asker = ProbeRunner { engine: self.engine, views: &self.views, cancel: self.cancel, id: &id };
        match asker.ask(argv, seat).await {
            ProbeExit::Stopped => Err(StageError::Stopped),
            said => Ok(said),
        }
    }

    /// Takes the items that are not done, as many as a round of the loop takes.
    async fn settle_items(&mut self, probed: ProbeAnswer) -> Result<Event, StageError> {
        let started = &self.round.facts().started;
        let undone = self.engine.undone(&started.repo, &started.spec, probed).await.map_err(StageError::Fatal)?;
        Ok(Event::Probed(match undone {
            Undone::Nothing => ProbeAnswer::Nothing,
            Undone::Failed(text) => ProbeAnswer::Failed { text },
            Undone::Work(items) => {
                let failures = items.iter().map(|(item, failures)| (item.key.clone(), *failures));
                self.failures = Arc::new(failures.collect());
                ProbeAnswer::Work { items: items.into_iter().map(|(item, _)| item).collect() }
            }
        }))
    }
}

/// The answer of a probe that ran before the round started; no item of it is done yet.
fn answered(found: ProbeResult) -> Option<ProbeAnswer> {
    match found {
        ProbeResult::None => Some(ProbeAnswer::Nothing),
        ProbeResult::Items(items) => Some(ProbeAnswer::Work { items }),
        ProbeResult::Failed(text) => Some(ProbeAnswer::Failed { text }),
        ProbeResult::SetupIncomplete => None,
    }
}

fn broke(error: crate::error::EngineError) -> StageError {
    match error {
        crate::error::EngineError::Git(error) => StageError::broke(Stage::Probe, "base", &error),
        error => StageError::Fatal(error),
    }
}
