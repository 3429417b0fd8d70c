//! `deny`: end a waiting round by rejecting its candidate.

use super::VerbResult;
use super::approve::find_question;
use crate::context::CommandContext;
use crate::error::{CommandError, CommandErrorKind};
use crate::exit::CommandExit;
use crate::output::safe;

#[derive(Debug, clap::Args)]
pub(crate) struct DenyArgs {
    /// The id of an inbox item or of a round
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// The reason; makers of later rounds see it
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: String,
}

/// The longest reason, in bytes.
const WHY_MAX: usize = 4000;

pub(crate) async fn run(args: DenyArgs, cx: &CommandContext) -> VerbResult {
    if args.why.trim().is_empty() || args.why.len() > WHY_MAX {
        let text = format!("`--why` takes some text of at most {WHY_MAX} bytes");
        return Err(CommandError::new(CommandErrorKind::Usage, text));
    }
    let seen = find_question(cx.open_store_read_only().await?.as_ref(), &args.id).await?;
    let engine = cx.open_engine(None, &loopwright::proc::CancelToken::new()).await?;
    let bind = cx.recorded_bindings(&engine, &seen.round).await?;
    let report = engine.deny(&seen.round, cx.actor(), &args.why, &bind).await;
    engine.close().await?;
    let report = report?;
    cx.out.answer(&report, || format!("denied: round {} of {}", safe(&report.round), safe(&report.loop_name)));
    Ok(CommandExit::DONE)
}
