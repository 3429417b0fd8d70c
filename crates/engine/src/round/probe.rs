//! Probe: asks the free question before any agent is started, in the round's own rooms. What the answer means is
//! [`crate::probe`]'s.

use super::{Run, Trouble, workspace_trouble};
use crate::git::Base;
use crate::probe::{Asker, Question, Said, Undone, Work};
use crate::room::Seat;
use crate::workspace::{Making, SnapshotKind};
use loopwright_core::round::{Event, Probed, Stage};
use loopwright_core::spec::ProbeSpec;
use std::sync::Arc;

impl Run<'_> {
    pub(super) async fn probe(&mut self) -> Result<Event, Trouble> {
        let name = match &self.spec().on.probe {
            Some(ProbeSpec::Named(name)) => Some(name.clone()),
            Some(ProbeSpec::Ask(ask)) => Some(ask.probe.clone()),
            Some(ProbeSpec::Run { .. }) | None => None,
        };
        if let Some(name) = name {
            self.stage(Stage::Probe, name);
        }
        if let Some(probed) = self.found.take().and_then(answered) {
            return Ok(Event::Probed(probed));
        }
        let base = self.pin_base().await?;
        let asked = self.engine.question(self.spec(), &self.repo, Some(&base)).await.map_err(broke)?;
        let probed = match asked {
            Question::Answered(probed) => probed,
            Question::Program(program) => {
                self.stage(Stage::Probe, program.shown());
                program.read(self.ask_probe(&base, program.argv()).await?)
            }
        };
        self.settle_items(probed).await
    }

    async fn pin_base(&self) -> Result<Base, Trouble> {
        if let Some(head) = &self.head {
            return Ok(head.clone());
        }
        let head = self.engine.git.head(&self.repo, self.spec().base.as_deref()).await;
        head.map_err(|error| Trouble::broke(Stage::Probe, "base", &error))
    }

    async fn ask_probe(&mut self, base: &Base, argv: &[String]) -> Result<Said, Trouble> {
        let (name, id, base) = (self.spec().name.clone(), self.id().to_owned(), &base.commit);
        self.warm(base, Stage::Probe).await?;
        let extra = self.rooms.extra_lower();
        let making = Making { method: self.rooms.method(), extra_lower: extra.clone(), ..Making::default() };
        let space = self.spaces.create(&name, &id, base, &making).await;
        let space = space.map_err(workspace_trouble(Stage::Probe))?;
        let view = self.spaces.snapshot(&space, "probe", base, SnapshotKind::ReadOnly, &extra).await;
        let view = view.map_err(workspace_trouble(Stage::Probe))?;
        let seat = Seat { files: &view.files, home: &space.home, tmp: &space.tmp };
        let asker = Asker { engine: self.engine, rooms: &self.rooms, cancel: self.cancel, id: &id };
        match asker.ask(argv, seat).await {
            Said::Stopped => Err(Trouble::Stopped),
            said => Ok(said),
        }
    }

    /// Takes the items that are not done, as many as a round of the loop takes.
    async fn settle_items(&mut self, probed: Probed) -> Result<Event, Trouble> {
        let started = &self.round.facts().started;
        let undone = self.engine.undone(&started.repo, &started.spec, probed).await.map_err(Trouble::Fatal)?;
        Ok(Event::Probed(match undone {
            Undone::Nothing => Probed::Nothing,
            Undone::Failed(text) => Probed::Failed { text },
            Undone::Work(items) => {
                let failures = items.iter().map(|(item, failures)| (item.key.clone(), *failures));
                self.failures = Arc::new(failures.collect());
                Probed::Work { items: items.into_iter().map(|(item, _)| item).collect() }
            }
        }))
    }
}

/// What a probe said before there was a round; of what it found, nothing is done yet.
fn answered(found: Work) -> Option<Probed> {
    match found {
        Work::None => Some(Probed::Nothing),
        Work::Items(items) => Some(Probed::Work { items }),
        Work::Failed(text) => Some(Probed::Failed { text }),
        Work::Unasked => None,
    }
}

fn broke(error: crate::error::EngineError) -> Trouble {
    match error {
        crate::error::EngineError::Git(error) => Trouble::broke(Stage::Probe, "base", &error),
        error => Trouble::Fatal(error),
    }
}
