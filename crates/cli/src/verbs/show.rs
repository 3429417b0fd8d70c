//! `show`: show one round, or a loop with its last rounds.

use super::Ended;
use crate::context::Context;
use crate::exit::Exit;
use crate::view::find::{self, Target};
use crate::view::loop_page::LoopPage;
use crate::view::loops::Here;
use crate::view::page;
use crate::view::story::Story;
use crate::view::time::now_ms;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A round by its id or the start of it, or a loop by its name
    #[arg(value_name = "ROUND|LOOP")]
    pub(crate) id: String,
}

pub(crate) async fn run(args: Args, cx: &Context) -> Ended {
    let (here, store) = tokio::join!(Here::find_knowing(cx, &args.id), super::status::store_if_any(cx));
    let (here, store) = (here?, store?);
    let in_file = here.as_ref().is_some_and(|here| here.file(&args.id).is_some());
    let target = match &store {
        Some(store) => find::target(store.as_ref(), &args.id, in_file).await?,
        None if in_file => Target::Loop(args.id),
        None => return Err(find::nothing(&args.id)),
    };
    match (target, store) {
        (Target::Round(row), Some(store)) => {
            let report = Story::read(store.as_ref(), &row.id).await?.report();
            cx.out.answer(&report, || page::render(&report));
        }
        (Target::Loop(name), store) => {
            let shown = LoopPage::read(store.as_deref(), here.as_ref(), &name, now_ms()).await?;
            cx.out.answer(&shown, || shown.render(now_ms(), cx.out.width()));
        }
        (Target::Round(row), None) => return Err(find::nothing(&row.id)),
    }
    Ok(Exit::DONE)
}
