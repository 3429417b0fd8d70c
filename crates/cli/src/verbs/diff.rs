//! `diff`: the change of a round against its base.

use super::{CommandContext, VerbResult};
use crate::view::diff::{RoundDiff, no_change_error};
use crate::view::find;
use crate::view::rounds::RoundRecord;

#[derive(Debug, clap::Args)]
pub(crate) struct DiffArgs {
    /// A round by its id or the start of it, or a waiting question by its id
    #[arg(value_name = "ROUND")]
    pub(crate) id: String,
    /// Only list the changed files
    #[arg(long)]
    pub(crate) stat: bool,
}

pub(crate) async fn run(args: DiffArgs, cx: &CommandContext) -> VerbResult {
    let store = cx.open_store_read_only().await?;
    let row = find::find_round(store.as_ref(), &args.id).await?;
    let record = RoundRecord::read(store.as_ref(), &row.id).await?;
    let diff = RoundDiff::read(cx, &row, &record).await?.ok_or_else(|| no_change_error(&row.id))?;
    if cx.out.is_json() {
        return Ok(cx.out.document(&diff));
    }
    let page = if args.stat { diff.stat() } else { diff.render(&cx.out, usize::MAX) };
    Ok(cx.out.paged(&page, &cx.env))
}
