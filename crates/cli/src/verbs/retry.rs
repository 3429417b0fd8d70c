//! `retry`: start another round like an ended one: the same loop as its file is now, the same item.

use super::Ended;
use super::run::{perform, prepared};
use crate::context::Context;
use crate::error::CommandError;
use crate::output::safe;
use crate::view::find;
use loopwright::round::RunRequest;
use std::path::Path;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A round's id or its beginning
    #[arg(value_name = "ROUND")]
    pub(crate) id: String,
}

pub(crate) async fn run(args: Args, cx: &Context) -> Ended {
    let row = find::round(cx.reader().await?.as_ref(), &args.id).await?;
    if row.phase == "waiting" {
        let text = format!("round {} waits for an answer; another one would ask the same again", row.id);
        return Err(CommandError::refused(text)
            .hint(format!("loopwright approve {0}, or loopwright deny {0} --why \"…\"", row.id)));
    }
    let repo = cx.git().discover(Path::new(&row.repo_path)).await?;
    let (bind, request) = prepared(cx, &repo, &row.loop_name).await?;
    cx.out.note(&format!("again      {} like round {}", safe(&row.loop_name), safe(&row.id)));
    perform(cx, &repo, &bind, RunRequest { item: row.item, ..request }).await
}
