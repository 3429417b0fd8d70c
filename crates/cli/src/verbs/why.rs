//! `why`: explain from the record how a round ended as it did, or why a loop is or is not running.

use super::Ended;
use crate::context::Context;
use crate::exit::Exit;
use crate::view::explain::Explanation;
use crate::view::find::{self, Target};
use crate::view::loops::Here;
use crate::view::time::now_ms;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A round's id or its beginning, an inbox id, or a loop's name
    #[arg(value_name = "ID|LOOP")]
    pub(crate) id: String,
}

pub(crate) async fn run(args: Args, cx: &Context) -> Ended {
    let (here, store) = tokio::join!(Here::find(cx), super::status::store_if_any(cx));
    let (here, store) = (here?, store?);
    let in_file = here.as_ref().is_some_and(|here| here.knows(&args.id));
    let target = match &store {
        Some(store) => find::target(store.as_ref(), &args.id, in_file).await?,
        None if in_file => Target::Loop(args.id.clone()),
        None => return Err(find::nothing(&args.id)),
    };
    let explanation = match (&target, &store) {
        (Target::Round(row), Some(store)) => Explanation::of_round(store.as_ref(), row).await?,
        (Target::Round(row), None) => return Err(find::nothing(&row.id)),
        (Target::Loop(name), _) => Explanation::of_loop(store.as_deref(), here.as_ref(), name, now_ms()).await?,
    };
    cx.out.answer(&explanation, || explanation.render());
    Ok(Exit::DONE)
}
