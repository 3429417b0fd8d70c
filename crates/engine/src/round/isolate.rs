//! Isolate: a private workspace at a pinned base, the sandbox views of the round's programs, and their network routes.

use super::context::{RoundContext, object_name};
use super::money::RoundBudget;
use super::{StageError, workspace_trouble};
use crate::egress::EgressRoutes;
use crate::error::EngineError;
use crate::git::{Oid, RoundBase};
use crate::live_line::ProgramReport;
use crate::sandbox_view::{ProgramFolders, SandboxViews};
use crate::setup::{self, SetupError, SetupTask};
use crate::workspace::{CheckoutMethod, Workspace, WorkspaceOptions};
use loopwright_core::round::{
    Boundary, BoundaryLevel, Event, Phase, Round, RoundFacts, RoundStarted, Stage, WorkspaceIsolated,
};
use loopwright_core::spec::LoopSpec;
use std::path::{Path, PathBuf};

/// The files and routes that the programs of one round get.
pub(super) struct RoundSandbox {
    /// The sandbox views of every start of this round.
    pub(super) views: SandboxViews,
    pub(super) routes: EgressRoutes,
    /// Whether the views include the output of the loop's set-up.
    is_warm: bool,
    workspace: Option<Workspace>,
}

impl RoundSandbox {
    pub(super) async fn open(
        cx: &RoundContext<'_>,
        started: &RoundStarted,
        workspace: Option<Workspace>,
    ) -> Result<Self, EngineError> {
        let method = checkout_method(cx, &started.boundary).await;
        let views = cx.engine.sandbox_views(&started.boundary, &cx.repo, &started.spec)?.with_method(method);
        let routes = cx.engine.open_routes(&started.round, &views, &started.spec)?;
        Ok(Self { views: views.with_routes(&routes), routes, is_warm: false, workspace })
    }

    pub(super) fn workspace(&self, stage: Stage) -> Result<&Workspace, StageError> {
        let gone = || StageError::failed(stage, "workspace", "the round's workspace is gone");
        self.workspace.as_ref().ok_or_else(gone)
    }

    pub(super) async fn isolate(
        &mut self,
        cx: &RoundContext<'_>,
        facts: &RoundFacts,
        budget: &RoundBudget,
    ) -> Result<Event, StageError> {
        let base = match &facts.base {
            Some(pinned) => RoundBase { commit: object_name(Some(pinned))?, branch: facts.branch.clone() },
            None => cx.head(facts, Stage::Isolate).await?,
        };
        let RoundBase { commit, branch } = base;
        cx.stage(Stage::Isolate, format!("workspace at {}", &commit.as_str()[..12.min(commit.as_str().len())]));
        for folder in self.views.left_out() {
            cx.stage(Stage::Isolate, folder.clone());
        }
        self.prepare_base(cx, &facts.started.spec, &commit, Stage::Isolate, budget).await?;
        self.create_workspace(cx, &commit, None).await?;
        Ok(Event::Isolated(WorkspaceIsolated { base: commit.to_string(), branch }))
    }

    async fn create_workspace(
        &mut self,
        cx: &RoundContext<'_>,
        base: &Oid,
        withheld: Option<Vec<String>>,
    ) -> Result<(), StageError> {
        let making = WorkspaceOptions { withheld, ..self.views.workspace_options() };
        let made = cx.workspaces.create(&cx.key.name, &cx.id, base, &making).await;
        let made = made.map_err(workspace_trouble(Stage::Isolate))?;
        self.copy_setup(&made).map_err(|error| StageError::broke(Stage::Isolate, "setup", &error))?;
        self.workspace = Some(made);
        Ok(())
    }

    /// Creates the workspace again without the withheld tests. No program of the round has used it yet.
    pub(super) async fn withhold(&mut self, cx: &RoundContext<'_>, withheld: Vec<String>) -> Result<(), StageError> {
        let trouble = workspace_trouble(Stage::Isolate);
        let base = self.workspace(Stage::Isolate)?.base.clone();
        match &mut self.workspace {
            Some(workspace) if withheld.is_empty() => workspace.withhold_nothing().map_err(trouble),
            _ => {
                self.create_workspace(cx, &base, Some(withheld)).await?;
                self.hide_copies().map_err(|error| StageError::broke(Stage::Isolate, "withhold", &error))
            }
        }
    }

    /// Hides what a set-up made of withheld tests: compiled caches and installed copies.
    fn hide_copies(&self) -> std::io::Result<()> {
        let (Some(layer), Some(workspace)) = (self.views.layer(), &self.workspace) else { return Ok(()) };
        let copies = copies_of(&layer.work, workspace.withheld());
        copies.iter().try_for_each(|path| workspace.files.hide(path))
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
    pub(super) async fn prepare_base(
        &mut self,
        cx: &RoundContext<'_>,
        spec: &LoopSpec,
        base: &Oid,
        stage: Stage,
        budget: &RoundBudget,
    ) -> Result<(), StageError> {
        if self.is_warm {
            return Ok(());
        }
        let task = SetupTask {
            cookie: &cx.cookie(),
            cancel: cx.cancel,
            wall: budget.wall_left(spec).unwrap_or(setup::WALL_DEFAULT),
            transcripts: Some(&cx.engine.state_dir.transcripts(&cx.id)),
            report: &|command| cx.stage(stage, format!("setup: {command}")),
            progress: ProgramReport(&|program, line| cx.program_line(program, line)),
        };
        let warm = setup::prepare(cx.engine, self.views.clone(), &cx.workspaces, spec, base, &task).await;
        self.views = warm.map_err(|error| match error {
            SetupError::Stopped => StageError::Stopped,
            error => StageError::broke(stage, "setup", &error),
        })?;
        self.is_warm = true;
        Ok(())
    }

    /// A round whose record is complete does not need its workspace any more.
    pub(super) async fn discard(&mut self, cx: &RoundContext<'_>, round: &Round) {
        if !matches!(round.phase(), Phase::Ended(_)) {
            return;
        }
        let has_secrets =
            round.facts().attempts.iter().any(|one| !one.findings.secrets.is_empty() || !one.staged_secrets.is_empty());
        if let Some(workspace) = self.workspace.take().filter(|_| has_secrets) {
            // A workspace with secrets is removed now, not in the background.
            let _ = tokio::task::spawn_blocking(move || crate::workspace::remove_left(&workspace.root)).await;
        }
        // The next start finds and removes leftovers, so a failure here loses nothing.
        let _ = cx.workspaces.discard(&cx.id).await;
    }
}

/// Most entries of a set-up that are searched for copies of tests.
const ENTRIES_MAX: usize = 200_000;

/// Files of a set-up whose name is that of a withheld test, or that of its compiled form.
fn copies_of(setup: &Path, withheld: &[String]) -> Vec<PathBuf> {
    let names: Vec<(&str, &str)> = withheld
        .iter()
        .map(|path| path.rsplit('/').next().unwrap_or(path))
        .map(|name| (name, name.rsplit_once('.').map_or(name, |(stem, _)| stem)))
        .collect();
    let is_copy = |name: &str| {
        let is_compiled =
            |stem: &str| name.ends_with(".pyc") && name.strip_prefix(stem).is_some_and(|rest| rest.starts_with('.'));
        names.iter().any(|(file, stem)| name == *file || is_compiled(stem))
    };
    let (mut found, mut folders, mut seen) = (Vec::new(), vec![setup.to_owned()], 0);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            seen += 1;
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            } else if entry.file_name().to_str().is_some_and(is_copy) {
                found.extend(entry.path().strip_prefix(setup).ok().map(Path::to_owned));
            }
        }
        if seen > ENTRIES_MAX {
            break;
        }
    }
    found
}

/// The kernel stacks layers for each sandboxed program. An agent that works in this process would see only one of them,
/// so it gets a copy.
async fn checkout_method(cx: &RoundContext<'_>, boundary: &Boundary) -> CheckoutMethod {
    let all = cx.bind.agents.iter().all(|(_, agent)| agent.capabilities().confined);
    let layers = all && boundary.level == BoundaryLevel::Kernel && cx.engine.host().await.supports_overlay();
    if layers { CheckoutMethod::Overlay } else { CheckoutMethod::Copy }
}
