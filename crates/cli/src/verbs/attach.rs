//! `attach ROUND`: follows a running round or workflow until it ends or waits, and exits with the code of its outcome.
//! Leaving it does not stop the round.

use super::{CommandContext, CommandExit, VerbResult, logs, workflow};
use crate::round_summary;
use crate::view::find::{RunTarget, find_run};
use crate::view::log::RoundLogReader;
use crate::view::rounds::RoundRecord;
use crate::view::transcript::TranscriptForm;

#[derive(Debug, clap::Args)]
pub(crate) struct AttachArgs {
    /// The id of the round or workflow, or its first characters
    #[arg(value_name = "ROUND")]
    id: String,
}

pub(crate) async fn run(args: AttachArgs, cx: &CommandContext) -> VerbResult {
    let store = cx.open_store_read_only().await?;
    let row = match find_run(store.as_ref(), &args.id).await? {
        RunTarget::Round(row) => row,
        RunTarget::Workflow(row) => return workflow::control::attach(cx, store.as_ref(), &row.id).await,
    };
    let mut log = RoundLogReader::new(&cx.state_dir()?.0, &row.id, TranscriptForm::Activity, &cx.out);
    log.read_from_start(store.as_ref()).await?;
    logs::follow(&mut log, store.as_ref(), &row.id, cx).await?;
    let report = RoundRecord::read(store.as_ref(), &row.id).await?.report();
    if report.outcome.is_none() {
        cx.out.note(&format!("the round continues; follow it again: loopwright attach {}", row.id));
        cx.out.answer(&report, String::new);
        return Ok(CommandExit::DONE);
    }
    cx.out.answer(&report, || round_summary::render_end_and_steps(&cx.out, &report));
    Ok(CommandExit::from_outcome(report.outcome))
}
