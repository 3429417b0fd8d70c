//! `rounds`: list rounds, newest first.

use super::Ended;
use crate::context::Context;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::view::find::{self, Target};
use crate::view::loops::Here;
use crate::view::rounds::{self, Rounds};
use crate::view::time::now_ms;
use loopwright::store::{RoundsQuery, Store};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// List only the rounds of this loop
    #[arg(value_name = "LOOP")]
    pub(crate) name: Option<String>,
    /// The most rounds to list
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,
}

pub(crate) async fn run(args: Args, cx: &Context) -> Ended {
    let (here, store) = tokio::join!(Here::find(cx), super::status::store_if_any(cx));
    let (here, store) = (here?, store?);
    if let Some(name) = &args.name {
        // An unknown loop is said to be unknown, also before anything has run.
        known(here.as_ref(), store.as_deref(), name).await?;
    }
    let rounds = match store {
        Some(store) => {
            let repo = here.and_then(|here| here.scope(args.name.as_deref()));
            let query = RoundsQuery { repo, loop_name: args.name, limit: args.limit, ..RoundsQuery::default() };
            Rounds::read(store.as_ref(), query).await?
        }
        None => Rounds::none(),
    };
    cx.out.answer(&rounds, || page(&rounds, cx.out.width()));
    Ok(Exit::DONE)
}

async fn known(here: Option<&Here>, store: Option<&dyn Store>, name: &str) -> Result<(), CommandError> {
    let in_file = here.is_some_and(|here| here.knows(name));
    match store {
        Some(store) => match find::target(store, name, in_file).await? {
            Target::Loop(_) => Ok(()),
            Target::Round(_) => Err(unknown(name).hint(format!("`{name}` is a round: loopwright show {name}"))),
        },
        None if in_file => Ok(()),
        None => Err(unknown(name)),
    }
}

fn unknown(name: &str) -> CommandError {
    CommandError::unknown(format!("no loop is called `{name}`")).hint("see `loopwright status`")
}

fn page(rounds: &Rounds, width: usize) -> String {
    match rounds.rounds.first() {
        None => "no rounds yet\nstart one with `loopwright run LOOP`".to_owned(),
        Some(newest) => {
            format!(
                "{}\n\nshow one with: loopwright show {}",
                rounds::table(&rounds.rounds, now_ms(), width),
                newest.round
            )
        }
    }
}
