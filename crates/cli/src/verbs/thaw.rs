//! `thaw`: ends the global stop, also one by file, and accepts a clock that seemed implausible.

use super::VerbResult;
use crate::context::CommandContext;
use crate::exit::CommandExit;
use loopwright::daemon::ThawReport;
use loopwright::proc::CancelToken;
use serde_json::json;

pub(crate) async fn run(cx: &CommandContext) -> VerbResult {
    let thawed = match cx.daemon() {
        Some(daemon) => daemon.thaw(&cx.actor_name()).await?,
        None => {
            let engine = cx.open_engine(None, &CancelToken::new()).await?;
            let thawed = match cx.loop_entries().await {
                Ok(entries) => engine.thaw_all(entries, &cx.actor_name()).await.map_err(Into::into),
                Err(error) => Err(error),
            };
            engine.close().await?;
            thawed?
        }
    };
    let document = json!({"schema": 1, "thawed": thawed.has_effect(), "clock_taken": thawed.was_clock_behind});
    cx.out.answer(&document, || describe(thawed).to_owned());
    Ok(CommandExit::DONE)
}

fn describe(thawed: ThawReport) -> &'static str {
    match (thawed.was_stopped, thawed.was_clock_behind) {
        (true, false) => "loops start again; missed runs are skipped",
        (false, true) => "the clock is accepted as it is; loops start again",
        (true, true) => "the clock is accepted as it is, and loops start again; missed runs are skipped",
        (false, false) => "nothing was stopped",
    }
}
