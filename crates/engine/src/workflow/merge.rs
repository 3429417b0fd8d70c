//! The merge of a workflow: the changes of its items become one commit, which one round verifies as a whole on the
//! newest base and sends. If its gates reject it, further rounds search for the item that is to blame; it is set aside, and
//! the rest lands. At L1 one round writes the report over the reports.

use super::item_source::report_text;
use super::{NewsSink, WorkflowDriver, new_part, note};
use crate::error::EngineError;
use crate::git::{CommitMetadata, MergedTree, Oid};
use crate::store::{RowChange, WorkflowChange, WorkflowPartRow};
use loopwright_core::budget::SpendAllowance;
use loopwright_core::goal::CriterionProof;
use loopwright_core::level::LoopLevel;
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::round::{Attempt, AttemptRank, ProbeItem, RebaseOrigin};
use loopwright_core::spec::{CheckedSpec, ItemJoin, LoopSpec, SpecProblems};
use loopwright_core::workflow::{
    LandingTrial, MERGES_MAX, PartState, SearchMove, WorkflowPart, base_trial_spec, is_rejected_by_gates, landing_spec,
    merge_spec, merged_request, next_search,
};

/// The most bytes of one item's report, and of all of them, for the report over them.
const REPORT_MAX: usize = 4 << 10;
const REPORTS_MAX: usize = 256 << 10;
/// The most characters of the reason why an item does not land, so that the command that brings its work still fits.
const WHY_MAX: usize = 300;

/// The next step of a landing.
enum LandingStep {
    /// Run this part, or continue with it.
    Run(usize),
    /// The landing has ended; the workflow ends like this.
    End(RoundOutcome, String),
    /// The record has changed: decide again.
    Again,
}

impl WorkflowDriver {
    /// Performs one step of the landing: a round for the changes of all items or, when the gates reject them together, a
    /// round of the search for the item that is to blame.
    pub(super) async fn merge(&mut self, share: SpendAllowance, tell: NewsSink<'_>) -> Result<(), EngineError> {
        let at = match self.landing_step().await? {
            LandingStep::Run(at) => at,
            LandingStep::End(outcome, why) => return self.end(outcome, &why).await,
            LandingStep::Again => return Ok(()),
        };
        if self.parts[at].state == PartState::Queued {
            if trial_size(&self.parts[at]).is_none() && !self.set_conflicts_aside().await? {
                return Ok(());
            }
            self.reserve(at, share).await?;
        }
        let part = self.parts[at].clone();
        let ended = Box::pin(self.run_merge(&part)).await;
        self.settle(at, ended, tell).await
    }

    async fn landing_step(&mut self) -> Result<LandingStep, EngineError> {
        let merges: Vec<usize> =
            (0..self.parts.len()).filter(|at| self.parts[*at].part == WorkflowPart::Merge).collect();
        let is_open = |at: &&usize| matches!(self.parts[**at].state, PartState::Queued | PartState::Running);
        if let Some(at) = merges.iter().find(is_open) {
            return Ok(LandingStep::Run(*at));
        }
        let Some(whole) = merges.iter().rposition(|at| trial_size(&self.parts[*at]).is_none()) else {
            return self.add_merge(None, None).await.map(LandingStep::Run);
        };
        let (landing, trials) = (self.parts[merges[whole]].clone(), &merges[whole + 1..]);
        let outcome = landing.outcome.unwrap_or(RoundOutcome::Failed);
        if landing.state == PartState::Done || !self.was_rejected_by_gates(&landing).await? {
            return Ok(LandingStep::End(outcome, landing.note));
        }
        let items = self.landing_items().await?;
        if items.is_empty() {
            return Ok(LandingStep::End(outcome, landing.note));
        }
        if merges.len() >= MERGES_MAX {
            let why = format!("{}; the search for the cause ended after {MERGES_MAX} rounds", landing.note);
            return Ok(LandingStep::End(outcome, why));
        }
        let seen = self.landing_trials(trials, &items).await?;
        match next_search(items.len(), &seen) {
            SearchMove::BaseFails => {
                let gates = self.red_gates_of_base(trials).await?;
                let why = format!("base is red by itself: {gates}; no item is to blame, and none was set aside");
                Ok(LandingStep::End(outcome, why))
            }
            SearchMove::Try { count } => self.add_merge(Some(count), None).await.map(LandingStep::Run),
            SearchMove::GiveUp { count } => {
                let why = format!("{}; the search for the cause ended at the first {count} items", landing.note);
                Ok(LandingStep::End(outcome, why))
            }
            SearchMove::SetAside { position } => {
                let at = items[position.min(items.len() - 1)];
                let aside = set_aside(&self.parts[at], &format!("the landing fails with it: {}", landing.note));
                // Without a further landing, the workflow ends.
                let may_fail = usize::try_from(self.workflow.may_fail).unwrap_or(usize::MAX);
                let may_continue = self.workflow.join == ItemJoin::Best || self.failed_items() < may_fail;
                if may_continue && self.passed_items().len() > 1 {
                    self.add_merge(None, Some((at, aside))).await?;
                } else {
                    self.write_part(at, aside).await?;
                }
                Ok(LandingStep::Again)
            }
        }
    }

    /// The trials so far. Base alone needs none if it has not moved since the items began: they passed on it.
    async fn landing_trials(&self, trials: &[usize], items: &[usize]) -> Result<Vec<LandingTrial>, EngineError> {
        let mut seen = Vec::new();
        for trial in trials {
            let part = &self.parts[*trial];
            let (outcome, count) = (part.outcome.unwrap_or(RoundOutcome::Failed), trial_size(part).unwrap_or_default());
            seen.push(LandingTrial { count, outcome, is_rejected_by_gates: self.was_rejected_by_gates(part).await? });
        }
        let newest = self.engine.git.head(&self.repo, self.spec.base.as_deref()).await?;
        let is_tried = seen.iter().any(|trial| trial.count == 0);
        if !is_tried && (newest.commit.as_str() == self.row.base || self.base_trial(items, &self.spec)?.is_none()) {
            seen.push(LandingTrial { count: 0, outcome: RoundOutcome::NothingToDo, is_rejected_by_gates: false });
        }
        Ok(seen)
    }

    /// The gates that rejected base in the trial of it.
    async fn red_gates_of_base(&self, trials: &[usize]) -> Result<String, EngineError> {
        let tried = trials.iter().map(|at| &self.parts[*at]).rfind(|part| trial_size(part) == Some(0));
        let Some(round) = tried.and_then(|part| part.round.as_deref()) else { return Ok(String::new()) };
        let round = self.engine.load_round(round).await?.round;
        let red = round.facts().baseline.iter().filter(|gate| !gate.is_passed());
        let names: Vec<String> = red.map(|gate| format!("gate `{}`", gate.name)).collect();
        let base = round.facts().base.as_deref().and_then(|base| base.get(..12)).unwrap_or_default().to_owned();
        Ok(format!("{} on {base}", names.join(", ")))
    }

    /// The loop that runs the gates of these items on base alone, with everything else as the given loop has it.
    fn base_trial(&self, items: &[usize], whole: &LoopSpec) -> Result<Option<LoopSpec>, EngineError> {
        let goals = match self.workflow.goals.is_empty() {
            true => Vec::new(),
            false => items.iter().map(|at| self.goal_of(&self.parts[*at])).collect::<Result<Vec<_>, _>>()?,
        };
        let proofs = goals.iter().flat_map(|goal| &goal.criteria).filter_map(|criterion| match &criterion.proof {
            CriterionProof::Gate(name) => Some(name.as_str()),
            _ => None,
        });
        let mut landing = whole.clone();
        if !goals.is_empty() {
            let specs: Vec<_> = goals.iter().map(|goal| goal.spec.spec()).collect();
            let joined = landing_spec(&self.spec, &specs, SpendAllowance::default());
            landing.gates = joined.map_err(|error| EngineError::not_runnable(&self.spec.name, &[error]))?.gates;
        }
        Ok(base_trial_spec(&landing, &proofs.collect::<Vec<_>>()))
    }

    async fn was_rejected_by_gates(&self, part: &WorkflowPartRow) -> Result<bool, EngineError> {
        match (part.outcome, part.round.as_deref()) {
            (Some(RoundOutcome::Rejected | RoundOutcome::Plateaued), Some(round)) => {
                Ok(is_rejected_by_gates(self.engine.load_round(round).await?.round.facts()))
            }
            _ => Ok(false),
        }
    }

    fn failed_items(&self) -> usize {
        self.parts.iter().filter(|part| part.part == WorkflowPart::Item && part.state == PartState::Failed).count()
    }

    /// The items with a change that has passed, in their order.
    fn passed_items(&self) -> Vec<usize> {
        let passed = |at: &usize| {
            let part = &self.parts[*at];
            part.part == WorkflowPart::Item && part.state == PartState::Done && part.sealed.is_some()
        };
        (0..self.parts.len()).filter(passed).collect()
    }

    /// The items whose changes land, in their order. Of variants, it is the one with the best score.
    async fn landing_items(&self) -> Result<Vec<usize>, EngineError> {
        let items = self.passed_items();
        if self.workflow.join != ItemJoin::Best {
            return Ok(items);
        }
        let mut ranks = Vec::new();
        for at in &items {
            let round = self.parts[*at].round.as_deref().unwrap_or_default();
            let round = self.engine.load_round(round).await?.round;
            let none = Attempt::default();
            ranks.push(AttemptRank::of(&round.facts().started.spec, round.facts().attempt().unwrap_or(&none)));
        }
        Ok(AttemptRank::best_score(&ranks).map(|best| items[best]).into_iter().collect())
    }

    /// Records a new merge part: for all items, or for the first ones. An item that is set aside is recorded with it, so
    /// that a crash between the two cannot confuse the search.
    async fn add_merge(
        &mut self,
        trial: Option<usize>,
        aside: Option<(usize, WorkflowPartRow)>,
    ) -> Result<usize, EngineError> {
        let position = self.parts.iter().map(|part| part.position).max().unwrap_or(-1) + 1;
        let key = trial.map(|count| format!("the first {count}")).unwrap_or_default();
        let none = ProbeItem { key, title: None, data: trial.map(|count| count.to_string()), chain: 0 };
        let part = new_part(&self.row.id, position, WorkflowPart::Merge, none);
        let mut changes = vec![RowChange::Workflows(WorkflowChange::NewPart(part.clone()))];
        changes.extend(aside.iter().map(|(_, aside)| RowChange::Workflows(WorkflowChange::Part(aside.clone()))));
        self.engine.write_rows(changes).await?;
        if let Some((at, aside)) = aside {
            self.parts[at] = aside;
        }
        self.parts.push(part);
        Ok(self.parts.len() - 1)
    }

    async fn run_merge(&self, part: &WorkflowPartRow) -> Result<loopwright_core::round::Round, EngineError> {
        let trial = trial_size(part);
        let items: Vec<usize> = self.landing_items().await?.into_iter().take(trial.unwrap_or(usize::MAX)).collect();
        let spec = match trial {
            Some(0) => {
                let all = self.landing_items().await?;
                let landing = self.landing_loop(&all, self.share_of(part))?;
                let landing = landing.map_err(|problems| EngineError::not_runnable(&self.spec.name, &[problems]))?;
                let trial = self.base_trial(&all, landing.spec())?;
                trial.ok_or_else(|| EngineError::Stale("no gate is left to try base with".to_owned()))?.check()
            }
            _ => self.landing_loop(&items, self.share_of(part))?,
        };
        let spec = spec.map_err(|problems| EngineError::not_runnable(&self.spec.name, &[problems]))?;
        let round = part.round.clone().unwrap_or_default();
        if self.spec.level == LoopLevel::L1Report {
            let reports = self.reports().await?;
            return self.part_run(part, spec, vec![reports])?.perform().await;
        }
        let spaces = self.engine.workspaces(self.repo.clone()).await?;
        // A round that continues keeps its commit, although base may have moved.
        let known = spaces.engine().resolve(&format!("refs/loopwright/{round}/merged")).await?;
        let merged = match known {
            Some(merged) => merged,
            None => match self.merged_commit(&items).await? {
                (merged, conflicts) if conflicts.is_empty() => merged,
                _ => return Err(EngineError::Stale("base has moved since the items were merged".to_owned())),
            },
        };
        spaces.engine().set_round_ref(&round, "merged", &merged).await?;
        let origin = RebaseOrigin {
            round: self.row.id.clone(),
            branch: format!("loop/{}/{round}", self.spec.name),
            commit: merged.to_string(),
            items: vec![merged_request(&self.spec, &self.lines(&items))],
        };
        let run = self.part_run(part, spec, Vec::new())?.with(|request| {
            request.rebase = Some(origin);
            // A round of the search sends nothing.
            request.dry_run |= trial.is_some();
        });
        run.perform().await
    }

    /// The loop that verifies the changes of these items.
    fn landing_loop(
        &self,
        items: &[usize],
        share: SpendAllowance,
    ) -> Result<Result<CheckedSpec, SpecProblems>, EngineError> {
        if self.workflow.goals.is_empty() {
            return Ok(merge_spec(&self.spec, share));
        }
        let goals = items.iter().map(|at| self.goal_of(&self.parts[*at])).collect::<Result<Vec<_>, _>>()?;
        let specs: Vec<_> = goals.iter().map(|goal| goal.spec.spec()).collect();
        let landing = landing_spec(&self.spec, &specs, share);
        Ok(landing.map_err(|error| EngineError::not_runnable(&self.spec.name, &[error]))?.check())
    }

    /// Marks items whose changes conflict as failed. Returns false if the workflow has ended by that, or has no change.
    async fn set_conflicts_aside(&mut self) -> Result<bool, EngineError> {
        if self.spec.level == LoopLevel::L1Report {
            return Ok(true);
        }
        if self.parts.iter().all(|part| part.sealed.is_none()) {
            self.end(RoundOutcome::Empty, "no item changed a file").await?;
            return Ok(false);
        }
        for (at, paths) in self.merged_commit(&self.landing_items().await?).await?.1 {
            let text = format!("conflicts with base or an earlier item in {}", paths.join(", "));
            self.write_part(at, set_aside(&self.parts[at], &text)).await?;
        }
        let is_best = self.workflow.join == ItemJoin::Best;
        if !is_best && self.failed_items() > usize::try_from(self.workflow.may_fail).unwrap_or(usize::MAX) {
            self.end(RoundOutcome::Rejected, "the changes of items conflict, and more failed than may fail").await?;
            return Ok(false);
        }
        Ok(!self.passed_items().is_empty())
    }

    /// The changes of these items on the newest base, in their order, and the items that conflict.
    async fn merged_commit(&self, items: &[usize]) -> Result<(Oid, Vec<(usize, Vec<String>)>), EngineError> {
        let spaces = self.engine.workspaces(self.repo.clone()).await?;
        let newest = self.engine.git.head(&self.repo, self.spec.base.as_deref()).await?;
        spaces.import(&newest.commit).await?;
        let objects = spaces.engine();
        let mut head = newest.commit;
        let mut conflicts = Vec::new();
        for at in items {
            let part = &self.parts[*at];
            let sealed = objects.resolve(part.sealed.as_deref().unwrap_or_default()).await?;
            let sealed = sealed.ok_or_else(|| EngineError::WorkGone(self.row.id.clone()))?;
            match objects.merge(&head, &sealed).await? {
                MergedTree::Clean(tree) => head = objects.commit(&tree, &head, &self.words(part)).await?,
                MergedTree::Conflict(paths) => conflicts.push((*at, paths)),
            }
        }
        Ok((head, conflicts))
    }

    fn words(&self, part: &WorkflowPartRow) -> CommitMetadata {
        let identity = &self.engine.settings.identity;
        CommitMetadata {
            message: format!("Item {} of workflow {}\n", part.position, self.row.id),
            name: identity.name.clone(),
            email: identity.email.clone(),
            at_unix: self.row.started_ms.div_euclid(1000),
        }
    }

    /// A line for each item of the merged change.
    fn lines(&self, items: &[usize]) -> Vec<String> {
        let joined = items.iter().map(|at| &self.parts[*at]);
        joined.map(|part| format!("{} (round {})", part.item, part.round.as_deref().unwrap_or("-"))).collect()
    }

    /// The reports of all items, as the one item of the merge.
    async fn reports(&self) -> Result<ProbeItem, EngineError> {
        let mut data = String::new();
        let items: Vec<_> = self.parts.iter().filter(|part| part.part == WorkflowPart::Item).collect();
        for part in &items {
            let text = match (part.state, part.round.as_deref()) {
                (PartState::Done, Some(round)) => report_text(&self.engine.load_round(round).await?.round),
                _ => format!("no report: {}", part.note),
            };
            let text: String = text.chars().take(REPORT_MAX).collect();
            data.push_str(&format!("## {}\n\n{}\n\n", part.item, text.trim()));
        }
        let data: String = data.chars().take(REPORTS_MAX).collect();
        let title = Some(format!("the reports of {} items", items.len()));
        Ok(ProbeItem { key: format!("summary:{}", self.row.id), title, data: Some(data), chain: 0 })
    }
}

/// How many items a round of the search covers; `None` for a landing of all.
fn trial_size(part: &WorkflowPartRow) -> Option<usize> {
    part.data.as_deref().and_then(|count| count.parse().ok())
}

/// An item whose change does not land. The commit stays on the ref of its round.
fn set_aside(part: &WorkflowPartRow, why: &str) -> WorkflowPartRow {
    let why: String = why.chars().take(WHY_MAX).collect();
    let kept = part.round.as_deref().map(|round| format!("; its work is kept: loopwright take {round}"));
    let (state, sealed, version) = (PartState::Failed, None, part.version + 1);
    WorkflowPartRow {
        state,
        sealed,
        version,
        note: note(&format!("{why}{}", kept.unwrap_or_default())),
        ..part.clone()
    }
}
