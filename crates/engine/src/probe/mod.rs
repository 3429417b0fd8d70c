//! Probes: the free question "is there work?", asked before any agent is started, and before there is a round where a loop is
//! due by the clock. "No" must be cheap: a built-in probe answers it without a process, a command with its own and no more.
//!
//! A probe says what there is; the engine says what of it is done, given up or waiting.

mod built_in;
mod command;
mod forge;
mod outdated;
pub(crate) mod quick;
mod undone;

pub(crate) use built_in::Question;
pub(crate) use command::{Asker, Said, share};
pub(crate) use undone::Undone;

use crate::boundary;
use crate::egress::Ways;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::git::{Oid, UserRepo};
use crate::proc::Cancel;
use crate::random;
use crate::room::{Rooms, Seat, Walls};
use crate::setup::{self, Task};
use crate::workspace::{Making, Method, SnapshotKind, Workspaces};
use loopwright_core::round::{BoundaryLevel, Item, Probed};
use loopwright_core::spec::LoopSpec;
use outdated::Program;

/// What a probe found, of what is not done yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// Nothing to do.
    None,
    /// Something to do: these items, in the probe's order. Empty when the probe names none, or there is no probe.
    Items(Vec<Item>),
    /// The probe broke, in these words.
    Failed(String),
    /// It could not be asked, because the loop's set-up does not come to its end: its round meets that too, and records it.
    Unasked,
}

impl Engine {
    /// Asks a loop's probe without a round: nothing is recorded, and where the kernel mounts layers nothing is copied.
    ///
    /// A loop that this host refuses to run has work, so that its round can say why.
    ///
    /// # Errors
    /// When the store, git or the repository's workspaces cannot be used.
    pub async fn probe_only(&self, spec: &LoopSpec, repo: &UserRepo, cancel: &Cancel) -> Result<Work, EngineError> {
        let probed = match self.question(spec, repo, None).await? {
            Question::Answered(probed) => Some(probed),
            Question::Program(program) => self.ask_program(&program, spec, repo, cancel).await?,
        };
        let Some(probed) = probed else { return Ok(Work::Unasked) };
        Ok(match self.undone(&repo.id, spec, probed).await? {
            Undone::Nothing => Work::None,
            Undone::Failed(text) => Work::Failed(text),
            Undone::Work(items) => Work::Items(items.into_iter().map(|(item, _)| item).collect()),
        })
    }

    /// Starts a probe's program on a view of base that is made for it alone, unless the loop's set-up fails before.
    async fn ask_program(
        &self,
        program: &Program,
        spec: &LoopSpec,
        repo: &UserRepo,
        cancel: &Cancel,
    ) -> Result<Option<Probed>, EngineError> {
        let Ok(held) = boundary::decide(spec.level, spec.sandbox, self.host().await) else {
            return Ok(Some(Probed::Work { items: Vec::new() }));
        };
        let base = self.git.head(repo, spec.base.as_deref()).await?.commit;
        let id = format!("probe-{}", &random::nonce()?[..16]);
        let spaces = self.workspaces(repo.clone()).await?;
        let layers = held.level == BoundaryLevel::Kernel && self.host().await.overlay();
        let rooms = self.rooms(&held, repo, spec)?.made_by(if layers { Method::Overlay } else { Method::Copy });
        // A probe asks no model, so its way has no provider in it.
        let ways = match rooms.walls() {
            Walls::Kernel => Ways::open(&self.places.doors().join(&id), spec, &[])?,
            Walls::None => Ways::default(),
        };
        let view = View { engine: self, spaces: &spaces, base: &base, id: &id, cancel };
        let said = view.ask(program, spec, rooms.reaching(&ways)).await;
        // What stays behind is met by the next sweep.
        let _ = spaces.discard(&id).await;
        said
    }
}

/// Where a probe that belongs to no round is asked.
struct View<'a> {
    engine: &'a Engine,
    spaces: &'a Workspaces,
    base: &'a Oid,
    id: &'a str,
    cancel: &'a Cancel,
}

impl View<'_> {
    async fn ask(&self, program: &Program, spec: &LoopSpec, rooms: Rooms) -> Result<Option<Probed>, EngineError> {
        let cookie = format!("lw-{}", self.id);
        let wall = spec.timeout.map_or(setup::WALL_DEFAULT, |span| span.duration());
        let task = Task { cookie: &cookie, cancel: self.cancel, wall, transcripts: None, tell: &|_| () };
        let Ok(rooms) = self.engine.warm(rooms, self.spaces, spec, self.base, &task).await else { return Ok(None) };
        let extra = rooms.extra_lower();
        let making = Making { method: rooms.method(), extra_lower: extra.clone(), ..Making::default() };
        let space = self.spaces.create(&spec.name, self.id, self.base, &making).await?;
        let view = self.spaces.snapshot(&space, "probe", self.base, SnapshotKind::ReadOnly, &extra).await?;
        let seat = Seat { files: &view.files, home: &space.home, tmp: &space.tmp };
        let asker = Asker { engine: self.engine, rooms: &rooms, cancel: self.cancel, id: self.id };
        Ok(Some(match asker.ask(program.argv(), seat).await {
            Said::Stopped => Probed::Failed { text: "stopped while the probe was asked".to_owned() },
            said => program.read(said),
        }))
    }
}
