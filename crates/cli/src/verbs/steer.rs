//! `steer ROUND TEXT`, and the pause and the resumption of one round or workflow. A request is durable at once, and the
//! process that runs the round applies it before it starts the next agent.

use super::{CommandContext, CommandError, CommandErrorKind, VerbResult, close, safe, workflow};
use crate::view::find::{RunTarget, find_run};
use crate::view::time::now_ms;
use loopwright::Engine;
use loopwright::round::new_round_id;
use loopwright::store::{RoundRequestKind, RoundRequestRow, RoundRequestState, RoundRow, RowChange};
use loopwright_core::round::RoundPhase;
use serde_json::json;

/// The longest words, in characters.
const TEXT_MAX: usize = 4000;

#[derive(Debug, clap::Args)]
pub(crate) struct SteerArgs {
    /// The id of the round or workflow, or its first characters
    #[arg(value_name = "ROUND")]
    id: String,
    /// The words for its next agent
    #[arg(value_name = "TEXT")]
    text: String,
}

pub(crate) async fn run(args: SteerArgs, cx: &CommandContext) -> VerbResult {
    let target = find_run(cx.open_store_read_only().await?.as_ref(), &args.id).await?;
    if args.text.trim().is_empty() || args.text.chars().count() > TEXT_MAX {
        let text = format!("the words are empty, or have more than {TEXT_MAX} characters");
        return Err(CommandError::new(CommandErrorKind::Usage, text));
    }
    let row = match target {
        RunTarget::Round(row) => row,
        RunTarget::Workflow(row) => return workflow::control::steer(cx, &row, &args.text).await,
    };
    if matches!(row.phase, RoundPhase::Ended | RoundPhase::Waiting) {
        let text = format!("round {} starts no further agent: it is {}", row.id, row.phase);
        return Err(CommandError::refused(text).hint(format!("see `loopwright show {}`", row.id)));
    }
    request(cx, &row.id, RoundRequestKind::Steer, &args.text).await?;
    let document = json!({"schema": 1, "loop": row.loop_name, "round": row.id, "steered": true});
    Ok(cx.out.answer(&document, || format!("the next agent of round {} gets these words", safe(&row.id))))
}

/// Asks the process that runs a round to pause it.
pub(super) async fn pause_round(cx: &CommandContext, row: &RoundRow, why: &str) -> VerbResult {
    if row.phase.is_at_rest() {
        let text = format!("round {} is not running: it is {}", row.id, row.phase);
        return Err(CommandError::refused(text).hint(format!("see `loopwright show {}`", row.id)));
    }
    request(cx, &row.id, RoundRequestKind::Pause, why).await?;
    let document = json!({"schema": 1, "loop": row.loop_name, "round": row.id, "paused": true, "reason": why});
    Ok(cx.out.answer(&document, || {
        let round = safe(&row.id);
        format!(
            "round {round} pauses before its next agent, with its work kept\nresume it with: loopwright resume {round}"
        )
    }))
}

/// Withdraws a pause of a round or of a workflow that has not taken effect; returns whether there was one.
pub(super) async fn withdraw_pause(cx: &CommandContext, id: &str) -> Result<bool, CommandError> {
    let pending = cx.open_store_read_only().await?.pending_requests(id).await?;
    let pauses: Vec<_> = pending.into_iter().filter(|request| request.kind == RoundRequestKind::Pause).collect();
    if pauses.is_empty() {
        return Ok(false);
    }
    let engine = Engine::open(cx.settings(None)?).await?;
    let state = RoundRequestState::Withdrawn;
    let changes = pauses.into_iter().map(|pause| RowChange::RequestSettled { id: pause.id, state }).collect();
    close(&engine, engine.write_rows(changes).await).await?;
    Ok(true)
}

/// Writes a request to a round or to a workflow.
pub(super) async fn request(
    cx: &CommandContext,
    id: &str,
    kind: RoundRequestKind,
    text: &str,
) -> Result<(), CommandError> {
    let at_ms = now_ms();
    let request = RoundRequestRow {
        id: new_round_id()?.to_string(),
        round: id.to_owned(),
        kind,
        actor: cx.actor_name(),
        text: text.trim().to_owned(),
        at_ms,
        state: RoundRequestState::Pending,
    };
    let engine = Engine::open(cx.settings(None)?).await?;
    close(&engine, engine.write_rows(vec![RowChange::NewRequest(request)]).await).await
}
