//! `retry`: resumes a suspended round, finishes one that a dead process left, and sends the items of a blocked one again;
//! after any other end, starts another round like it, with the loop as its file is now and the same item.

use super::goal::prepare_again;
use super::run::{prepare_manual_run, report_round, run_round};
use super::{CommandContext, CommandError, VerbResult, safe};
use crate::progress::ProgressDisplay;
use crate::signals::CurrentRound;
use crate::view::find;
use crate::view::rounds::RoundRecord;
use loopwright::round::RunRequest;
use loopwright::store::RoundRow;
use loopwright::{Engine, EngineError};
use loopwright_core::budget::Reservation;
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::round::RoundPhase;
use std::path::Path;
use std::sync::Arc;

#[derive(Debug, clap::Args)]
pub(crate) struct RetryArgs {
    /// The id of the round, or its first characters
    #[arg(value_name = "ROUND")]
    pub(crate) id: String,
}

pub(crate) async fn run(args: RetryArgs, cx: &CommandContext) -> VerbResult {
    let row = find::find_round(cx.open_store_read_only().await?.as_ref(), &args.id).await?;
    if row.phase == RoundPhase::Waiting && is_blocked(cx, &row).await? {
        return send_again(cx, &row).await;
    }
    if row.phase == RoundPhase::Waiting {
        let text = format!("round {} waits for an answer; another round would ask the same question", row.id);
        return Err(CommandError::refused(text)
            .hint(format!("loopwright approve {0}, or loopwright deny {0} --why \"…\"", row.id)));
    }
    if row.ended_ms.is_none()
        && let Some(ended) = resume_suspended(cx, &row).await?
    {
        return Ok(ended);
    }
    start_again(cx, row).await
}

/// Whether a receiver blocks the items of a waiting round, which are approved already.
async fn is_blocked(cx: &CommandContext, row: &RoundRow) -> Result<bool, CommandError> {
    let record = RoundRecord::read(cx.open_store_read_only().await?.as_ref(), &row.id).await?;
    Ok(record.round.facts().is_blocked)
}

/// Sends the items of a blocked round again.
async fn send_again(cx: &CommandContext, row: &RoundRow) -> VerbResult {
    let telling = cx.progress_detail()?;
    let running = CurrentRound::default();
    let cancel = cx.cancel(&running);
    let repo = cx.git().discover(Path::new(&row.repo_path)).await.ok();
    let engine = cx.open_engine(repo.as_ref(), &cancel).await?;
    let bind = cx.recorded_bindings(&engine, &row.id).await?;
    engine.events().attach(Arc::new(ProgressDisplay::new(&cx.out, telling, &running))).keep();
    let sent = match engine.send_again(&row.id, &bind, &cancel).await {
        Ok(report) => report_round(cx, &engine, &report, false).await,
        Err(error) => Err(error.into()),
    };
    engine.close().await?;
    sent
}

/// Resumes a suspended round.
pub(super) async fn resume(cx: &CommandContext, row: &RoundRow) -> VerbResult {
    let gone = || CommandError::refused(format!("round {} is not suspended any more", row.id));
    resume_suspended(cx, row).await?.ok_or_else(gone)
}

/// Resumes a suspended round, and reports one that was just recovered; `None` when it has no result, or its work is gone.
async fn resume_suspended(
    cx: &CommandContext,
    row: &RoundRow,
) -> Result<Option<crate::error::CommandExit>, CommandError> {
    let telling = cx.progress_detail()?;
    let running = CurrentRound::default();
    let cancel = cx.cancel(&running);
    let repo = cx.git().discover(Path::new(&row.repo_path)).await.ok();
    let engine = cx.open_engine(repo.as_ref(), &cancel).await?;
    // Rounds that a dead process left have just been recovered.
    let now = engine.store().round(&row.id).await?;
    if now.as_ref().is_some_and(has_result) {
        let report = RoundRecord::read(engine.store(), &row.id).await?.report();
        let shown = report_round(cx, &engine, &report, false).await.map(Some);
        engine.close().await?;
        return shown;
    }
    if now.is_none_or(|row| row.phase != RoundPhase::Suspended) {
        engine.close().await?;
        return Ok(None);
    }
    cx.out.note(&format!("resumed    round {} of {}", safe(&row.id), safe(&row.loop_name)));
    let bind = cx.recorded_bindings(&engine, &row.id).await?;
    engine.events().attach(Arc::new(ProgressDisplay::new(&cx.out, telling, &running))).keep();
    let result = match engine.resume_suspended(&row.id, &cx.actor_name(), Reservation::default(), &bind, &cancel).await
    {
        Ok(report) => report_round(cx, &engine, &report, false).await.map(Some),
        Err(EngineError::WorkGone(_)) => end_lost_round(cx, &engine, row, &bind).await.map(|()| None),
        Err(error) => Err(error.into()),
    };
    engine.close().await?;
    result
}

/// Whether the round came to a result by its recovery, so that another round like it would do its work twice.
fn has_result(row: &RoundRow) -> bool {
    use RoundOutcome::{Cancelled, Failed, Interrupted};
    let is_broken = matches!(row.outcome, None | Some(Interrupted | Failed | Cancelled));
    row.phase == RoundPhase::Waiting || (row.phase == RoundPhase::Ended && !is_broken)
}

/// Ends a round whose work is gone.
async fn end_lost_round(
    cx: &CommandContext,
    engine: &Engine,
    row: &RoundRow,
    bind: &loopwright::round::LoopBindings,
) -> Result<(), CommandError> {
    engine.expire_round(&row.id, bind).await?;
    cx.out.note(&format!("gone       the saved work of round {}; starting over", safe(&row.id)));
    Ok(())
}

async fn start_again(cx: &CommandContext, row: RoundRow) -> VerbResult {
    let repo = cx.git().discover(Path::new(&row.repo_path)).await?;
    let before = RoundRecord::read(cx.open_store_read_only().await?.as_ref(), &row.id).await?;
    let started = &before.round.facts().started;
    if started.workflow.is_some() {
        let text = format!("round {} is a part of a workflow, which tries its items itself", row.id);
        return Err(CommandError::refused(text).hint(format!("loopwright run {}", row.loop_name)));
    }
    let (bind, request) = match &started.goal {
        Some(goal) => prepare_again(cx, &repo, &goal.file).await?,
        None => prepare_manual_run(cx, &repo, &row.loop_name).await?,
    };
    cx.out.note(&format!("again      a new round of {} like {}", safe(&row.loop_name), safe(&row.id)));
    let items = before.round.facts().items.iter().map(|item| item.key.clone()).collect();
    run_round(cx, &repo, &bind, RunRequest { items, retry_of: Some(row.id), ..request }).await
}
