//! Dynamic workflows: performs what `core::workflow` decides. Every part of a workflow is an ordinary round with its
//! own journal, lease, budget and gates. The store has the id of a part's round before the round starts, so after a
//! crash the part continues with that round, and a part that has ended is never done again.

mod item_source;
mod merge;
mod part_run;
mod workflow_report;

pub use workflow_report::{PartReport, WorkflowReport};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::git::UserRepo;
use crate::lease;
use crate::proc::CancelToken;
use crate::round::{LoopBindings, new_round_id};
use crate::store::{
    LeaseNeeds, LeaseRequest, RowChange, StoreError, StoreErrorKind, WorkflowChange, WorkflowPartRow, WorkflowRow,
    WorkflowState,
};
use item_source::goal_item;
use loopwright_core::budget::{Reservation, SpendAllowance};
use loopwright_core::goal::{GoalContract, read_goal_file};
use loopwright_core::name::RoundId;
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::round::{ProbeItem, Round};
use loopwright_core::spec::{CheckedSpec, ItemJoin, LoopSpec, SpecProblems, WorkflowSpec};
use loopwright_core::units::Usd;
use loopwright_core::workflow::{
    INTERRUPTIONS_MAX, PartProgress, PartState, PartVerdict, WorkflowMove, WorkflowPart, WorkflowProgress,
    goal_item_spec, item_spec, judge_part, may_try_again, next_moves, reserved_for,
};
use std::path::PathBuf;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// The most characters of a remark about a part.
const NOTE_MAX: usize = 400;
/// The name of a workflow's lease is this and its id.
const LEASE_PREFIX: &str = "workflow-";

/// A request for a workflow. An open workflow of the same loop continues instead, as it was started.
#[derive(Debug, Clone)]
pub struct WorkflowRequest {
    /// The loop.
    pub spec: CheckedSpec,
    /// The repository, or a folder inside it.
    pub repo: PathBuf,
    /// The person or program that asks.
    pub actor: String,
    /// The id of a new workflow, if the caller has chosen it.
    pub id: Option<RoundId>,
    /// Whether nothing is sent.
    pub dry_run: bool,
    /// The contracts of a group of goals, each with its file. A loop that finds its items itself has none here.
    pub goals: Vec<(String, String)>,
}

/// An event of a workflow, for a display.
#[derive(Debug)]
pub enum WorkflowNews<'n> {
    /// It starts, or continues.
    Begun(&'n WorkflowRow),
    /// Its items are known.
    Listed(usize),
    /// The round of a part has ended.
    PartEnded(&'n WorkflowPartRow),
}

/// Receives the news.
pub type NewsSink<'s> = &'s mut (dyn FnMut(WorkflowNews<'_>) + Send);

/// Runs a workflow until it ends, or until it is stopped or a provider blocks it; then the next call continues.
///
/// # Errors
/// When another process runs it, or the record cannot be read or written. A failure of an item is an outcome.
pub async fn run_workflow(
    engine: &Engine,
    request: WorkflowRequest,
    bind: &LoopBindings,
    cancel: &CancelToken,
    tell: NewsSink<'_>,
) -> Result<WorkflowReport, EngineError> {
    let repo = engine.git.discover(&request.repo).await?;
    let row = match engine.store.open_workflow(&repo.id, &request.spec.name).await? {
        Some(row) => row,
        None => begin(engine, &repo, &request).await?,
    };
    let name = lease_name(&row.id);
    let (of_repo, loop_name) = (row.repo.clone(), row.loop_name.clone());
    let wanted = LeaseRequest { name: name.clone(), repo: of_repo, loop_name, needs: LeaseNeeds::Nothing };
    lease::take(engine, wanted).await.map_err(|error| lease::occupied(error, &row.loop_name))?;
    let driven = Box::pin(drive_leased(engine, repo, row, bind, cancel, tell)).await;
    lease::give_back(engine, &name).await;
    driven
}

/// The name of the lease that the process of a workflow holds.
#[must_use]
pub fn lease_name(workflow: &str) -> String {
    format!("{LEASE_PREFIX}{workflow}")
}

/// The workflow whose lease has this name.
#[must_use]
pub fn leased_workflow(lease: &str) -> Option<&str> {
    lease.strip_prefix(LEASE_PREFIX)
}

/// Ends an open workflow. A process that runs it starts nothing more; its running rounds end by themselves.
///
/// # Errors
/// When there is no such workflow, or it has ended.
pub async fn end_workflow(engine: &Engine, id: &str, why: &str) -> Result<WorkflowReport, EngineError> {
    let row = engine.store.workflow(id).await?.ok_or_else(|| EngineError::Unknown(id.to_owned()))?;
    if row.state == WorkflowState::Ended {
        return Err(EngineError::Stale(format!("workflow `{}` has ended", row.id)));
    }
    let row = ended(row, RoundOutcome::Cancelled, why, engine.now_ms());
    engine.write_rows(vec![RowChange::Workflows(WorkflowChange::Row(row.clone()))]).await?;
    WorkflowReport::read(&engine.store, row).await
}

/// Records a new workflow.
async fn begin(engine: &Engine, repo: &UserRepo, request: &WorkflowRequest) -> Result<WorkflowRow, EngineError> {
    let head = engine.git.head(repo, request.spec.base.as_deref()).await?;
    let id = match &request.id {
        Some(chosen) => chosen.clone(),
        None => new_round_id()?,
    };
    let spec = serde_json::to_string(request.spec.spec()).expect("a spec is data that JSON can hold");
    let row = WorkflowRow {
        id: id.to_string(),
        repo: repo.id.clone(),
        repo_path: repo.work_tree.to_string_lossy().into_owned(),
        loop_name: request.spec.name.clone(),
        spec,
        spec_hash: request.spec.hash().to_owned(),
        base: head.commit.to_string(),
        actor: request.actor.clone(),
        dry_run: i64::from(request.dry_run),
        state: if request.goals.is_empty() { WorkflowState::Listing } else { WorkflowState::Running },
        outcome: None,
        why: String::new(),
        used_ms: 0,
        started_ms: engine.now_ms(),
        ended_ms: None,
        version: 0,
    };
    let mut changes = vec![RowChange::Workflows(WorkflowChange::New(row.clone()))];
    for (position, (file, text)) in (0_i64..).zip(&request.goals) {
        let goal = read_goal_file(file, text.as_bytes())
            .map_err(|problems| EngineError::not_runnable(&request.spec.name, &[problems]))?;
        let part = new_part(&row.id, position, WorkflowPart::Item, goal_item(file, &goal, text.clone()));
        changes.push(RowChange::Workflows(WorkflowChange::NewPart(part)));
    }
    engine.write_rows(changes).await?;
    Ok(row)
}

fn ended(row: WorkflowRow, outcome: RoundOutcome, why: &str, now_ms: i64) -> WorkflowRow {
    let (state, why, version) = (WorkflowState::Ended, note(why), row.version + 1);
    WorkflowRow { state, outcome: Some(outcome), why, ended_ms: Some(now_ms), version, ..row }
}

/// Runs a leased workflow; its rounds stop with it, whatever ends it.
async fn drive_leased(
    engine: &Engine,
    repo: UserRepo,
    row: WorkflowRow,
    bind: &LoopBindings,
    cancel: &CancelToken,
    tell: NewsSink<'_>,
) -> Result<WorkflowReport, EngineError> {
    // Another process may have worked on it until now.
    let row = engine.store.workflow(&row.id).await?.ok_or_else(|| EngineError::Unknown(row.id.clone()))?;
    tell(WorkflowNews::Begun(&row));
    let spec: LoopSpec = serde_json::from_str(&row.spec)
        .map_err(|error| EngineError::Unreadable { round: row.id.clone(), why: error.to_string() })?;
    let parts = engine.store.workflow_parts(&row.id).await?;
    let workflow = spec.workflow.clone().unwrap_or_default();
    let (engine, bind, cancel) = (engine.clone(), bind.clone(), cancel.clone());
    let mut driver =
        WorkflowDriver { engine, bind, cancel, repo, row, spec, workflow, parts, seen: Instant::now(), halted: None };
    let mut rounds = JoinSet::new();
    let driven = driver.drive(&mut rounds, tell).await;
    if driven.is_err() {
        driver.cancel.cancel();
        while rounds.join_next().await.is_some() {}
    }
    driven?;
    let halted = driver.halted;
    let report = WorkflowReport::read(&driver.engine.store, driver.row).await?;
    Ok(WorkflowReport {
        outcome: halted.filter(|_| report.state != WorkflowState::Ended.word()).or(report.outcome),
        ..report
    })
}

/// A running workflow.
struct WorkflowDriver {
    engine: Engine,
    bind: LoopBindings,
    cancel: CancelToken,
    repo: UserRepo,
    row: WorkflowRow,
    spec: LoopSpec,
    workflow: WorkflowSpec,
    /// All parts, in order.
    parts: Vec<WorkflowPartRow>,
    /// Until when the time of this process is on record.
    seen: Instant,
    /// Why nothing more starts in this process although the workflow has not ended.
    halted: Option<RoundOutcome>,
}

/// The rounds of parts that run, with the number of the part in the list.
type PartRounds = JoinSet<(usize, Result<Round, EngineError>)>;

impl WorkflowDriver {
    async fn drive(&mut self, rounds: &mut PartRounds, tell: NewsSink<'_>) -> Result<(), EngineError> {
        if self.engine.store.is_paused_workflow(&self.row.id).await? {
            self.halted = Some(RoundOutcome::Escalated);
            return Ok(());
        }
        if self.row.state == WorkflowState::Listing && !self.list_items(tell).await? {
            return Ok(());
        }
        for at in self.running_items() {
            self.launch(rounds, at)?;
        }
        while self.row.state != WorkflowState::Ended {
            if self.halted.is_none() && self.cancel.is_cancelled() {
                self.halted = Some(RoundOutcome::Interrupted);
            }
            if self.halted.is_none() && self.engine.store.is_paused_workflow(&self.row.id).await? {
                self.halted = Some(RoundOutcome::Escalated);
            }
            if self.halted.is_none() {
                self.perform_moves(rounds, tell).await?;
            }
            match rounds.join_next().await {
                Some(Ok((at, result))) => self.settle(at, result, tell).await?,
                Some(Err(panicked)) => return Err(EngineError::Daemon(format!("a round ended early: {panicked}"))),
                None if self.halted.is_some() => return Ok(()),
                None => {}
            }
        }
        // A person has ended it: its running rounds end by themselves, and their ends are recorded.
        while let Some(ended) = rounds.join_next().await {
            let (at, result) =
                ended.map_err(|panicked| EngineError::Daemon(format!("a round ended early: {panicked}")))?;
            self.settle(at, result, tell).await?;
        }
        Ok(())
    }

    fn running_items(&self) -> Vec<usize> {
        let is_running = |part: &WorkflowPartRow| part.part == WorkflowPart::Item && part.state == PartState::Running;
        self.parts.iter().enumerate().filter(|(_, part)| is_running(part)).map(|(at, _)| at).collect()
    }

    /// Performs the next steps.
    async fn perform_moves(&mut self, rounds: &mut PartRounds, tell: NewsSink<'_>) -> Result<(), EngineError> {
        for step in next_moves(&self.workflow, &self.spec.budget, &self.progress()) {
            match step {
                WorkflowMove::Start { position, share } => {
                    let at = self.item_at(position);
                    self.reserve(at, share).await?;
                    self.launch(rounds, at)?;
                }
                WorkflowMove::Wait => {}
                WorkflowMove::Merge { share } => self.merge(share, tell).await?,
                WorkflowMove::End { outcome, why } => self.end(outcome, why).await?,
            }
        }
        Ok(())
    }

    fn progress(&self) -> WorkflowProgress {
        let overhead = self.parts.iter().filter(|part| part.part != WorkflowPart::Item).map(spent_by);
        let late = self.spec.timeout.is_some_and(|most| {
            let used = i64::try_from(self.seen.elapsed().as_millis()).unwrap_or(i64::MAX);
            i128::from(self.row.used_ms.saturating_add(used))
                >= i128::try_from(most.duration().as_millis()).unwrap_or(i128::MAX)
        });
        WorkflowProgress {
            items: self.parts.iter().filter(|part| part.part == WorkflowPart::Item).map(progress_of).collect(),
            overhead: overhead.fold(Reservation::default(), Reservation::plus),
            is_late: late,
        }
    }

    /// The place in the list of the item with this position.
    fn item_at(&self, position: usize) -> usize {
        let mut items = self.parts.iter().enumerate().filter(|(_, part)| part.part == WorkflowPart::Item);
        items.nth(position).map_or(usize::MAX, |(at, _)| at)
    }

    /// Gives the part a round and a share of the budget: durable before the round starts.
    async fn reserve(&mut self, at: usize, share: SpendAllowance) -> Result<(), EngineError> {
        let reserved = reserved_for(share);
        let round = new_round_id()?.to_string();
        let part = &self.parts[at];
        let part = WorkflowPartRow {
            state: PartState::Running,
            round: Some(round),
            reserved_micros: amount(reserved.usd.0),
            reserved_tokens: amount(reserved.tokens),
            version: part.version + 1,
            ..part.clone()
        };
        self.write_part(at, part).await
    }

    async fn write_part(&mut self, at: usize, part: WorkflowPartRow) -> Result<(), EngineError> {
        self.engine.write_rows(vec![RowChange::Workflows(WorkflowChange::Part(part.clone()))]).await?;
        self.parts[at] = part;
        Ok(())
    }

    /// Starts the round of an item in a task, or continues with it.
    fn launch(&self, rounds: &mut PartRounds, at: usize) -> Result<(), EngineError> {
        let part = &self.parts[at];
        let no = |problems: SpecProblems| EngineError::not_runnable(&self.spec.name, &[problems]);
        let run = if self.workflow.goals.is_empty() {
            let spec = item_spec(&self.spec, self.share_of(part), &self.row.base).map_err(no)?;
            self.part_run(part, spec, vec![probe_item(part)])?
        } else {
            let goal = self.goal_of(part)?;
            let spec = goal_item_spec(&self.spec, &goal.spec, self.share_of(part), &self.row.base).map_err(no)?;
            self.part_run(part, spec, Vec::new())?.with(|request| request.goal = Some(goal.origin(&part.item)))
        };
        rounds.spawn(async move { (at, run.perform().await) });
        Ok(())
    }

    /// The contract of an item, as it was recorded.
    fn goal_of(&self, part: &WorkflowPartRow) -> Result<GoalContract, EngineError> {
        read_goal_file(&part.item, part.data.as_deref().unwrap_or_default().as_bytes())
            .map_err(|problems| EngineError::not_runnable(&self.spec.name, &[problems]))
    }

    /// The share that the running round of a part has.
    fn share_of(&self, part: &WorkflowPartRow) -> SpendAllowance {
        let whole = self.spec.budget.round.allowance();
        SpendAllowance {
            usd: whole.usd.or(self.spec.budget.item.usd).map(|_| Usd(unsigned(part.reserved_micros))),
            tokens: whole.tokens.or(self.spec.budget.item.tokens).map(|_| unsigned(part.reserved_tokens)),
        }
    }

    /// Records the end of a part's round.
    async fn settle(
        &mut self,
        at: usize,
        result: Result<Round, EngineError>,
        tell: NewsSink<'_>,
    ) -> Result<(), EngineError> {
        let part = self.parts[at].clone();
        let settled = match result {
            Err(error @ EngineError::Store(_)) => return Err(error),
            Err(error) => {
                let part = self.charged(part).await?;
                self.judged(WorkflowPartRow { note: note(&error.to_string()), ..part }, RoundOutcome::Failed)
            }
            Ok(round) => match self.read_end(part, &round).await? {
                Some(settled) => settled,
                None => return Ok(()),
            },
        };
        self.write_part(at, settled).await?;
        tell(WorkflowNews::PartEnded(&self.parts[at]));
        self.record_time().await
    }

    /// The part after an error: the cost of a round that began is unknown, so it has cost its whole share.
    async fn charged(&self, part: WorkflowPartRow) -> Result<WorkflowPartRow, EngineError> {
        let began = match part.round.as_deref() {
            Some(round) => self.engine.store.round(round).await?.is_some(),
            None => false,
        };
        if !began {
            return Ok(part);
        }
        Ok(WorkflowPartRow {
            spent_micros: part.spent_micros.saturating_add(part.reserved_micros),
            spent_tokens: part.spent_tokens.saturating_add(part.reserved_tokens),
            ..part
        })
    }

    /// The part after the end of its round; `None` if the round continues later.
    async fn read_end(&mut self, part: WorkflowPartRow, round: &Round) -> Result<Option<WorkflowPartRow>, EngineError> {
        let outcome = round.outcome().unwrap_or(RoundOutcome::Failed);
        if part_run::is_blocked(round) {
            self.halted = Some(outcome);
            return Ok(None);
        }
        if part_run::is_suspended(round) {
            // Its share is used up, and no person raises it: the work is dropped.
            self.engine.expire_round(&round.facts().started.round, &self.bind).await?;
        }
        let facts = round.facts();
        let cost = facts.spend.amount();
        let sealed = facts.attempt().filter(|attempt| attempt.has_change()).and_then(|attempt| attempt.commit.clone());
        let score = facts.attempt().and_then(|attempt| attempt.gates.iter().find_map(|gate| gate.score));
        let why = match score.filter(|_| self.workflow.join == ItemJoin::Best) {
            Some(score) => format!("score {score}"),
            None => facts.reasons.last().map(|reason| note(&reason.text)).unwrap_or_default(),
        };
        let part = WorkflowPartRow {
            spent_micros: part.spent_micros.saturating_add(amount(cost.usd.0)),
            spent_tokens: part.spent_tokens.saturating_add(amount(cost.tokens)),
            sealed,
            note: why,
            ..part
        };
        Ok(Some(self.judged(part, outcome)))
    }

    /// The part with the state that the outcome leads to.
    fn judged(&self, part: WorkflowPartRow, outcome: RoundOutcome) -> WorkflowPartRow {
        let (mut tries, mut interruptions) = (part.tries, part.interruptions);
        let may_retry = part.part != WorkflowPart::Item || may_try_again(&self.spec.budget, spent_by(&part));
        let verdict = judge_part(outcome, self.workflow.join, part.part);
        let state = match verdict {
            PartVerdict::Done => PartState::Done,
            PartVerdict::Failed => PartState::Failed,
            PartVerdict::Interrupted => {
                interruptions += 1;
                if may_retry && interruptions < i64::from(INTERRUPTIONS_MAX) {
                    PartState::Queued
                } else {
                    PartState::Failed
                }
            }
            PartVerdict::Missed => {
                tries += 1;
                if may_retry && tries < i64::from(self.workflow.tries) { PartState::Queued } else { PartState::Failed }
            }
        };
        let is_used_up = !may_retry && matches!(verdict, PartVerdict::Interrupted | PartVerdict::Missed);
        let note =
            if is_used_up { note(&format!("{}; `budget.item` is used up", part.note)) } else { part.note.clone() };
        let sealed = part.sealed.clone().filter(|_| state == PartState::Done);
        let (reserved_micros, reserved_tokens, version) = (0, 0, part.version + 1);
        let outcome = Some(outcome);
        WorkflowPartRow {
            state,
            tries,
            interruptions,
            outcome,
            sealed,
            note,
            reserved_micros,
            reserved_tokens,
            version,
            ..part
        }
    }

    /// Records the time that this process has worked. If a person has ended the workflow meanwhile, nothing more starts.
    async fn record_time(&mut self) -> Result<(), EngineError> {
        let used = i64::try_from(self.seen.elapsed().as_millis()).unwrap_or(i64::MAX);
        let used_ms = self.row.used_ms.saturating_add(used);
        let row = WorkflowRow { used_ms, version: self.row.version + 1, ..self.row.clone() };
        self.seen = Instant::now();
        self.write_row(row).await
    }

    async fn end(&mut self, outcome: RoundOutcome, why: &str) -> Result<(), EngineError> {
        let row = ended(self.row.clone(), outcome, why, self.engine.now_ms());
        self.write_row(row).await
    }

    /// Writes the workflow's row. A person may have ended it: then its record is what counts.
    async fn write_row(&mut self, row: WorkflowRow) -> Result<(), EngineError> {
        match self.engine.write_rows(vec![RowChange::Workflows(WorkflowChange::Row(row.clone()))]).await {
            Ok(()) => self.row = row,
            Err(EngineError::Store(StoreError { kind: StoreErrorKind::Conflict(_), .. })) => {
                let now = self.engine.store.workflow(&row.id).await?;
                self.row = now
                    .filter(|now| now.state == WorkflowState::Ended)
                    .ok_or_else(|| EngineError::Stale(format!("another process has changed workflow `{}`", row.id)))?;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

fn probe_item(part: &WorkflowPartRow) -> ProbeItem {
    ProbeItem { key: part.item.clone(), title: part.title.clone(), data: part.data.clone(), chain: 0 }
}

fn spent_by(part: &WorkflowPartRow) -> Reservation {
    Reservation { usd: Usd(unsigned(part.spent_micros)), tokens: unsigned(part.spent_tokens) }
}

fn progress_of(part: &WorkflowPartRow) -> PartProgress {
    let reserved = Reservation { usd: Usd(unsigned(part.reserved_micros)), tokens: unsigned(part.reserved_tokens) };
    PartProgress { state: part.state, reserved, spent: spent_by(part), outcome: part.outcome }
}

/// A new part.
fn new_part(workflow: &str, position: i64, part: WorkflowPart, item: ProbeItem) -> WorkflowPartRow {
    WorkflowPartRow {
        workflow: workflow.to_owned(),
        position,
        part,
        item: item.key,
        title: item.title,
        data: item.data,
        state: PartState::Queued,
        round: None,
        tries: 0,
        interruptions: 0,
        outcome: None,
        sealed: None,
        note: String::new(),
        reserved_micros: 0,
        reserved_tokens: 0,
        spent_micros: 0,
        spent_tokens: 0,
        version: 0,
    }
}

fn note(text: &str) -> String {
    text.chars().take(NOTE_MAX).collect()
}

fn amount(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn unsigned(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}
