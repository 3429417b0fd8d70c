//! `retry`: a suspended round goes on from where it stood; after any other end, another round like it is started, with the
//! loop as its file is now and the same item.

use super::Ended;
use super::run::{perform, prepared, tell};
use crate::context::Context;
use crate::error::CommandError;
use crate::output::safe;
use crate::progress::Screen;
use crate::signals::Running;
use crate::view::find;
use crate::view::story::Story;
use loopwright::round::RunRequest;
use loopwright::store::RoundRow;
use loopwright::{Engine, EngineError};
use loopwright_core::budget::Reservation;
use loopwright_core::round::RoundPhase;
use std::path::Path;
use std::sync::Arc;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The id of the round, or the start of it
    #[arg(value_name = "ROUND")]
    pub(crate) id: String,
}

pub(crate) async fn run(args: Args, cx: &Context) -> Ended {
    let row = find::round(cx.reader().await?.as_ref(), &args.id).await?;
    if row.phase == RoundPhase::Waiting {
        let text = format!("round {} waits for an answer; another one would ask the same again", row.id);
        return Err(CommandError::refused(text)
            .hint(format!("loopwright approve {0}, or loopwright deny {0} --why \"…\"", row.id)));
    }
    if row.ended_ms.is_none()
        && let Some(ended) = go_on(cx, &row).await?
    {
        return Ok(ended);
    }
    again(cx, row).await
}

/// Takes a suspended round up again; nothing when there is no such round any more, or nothing of it to go on from.
async fn go_on(cx: &Context, row: &RoundRow) -> Result<Option<crate::exit::Exit>, CommandError> {
    let telling = cx.telling()?;
    let running = Running::default();
    let cancel = cx.cancel(&running);
    let repo = cx.git().discover(Path::new(&row.repo_path)).await.ok();
    let engine = cx.owner(repo.as_ref(), &cancel).await?;
    // What a dead process left under way was taken to its rest just now.
    let now = engine.store().round(&row.id).await?;
    if now.is_none_or(|row| row.phase != RoundPhase::Suspended) {
        engine.close().await?;
        return Ok(None);
    }
    cx.out.note(&format!("goes on    round {} of {}", safe(&row.id), safe(&row.loop_name)));
    let bind = cx.recorded_bindings(&engine, &row.id).await?;
    engine.events().attach(Arc::new(Screen::new(&cx.out, telling, &running))).keep();
    let told = match engine.go_on(&row.id, &cx.actor_name(), Reservation::default(), &bind, &cancel).await {
        Ok(report) => tell(cx, &engine, &report, false).await.map(Some),
        Err(EngineError::WorkGone(_)) => gone(cx, &engine, row, &bind).await.map(|()| None),
        Err(error) => Err(error.into()),
    };
    engine.close().await?;
    told
}

/// A round whose work is gone is over.
async fn gone(
    cx: &Context,
    engine: &Engine,
    row: &RoundRow,
    bind: &loopwright::round::Bindings,
) -> Result<(), CommandError> {
    engine.expire(&row.id, bind).await?;
    cx.out.note(&format!("gone       the work that was kept of round {}; starting anew", safe(&row.id)));
    Ok(())
}

async fn again(cx: &Context, row: RoundRow) -> Ended {
    let repo = cx.git().discover(Path::new(&row.repo_path)).await?;
    let (bind, request) = prepared(cx, &repo, &row.loop_name).await?;
    cx.out.note(&format!("again      a new round of {} like {}", safe(&row.loop_name), safe(&row.id)));
    let before = Story::read(cx.reader().await?.as_ref(), &row.id).await?;
    let items = before.round.facts().items.iter().map(|item| item.key.clone()).collect();
    perform(cx, &repo, &bind, RunRequest { items, retry_of: Some(row.id), ..request }).await
}
