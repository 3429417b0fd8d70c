//! The report of a workflow: its parts, their results and what they cost, from the record.

use super::spent_by;
use crate::error::EngineError;
use crate::store::{Store, WorkflowPartRow, WorkflowRow, WorkflowState};
use loopwright_core::budget::Reservation;
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::units::Usd;
use loopwright_core::workflow::{PartState, WorkflowPart};
use serde::Serialize;

/// A part of a workflow, for people and programs.
#[derive(Debug, Clone, Serialize)]
pub struct PartReport {
    /// The item's key; empty for the plan and the merge.
    pub item: String,
    /// The part.
    pub part: WorkflowPart,
    /// Its state.
    pub state: PartState,
    /// Its last round.
    pub round: Option<String>,
    /// The outcome of that round.
    pub outcome: Option<RoundOutcome>,
    /// How many tries had no result.
    pub tries: i64,
    /// How many of its rounds were interrupted.
    pub interruptions: i64,
    /// Its cost.
    pub usd: Usd,
    /// Its tokens.
    pub tokens: u64,
    /// Why it has no result, or a remark.
    pub note: String,
}

/// A workflow and its parts.
#[derive(Debug, Clone, Serialize)]
pub struct WorkflowReport {
    /// The version of this document.
    pub schema: u32,
    /// The workflow's id.
    pub workflow: String,
    /// The loop.
    pub r#loop: String,
    /// `listing`, `running` or `ended`.
    pub state: &'static str,
    /// How it ended.
    pub outcome: Option<RoundOutcome>,
    /// Why.
    pub why: String,
    /// The commit that its items start from.
    pub base: String,
    /// How many items have a result.
    pub done: usize,
    /// How many items failed.
    pub failed: usize,
    /// How many items are queued or running.
    pub open: usize,
    /// Its cost.
    pub usd: Usd,
    /// Its tokens.
    pub tokens: u64,
    /// Its parts, in order.
    pub parts: Vec<PartReport>,
}

impl WorkflowReport {
    /// Reads the report of a workflow.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn read(store: &Store, row: WorkflowRow) -> Result<Self, EngineError> {
        let parts = store.workflow_parts(&row.id).await?;
        let items = || parts.iter().filter(|part| part.part == WorkflowPart::Item);
        let count = |state: PartState| items().filter(|part| part.state == state).count();
        let cost = parts.iter().map(spent_by).fold(Reservation::default(), Reservation::plus);
        // An open workflow of a process that was stopped continues with the next call.
        let halted = match store.is_paused_workflow(&row.id).await? {
            true => RoundOutcome::Escalated,
            false => RoundOutcome::Interrupted,
        };
        Ok(Self {
            schema: 1,
            state: row.state.word(),
            outcome: row.outcome.or((row.state != WorkflowState::Ended).then_some(halted)),
            why: row.why,
            base: row.base,
            done: count(PartState::Done),
            failed: count(PartState::Failed),
            open: count(PartState::Queued) + count(PartState::Running),
            usd: cost.usd,
            tokens: cost.tokens,
            parts: parts.iter().map(part_report).collect(),
            workflow: row.id,
            r#loop: row.loop_name,
        })
    }
}

fn part_report(part: &WorkflowPartRow) -> PartReport {
    let cost = spent_by(part);
    PartReport {
        item: part.item.clone(),
        part: part.part,
        state: part.state,
        round: part.round.clone(),
        outcome: part.outcome,
        tries: part.tries,
        interruptions: part.interruptions,
        usd: cost.usd,
        tokens: cost.tokens,
        note: part.note.clone(),
    }
}
