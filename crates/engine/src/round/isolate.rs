//! Isolate: a private workspace at a pinned base, and the comparing gates on it.

use super::{LoopBindings, RoundDriver, StageError, workspace_trouble};
use crate::engine::Engine;
use crate::git::Oid;
use crate::sandbox_view::ProgramFolders;
use crate::setup::{self, SetupError, SetupTask};
use crate::workspace::{CheckoutMethod, Workspace, WorkspaceOptions};
use loopwright_core::round::{BaselineFinished, Boundary, BoundaryLevel, Event, Stage, WorkspaceIsolated};

impl RoundDriver<'_> {
    pub(super) async fn isolate(&mut self) -> Result<Event, StageError> {
        let base = match &self.round.facts().base {
            Some(pinned) => (parse(pinned)?, self.round.facts().branch.clone()),
            None => self.pin().await?,
        };
        self.stage(Stage::Isolate, format!("workspace at {}", &base.0.as_str()[..12.min(base.0.as_str().len())]));
        for folder in self.views.left_out() {
            self.stage(Stage::Isolate, folder.clone());
        }
        self.prepare_base(&base.0, Stage::Isolate).await?;
        let name = self.spec().name.clone();
        let (method, extra_lower) = (self.views.method(), self.views.extra_lower());
        let making = WorkspaceOptions { method, extra_lower };
        let made = self.workspaces.create(&name, self.id(), &base.0, &making).await;
        let made = made.map_err(workspace_trouble(Stage::Isolate))?;
        self.copy_setup(&made).map_err(|error| StageError::broke(Stage::Isolate, "setup", &error))?;
        self.workspace = Some(made);
        Ok(Event::Isolated(WorkspaceIsolated { base: base.0.to_string(), branch: base.1 }))
    }

    /// Copies the output of a set-up into a workspace that has no layers, and records it, so that it is not mistaken
    /// for the maker's work.
    fn copy_setup(&self, made: &Workspace) -> std::io::Result<()> {
        let seat = ProgramFolders { files: &made.files, home: &made.home, tmp: &made.tmp };
        match self.views.copy_setup_layer(seat)? {
            Some(layer) => made.record_prepared_layer(&layer.work),
            None => Ok(()),
        }
    }

    /// Prepares the set-up for a base, once per process; after a restart it is found again.
    pub(super) async fn prepare_base(&mut self, base: &Oid, stage: Stage) -> Result<(), StageError> {
        if self.is_warm {
            return Ok(());
        }
        let transcripts = self.engine.state_dir.transcripts(self.id());
        let cookie = format!("lw-{}", self.id());
        let task = SetupTask {
            cookie: &cookie,
            cancel: self.cancel,
            wall: self.wall_left().unwrap_or(setup::WALL_DEFAULT),
            transcripts: Some(&transcripts),
            report: &|command| self.stage(stage, format!("setup: {command}")),
        };
        let warm = self.engine.prepare_setup(self.views.clone(), &self.workspaces, self.spec(), base, &task).await;
        self.views = warm.map_err(|error| match error {
            SetupError::Stopped => StageError::Stopped,
            error => StageError::broke(stage, "setup", &error),
        })?;
        self.is_warm = true;
        Ok(())
    }

    async fn pin(&self) -> Result<(Oid, Option<String>), StageError> {
        if let Some(head) = &self.head {
            return Ok((head.commit.clone(), head.branch.clone()));
        }
        let head = self.engine.git.head(&self.repo, self.spec().base.as_deref()).await;
        let head = head.map_err(|error| StageError::broke(Stage::Isolate, "base", &error))?;
        Ok((head.commit, head.branch))
    }

    pub(super) async fn baseline(&mut self) -> Result<Event, StageError> {
        self.stage(Stage::Isolate, "gates on base");
        let results = self.run_baseline().await?;
        Ok(Event::Baselined(BaselineFinished { results }))
    }
}

/// The kernel stacks layers for each sandboxed program. An agent that works in this process would see only one of them,
/// so it gets a copy.
pub(super) async fn method(engine: &Engine, bind: &LoopBindings, boundary: &Boundary) -> CheckoutMethod {
    let all = bind.agents.iter().all(|(_, agent)| agent.capabilities().confined);
    let layers = all && boundary.level == BoundaryLevel::Kernel && engine.host().await.supports_overlay();
    if layers { CheckoutMethod::Overlay } else { CheckoutMethod::Copy }
}

pub(super) fn parse(commit: &str) -> Result<Oid, StageError> {
    commit.parse().map_err(|error| StageError::broke(Stage::Isolate, "base", &error))
}
