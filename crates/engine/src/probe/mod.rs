//! Probes answer "is there work?" without an agent. For loops that are due by the clock they run even before a round
//! exists. "No" must be cheap: a built-in probe answers it without a process, and a command with one process.
//!
//! A probe lists the items; the engine knows which of them are done, given up or waiting.

mod built_in;
mod command;
mod forge;
mod outdated;
pub(crate) mod quick;
mod undone;

pub(crate) use built_in::ProbeMethod;
pub(crate) use command::{ProbeExit, ProbeRunner, cut_to_share};
pub(crate) use undone::Undone;

use crate::boundary;
use crate::egress::EgressRoutes;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::git::{Oid, UserRepo};
use crate::proc::CancelToken;
use crate::random;
use crate::sandbox_view::{KernelIsolation, ProgramFolders, SandboxViews};
use crate::setup::{self, SetupTask};
use crate::workspace::{CheckoutMethod, SnapshotKind, WorkspaceOptions, Workspaces};
use loopwright_core::round::{BoundaryLevel, ProbeAnswer, ProbeItem};
use loopwright_core::spec::LoopSpec;
use outdated::ProbeProgram;

/// The open items that a probe found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeResult {
    /// No work.
    None,
    /// Work: these items, in the probe's order. Empty if the probe names no items, or there is no probe.
    Items(Vec<ProbeItem>),
    /// The probe failed with this message.
    Failed(String),
    /// The probe could not run because the loop's set-up fails. The loop's round fails in the same way and records it.
    SetupIncomplete,
}

impl Engine {
    /// Runs a loop's probe without a round. It records nothing, and copies nothing where the kernel mounts layers.
    ///
    /// A loop that this host refuses to run counts as having work, so that its round can report the refusal.
    ///
    /// # Errors
    /// When the store, git or the repository's workspaces cannot be used.
    pub async fn probe_only(
        &self,
        spec: &LoopSpec,
        repo: &UserRepo,
        cancel: &CancelToken,
    ) -> Result<ProbeResult, EngineError> {
        let probed = match self.probe_method(spec, repo, None).await? {
            ProbeMethod::Answered(probed) => Some(probed),
            ProbeMethod::Program(program) => self.ask_program(&program, spec, repo, cancel).await?,
        };
        let Some(probed) = probed else { return Ok(ProbeResult::SetupIncomplete) };
        Ok(match self.undone(&repo.id, spec, probed).await? {
            Undone::Nothing => ProbeResult::None,
            Undone::Failed(text) => ProbeResult::Failed(text),
            Undone::Work(items) => ProbeResult::Items(items.into_iter().map(|(item, _)| item).collect()),
        })
    }

    /// Runs a probe's program on its own checkout of base. `None` if the loop's set-up fails first.
    async fn ask_program(
        &self,
        program: &ProbeProgram,
        spec: &LoopSpec,
        repo: &UserRepo,
        cancel: &CancelToken,
    ) -> Result<Option<ProbeAnswer>, EngineError> {
        let Ok(held) = boundary::decide(spec.level, spec.sandbox, self.host().await) else {
            return Ok(Some(ProbeAnswer::Work { items: Vec::new() }));
        };
        let base = self.git.head(repo, spec.base.as_deref()).await?.commit;
        let id = format!("probe-{}", &random::nonce()?[..16]);
        let spaces = self.workspaces(repo.clone()).await?;
        let layers = held.level == BoundaryLevel::Kernel && self.host().await.supports_overlay();
        let rooms = self.sandbox_views(&held, repo, spec)?.with_method(if layers {
            CheckoutMethod::Overlay
        } else {
            CheckoutMethod::Copy
        });
        // A probe uses no model, so its route has no provider.
        let ways = match rooms.isolation() {
            KernelIsolation::Kernel => EgressRoutes::open(&self.state_dir.sockets().join(&id), spec, &[])?,
            KernelIsolation::None => EgressRoutes::default(),
        };
        let view = ProbeCheckout { engine: self, spaces: &spaces, base: &base, id: &id, cancel };
        let said = view.ask(program, spec, rooms.with_routes(&ways)).await;
        // The next sweep removes what stays behind.
        let _ = spaces.discard(&id).await;
        said
    }
}

/// The checkout for a probe without a round.
struct ProbeCheckout<'a> {
    engine: &'a Engine,
    spaces: &'a Workspaces,
    base: &'a Oid,
    id: &'a str,
    cancel: &'a CancelToken,
}

impl ProbeCheckout<'_> {
    async fn ask(
        &self,
        program: &ProbeProgram,
        spec: &LoopSpec,
        rooms: SandboxViews,
    ) -> Result<Option<ProbeAnswer>, EngineError> {
        let cookie = format!("lw-{}", self.id);
        let wall = spec.timeout.map_or(setup::WALL_DEFAULT, |span| span.duration());
        let task = SetupTask { cookie: &cookie, cancel: self.cancel, wall, transcripts: None, report: &|_| () };
        let Ok(rooms) = self.engine.prepare_setup(rooms, self.spaces, spec, self.base, &task).await else {
            return Ok(None);
        };
        let extra = rooms.extra_lower();
        let making = WorkspaceOptions { method: rooms.method(), extra_lower: extra.clone() };
        let space = self.spaces.create(&spec.name, self.id, self.base, &making).await?;
        let view = self.spaces.snapshot(&space, "probe", self.base, SnapshotKind::ReadOnly, &extra).await?;
        let seat = ProgramFolders { files: &view.files, home: &space.home, tmp: &space.tmp };
        let asker = ProbeRunner { engine: self.engine, views: &rooms, cancel: self.cancel, id: self.id };
        Ok(Some(match asker.ask(program.argv(), seat).await {
            ProbeExit::Stopped => ProbeAnswer::Failed { text: "stopped while the probe ran".to_owned() },
            said => program.read(said),
        }))
    }
}
