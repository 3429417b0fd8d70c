//! `rounds`: list rounds, newest first.

use super::Ended;
use crate::context::Context;
use crate::exit::Exit;
use crate::view::find::{self, Target};
use crate::view::loops::Here;
use crate::view::rounds::{self, Rounds};
use crate::view::time::now_ms;
use loopwright::store::RoundsQuery;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only this loop's
    #[arg(value_name = "LOOP")]
    pub(crate) name: Option<String>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,
}

pub(crate) async fn run(args: Args, cx: &Context) -> Ended {
    let store = match &args.name {
        // An unknown loop is said to be unknown, also before anything has run.
        Some(name) => known(cx, name).await?,
        None => super::status::store_if_any(cx).await?,
    };
    let rounds = match store {
        Some(store) => {
            let query = RoundsQuery { loop_name: args.name.clone(), limit: args.limit, ..RoundsQuery::default() };
            Rounds::read(store.as_ref(), query).await?
        }
        None => Rounds::none(),
    };
    cx.out.answer(&rounds, || page(&rounds));
    Ok(Exit::DONE)
}

type Found = Result<Option<std::sync::Arc<dyn loopwright::store::Store>>, crate::error::CommandError>;

async fn known(cx: &Context, name: &str) -> Found {
    let here = Here::find(cx).await?;
    let in_file = here.as_ref().is_some_and(|here| here.file(name).is_some());
    let store = super::status::store_if_any(cx).await?;
    match &store {
        Some(store) => match find::target(store.as_ref(), name, in_file).await? {
            Target::Loop(_) => Ok(Some(std::sync::Arc::clone(store))),
            Target::Round(_) => Err(unknown(name).hint(format!("`{name}` is a round: loopwright show {name}"))),
        },
        None if in_file => Ok(None),
        None => Err(unknown(name)),
    }
}

fn unknown(name: &str) -> crate::error::CommandError {
    crate::error::CommandError::unknown(format!("no loop is called `{name}`"))
}

fn page(rounds: &Rounds) -> String {
    match rounds.rounds.first() {
        None => "no rounds yet\nstart one with `loopwright run LOOP`".to_owned(),
        Some(newest) => {
            format!("{}\n\nshow one with: loopwright show {}", rounds::table(&rounds.rounds, now_ms()), newest.round)
        }
    }
}
