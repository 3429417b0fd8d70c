//! `why`: explain from the record how a round ended as it did, or why a loop is or is not running.

use super::Ended;
use crate::context::Context;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::view::explain::Explanation;
use crate::view::find::{self, Target};
use crate::view::loops::Here;
use crate::view::time::now_ms;
use loopwright_core::dispatch::{LoopKey, Why};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A round by its id or the start of it, an inbox item by its id, or a loop by its name
    #[arg(value_name = "ID|LOOP")]
    pub(crate) id: String,
}

/// What the daemon says, where it is the daemon that answers and it knows the loop.
async fn asked(cx: &Context, here: Option<&Here>, name: &str) -> Result<Option<Why>, CommandError> {
    let (Some(daemon), Some(here)) = (cx.daemon(), here) else { return Ok(None) };
    let why = daemon.explain(&LoopKey::new(&here.repo.id, name)).await?;
    Ok(Some(why).filter(|why| *why != Why::Unknown))
}

pub(crate) async fn run(args: Args, cx: &Context) -> Ended {
    let (here, store) = tokio::join!(Here::find_knowing(cx, &args.id), super::status::store_if_any(cx));
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
        (Target::Loop(name), _) => {
            let why = asked(cx, here.as_ref(), name).await?;
            Explanation::of_loop(store.as_deref(), here.as_ref(), name, now_ms(), why).await?
        }
    };
    cx.out.answer(&explanation, || explanation.render());
    Ok(Exit::DONE)
}
