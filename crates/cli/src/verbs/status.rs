//! `status`: show all loops and how they stand.

use super::Ended;
use crate::context::Context;
use crate::error::{CommandError, Kind};
use crate::exit::Exit;
use crate::view::loops::Here;
use crate::view::status::Status;
use crate::view::time::now_ms;
use loopwright::store::Store;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Show it again and again until interrupted
    #[arg(long)]
    pub(crate) watch: bool,
}

/// How long a page of `--watch` stands.
const STANDS: Duration = Duration::from_secs(1);

pub(crate) async fn run(args: Args, cx: &Context) -> Ended {
    if !args.watch || !cx.out.is_terminal() || cx.out.is_json() {
        return once(cx).await;
    }
    let mut pages = tokio::time::interval(STANDS);
    loop {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => return Ok(Exit::DONE),
            _ = pages.tick() => cx.out.redraw(&page(&read(cx).await?, cx)),
        }
    }
}

async fn once(cx: &Context) -> Ended {
    let status = read(cx).await?;
    cx.out.answer(&status, || page(&status, cx));
    Ok(Exit::DONE)
}

/// The repository is looked for while the store is opened: each takes a few milliseconds.
async fn read(cx: &Context) -> Result<Status, CommandError> {
    let (here, store) = tokio::join!(Here::find(cx), store_if_any(cx));
    let (here, store) = (here?, store?);
    Status::read(store.as_deref(), here.as_ref(), now_ms()).await
}

/// The store for looking, or none where nothing has run yet.
pub(super) async fn store_if_any(cx: &Context) -> Result<Option<Arc<dyn Store>>, CommandError> {
    match cx.reader().await {
        Ok(store) => Ok(Some(store)),
        Err(error) if error.kind == Kind::Unknown => Ok(None),
        Err(error) => Err(error),
    }
}

fn page(status: &Status, cx: &Context) -> String {
    if status.loops.is_empty() {
        return "no loops yet\nwrite one with `loopwright init`, or see `loopwright demo`".to_owned();
    }
    let waiting: usize = status.loops.iter().map(|line| line.waiting).sum();
    let mut page = status.render(now_ms(), cx.out.width());
    let invalid = status.loops.iter().filter(|line| line.status.word() == "invalid").count();
    if waiting > 0 {
        page.push_str(&format!("\n\n{waiting} waiting for you: loopwright inbox"));
    }
    if invalid > 0 {
        page.push_str(&format!("\n\n{invalid} not usable: loopwright check"));
    }
    page
}
