//! Isolate: a private workspace at a pinned base, and the comparing gates on it.

use super::{Run, Trouble, workspace_trouble};
use crate::git::Oid;
use crate::workspace::Method;
use loopwright_core::round::{Baselined, Event, Isolated, Stage};

impl Run<'_> {
    pub(super) async fn isolate(&mut self) -> Result<Event, Trouble> {
        let base = match &self.round.facts().base {
            Some(pinned) => (parse(pinned)?, self.round.facts().branch.clone()),
            None => self.pin().await?,
        };
        self.stage(Stage::Isolate, format!("workspace at {}", &base.0.as_str()[..12.min(base.0.as_str().len())]));
        let name = self.spec().name.clone();
        let made = self.spaces.create(&name, self.id(), &base.0, &Method::Copy.into()).await;
        self.workspace = Some(made.map_err(workspace_trouble(Stage::Isolate))?);
        Ok(Event::Isolated(Isolated { base: base.0.to_string(), branch: base.1 }))
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

pub(super) fn parse(commit: &str) -> Result<Oid, Trouble> {
    commit.parse().map_err(|error| Trouble::broke(Stage::Isolate, "base", &error))
}
