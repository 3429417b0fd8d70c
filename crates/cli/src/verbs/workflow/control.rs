//! `attach`, `steer`, `pause`, `resume` and `stop` for a whole workflow. Words and pauses are requests to the workflow,
//! and each of its rounds applies them before its next agent starts.

use super::super::run::prepare_recorded;
use super::super::stop::{REST_TIMEOUT, elsewhere, interrupt_holder, look_again};
use super::super::{CommandContext, CommandError, CommandExit, VerbResult, safe, steer as requests};
use super::{ended_line, read, render, run_workflow};
use loopwright::store::{LeaseHolder, RoundRequestKind, Store, WorkflowRow, WorkflowState};
use loopwright::workflow::{WorkflowReport, lease_name};
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::workflow::PartState;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// How often a followed workflow is read.
const LOOKS: Duration = Duration::from_millis(200);
/// After so many looks without a process, nothing continues the workflow; a start takes less.
const ABANDONED_LOOKS: u32 = 10;

/// Prints each part when it ends, until the workflow has ended or no process runs it.
pub(in crate::verbs) async fn attach(cx: &CommandContext, store: &Store, id: &str) -> VerbResult {
    let (mut shown, mut abandoned) = (BTreeSet::new(), 0);
    let mut leaves = std::pin::pin!(tokio::signal::ctrl_c());
    let mut looks = tokio::time::interval(LOOKS);
    loop {
        for part in store.workflow_parts(id).await? {
            if matches!(part.state, PartState::Done | PartState::Failed) && shown.insert(part.position) {
                cx.out.note(&ended_line(&part));
            }
        }
        let report = read(store, id).await?;
        let has_ended = report.state == WorkflowState::Ended.word();
        abandoned = if is_running(store, id).await? { 0 } else { abandoned + 1 };
        if has_ended || abandoned > ABANDONED_LOOKS {
            cx.out.answer(&report, || format!("{}{}", render(&report, &cx.out), next_step(&report)));
            return Ok(CommandExit::from_outcome(report.outcome));
        }
        tokio::select! {
            _ = &mut leaves => {
                cx.out.note(&format!("the workflow continues; follow it again: loopwright attach {}", safe(id)));
                return Ok(CommandExit::DONE);
            }
            _ = looks.tick() => {}
        }
    }
}

/// The command that continues an open workflow.
fn next_step(report: &WorkflowReport) -> String {
    match report.outcome {
        Some(RoundOutcome::Escalated | RoundOutcome::Interrupted) if report.state != WorkflowState::Ended.word() => {
            format!("\nnext: loopwright resume {}", report.workflow)
        }
        Some(_) | None => String::new(),
    }
}

/// Adds words for the next agent of each round of the workflow, also of those that start later.
pub(in crate::verbs) async fn steer(cx: &CommandContext, row: &WorkflowRow, text: &str) -> VerbResult {
    ensure_open(row)?;
    requests::request(cx, &row.id, RoundRequestKind::Steer, text).await?;
    let document = json!({"schema": 1, "loop": row.loop_name, "workflow": row.id, "steered": true});
    Ok(cx.out.answer(&document, || format!("the next agents of workflow {} get these words", safe(&row.id))))
}

/// Nothing more of it starts, and its rounds pause before their next agents.
pub(in crate::verbs) async fn pause(cx: &CommandContext, row: &WorkflowRow, why: &str) -> VerbResult {
    ensure_open(row)?;
    requests::request(cx, &row.id, RoundRequestKind::Pause, why).await?;
    let document = json!({"schema": 1, "loop": row.loop_name, "workflow": row.id, "paused": true, "reason": why});
    Ok(cx.out.answer(&document, || {
        let id = safe(&row.id);
        format!("workflow {id} pauses before its next agents\nresume it with: loopwright resume {id}")
    }))
}

/// Withdraws a pause. If no process runs the workflow, this one continues it, as it was recorded.
pub(in crate::verbs) async fn resume(cx: &CommandContext, row: &WorkflowRow) -> VerbResult {
    ensure_open(row)?;
    let is_withdrawn = requests::withdraw_pause(cx, &row.id).await?;
    if is_running(cx.open_store_read_only().await?.as_ref(), &row.id).await? {
        let document = json!({"schema": 1, "loop": row.loop_name, "workflow": row.id, "paused": false});
        return Ok(cx.out.answer(&document, || match is_withdrawn {
            true => format!("workflow {0} does not pause; if it has paused, resume it again: {0}", safe(&row.id)),
            false => format!("workflow {} was not paused", safe(&row.id)),
        }));
    }
    let repo = cx.git().discover(Path::new(&row.repo_path)).await?;
    let (bind, request) = prepare_recorded(cx, &repo, row)?;
    Box::pin(run_workflow(cx, &repo, &bind, request, Vec::new())).await
}

/// Interrupts the process that runs the workflow. It stays open, and its work is kept.
pub(in crate::verbs) async fn stop(cx: &CommandContext, row: &WorkflowRow) -> VerbResult {
    ensure_open(row)?;
    let store = cx.open_store_read_only().await?;
    let Some(lease) = elsewhere(cx, &lease_name(&row.id)).await? else {
        return Err(CommandError::refused(format!("no process runs workflow {}", row.id))
            .hint(format!("to end it: loopwright workflow end {}", row.id)));
    };
    let parts = store.workflow_parts(&row.id).await?;
    let rounds: Vec<String> = parts.into_iter().filter_map(|part| part.round).collect();
    let pid = interrupt_holder(cx, &lease, &rounds).await?;
    cx.out.note(&format!("asked process {pid} to stop workflow {}", safe(&row.id)));
    let released = async {
        while is_running(&store, &row.id).await? {
            look_again().await;
        }
        Ok::<_, CommandError>(())
    };
    let is_stopped = tokio::time::timeout(REST_TIMEOUT, released).await.ok().transpose()?.is_some();
    let report = read(&store, &row.id).await?;
    let document = json!({
        "schema": 1, "loop": row.loop_name, "workflow": row.id, "stopped": is_stopped, "state": report.state,
    });
    cx.out.answer(&document, || {
        let id = safe(&row.id);
        match (is_stopped, report.state == WorkflowState::Ended.word()) {
            (false, _) => format!("workflow {id} was asked to stop and has not stopped yet"),
            (true, true) => format!("workflow {id} had ended before the stop took effect"),
            (true, false) => format!(
                "stopped: workflow {id} stays open\ncontinue it: loopwright resume {id}\n\
                 end it: loopwright workflow end {id}"
            ),
        }
    });
    Ok(if is_stopped { CommandExit::DONE } else { CommandExit::REFUSED })
}

async fn is_running(store: &Store, id: &str) -> Result<bool, CommandError> {
    let name = lease_name(id);
    Ok(store.leases().await?.iter().any(|lease| lease.name == name && lease.holder != LeaseHolder::Gone))
}

fn ensure_open(row: &WorkflowRow) -> Result<(), CommandError> {
    if row.state != WorkflowState::Ended {
        return Ok(());
    }
    Err(CommandError::refused(format!("workflow {} has ended", row.id))
        .hint(format!("see `loopwright workflow show {}`", row.id)))
}
