//! Where the items of a workflow come from: the loop file, base, a probe, or the planner. They are recorded once, all in
//! one transaction, and never change.

use super::{NewsSink, WorkflowDriver, WorkflowNews, new_part, spent_by};
use crate::error::EngineError;
use crate::git::Oid;
use crate::probe::{self, ProbeResult};
use crate::round::LoopBindings;
use crate::store::{RowChange, WorkflowChange, WorkflowRow, WorkflowState};
use loopwright_core::goal::{GoalContract, read_goal_file};
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::paths::Globs;
use loopwright_core::round::{ProbeItem, Round};
use loopwright_core::spec::{ActionKind, Ask, OnOff, ProbeSpec, Role};
use loopwright_core::workflow::{
    GOALS_MAX, ITEMS_MAX, PartState, WorkflowPart, join_group, plan_share, plan_spec, read_item_list,
};
use std::collections::BTreeSet;

/// The most bytes of a contract.
const CONTRACT_MAX: usize = 256 << 10;

impl WorkflowDriver {
    /// Lists the items and records them; returns whether the workflow continues in this process.
    pub(super) async fn list_items(&mut self, tell: NewsSink<'_>) -> Result<bool, EngineError> {
        let found = if self.workflow.plan == OnOff::On {
            match self.plan(tell).await? {
                Some(found) => found,
                None => return Ok(false),
            }
        } else if self.spec.on.probe.is_some() {
            self.probe().await?
        } else if !self.workflow.goals.is_empty() {
            self.goals().await
        } else if self.workflow.files.is_empty() {
            Ok(self.workflow.items.iter().map(|item| named(item)).collect())
        } else {
            self.files().await
        };
        match found {
            Ok(items) => match distinct(items) {
                Ok(items) => self.record_items(items, tell).await.map(|()| true),
                Err(why) => self.end(RoundOutcome::Failed, &why).await.map(|()| false),
            },
            Err(why) => self.end(RoundOutcome::Failed, &why).await.map(|()| false),
        }
    }

    async fn record_items(&mut self, items: Vec<ProbeItem>, tell: NewsSink<'_>) -> Result<(), EngineError> {
        let numbered = (0_i64..).zip(items);
        let parts: Vec<_> = numbered.map(|(at, item)| new_part(&self.row.id, at, WorkflowPart::Item, item)).collect();
        let row = WorkflowRow { state: WorkflowState::Running, version: self.row.version + 1, ..self.row.clone() };
        let mut changes: Vec<_> =
            parts.iter().cloned().map(|part| RowChange::Workflows(WorkflowChange::NewPart(part))).collect();
        changes.push(RowChange::Workflows(WorkflowChange::Row(row.clone())));
        self.engine.write_rows(changes).await?;
        self.row = row;
        tell(WorkflowNews::Listed(parts.len()));
        self.parts.extend(parts);
        Ok(())
    }

    /// One item for each file of base that matches.
    async fn files(&self) -> Result<Vec<ProbeItem>, String> {
        Ok(self.matching(&self.workflow.files).await?.0.iter().map(|path| named(path)).collect())
    }

    /// One goal for each contract of base that matches.
    async fn goals(&self) -> Result<Vec<ProbeItem>, String> {
        let (paths, base) = self.matching(&self.workflow.goals).await?;
        if paths.len() > GOALS_MAX {
            return Err(format!("{} contracts match, and at most {GOALS_MAX} goals run together", paths.len()));
        }
        let spaces = self.engine.workspaces(self.repo.clone()).await.map_err(|error| error.to_string())?;
        let mut items = Vec::new();
        let names: Vec<&str> = paths.iter().map(String::as_str).collect();
        let entries = spaces.engine().entries(&base, &names).await.map_err(|error| error.to_string())?;
        if let Some(link) = entries.iter().find(|entry| !entry.is_file()) {
            return Err(format!("`{}` is a link in base, and a contract is a plain file", link.path));
        }
        for path in &paths {
            let read = spaces.engine().read_blob(&base, path, CONTRACT_MAX).await.map_err(|error| error.to_string())?;
            let text = read.ok_or_else(|| format!("`{path}` is not a readable file"))?;
            let goal = read_goal_file(path, &text).map_err(|problems| problems.to_string())?;
            join_group(&self.spec, &goal.spec).map_err(|error| error.to_string())?;
            items.push(goal_item(path, &goal, String::from_utf8_lossy(&text).into_owned()));
        }
        Ok(items)
    }

    /// The files of base that match, and base.
    async fn matching(&self, globs: &[String]) -> Result<(Vec<String>, Oid), String> {
        let words = |error: &dyn std::error::Error| error.to_string();
        let globs = Globs::new(globs).map_err(|error| words(&error))?;
        let spaces = self.engine.workspaces(self.repo.clone()).await.map_err(|error| words(&error))?;
        let head = self.engine.git.head(&self.repo, Some(&self.row.base)).await.map_err(|error| words(&error))?;
        spaces.import(&head.commit).await.map_err(|error| words(&error))?;
        let paths = spaces.engine().paths(&head.commit).await.map_err(|error| words(&error))?;
        Ok((paths.iter().filter(|path| globs.matches(path)).cloned().collect(), head.commit))
    }

    /// The items of the loop's probe, all of them.
    async fn probe(&self) -> Result<Result<Vec<ProbeItem>, String>, EngineError> {
        let mut spec = self.spec.clone();
        // One more than a workflow may have, so that too many are recognised.
        let most = u32::try_from(ITEMS_MAX + 1).unwrap_or(u32::MAX);
        spec.on.probe = match spec.on.probe.take() {
            Some(ProbeSpec::Named(probe)) => Some(ProbeSpec::Ask(Box::new(Ask { batch: most, ..Ask::new(&probe) }))),
            Some(ProbeSpec::Ask(ask)) => Some(ProbeSpec::Ask(Box::new(Ask { batch: most, ..*ask }))),
            Some(ProbeSpec::Run { run, items, .. }) => Some(ProbeSpec::Run { run, items, batch: most }),
            None => None,
        };
        Ok(match probe::probe_only(&self.engine, &spec, &self.repo, &self.cancel).await? {
            ProbeResult::None => Ok(Vec::new()),
            ProbeResult::Items(items) => Ok(items),
            ProbeResult::Failed(why) => Err(format!("the probe failed: {why}")),
            ProbeResult::SetupIncomplete => Err("the loop's set-up failed before the probe".to_owned()),
        })
    }

    /// The planner's list; `None` if its round continues later.
    async fn plan(&mut self, tell: NewsSink<'_>) -> Result<Option<Result<Vec<ProbeItem>, String>>, EngineError> {
        if self.parts.is_empty() {
            let part = new_part(&self.row.id, -1, WorkflowPart::Plan, named(""));
            self.engine.write_rows(vec![RowChange::Workflows(WorkflowChange::NewPart(part.clone()))]).await?;
            self.parts.push(part);
        }
        loop {
            match self.parts[0].state {
                PartState::Done | PartState::Failed => break,
                PartState::Queued if self.cancel.is_cancelled() => return Ok(None),
                PartState::Queued => match plan_share(&self.spec.budget, spent_by(&self.parts[0])) {
                    Some(share) => self.reserve(0, share).await?,
                    None => break,
                },
                PartState::Running => {}
            }
            let spec = plan_spec(&self.spec, self.share_of(&self.parts[0]))
                .map_err(|problems| EngineError::not_runnable(&self.spec.name, &[problems]))?;
            let run = self.part_run(&self.parts[0], spec, Vec::new())?.bound_to(planner_bindings(&self.bind));
            let ended = Box::pin(run.perform()).await;
            self.settle(0, ended, tell).await?;
            // A person may have ended the workflow meanwhile.
            if self.halted.is_some() || self.row.state == WorkflowState::Ended {
                return Ok(None);
            }
        }
        let part = &self.parts[0];
        let (PartState::Done, Some(round)) = (part.state, part.round.as_deref()) else {
            return Ok(Some(Err(format!("the planner gave no list: {}", part.note))));
        };
        let round = self.engine.load_round(round).await?.round;
        Ok(Some(read_item_list(&report_text(&round)).map_err(|error| error.to_string())))
    }
}

/// The items without repetitions. Too many are an error, because a workflow that leaves out some would look complete.
fn distinct(items: Vec<ProbeItem>) -> Result<Vec<ProbeItem>, String> {
    let mut known = BTreeSet::new();
    let fresh: Vec<_> = items.into_iter().filter(|item| known.insert(item.key.clone())).collect();
    match fresh.len() {
        0..=ITEMS_MAX => Ok(fresh),
        count => Err(format!("{count} items, and a workflow has at most {ITEMS_MAX}")),
    }
}

/// The planner plays the maker of its own round.
fn planner_bindings(bind: &LoopBindings) -> LoopBindings {
    let planner = bind.agents.chain(Role::Planner).to_vec();
    if planner.is_empty() {
        return bind.clone();
    }
    LoopBindings { agents: bind.agents.clone().with_chain(Role::Maker, planner), ..bind.clone() }
}

/// The report of a round that only reports.
pub(super) fn report_text(round: &Round) -> String {
    let items = round.facts().attempt().map(|attempt| attempt.items.as_slice()).unwrap_or_default();
    items.iter().find(|item| item.kind == ActionKind::Report).map(|item| item.body.clone()).unwrap_or_default()
}

fn named(key: &str) -> ProbeItem {
    ProbeItem { key: key.to_owned(), title: None, data: None, chain: 0 }
}

/// A goal as an item: its file is the key, and its text is recorded, so that a later edit does not change the goal.
pub(super) fn goal_item(file: &str, goal: &GoalContract, text: String) -> ProbeItem {
    ProbeItem { key: file.to_owned(), title: Some(goal.spec.name.clone()), data: Some(text), chain: 0 }
}
