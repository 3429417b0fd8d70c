//! Isolate: a private workspace at a pinned base, and the comparing gates on it.

use super::{Bindings, Run, Trouble, workspace_trouble};
use crate::engine::Engine;
use crate::git::Oid;
use crate::room::Seat;
use crate::setup::{self, SetupError, Task};
use crate::workspace::{Making, Method, Warm, Workspace};
use loopwright_core::round::{Baselined, Boundary, BoundaryLevel, Event, Isolated, Stage};

impl Run<'_> {
    pub(super) async fn isolate(&mut self) -> Result<Event, Trouble> {
        let base = match &self.round.facts().base {
            Some(pinned) => (parse(pinned)?, self.round.facts().branch.clone()),
            None => self.pin().await?,
        };
        self.stage(Stage::Isolate, format!("workspace at {}", &base.0.as_str()[..12.min(base.0.as_str().len())]));
        for folder in self.rooms.left_out() {
            self.stage(Stage::Isolate, folder.clone());
        }
        self.warm(&base.0, Stage::Isolate).await?;
        let name = self.spec().name.clone();
        let (method, extra_lower) = (self.rooms.method(), self.rooms.extra_lower());
        let making = Making { method, extra_lower, warm: Warm::Kept };
        let made = self.spaces.create(&name, self.id(), &base.0, &making).await;
        let made = made.map_err(workspace_trouble(Stage::Isolate))?;
        self.settle(&made).map_err(|error| Trouble::broke(Stage::Isolate, "setup", &error))?;
        self.workspace = Some(made);
        Ok(Event::Isolated(Isolated { base: base.0.to_string(), branch: base.1 }))
    }

    /// What a set-up made is put into a workspace that has no layers, and is told apart from what the maker makes.
    fn settle(&self, made: &Workspace) -> std::io::Result<()> {
        let seat = Seat { files: &made.files, home: &made.home, tmp: &made.tmp };
        match self.rooms.settle(seat)? {
            Some(layer) => made.prepared_with(&layer.work),
            None => Ok(()),
        }
    }

    /// Prepares what every start on a base builds on, once in the life of this process; after a restart it is found again.
    pub(super) async fn warm(&mut self, base: &Oid, stage: Stage) -> Result<(), Trouble> {
        if self.is_warm {
            return Ok(());
        }
        let transcripts = self.engine.places.transcripts(self.id());
        let cookie = format!("lw-{}", self.id());
        let task = Task {
            cookie: &cookie,
            cancel: self.cancel,
            wall: self.wall_left().unwrap_or(setup::WALL_DEFAULT),
            transcripts: Some(&transcripts),
            tell: &|command| self.stage(stage, format!("setup: {command}")),
        };
        let warm = self.engine.warm(self.rooms.clone(), &self.spaces, self.spec(), base, &task).await;
        self.rooms = warm.map_err(|error| match error {
            SetupError::Stopped => Trouble::Stopped,
            error => Trouble::broke(stage, "setup", &error),
        })?;
        self.is_warm = true;
        Ok(())
    }

    async fn pin(&self) -> Result<(Oid, Option<String>), Trouble> {
        if let Some(head) = &self.head {
            return Ok((head.commit.clone(), head.branch.clone()));
        }
        let head = self.engine.git.head(&self.repo, self.spec().base.as_deref()).await;
        let head = head.map_err(|error| Trouble::broke(Stage::Isolate, "base", &error))?;
        Ok((head.commit, head.branch))
    }

    pub(super) async fn baseline(&mut self) -> Result<Event, Trouble> {
        self.stage(Stage::Isolate, "gates on base");
        let results = self.run_baseline().await?;
        Ok(Event::Baselined(Baselined { results }))
    }
}

/// Layers are put together by the kernel for each program behind walls. An agent that works in this process would see only
/// one of them, so it gets a copy.
pub(super) async fn method(engine: &Engine, bind: &Bindings, boundary: &Boundary) -> Method {
    let all = bind.agents.iter().all(|(_, agent)| agent.capabilities().confined);
    let layers = all && boundary.level == BoundaryLevel::Kernel && engine.host().await.overlay();
    if layers { Method::Overlay } else { Method::Copy }
}

pub(super) fn parse(commit: &str) -> Result<Oid, Trouble> {
    commit.parse().map_err(|error| Trouble::broke(Stage::Isolate, "base", &error))
}
